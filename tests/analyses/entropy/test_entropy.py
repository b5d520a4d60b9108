"""Entropies of runs: known worlds of samples, answers, scores and positions."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import entropy as scipy_entropy

from offleash.analyses.entropy.entropy import (
    ACCURACY,
    ANSWER,
    EQUAL_N,
    LENGTH,
    TOKEN,
    UNREAD,
    Entropies,
    answer_entropy_PR,
    entropies,
    entropies_of,
    token_entropy_PR,
)
from offleash.analyses.entropy.entropy import entropies_of_inputs as of
from offleash.comparing.compare import compare
from offleash.comparing.per_problem import detail
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.scores import END, HEIGHT, POSITIONS, SCORES, START, TENTH
from offleash.data.tables import SAMPLES, VERDICTS, as_problems
from offleash.errors import OffleashError
from offleash.scoring.shards import positions_of
from offleash.stats.entropy import Direction
from tests.places import SHARED_DATA

SHARED = SHARED_DATA / "outputs"
FEW = Question(replicates=200)
Told = Sequence[str | None]  # answers of a problem's samples, in order; None: unread


def run(
    name: str,
    answers: Mapping[str, Told],
    entropy: Mapping[str, Sequence[float | None]] | None = None,
    tokens: int = 10,
    benchmark: Mapping[str, str] | None = None,
    **more: object,
) -> Run:
    """A run whose samples have these answers ('7' is right) and these entropies a token."""
    problems = as_problems(
        pl.DataFrame({"problem": list(answers), "benchmark": [(benchmark or {}).get(p) for p in answers]})
    )
    rows = [(p, i, answer) for p, told in answers.items() for i, answer in enumerate(told)]
    verdict = ["unread" if answer is None else "correct" if answer == "7" else "wrong" for _, _, answer in rows]
    verdicts = pl.DataFrame(
        {"problem": [r[0] for r in rows], "index": [r[1] for r in rows], "answer": [r[2] for r in rows]},
    ).with_columns(pl.Series("verdict", verdict))
    sums = [None if entropy is None or (h := entropy[p][i]) is None else h * tokens for p, i, _ in rows]
    samples = verdicts.select("problem", "index").with_columns(
        tokens=pl.lit(tokens), finish=pl.lit("stop"), entropy_raw=pl.Series(sums, dtype=pl.Float64)
    )
    full = [_cast(frame, schema).lazy() for frame, schema in ((verdicts, VERDICTS), (samples, SAMPLES))]
    return Run(name, problems, full[0], full[1], **more)  # type: ignore[arg-type]


def _cast(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in schema.items())


def mean(found: Entropies, name: str) -> list[float]:
    values: list[float] = found.measures[name].average.value_R.tolist()
    return values


def test_every_measure_is_what_a_hand_computes() -> None:
    base = run("base", {"p": ["7", "7", "8", None], "q": ["1", "2", "3", "4"]}, {"p": [1, 2, 3, 4], "q": [0, 0, 1, 1]})
    found = entropies([base], FEW)
    assert found.k == 4
    assert mean(found, ACCURACY) == [0.25]
    assert mean(found, LENGTH) == [10.0]
    assert mean(found, TOKEN) == pytest.approx([(2.5 + 0.5) / 2])
    assert mean(found, UNREAD) == [0.125]
    shares = ([0.5, 0.25, 0.25], [0.25] * 4)
    assert mean(found, ANSWER) == pytest.approx([np.mean([scipy_entropy(one) for one in shares])])
    assert mean(found, EQUAL_N) == pytest.approx([np.mean([scipy_entropy([2, 1]), log(4)])])
    assert found.tokens[0].source == "draw"
    assert found.tokens[0].samples == 8
    assert found.squares == ()


def test_the_first_k_samples_count_and_no_others() -> None:
    told = {f"p{p}": ["7", "8", "9", "9"] for p in range(3)}
    levels = {p: [1.0, 3.0, 50.0, 50.0] for p in told}
    longer = run("long", told, levels)
    short = run("short", {p: answers[:2] for p, answers in told.items()}, {p: one[:2] for p, one in levels.items()})
    found = entropies([longer, short], FEW)
    assert found.k == 2
    for name, value in ((ACCURACY, 0.5), (TOKEN, 2.0), (ANSWER, log(2)), (EQUAL_N, log(2))):
        assert mean(found, name) == pytest.approx([value, value])
    at = entropies([longer], Question(replicates=200, at=3))
    assert mean(at, ANSWER) == pytest.approx([log(3)])


def test_samples_without_a_verdict_do_not_count_among_the_first() -> None:
    told = run("gap", {"p": ["7", "8", "9", "7"]}, {"p": [1.0, 2.0, 3.0, 4.0]})
    assert told.verdicts is not None
    nulled = pl.when(pl.col("index") != 0).then("verdict").alias("verdict")
    gap = replace(told, verdicts=told.verdicts.with_columns(nulled))
    found = entropies([gap], Question(replicates=200, at=2))
    assert mean(found, TOKEN) == [2.5]
    assert mean(found, ANSWER) == pytest.approx([log(2)])


def test_benchmarks_stand_alone_and_their_mean_is_the_average() -> None:
    where = {f"p{p}": "hard" if p < 2 else "easy" for p in range(8)}
    base = run(
        "base",
        {p: ["7", "8"] for p in where},
        {p: [1.0 if where[p] == "hard" else 0.0] * 2 for p in where},
        benchmark=where,
    )
    token = entropies([base], FEW).measures[TOKEN]
    assert {name: float(means.value_R[0]) for name, means in token.benchmarks.items()} == {"hard": 1.0, "easy": 0.0}
    assert token.average.value_R.tolist() == [0.5]


@pytest.mark.parametrize("token", [Direction.UP, Direction.DOWN])
@pytest.mark.parametrize("answer", [Direction.UP, Direction.DOWN])
def test_the_square_finds_the_cell_of_a_planted_change(token: Direction, answer: Direction) -> None:
    rng = np.random.default_rng(3)
    names = [f"p{p}" for p in range(20)]
    tight, wide = {p: ["7"] * 7 + ["8"] for p in names}, {p: list("12345678") for p in names}
    low, high = ({p: (level + rng.normal(0, 0.05, 8)).tolist() for p in names} for level in (0.3, 0.5))
    before, after = (
        ((tight, wide) if answer is Direction.UP else (wide, tight)),
        ((low, high) if token is Direction.UP else (high, low)),
    )
    found = entropies([run("base", before[0], after[0]), run("rl", before[1], after[1])], FEW).squares[0]
    assert found is not None
    assert (found.token, found.answer) == (token, answer)
    cells = {(Direction.UP, Direction.UP): found.up_up, (Direction.UP, Direction.DOWN): found.up_down}
    cells |= {(Direction.DOWN, Direction.UP): found.down_up, (Direction.DOWN, Direction.DOWN): found.down_down}
    assert cells.pop((token, answer)) == 20
    assert not any(cells.values())


def test_two_draws_of_one_world_are_not_resolved() -> None:
    rng = np.random.default_rng(0)
    runs = []
    for name in ("one", "two"):
        told = {f"p{p}": [str(a) for a in rng.integers(0, 4, 16)] for p in range(30)}
        runs.append(run(name, told, {p: rng.normal(0.4, 0.1, 16).tolist() for p in told}))
    found = entropies(runs, Question(replicates=1000)).squares[0]
    assert found is not None
    assert (found.token, found.answer) == (Direction.UNRESOLVED, Direction.UNRESOLVED)


def scores(values: Mapping[str, Mapping[int, float]], tokens: int = 5) -> pl.LazyFrame:
    rows = [
        {"problem": p, "index": i, "tokens": tokens, "entropy_raw": h * tokens}
        for p, told in values.items()
        for i, h in told.items()
    ]
    return _cast(pl.DataFrame(rows), SCORES).lazy()


def test_every_budget_of_distinct_answers_counts_the_problems_that_have_so_many() -> None:
    told: dict[str, Told] = {"p": ["1", "2", "3", "4"], "q": ["1", "1", "2", None], "r": ["5", None, None, None]}
    found = entropies([run("base", told)], FEW).distinct
    assert found is not None
    assert found.k_K.tolist() == [1, 2, 3]
    assert found.problems_K.tolist() == [3, 2, 2]
    assert found.mean_KR[:, 0] == pytest.approx([1.0, (2 + 5 / 3) / 2, 2.5])


def test_runs_drawn_in_different_ways_or_twice_the_same_are_refused() -> None:
    told, ways = {"p": ["7", "8"]}, [json.dumps({"temperature": t}) for t in (1.0, 0.6)]
    runs = [run(name, told, facts={"decoding": way}) for name, way in zip("ab", ways, strict=True)]
    with pytest.raises(OffleashError, match="--allow decoding"):
        entropies(runs, FEW)
    noted = entropies(runs, replace(FEW, allow=frozenset({"decoding"}))).notes
    assert "temperature 1 vs 0.6" in noted[0].text
    with pytest.raises(OffleashError, match="the same draw"):
        entropies([run("a", told, draw="x"), run("b", told, draw="x")], FEW)


def placed(rows: Sequence[tuple[str, str, int, int, float]]) -> pl.LazyFrame:
    return pl.DataFrame(rows, schema=POSITIONS, orient="row").lazy()


def test_entropy_by_position_is_the_sum_over_problems_of_entropy_by_that_of_tokens() -> None:
    names = [f"p{p}" for p in range(6)]
    runs = []
    for name, start in (("base", 2.0), ("rl", 1.0)):
        rows = []
        for p, problem in enumerate(names):
            rows += [(problem, START, 0, 2, 2 * start), (problem, START, 1, 2, 0.2 * p), (problem, END, 0, 2, 0.0)]
            rows += [(problem, TENTH, 0, 2, 2 * start), (problem, TENTH, 9, 8, 0.4), (problem, "samples", 0, 2, 0.0)]
            rows += [(problem, HEIGHT, 0, 8, 0.0), (problem, HEIGHT, round(10 * start), 2, 2 * start)]
        both = {
            "scores": {"m": scores({q: {0: 1.0, 1: 1.0} for q in names})},
            "own": "m",
            "positions": {"m": placed(rows)},
        }
        runs.append(run(name, {q: ["7", "8"] for q in names}, **both))  # type: ignore[arg-type]
    found = entropies(runs, FEW).positions
    place = {one.name: one for one in found.parts}
    assert place["first token"].value_R.tolist() == [2.0, 1.0]
    assert place["first token"].difference_R.tolist() == [0.0, -1.0]
    assert place["tokens 2 to 16"].value_R == pytest.approx([0.25, 0.25])
    assert place["last tenth"].value_R == pytest.approx([0.05, 0.05])
    assert place["all tokens"].value_R == pytest.approx([0.44, 0.24])
    assert found.forks is not None
    assert found.forks.value_R.tolist() == [1.0, 1.0]  # a fifth of the tokens holds all
    assert found.fork_height_R == pytest.approx([2.0, 1.0])
    assert found.bins[START].bin_Q.tolist() == [0, 1]
    assert found.samples_R.tolist() == [12, 12]
    alone = entropies([runs[0], run("bare", {q: ["7", "8"] for q in names})], FEW).positions
    assert np.isnan(alone.parts[0].value_R[1])
    assert set(alone.reasons) == {"bare"}


def test_a_comparison_has_the_same_entropies_and_reads_answers_only_beside_tokens() -> None:
    told = {f"p{p}": ["7", "8", "9"] for p in range(6)}
    runs = [run(name, told, {p: [h] * 3 for p in told}) for name, h in (("base", 1.0), ("rl", 2.0))]
    one = compare(runs[0], runs[1], FEW)
    found = entropies_of(one)
    assert found.squares == entropies(runs, FEW).squares
    assert token_entropy_PR(detail(one)) is not None
    bare = entropies_of(compare(run("base", told), run("rl", told), FEW))
    assert bare.squares == (None,)
    assert "offleash entropy" in bare.measures[ANSWER].reasons["base"]
    assert answer_entropy_PR(detail(compare(run("base", told), run("rl", told), FEW))) == pytest.approx(
        np.full((6, 2), log(3))
    )


def test_answer_entropy_of_a_real_problem_is_that_of_scipy(tmp_path: Path) -> None:
    file = SHARED / "aime25_q06_compass.json"
    if not file.is_file():
        pytest.skip("no shared outputs beside the project (aime25_q06_compass.json)")
    given = json.loads(file.read_text(encoding="utf-8"))
    log_file, gold = tmp_path / "q06.jsonl", given["ground_truth"]
    rows = [{"id": "q06", "gold": gold, "prediction": a, "correct": a == gold} for a in given["answers"]]
    log_file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    times = Counter(given["answers"])
    found = of([str(log_file)], question=FEW)
    assert (found.k, len(times)) == (80, 15)
    assert mean(found, ANSWER) == pytest.approx([scipy_entropy(list(times.values()))], abs=1e-12)
    assert mean(found, ANSWER) == pytest.approx([1.4797], abs=5e-5)
    assert found.distinct is not None
    assert found.distinct.mean_KR[-1].tolist() == [15.0]
    assert times.most_common(1)[0][0] != gold


def test_samples_without_a_verdict_are_not_among_the_first_and_do_not_change_length_or_entropy() -> None:
    answers = {f"p{i}": ["7", "3"] * 8 for i in range(10)}
    entropy = {p: [0.5] * 16 for p in answers}
    base, rl = run("base", answers, entropy), run("rl", answers, entropy)
    later = [(p, i) for p in answers for i in range(16, 32)]
    unjudged = pl.DataFrame(later, schema=["problem", "index"], orient="row").with_columns(
        tokens=pl.lit(1000), finish=pl.lit("length"), entropy_raw=pl.lit(2000.0)
    )
    assert rl.samples is not None
    longer = replace(rl, samples=pl.concat([rl.samples, _cast(unjudged, SAMPLES).lazy()]))
    found = entropies([base, longer], FEW)
    assert mean(found, LENGTH) == [10, 10]
    assert mean(found, TOKEN) == [0.5, 0.5]
    cut = [note.text for note in found.notes if "cut at the token limit" in note.text]
    assert all("100%" not in text for text in cut)


def test_problems_that_were_read_to_different_depths_weigh_alike_by_position() -> None:
    answers = {f"p{i}": ["7", "3"] * 4 for i in range(10)}
    level = {p: 1.0 if i < 5 else 0.2 for i, p in enumerate(answers)}
    read = {"even": dict.fromkeys(answers, 8), "uneven": {p: 8 if i < 5 else 2 for i, p in enumerate(answers)}}
    told = []
    for name, depth in read.items():
        pairs = [(p, i) for p in answers for i in range(depth[p])]
        tokens = [np.full(10, level[p], np.float32) for p, _ in pairs]
        sums = pl.DataFrame(
            [
                {"problem": p, "index": i, "tokens": 10, "logprob_raw": -1.0, "entropy_raw": 10 * level[p]}
                for p, i in pairs
            ]
        )
        plain = run(name, answers, {p: [level[p]] * 8 for p in answers})
        placed = positions_of([p for p, _ in pairs], tokens, [1] * len(pairs)).lazy()
        told.append(replace(plain, positions={"m": placed}, scores={"m": _cast(sums, SCORES).lazy()}, own="m"))
    found = entropies(told, FEW).positions
    assert found.samples_R.tolist() == [80, 50]
    (every,) = (place for place in found.parts if place.name == "all tokens")
    assert every.value_R == pytest.approx([0.6, 0.6])
