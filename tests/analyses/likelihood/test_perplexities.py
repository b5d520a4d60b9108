"""Perplexities of all samples: the first of each problem, never those that a verdict has chosen."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import log

import polars as pl
import pytest

from offleash.analyses.likelihood.perplexity_by_class import (
    ALL_SAMPLES,
    CORRECT,
    Spread,
    models_with_selected_scores,
    perplexities,
)
from offleash.comparing.compare import compare
from offleash.comparing.per_problem import detail
from offleash.comparing.question import Question
from offleash.data.scores import POSITIONS, SAMPLES, SCORES
from tests.analyses.entropy.test_entropy import run

PROBLEMS, DRAWN, FIRST = [f"p{i}" for i in range(20)], 24, 8
Key = tuple[str, int]
Positions = Callable[[Iterable[Key]], pl.DataFrame | None]


def right(problem: str, index: int) -> bool:
    """Every third sample, and the one after the first ones: it continues them."""
    return (index + int(problem[1:])) % 3 == 1 or index == FIRST


EVERY = [(problem, index) for problem in PROBLEMS for index in range(DRAWN)]
FIRST_ONES = [key for key in EVERY if key[1] < FIRST]
RIGHT = [key for key in EVERY if right(*key)]
MIXED = sorted({*FIRST_ONES, *RIGHT})  # what `likelihood` scores


def counted(keys: Iterable[Key]) -> pl.DataFrame:
    """Positions that say how many samples of each problem were scored whatever their verdicts."""
    said = Counter(problem for problem, _ in keys)
    rows = [(problem, SAMPLES, 0, count, 0.0) for problem, count in said.items()]
    return pl.DataFrame(rows, schema=POSITIONS, orient="row")


def spreads(scored: Iterable[Key], positions: pl.DataFrame | None = None, unsummed: Iterable[Key] = ()) -> list[Spread]:
    """Perplexities of a run whose right samples have perplexity 2 and whose wrong ones have 10."""
    answers = {problem: ["7" if right(problem, index) else "8" for index in range(DRAWN)] for problem in PROBLEMS}
    lost = set(unsummed)
    sums = {key: -5 * log(2 if right(*key) else 10) for key in scored}
    rows = [
        {"problem": p, "index": i, "tokens": 5, "logprob_raw": None if (p, i) in lost else one}
        for (p, i), one in sums.items()
    ]
    base, rl = run("base", answers), run("rl", answers)
    told = replace(
        rl,
        scores={"m": pl.DataFrame(rows, schema=SCORES).lazy()},
        positions={} if positions is None else {"m": positions.lazy()},
    )
    return perplexities(detail(compare(base, told, Question(replicates=200))))


def total(found: list[Spread], kind: str) -> int:
    return sum(one.samples for one in found if one.traces == kind)


def untold(_: Iterable[Key]) -> None:
    """Scores that an older version made, without positions."""


told_or_not = pytest.mark.parametrize("told", [counted, untold], ids=["positions", "no positions"])


@told_or_not
def test_right_samples_that_continue_the_first_ones_are_not_among_all(told: Positions) -> None:
    found = spreads(MIXED, told(FIRST_ONES))
    assert (total(found, ALL_SAMPLES), total(found, CORRECT)) == (len(FIRST_ONES), len(RIGHT))
    assert [one.median for one in found if one.traces == ALL_SAMPLES] == pytest.approx([10.0])
    assert models_with_selected_scores(found) == []


@told_or_not
@pytest.mark.parametrize("gap", [0, 5])
def test_a_missing_score_ends_the_first_samples_of_its_own_problem_alone(told: Positions, gap: int) -> None:
    left = [key for key in MIXED if key != ("p0", gap)]
    found = spreads(left, told([key for key in FIRST_ONES if key != ("p0", gap)]))
    assert total(found, ALL_SAMPLES) == len(FIRST_ONES) - FIRST + gap
    assert [one.median for one in found if one.traces == ALL_SAMPLES] == pytest.approx([10.0])


@told_or_not
def test_a_sample_without_sums_is_no_gap(told: Positions) -> None:
    assert total(spreads(MIXED, told(FIRST_ONES), unsummed=[("p0", 0)]), ALL_SAMPLES) == len(FIRST_ONES) - 1


@told_or_not
def test_where_only_right_samples_were_scored_there_are_none_of_all_and_it_is_said(
    told: Positions,
) -> None:
    found = spreads(RIGHT, told([]))
    assert (total(found, ALL_SAMPLES), total(found, CORRECT)) == (0, len(RIGHT))
    assert models_with_selected_scores(found) == [("after", "m")]


@told_or_not
def test_where_every_sample_was_scored_all_are_all(told: Positions) -> None:
    assert total(spreads(EVERY, told(EVERY)), ALL_SAMPLES) == len(EVERY)
