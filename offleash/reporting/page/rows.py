"""The table of problems: a column a list, since a page of thousands of rows repeats no names."""

import math

from offleash.comparing.per_problem import Detail
from offleash.render.escape import middle, one_line
from offleash.render.numbers import Json

NAME = 80  # letters of an id or the name of a benchmark
MOST, LEAST, ALL_LETTERS = 1000, 140, 1_000_000  # letters of a question to be searched, and of all of them


def letters(problems: int) -> int:
    """How many letters of every question a page of so many problems can be searched for."""
    return max(LEAST, min(MOST, ALL_LETTERS // max(problems, 1)))


def table(detail: Detail, held: set[int]) -> Json:
    """Every problem of a comparison: what it is, its class, its counts and the evidence of a change."""
    tally, problems = detail.tally, detail.problems
    searched, k = letters(problems.height), detail.comparison.change.k
    more = not ((tally.drawn_PR == k) | tally.stopped_PR).all()
    benchmarks = [one_line(str(name), NAME) for name in tally.benchmark_P]
    return {
        "problem": [one_line(middle(name, NAME), NAME) for name in problems["problem"].to_list()],
        "text": [one_line(text or "", searched) for text in problems["question"].to_list()],
        "benchmark": benchmarks if len(set(benchmarks)) > 1 else None,
        "class": "".join(detail.class_P.tolist()),
        "correct": [tally.correct_PR[:, r].tolist() for r in range(2)],
        "drawn": [_one_or_all(tally.drawn_PR[:, r].tolist()) for r in range(2)],
        "first": [tally.head_PR[:, r].tolist() for r in range(2)] if more else None,
        "p": [_rounded(p) for p in detail.p_P.tolist()],
        "sure": [int(row) for row in detail.sure_P.nonzero()[0]],
        "held": sorted(held),
    }


def _one_or_all(values: list[int]) -> int | list[int]:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else values


def _rounded(p: float) -> float | None:
    return None if math.isnan(p) else float(f"{p:.2g}")
