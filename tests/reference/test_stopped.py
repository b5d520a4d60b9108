"""Runs that stop each problem at its m-th success, as run folders, against the second implementation."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from tests.reference import chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.compared import seeds
from tests.reference.studies import Problem, Record


def stopped_study(seed: int, folder: Path) -> tuple[tuple[Problem, ...], tuple[str, str]]:
    """Random runs with the same budget and m, and their run folders; some keep samples drawn after the stop."""
    rng = np.random.default_rng([23, seed])
    size, budget, until = int(rng.integers(2, 25)), int(rng.integers(4, 121)), int(rng.integers(1, 7))
    rate_PR = rng.choice([0.0, 0.01, 0.05, 0.2, 0.6, 1.0], (size, 2))
    records: list[list[Record]] = [[], []]
    names = [f"q{index:02}" for index in range(size)]
    for run, name in enumerate(("before", "after")):
        rows = []
        for index in range(size):
            outcomes = rng.random(budget) < rate_PR[index, run]
            hits = np.nonzero(outcomes)[0]
            stop = int(hits[until - 1]) + 1 if len(hits) >= until else budget
            kept = min(stop + int(rng.integers(0, 3)), budget)  # the rest of a round stays in the folder, uncounted
            records[run].append(Record(tuple(bool(hit) for hit in outcomes[:stop]), until, budget))
            rows.append({"problem_id": names[index], "correct": [bool(hit) for hit in outcomes[:kept]]})
        log = folder / f"{name}.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ol.import_logs(f"{name}={log}", out=folder / name)
        about = json.loads((folder / name / "run.json").read_text())
        about["budget"] = {"k": budget, "until": until}
        (folder / name / "run.json").write_text(json.dumps(about))
    problems = tuple(Problem(name, "", None, *pair) for name, *pair in zip(names, *records, strict=True))
    return problems, (f"before={folder / 'before'}", f"after={folder / 'after'}")


def loss_bound(problem: Problem) -> Fraction:
    """A valid p of a loss: C(N, m)/C(N+B, m) for a stop on sample N, C(B, c)/C(2B, c) where the budget ran out."""
    if problem.before.c == 0 or problem.after.c > 0:
        return Fraction(1)
    n, c, budget = problem.before.n, problem.before.c, problem.before.budget
    return Fraction(math.comb(n, c), math.comb(n + budget, c))


def swapped(problem: Problem) -> Problem:
    """The same with the runs exchanged."""
    return Problem(problem.name, problem.benchmark, problem.floor, problem.after, problem.before)


@pytest.mark.parametrize("seed", seeds(40, 2))
def test_runs_that_stopped_early_agree(seed: int, tmp_path: Path) -> None:
    problems, runs = stopped_study(seed, tmp_path)
    check = Disagreements(ol.compare(*runs, replicates=100).to_dict())
    k = problems[0].before.budget
    table = estimates.table(estimates.chances(problems, k))
    check.same("support.k", k)
    for name in ("P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.{name}", getattr(table, name))
    for at in estimates.budgets(k):
        thinned = estimates.table(estimates.chances(problems, at))
        for name in ("SRR", "NDR", "SDS", "NSCR"):
            check.number(f"curves.{name}.value.{at}", getattr(thinned, name))
        for run in ("before", "after"):
            value = estimates.pass_at([getattr(problem, run) for problem in problems], at)
            check.number(f"pass_at_k.{run}.{at}", value)
    check.same("crossing.sign_changes", estimates.crossing(problems, k).sign_changes)
    for split in check.theirs("portfolio.curve"):
        check.number(f"portfolio/curve/{split}", estimates.portfolio(problems, int(split), k - int(split)))
    retest = chance.retest(problems, k // 2)
    check.same("chance.retest.k", k // 2)
    for name in ("net_ratio", "gain", "observed_SRR", "redraw_SRR", "redraw"):
        check.number(f"chance.retest.{name}", getattr(retest, name))
    check.probability("chance.mcnemar_p", chance.mcnemar(round(table.E), round(table.S)))
    check.same("chance.p_S", None)
    gains = [swapped(problem) for problem in problems]
    for side, listed, bound in ((problems, "lost", "losses_at_least"), (gains, "gained", "gains_at_least")):
        p = {problem.name: loss_bound(problem) for problem in side}
        if set(check.theirs(f"chance.{listed}")) != set(chance.benjamini_hochberg(p)):
            check.lines.append(f"{listed}: {check.theirs(f'chance.{listed}')}, reference {p}")
        check.same(f"chance.{bound}", chance.holm(list(p.values()), Fraction(1, 40)))  # two bounds in all: 2.5% each
    assert check.lines == []


@pytest.mark.parametrize("until", [1, 2, 5])
def test_the_estimator_under_stopping_is_unbiased(until: int) -> None:
    """Summed over all ways a problem can end, in exact rationals: the mean is (1-p)^k."""
    budget, rate = 12, Fraction(3, 10)
    for k in range(budget + 1):
        total = Fraction(0)
        for n in range(until, budget + 1):  # stopped on sample n
            chance_of = math.comb(n - 1, until - 1) * rate**until * (1 - rate) ** (n - until)
            total += chance_of * estimates.stopped_miss(n, until, until, budget, k)
        for c in range(until):  # the budget ran out
            chance_of = math.comb(budget, c) * rate**c * (1 - rate) ** (budget - c)
            total += chance_of * estimates.stopped_miss(budget, c, until, budget, k)
        assert total == (1 - rate) ** k
