"""Diversity of answers, majority votes and support per answer of random logs, against the second implementation."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import offleash as ol
from tests.reference import answers, chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.answers import Answered
from tests.reference.compared import seeds
from tests.reference.studies import Problem, Record

MOST_VOTES = 32


@cache
def document(seed: int, per: str) -> dict[str, Any]:
    """What `ol.compare` says about the logs of a study."""
    problems = answers.study(seed)
    with TemporaryDirectory() as folder:
        logs = [answers.write(problems, Path(folder), run) for run in ("before", "after")]
        return ol.compare(*logs, per=per, replicates=100).to_dict()


def budget(problems: Sequence[Answered]) -> int:
    """The fewest samples of any problem in either run."""
    return min(min(len(problem.before), len(problem.after)) for problem in problems)


@pytest.mark.parametrize("seed", seeds(60, 4))
def test_diversity_agrees(seed: int) -> None:
    problems, check = answers.study(seed), Disagreements(document(seed, "problem"))
    read = {run: [answers.readable(getattr(p, run)) for p in problems] for run in ("before", "after")}
    both = [min(a.total(), b.total()) for a, b in zip(read["before"], read["after"], strict=True)]
    enough = [place for place, m in enumerate(both) if m >= 2]
    if not enough:
        assert "n" not in check.theirs("diversity") or check.theirs("diversity.problems") == 0
        return
    ranked = sorted(both)
    middle = (ranked[(len(both) - 1) // 2] + ranked[len(both) // 2]) // 2  # half of the problems have as many
    check.same("diversity.n", middle)
    check.same("diversity.votes", min(budget(problems), MOST_VOTES))
    check.same("diversity.problems", len(enough))
    entropies = {
        run: estimates.mean([answers.rarefied_entropy(list(counts[i].values()), both[i]) for i in enough])
        for run, counts in read.items()
    }
    check.number("diversity.entropy_difference", entropies["after"] - entropies["before"])
    for run, value in entropies.items():
        check.number(f"diversity.{run}.entropy", value)
        check_run(check, run, problems, both, middle)
    assert check.lines == []


def check_run(check: Disagreements, run: str, problems: Sequence[Answered], both: Sequence[int], middle: int) -> None:
    """What is computed for each run: over all problems, over those with an answer, over those with enough in both."""
    drawn = [getattr(problem, run) for problem in problems]
    counts = [list(answers.readable(given).values()) for given in drawn]
    unread = [len(given) - sum(count) for given, count in zip(drawn, counts, strict=True)]
    answered = [count for count in counts if count]
    values = {
        "entropy_with_unread": [answers.entropy([*count, no]) for count, no in zip(counts, unread, strict=True)],
        "entropy_absolute": [answers.estimated_entropy(count) for count in answered],
        "distinct": [answers.distinct(count, middle) for count, m in zip(counts, both, strict=True) if m >= middle],
        "distinct_all": [answers.chao1(count) for count in answered],
        "unseen_mass": [answers.unseen_mass(count) for count in answered],
    }
    votes = min(budget(problems), MOST_VOTES)
    values["majority"] = [
        float(answers.majority(dict(answers.readable(given)), problem.right, no, votes))
        for problem, given, no in zip(problems, drawn, unread, strict=True)
    ]
    for name, value in values.items():
        check.number(f"diversity.{run}.{name}", estimates.mean(value), max(1e-9, simulated(check, run, name)))
    check.number(f"diversity.{run}.unread_rate", sum(unread) / sum(len(given) for given in drawn))
    right = {
        side: [answers.readable([a for a in getattr(p, side) if a in p.right]) for p in problems]
        for side in ("before", "after")
    }
    least = [min(a.total(), b.total()) for a, b in zip(right["before"], right["after"], strict=True)]
    of_right = [
        answers.rarefied_entropy(list(count.values()), m) for count, m in zip(right[run], least, strict=True) if m >= 2
    ]
    check.same("diversity.problems_correct", len(of_right))
    check.number(f"diversity.{run}.entropy_correct", estimates.mean(of_right) if of_right else None)


def simulated(check: Disagreements, run: str, name: str) -> float:
    """Five standard errors where a majority vote was simulated; 0 where it is exact."""
    return 5 * float(check.theirs(f"diversity.{run}.majority_error")) if name == "majority" else 0.0


@pytest.mark.parametrize("seed", seeds(60, 2))
def test_support_per_answer_agrees(seed: int) -> None:
    problems, check = answers.study(seed), Disagreements(document(seed, "answer"))
    k, targets = budget(problems), []
    for problem in problems:
        for answer in sorted(problem.right & {*problem.before, *problem.after}):
            runs = [Record(tuple(given == answer for given in drawn)) for drawn in (problem.before, problem.after)]
            targets.append(Problem(answer, "", None, *runs))
    table = estimates.table(estimates.chances(targets, k))
    check.same("support.O", None)
    for name in ("P", "E", "S", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.{name}", getattr(table, name))
    again = chance.redraw(targets, k)
    for name in ("P", "E", "S", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.redraw.{name}", getattr(again, name))
    half = min(k, min((target.before.n for target in targets), default=0) // 2)
    if half:
        check.same("chance.retest.k", half)
        retest = chance.retest(targets, half)
        for name in ("net_ratio", "gain", "observed_SRR", "redraw_SRR"):
            check.number(f"chance.retest.{name}", getattr(retest, name))
    assert check.lines == []


def test_the_reference_entropy_is_that_of_the_definition() -> None:
    tilt = [0.9, *[0.01] * 10]
    tilted = [0.9, *[0.01 * math.exp(5)] * 10]
    assert answers.entropy([round(900 * p) for p in tilt]) == pytest.approx(0.5553, abs=5e-5)
    assert -sum(p / sum(tilted) * math.log(p / sum(tilted)) for p in tilted) == pytest.approx(2.3901, abs=5e-5)
