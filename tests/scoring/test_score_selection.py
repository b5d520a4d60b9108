"""Part of a run's samples can be scored, and the entropy of tokens is kept by where they stand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.entropy.entropy import TOKEN, Entropies, entropies
from offleash.comparing.question import Question
from offleash.data.scores import positions_of_shard, scan_positions, scan_scores, write_positions
from offleash.errors import OffleashError
from offleash.loading.load import load
from offleash.options import Judging
from offleash.samplers.huggingface.scoring import Scorer
from offleash.samplers.sampler import SamplingParams
from offleash.scoring.score import ScoredRun, Scoring, score_run, selected
from offleash.scoring.shards import Selection, positions_of
from offleash.verifying.verify import verify, verify_options
from tests.samplers.huggingface.tiny import tiny_model
from tests.samplers.huggingface.tiny_scores import scorer_of
from tests.verifying.samples import run_of_texts

GOLDS = {"p": "a", "q": "b"}
TEXTS = {"p": ["a", "b c", "a a a", "a"], "q": ["d", "", "b b", "c c c c"]}


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return scorer_of(tiny_model(tmp_path_factory.mktemp("model")))


def scored(folder: Path, scorer: Scorer, selection: Selection | None = None) -> ScoredRun:
    return score_run(folder, scorer, Scoring(f"hf:{scorer.about.model}", SamplingParams(), "m"), selection=selection)


def keys(folder: Path) -> list[tuple[str, int]]:
    return scan_scores(folder, "m").select("problem", "index").sort("problem", "index").collect().rows()


def test_the_first_samples_of_each_problem_are_scored_and_more_are_added_later(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=3)
    whole = run_of_texts(tmp_path / "whole", GOLDS, TEXTS, shards=3)
    assert scored(run, scorer, Selection(first=2)).new == 4
    assert keys(run) == [("p", 0), ("p", 1), ("q", 0), ("q", 1)]
    assert scored(run, scorer, Selection(first=1)).new == 0
    assert scored(run, scorer).new == 4
    scored(whole, scorer)
    assert keys(run) == keys(whole)
    told, expected = (
        scan_positions(folder, "m").group_by("problem", "kind", "bin").sum().sort("problem", "kind", "bin").collect()
        for folder in (run, whole)
    )
    assert told.drop("entropy").equals(expected.drop("entropy"))
    np.testing.assert_allclose(told["entropy"], expected["entropy"], atol=1e-4)


def test_single_problems_or_correct_samples_can_be_scored_alone(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer, Selection(problems=frozenset({"q"}), first=1))
    assert keys(run) == [("q", 0)]
    other = run_of_texts(tmp_path / "other", GOLDS, TEXTS)
    with pytest.raises(OffleashError, match="no sample that matches"):
        scored(other, scorer, Selection(problems=frozenset({"none"})))
    with pytest.raises(OffleashError, match="no verdicts"):
        scored(run_of_texts(tmp_path / "unjudged", GOLDS, TEXTS), scorer, selected(only="correct"))
    with pytest.raises(OffleashError, match="Did you mean 'correct'"):
        selected(only="corect")


def test_positions_add_up_to_the_sums_of_their_samples(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=2)
    scored(run, scorer)
    sums = scan_scores(run, "m").group_by("problem").agg(pl.col("tokens", "entropy_raw").sum()).collect()
    for kind in ("start", "end", "tenth", "height"):
        told = scan_positions(run, "m").filter(pl.col("kind") == kind).drop("kind").group_by("problem").sum().collect()
        both = sums.join(told, on="problem", suffix="_told")
        assert both["tokens"].to_list() == both["tokens_told"].to_list()
        np.testing.assert_allclose(both["entropy"], both["entropy_raw"], atol=1e-4)
    loaded = load(str(run))[0]
    assert set(loaded.positions) == {"m"} == set(loaded.scores)


def test_lost_positions_are_made_again_for_the_same_samples(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer, Selection(first=3))
    before = positions_of_shard(run, "m", "000000.parquet")
    (run / "scores" / "m" / "positions" / "000000.parquet").unlink()
    assert scored(run, scorer, Selection(first=1)).new == 6
    after = positions_of_shard(run, "m", "000000.parquet")
    assert before is not None
    assert after is not None
    assert after.drop("entropy").equals(before.drop("entropy"))


def placed(folder: Path) -> dict[str, int]:
    """How many samples of each problem the positions are of."""
    told = (
        scan_positions(folder, "m").filter(pl.col("kind") == "samples").group_by("problem").agg(pl.col("tokens").sum())
    )
    return dict(told.collect().iter_rows())


def same_positions(one: Path, other: Path) -> None:
    told, expected = (
        scan_positions(folder, "m").group_by("problem", "kind", "bin").sum().sort("problem", "kind", "bin").collect()
        for folder in (one, other)
    )
    assert told.drop("entropy").equals(expected.drop("entropy"))
    np.testing.assert_allclose(told["entropy"], expected["entropy"], atol=1e-4)


@pytest.mark.parametrize("shards", [1, 3])
def test_positions_are_of_the_first_samples_whatever_was_scored_as_correct_before(
    tmp_path: Path, scorer: Scorer, shards: int
) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=shards)
    verify(run, verify_options("string", Judging(jobs=1, cache=False)))
    assert scored(run, scorer, Selection(correct=True)).new == 2  # p: 0 and 3
    assert placed(run) == {}
    assert scored(run, scorer, Selection(correct=True)).new == 0
    assert scored(run, scorer, Selection(first=2)).new == 4  # ("p", 0) is read again for its positions
    assert placed(run) == {"p": 2, "q": 2}
    first = run_of_texts(tmp_path / "first", GOLDS, TEXTS, shards=shards)
    scored(first, scorer, Selection(first=2))
    same_positions(run, first)
    assert keys(run) == [("p", 0), ("p", 1), ("p", 3), ("q", 0), ("q", 1)]
    for again in (Selection(first=2), Selection(correct=True), Selection(first=1)):
        assert scored(run, scorer, again).new == 0
    assert scored(run, scorer).new == 4
    assert scored(run, scorer).new == 0
    scored(first, scorer)
    same_positions(run, first)
    assert keys(run) == keys(first)


def test_token_entropies_after_correct_ones_and_then_the_first_are_those_of_the_first(
    tmp_path: Path, scorer: Scorer
) -> None:
    run, first = (run_of_texts(tmp_path / name, GOLDS, TEXTS, shards=2) for name in ("run", "first"))
    for folder in (run, first):
        verify(folder, verify_options("string", Judging(jobs=1, cache=False)))

    def told(folder: Path) -> Entropies:
        return entropies([replace(load(str(folder))[0], own="m")], Question(replicates=200))

    scored(run, scorer, Selection(correct=True))
    refused = told(run)
    assert "selected samples" in refused.tokens[0].reason
    assert "selected samples" in refused.positions.reasons["run"]
    for folder in (run, first):
        scored(folder, scorer, Selection(first=2))
    found, expected = told(run), told(first)
    assert found.tokens[0].samples == expected.tokens[0].samples == 4
    np.testing.assert_allclose(found.measures[TOKEN].value_PR, expected.measures[TOKEN].value_PR, atol=1e-5)
    assert found.positions.samples_R.tolist() == [4]
    assert found.positions.parts[-1].value_R == pytest.approx(expected.positions.parts[-1].value_R, abs=1e-5)


def test_positions_that_an_older_version_made_of_correct_samples_are_made_again(tmp_path: Path, scorer: Scorer) -> None:
    run, whole = (run_of_texts(tmp_path / name, GOLDS, TEXTS) for name in ("run", "whole"))
    verify(run, verify_options("string", Judging(jobs=1, cache=False)))
    scored(run, scorer, Selection(correct=True))
    old = positions_of(["p"], [np.array([9.0], np.float32)], [2])
    write_positions(run, "m", old, "000000.parquet")
    scored(run, scorer, Selection(first=2))
    scored(whole, scorer, Selection(first=2))
    same_positions(run, whole)


def test_a_token_is_counted_from_the_start_from_the_end_by_tenths_and_by_height() -> None:
    long = np.linspace(0, 3.3, 40, dtype=np.float32)
    told = positions_of(["a", "b"], [long, np.array([0.25], np.float32)], [2, 1])
    rows = {(p, kind, edge): (n, e) for p, kind, edge, n, e in told.iter_rows()}
    assert rows["a", "start", 15] == (2, pytest.approx(2 * long[15]))
    assert rows["a", "start", 16] == (32, pytest.approx(2 * long[16:32].sum(), abs=1e-5))
    assert rows["a", "start", 32][0] == 16
    assert rows["a", "end", 0] == (2, pytest.approx(2 * 3.3))
    assert rows["a", "tenth", 9] == (8, pytest.approx(2 * long[36:].sum(), abs=1e-5))
    assert rows["b", "height", 2] == (1, pytest.approx(0.25))
    assert rows["a", "samples", 0] == (2, 0)
