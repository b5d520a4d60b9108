"""Scores of a run folder: one shard a shard of samples, only what is missing, one model with one decoding."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.data.run_folder import append_to_run, create_run
from offleash.data.scores import SCORES, Trace, scan_scores, scored_models, with_token_means
from offleash.data.tables import as_problems, question_hash
from offleash.drawing.draw import DrawRequest, draw
from offleash.errors import OffleashError
from offleash.samplers.huggingface.scoring import Scorer
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import SamplingParams
from offleash.scoring.score import ScoredRun, Scoring, score_folders, score_run, summaries
from tests.samplers.huggingface.tiny import tiny_model
from tests.samplers.huggingface.tiny_scores import scorer_of, some_traces
from tests.verifying.samples import run_of_texts

PLAIN = SamplingParams()
GOLDS = {"p": "a", "q": "b"}
TEXTS = {"p": ["a", "b c", "a a a"], "q": ["d", "", "b b"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def scorer(model: Path) -> Scorer:
    return scorer_of(model)


def scored(folder: Path, scorer: Scorer, decoding: SamplingParams = PLAIN, name: str = "m") -> ScoredRun:
    return score_run(folder, scorer, Scoring(f"hf:{scorer.about.model}", decoding, name))


def table(folder: Path, name: str = "m") -> pl.DataFrame:
    return scan_scores(folder, name).sort("problem", "index").collect()


def assert_alike(left: pl.DataFrame, right: pl.DataFrame) -> None:
    """The same samples with the same sums, but for last bits: texts may have been read in other company."""
    assert left.select("problem", "index", "tokens").equals(right.select("problem", "index", "tokens"))
    np.testing.assert_allclose(left["logprob_raw"], right["logprob_raw"], atol=1e-4)
    np.testing.assert_allclose(left["entropy_raw"], right["entropy_raw"], atol=1e-4)


def test_every_sample_has_the_sums_of_its_text_after_its_problem(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=2)
    done = scored(run, scorer, SamplingParams(temperature=0.5))
    found = table(run)
    assert dict(found.schema) == SCORES
    rows = [(problem, index, text) for problem, some in TEXTS.items() for index, text in enumerate(some)]
    traces = [Trace(f"What is {problem}?", text, ended=True) for problem, _, text in rows]
    expected = scorer.score(traces, SamplingParams(temperature=0.5))
    assert found.select("problem", "index").rows() == [(problem, index) for problem, index, _ in rows]
    assert found["tokens"].to_list() == [sums.tokens for sums in expected]
    for column in ("logprob_raw", "entropy_raw", "logprob_sampled", "entropy_sampled"):
        np.testing.assert_allclose(found[column], [getattr(sums, column) for sums in expected], atol=1e-4)
    assert done.new == done.groups["all"].scored == 6
    shards = [sorted(file.name for file in (run / kind).glob("*.parquet")) for kind in ("samples", "scores/m")]
    assert shards[0] == shards[1] == ["000000.parquet", "000001.parquet"]
    assert scored_models(run) == ["m"]


def test_only_samples_that_ended_by_themselves_are_scored_with_their_end(tmp_path: Path, scorer: Scorer) -> None:
    ended = run_of_texts(tmp_path / "ended", GOLDS, TEXTS, finish="stop")
    cut = run_of_texts(tmp_path / "cut", GOLDS, TEXTS, finish="length")
    with_end, without = (scored(run, scorer).groups["all"] for run in (ended, cut))
    assert with_end.tokens == without.tokens + 6
    assert (with_end.empty, without.empty) == (0, 1)


def test_scoring_again_scores_only_what_is_new(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=2)
    first = scored(run, scorer)
    before = {file: file.stat().st_mtime_ns for file in (run / "scores" / "m").glob("*.parquet")}
    again = scored(run, scorer)
    assert (again.new, again.groups) == (0, first.groups)
    more = pl.DataFrame({"problem": ["p"], "index": [3], "text": ["c d"], "finish": ["stop"]})
    with append_to_run(run) as opened:
        opened.write_samples(more)
    assert scored(run, scorer).new == 1
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert table(run).height == 7


def test_scores_that_do_not_fit_their_positions_are_made_again(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer)
    whole = table(run)
    whole.filter(pl.col("problem") == "q").write_parquet(run / "scores" / "m" / "000000.parquet")
    assert scored(run, scorer).new == whole.height
    assert_alike(table(run), whole)


def test_an_interrupted_scoring_goes_on_with_the_shards_that_are_left(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=3)
    other = run_of_texts(tmp_path / "other", GOLDS, TEXTS, shards=3)
    told: list[str] = []

    def interrupt(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_run(run, scorer, Scoring(f"hf:{scorer.about.model}", PLAIN, "m"), interrupt)
    assert 0 < len(list((run / "scores" / "m").glob("*.parquet"))) < 3
    done, at_once = scored(run, scorer), scored(other, scorer)
    assert 0 < done.new < at_once.new
    assert_alike(table(run), table(other))


def test_another_model_or_decoding_under_the_same_name_is_refused_with_what_differs(
    tmp_path: Path, scorer: Scorer
) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer)
    other = scorer_of(tiny_model(tmp_path / "other", seed=1))
    with pytest.raises(OffleashError, match=r"(?s)fingerprint.*--name"):
        score_run(run, other, Scoring(f"hf:{scorer.about.model}", PLAIN, "m"))
    with pytest.raises(OffleashError, match=r"temperature: stored 1\.0, requested 0\.5"):
        scored(run, scorer, SamplingParams(temperature=0.5))
    assert scored(run, scorer, SamplingParams(max_tokens=7)).new == 0  # has no bearing on given texts
    scored(run, scorer, SamplingParams(temperature=0.5), name="cooler")
    assert scored_models(run) == ["cooler", "m"]


def test_what_differs_in_words_is_refused_before_a_model_is_loaded(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer)
    with pytest.raises(OffleashError, match="model: "):
        score_folders([str(run)], model_of("hf:/nowhere/at/all"), PLAIN, name="m")


def test_weights_that_changed_in_their_folder_are_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model")
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    score_folders([str(run)], model_of(f"hf:{folder}"), PLAIN)
    tiny_model(folder, seed=9)
    with pytest.raises(OffleashError, match="fingerprint"):
        score_folders([str(run)], model_of(f"hf:{folder}"), PLAIN)


def test_about_says_with_what_the_scores_were_made(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer, SamplingParams(temperature=0.6, top_p=0.95))
    about = json.loads((run / "scores" / "m" / "about.json").read_text())
    assert about["model"] == f"hf:{scorer.about.model}"
    assert about["about"]["fingerprint"] == scorer.about.fingerprint != ""
    assert about["decoding"] == {"temperature": 0.6, "top_p": 0.95, "min_p": 0.0, "top_k": 0}
    assert {"offleash", "torch", "transformers"} <= set(about["versions"])


def test_what_cannot_be_scored_is_kept_with_its_reason_and_counted(tmp_path: Path, scorer: Scorer) -> None:
    problems = as_problems(
        pl.DataFrame(
            {
                "problem": ["fine", "long", "image", "silent"],
                "question": ["a b", "a " * 80, "c", None],
                "hash": [question_hash("a b"), question_hash("a " * 80), question_hash("c"), None],
                "images": [None, None, ["data:image/png;base64,AA=="], None],
            },
            schema_overrides={"images": pl.List(pl.String)},
        )
    )
    rows = [("long", 0, "b b"), ("fine", 1, "b"), ("fine", 2, None), ("image", 0, "a"), ("silent", 0, "a")]
    frame = pl.DataFrame(rows, schema=["problem", "index", "text"], orient="row")
    with create_run(tmp_path / "run", "run", problems, {}) as run:
        run.write_samples(frame)
    done = scored(tmp_path / "run", scorer)
    whole = done.groups["all"]
    assert (whole.samples, whole.scored, whole.tokens) == (5, 1, 1)
    assert sum(done.reasons.values()) == 4
    assert len(done.reasons) == 4
    found = {(row["problem"], row["index"]): row for row in table(tmp_path / "run").iter_rows(named=True)}
    assert found["long", 0]["tokens"] == 2
    assert "longer" in found["long", 0]["reason"]
    assert found["long", 0]["logprob_raw"] is None
    assert found["fine", 2]["tokens"] is None
    assert scored(tmp_path / "run", scorer).new == 0


def test_a_drawn_run_is_joined_to_its_own_sums_and_never_edited(tmp_path: Path, model: Path) -> None:
    scorer = scorer_of(model)
    questions = ["a b", "c d a"]
    problems = as_problems(
        pl.DataFrame({"problem": ["p", "q"], "question": questions, "hash": list(map(question_hash, questions))})
    )
    decoding = SamplingParams(temperature=0.9, max_tokens=8)
    draw(tmp_path / "run", problems, scorer.sampler, decoding, DrawRequest(f"hf:{model}", 60))
    shards = sorted((tmp_path / "run" / "samples").glob("*.parquet"))
    before = [shard.read_bytes() for shard in shards]
    done = scored(tmp_path / "run", scorer_of(model), decoding)
    assert [shard.read_bytes() for shard in shards] == before
    drawn = pl.concat([pl.read_parquet(shard) for shard in shards])
    both = drawn.join(table(tmp_path / "run"), on=["problem", "index"])
    same = both.filter(pl.col("tokens") == pl.col("tokens_right"))
    assert done.own
    assert not done.other_template
    assert (done.compared, done.retokenised) == (120, both.height - same.height)
    assert 0 < done.retokenised < 120  # drawn special tokens show in no text
    for column in ("logprob_raw", "logprob_sampled", "entropy_raw", "entropy_sampled"):
        np.testing.assert_allclose(same[f"{column}_right"], same[column], rtol=0, atol=1e-4)


def test_a_run_drawn_with_stop_texts_is_scored_without_ends(tmp_path: Path, model: Path) -> None:
    scorer = scorer_of(model)
    problems = as_problems(pl.DataFrame({"problem": ["p"], "question": ["a b"], "hash": [question_hash("a b")]}))
    decoding = SamplingParams(max_tokens=8, stop=("d",))
    draw(tmp_path / "run", problems, scorer.sampler, decoding, DrawRequest(f"hf:{model}", 40))
    done = scored(tmp_path / "run", scorer)
    assert done.stopped_by_text
    assert done.compared == 0
    texts = pl.concat([pl.read_parquet(file) for file in (tmp_path / "run" / "samples").glob("*.parquet")])["text"]
    assert done.groups["all"].tokens == sum(len(text.split()) for text in texts)


def test_the_summary_is_split_by_verdict_and_adds_up(tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    verdicts = pl.DataFrame(
        {"problem": ["p", "p", "q", "q"], "index": [0, 1, 0, 1], "verdict": ["correct", "wrong", "wrong", "unread"]}
    )
    with append_to_run(run) as opened:
        opened.write_verdicts("string@1", verdicts)
    groups = scored(run, scorer).groups
    assert {name: group.samples for name, group in groups.items()} == {
        "all": 6, "correct": 1, "wrong": 2, "unread": 1, "unverified": 2,
    }  # fmt: skip
    assert sum(group.tokens for name, group in groups.items() if name != "all") == groups["all"].tokens
    with append_to_run(run) as opened:
        opened.write_verdicts("math@1", verdicts)
    with pytest.raises(OffleashError, match="--verdicts"):
        scored(run, scorer)


def test_means_are_over_traces_then_problems_and_pooled_over_tokens() -> None:
    scores = pl.DataFrame(
        {
            "problem": ["p", "p", "q", "q"],
            "index": [0, 1, 0, 1],
            "tokens": [1, 3, 2, 0],
            "logprob_raw": [-1.0, -6.0, -8.0, 0.0],
            "entropy_raw": [1.0, 9.0, 1.0, 0.0],
            "logprob_sampled": [-1.0, -np.inf, -8.0, 0.0],
            "entropy_sampled": [1.0, 9.0, 1.0, 0.0],
            "windows": [1, 2, 1, 1],
        }
    )
    found = summaries(scores.lazy())["all"]
    assert (found.samples, found.scored, found.empty, found.tokens, found.left_out) == (4, 4, 1, 6, 1)
    assert found.windowed == 1
    assert found.logprob == pytest.approx(-(1 + 2 + 4) / 3)
    assert found.logprob_spread == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert found.logprob_pooled == pytest.approx(-15 / 6)
    assert found.entropy == pytest.approx(((1 + 3) / 2 + 0.5) / 2)
    assert found.entropy_pooled == pytest.approx(11 / 6)
    assert found.perplexity == pytest.approx(np.exp(2))
    assert found.perplexity_quartiles == pytest.approx((np.exp([1, 2]).mean(), np.exp([2, 4]).mean()))
    assert found.perplexity_pooled == pytest.approx(np.exp(15 / 6))
    assert with_token_means(scores.lazy()).collect()["perplexity"].to_list()[3] is None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "about.json").unlink(), "unknown which model"),
        (lambda folder: (folder / "about.json").write_text("{"), "about.json is damaged"),
        (lambda folder: (folder / "000000.parquet").write_bytes(b"PAR1"), "000000.parquet is damaged"),
    ],
)
def test_damaged_scores_are_named_with_what_to_do(damage: "object", words: str, tmp_path: Path, scorer: Scorer) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    scored(run, scorer)
    assert callable(damage)
    damage(run / "scores" / "m")
    with pytest.raises(OffleashError, match=f"{words}.*Delete"):
        scored(run, scorer)


@pytest.mark.slow
def test_killed_at_any_moment_a_scoring_ends_as_an_uninterrupted_one(tmp_path: Path, model: Path) -> None:
    texts = {"p": [trace.text for trace in some_traces(400, seed=2)]}
    run = run_of_texts(tmp_path / "run", {"p": "a"}, texts, shards=200)
    other = run_of_texts(tmp_path / "other", {"p": "a"}, texts, shards=200)
    words = ["offleash", "score", str(run), "--model", f"hf:{model}", "--name", "m"]
    script = f"import sys; sys.argv = {words!r}; from offleash.cli.main import main; main()"
    counts = []
    for _ in range(4):
        started = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        there = len(list(run.glob("scores/m/*.parquet")))
        while started.poll() is None and len(list(run.glob("scores/m/*.parquet"))) < there + 40:
            time.sleep(0.005)
        if started.poll() is None:
            os.kill(started.pid, signal.SIGKILL)
        counts.append(len(list(run.glob("scores/m/*.parquet"))))
        if started.wait() == 0:
            break
    assert counts == sorted(counts)
    assert counts[0] < 200
    scorer = scorer_of(model)
    scored(run, scorer)
    scored(other, scorer)
    assert_alike(table(run), table(other))
