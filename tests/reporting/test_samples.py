"""The store: samples found problem by problem, checked against looking at all of them."""

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.data.run_folder import create_run
from offleash.data.tables import question_hash
from offleash.reporting import samples as module
from offleash.reporting.samples import AnswerCount, DetailLimits, SampleStore, SampleView

LIMITS = DetailLimits(each=2, head=40, tail=10, answers=3)
WORDS = ("correct", "wrong", "unread", "failed", None)


def samples_at_random(problems: int, k: int, seed: int) -> pl.DataFrame:
    """Samples whose verdicts, answers and texts are drawn at random; an unread one has no answer."""
    rng = np.random.default_rng(seed)
    rows = []
    for p in range(problems):
        for index in range(k):
            verdict = None if index == 5 else WORDS[rng.choice(4, p=[0.2, 0.5, 0.2, 0.1])]
            answer = None if verdict == "unread" else f"answer {rng.integers(1 if verdict == 'correct' else 9)}"
            text = f"sample {index} of problem {p} " + "é🙂" * int(rng.integers(40))
            rows.append((f"p{p}", index, verdict, answer, text))
    return pl.DataFrame(rows, schema=["problem", "index", "verdict", "answer", "text"], orient="row")


def write_run(folder: Path, samples: pl.DataFrame, rename: str = "", shards: int = 3) -> Path:
    """A run folder with these samples in several shards; a run may have its own names of the problems."""
    own = samples.with_columns(problem=pl.concat_str(pl.lit(rename), "problem"))
    names = samples["problem"].unique(maintain_order=True)
    asked = [f"What is {name}?" for name in names]
    problems = pl.DataFrame({"problem": [rename + name for name in names], "question": asked, "gold": "1"})
    with create_run(folder, folder.name, problems.with_columns(hash=pl.Series(map(question_hash, asked))), {}) as run:
        for shard in range(shards):
            part = own.gather_every(shards, shard)
            run.write_samples(part.select("problem", "index", "text").with_columns(tokens=7, finish=pl.lit("stop")))
            run.write_verdicts("known", part.select("problem", "index", "verdict", "answer"))
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[SampleStore, list[pl.DataFrame]]:
    folder = tmp_path_factory.mktemp("store")
    drawn = [samples_at_random(4, 60, seed) for seed in (0, 1)]
    base, rl = write_run(folder / "base", drawn[0]), write_run(folder / "rl", drawn[1], rename="their-")
    comparisons, _ = compare_inputs([str(base), str(rl)], question=question(replicates=100))
    return SampleStore(comparisons[-1]), drawn


def of(frame: pl.DataFrame, row: int) -> list[dict[str, str | int | None]]:
    rows = frame.filter(pl.col("problem") == f"p{row}").with_columns(pl.col("verdict").fill_null("unverified"))
    return rows.sort("index").to_dicts()


def test_a_run_may_call_a_problem_by_another_name(world: tuple[SampleStore, list[pl.DataFrame]]) -> None:
    assert (world[0].own(2, 0), world[0].own(2, 1)) == ("p2", "their-p2")


@pytest.mark.parametrize("r", [0, 1])
@pytest.mark.parametrize("row", [0, 3])
def test_answers_and_kinds_are_those_that_counting_gives(
    world: tuple[SampleStore, list[pl.DataFrame]], row: int, r: int
) -> None:
    store, drawn = world
    answered = store.answers([row], r, LIMITS)[row]
    every = of(drawn[r], row)
    assert answered.kinds == Counter(one["verdict"] for one in every)
    assert list(answered.kinds) == ["correct", "wrong", "unread", "failed", "unverified"]
    counts = Counter((one["answer"], one["verdict"]) for one in every)
    assert answered.different == len(counts)
    assert [one.count for one in answered.answers] == sorted(counts.values(), reverse=True)[:3]
    assert all(counts[one.answer, one.verdict] == one.count for one in answered.answers)


def test_samples_of_each_verdict_show_different_answers_first(world: tuple[SampleStore, list[pl.DataFrame]]) -> None:
    store, drawn = world
    found = store.answers([1], 0, DetailLimits(each=4, head=100, tail=0, answers=1))[1].samples
    for verdict in ("correct", "wrong", "unread", "failed"):
        every = [one for one in of(drawn[0], 1) if one["verdict"] == verdict]
        seen: Counter[object] = Counter()
        ranked = []
        for one in every:
            seen[one["answer"]] += 1
            ranked.append((seen[one["answer"]], one["index"]))
        assert [one.index for one in found if one.verdict == verdict] == [index for _, index in sorted(ranked)[:4]]


def test_pages_of_a_verdict_put_together_are_all_its_samples_in_order(
    world: tuple[SampleStore, list[pl.DataFrame]],
) -> None:
    store, drawn = world
    for verdict in ("correct", "wrong", "unread", "failed", "unverified", None):
        expected = [one for one in of(drawn[1], 2) if verdict in (None, one["verdict"])]
        pages = [store.page(2, 1, verdict, start, 7, 1000, 0) for start in range(0, 70, 7)]
        assert {total for _, total in pages} == {len(expected)}
        found = [sample for page, _ in pages for sample in page]
        assert [(one.index, one.verdict, one.answer, one.head) for one in found] == [
            (one["index"], one["verdict"], one["answer"], one["text"]) for one in expected
        ]


