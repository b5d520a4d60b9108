"""Part of a run's samples can be scored, and the entropy of tokens is kept by where they stand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.errors import OffleashError
from offleash.samplers.engine.scoring import Scorer
from offleash.samplers.sampler import Decoding
from offleash.study.load import load
from offleash.study.positions import positions_of
from offleash.study.score import ScoredRun, Scoring, Selection, score_run
from offleash.study.scoring import selected
from offleash.tables.positions import positions_on, scan_positions
from offleash.tables.scores import scan_scores
from tests.samplers.tiny import tiny_model
from tests.samplers.tiny_scores import scorer_of
from tests.study.samples import run_of_texts

GOLDS = {"p": "a", "q": "b"}
TEXTS = {"p": ["a", "b c", "a a a", "a"], "q": ["d", "", "b b", "c c c c"]}


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return scorer_of(tiny_model(tmp_path_factory.mktemp("model")))


def scored(folder: Path, scorer: Scorer, selection: Selection | None = None) -> ScoredRun:
    return score_run(folder, scorer, Scoring(f"hf:{scorer.about.model}", Decoding(), "m"), selection=selection)


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
    with pytest.raises(OffleashError, match="no sample that is asked for"):
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
    before = positions_on(run, "m", "000000.parquet")
    (run / "scores" / "m" / "positions" / "000000.parquet").unlink()
    assert scored(run, scorer, Selection(first=1)).new == 6
    after = positions_on(run, "m", "000000.parquet")
    assert before is not None
    assert after is not None
    assert after.drop("entropy").equals(before.drop("entropy"))


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