def test_a_long_text_is_cut_to_both_ends_by_letters(world: tuple[SampleStore, list[pl.DataFrame]]) -> None:
    store, drawn = world
    page, _ = store.page(0, 0, None, 0, 60, 30, 5)
    for sample, one in zip(page, of(drawn[0], 0), strict=True):
        text = str(one["text"])
        whole = len(text) <= 35
        assert (sample.head, sample.tail) == ((text, "") if whole else (text[:30], text[-5:]))
        assert sample.letters == len(text)
    assert any(sample.tail for sample in page)
    assert any(not sample.tail for sample in page)


def test_parts_of_a_text_put_together_are_the_text(world: tuple[SampleStore, list[pl.DataFrame]]) -> None:
    store, drawn = world
    text = max((str(one["text"]) for one in of(drawn[1], 3)), key=len)
    index = next(int(str(one["index"])) for one in of(drawn[1], 3) if one["text"] == text)
    parts = [store.text(3, 1, index, start, 10) for start in range(0, len(text) + 10, 10)]
    assert "".join(part[0] for part in parts if part is not None) == text
    assert {part[1] for part in parts if part is not None} == {len(text)}
    assert store.text(3, 1, 60, 0, 10) is None


def test_many_problems_at_once_are_told_as_one_by_one(
    world: tuple[SampleStore, list[pl.DataFrame]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = world
    alone = {row: store.answers([row], 1, LIMITS)[row] for row in (3, 0, 2)}
    assert store.answers([3, 0, 2], 1, LIMITS) == alone
    monkeypatch.setattr(module, "VERDICTS_AT_ONCE", 61)  # two problems are more
    assert store.answers([3, 0, 2], 1, LIMITS) == alone


def test_logs_of_which_the_texts_are_not_read_still_have_answers(tmp_path: Path) -> None:
    lines = [
        '{"problem": "a", "verdict": true, "model_answer": "1", "text": "It is 1."}',
        '{"problem": "a", "verdict": false}',
    ]
    for name in ("base", "rl"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines if name == "base" else lines[::-1]))
    comparisons, _ = compare_inputs(
        [str(tmp_path / "base.jsonl"), str(tmp_path / "rl.jsonl")], question=question(replicates=100)
    )
    store = SampleStore(comparisons[-1])
    answered = store.answers([0], 0, LIMITS)[0]
    assert AnswerCount("1", "correct", 1) in answered.answers
    assert answered.samples[0] == SampleView(0, "correct", "1", None, None, None, None, None, "", 0)
    assert store.text(0, 0, 0, 0, 10) is None


def test_of_counts_there_is_nothing_to_tell(tmp_path: Path) -> None:
    for name in ("base", "rl"):
        (tmp_path / f"{name}.csv").write_text("problem,n,c\na,10,3\nb,10,0\n")
    comparisons, _ = compare_inputs(
        [str(tmp_path / "base.csv"), str(tmp_path / "rl.csv")], question=question(replicates=100)
    )
    store = SampleStore(comparisons[-1])
    answered = store.answers([0, 1], 0, LIMITS)[1]
    assert (answered.kinds, answered.answers, answered.samples) == ({}, [], [])
    assert store.page(0, 1, None, 0, 10, 10, 10) == ([], 0)
    assert store.text(0, 0, 0, 0, 10) is None


def test_rare_correct_answers_are_listed_among_many_wrong_ones(tmp_path: Path) -> None:
    texts = {"a": [f"wrong {number}" for number in range(60) for _ in range(2)] + ["right"]}
    rows = [("a", index, text) for index, text in enumerate(texts["a"])]
    frame = pl.DataFrame(rows, schema=["problem", "index", "text"], orient="row")
    right = pl.when(pl.col("text") == "right").then(pl.lit("correct")).otherwise(pl.lit("wrong"))
    runs = []
    for name in ("base", "rl"):
        asked = pl.DataFrame({"problem": ["a"], "question": ["?"], "gold": ["right"]})
        with create_run(tmp_path / name, name, asked, {}) as run:
            run.write_samples(frame)
            run.write_verdicts("known", frame.with_columns(verdict=right, answer=pl.col("text")).drop("text"))
        runs.append(str(tmp_path / name))
    comparisons, _ = compare_inputs(runs, question=question(replicates=100))
    answered = SampleStore(comparisons[0]).answers([0], 0, DetailLimits(1, 10, 0, 4))[0]
    assert [(one.answer, one.count) for one in answered.answers if one.verdict == "correct"] == [("right", 1)]
    assert len(answered.answers) == 4
    assert [one.count for one in answered.answers] == [2, 2, 2, 1]
