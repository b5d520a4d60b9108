"""The rules `above` and `confident`, and budgets chosen with `--at`, against the second implementation."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path

import pytest

import offleash as ol
from tests.reference import chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.compared import seeds
from tests.reference.studies import Problem, Study, study

CELLS = {"P": (1, 1), "E": (0, 1), "S": (1, 0), "O": (0, 0)}


RULES = [("above", "0.1"), ("above", "0.5"), ("confident", None)]


def compared(case: Study, rule: str, tau: str | None, folder: Path) -> tuple[Disagreements, chance.State]:
    """What `ol.compare` says by a rule, and the rule."""
    document = ol.compare(*case.write(folder), rule=rule, tau=float(tau or 0), replicates=100).to_dict()
    return Disagreements(document), chance.above(Fraction(tau)) if tau else chance.confident(case.k)


# 1: studies with 1 and 75 samples per problem, as counts; 9: with 40 and 126, as a log
@pytest.mark.parametrize("number", [9, *seeds(9, 3), *seeds(100, 0)[10:]])
@pytest.mark.parametrize(("rule", "tau"), RULES)
def test_table_and_redraw_of_a_rule_are_means_over_all_ways_to_take_k(
    rule: str, tau: str | None, number: int, tmp_path: Path
) -> None:
    case = study(number)
    check, state = compared(case, rule, tau, tmp_path)
    check_thinned(check, case.problems, case.k, state)
    check_redraw(check, chance.redraw_by(case.problems, case.k, state))
    assert check.lines == []


@pytest.mark.parametrize("number", seeds(90, 3))
@pytest.mark.parametrize(("rule", "tau"), RULES)
def test_null_of_a_rule_agrees(rule: str, tau: str | None, number: int, tmp_path: Path) -> None:
    case = study(number)
    check, state = compared(case, rule, tau, tmp_path)
    pairs = [chance.Pair(p.name, p.before.n, p.before.c, p.after.n, p.after.c) for p in case.problems]
    for name, side in (("S", pairs), ("E", [pair.swapped() for pair in pairs])):
        null = chance.exchange_null(side, state)
        if null.expected == 0 and check.theirs(f"chance.expected_{name}") is None:
            continue  # with so few samples the rule places no problem as reached, and there is nothing to test
        check.same(f"chance.observed_{name}", null.observed)
        check.probability(f"chance.expected_{name}", null.expected)
        check.probability(f"chance.p_{name}", null.p)
        check.probability(f"chance.mid_p_{name}", null.mid_p)
    assert check.lines == []


def check_redraw(check: Disagreements, again: estimates.Table) -> None:
    """What an unchanged model would show, beside the table."""
    for name in ("P", "E", "S", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.redraw.{name}", getattr(again, name))


def check_thinned(check: Disagreements, problems: Sequence[Problem], k: int, state: chance.State) -> None:
    """The table as an expectation over all ways to keep k of the samples of each run."""
    cells = dict.fromkeys(CELLS, 0.0)
    for problem in problems:
        before, after = ((chances_of_states(r.n, r.c, k, state)) for r in (problem.before, problem.after))
        for name, (left, right) in CELLS.items():
            cells[name] += float(before[left] * after[right])
    for name, value in cells.items():
        check.number(f"support.{name}", value)
    check.number("support.undetermined", len(problems) - sum(cells.values()))


def chances_of_states(n: int, c: int, k: int, state: chance.State) -> dict[int, Fraction]:
    """Chance that k of the samples place the problem in each state."""
    chances = {1: Fraction(0), 0: Fraction(0), -1: Fraction(0)}
    for hits in range(max(0, k - (n - c)), min(c, k) + 1):
        exactly = estimates.at_least(n, c, k, hits) - estimates.at_least(n, c, k, hits + 1)
        chances[state(k, hits)] += exactly
    return chances


def first_studies(number: int, wanted: Callable[[Study], bool]) -> Study:
    """The study with this number among those wanted."""
    return next(islice((case for seed in range(200) if wanted(case := study(seed))), number, None))


def has_larger_budgets(case: Study) -> bool:
    """At least three problems have twice the samples that all have."""
    return sum(min(problem.before.n, problem.after.n) >= 2 * case.k for problem in case.problems) >= 3


@pytest.mark.parametrize("number", seeds(20, 2))
def test_a_larger_budget_leaves_out_problems_with_fewer_samples(number: int, tmp_path: Path) -> None:
    case = first_studies(number, has_larger_budgets)
    at = 2 * case.k
    left = [problem for problem in case.problems if min(problem.before.n, problem.after.n) >= at]
    check = Disagreements(ol.compare(*case.write(tmp_path), at=at, replicates=100).to_dict())
    table = estimates.table(estimates.chances(left, at))
    check.same("support.k", at)
    check.same("runs.before.problems", len(left))
    for name in ("P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.{name}", getattr(table, name))
    largest = min(min(problem.before.n, problem.after.n) for problem in left)
    for budget in estimates.budgets(largest):
        for run in ("before", "after"):
            value = estimates.pass_at([getattr(problem, run) for problem in left], budget)
            check.number(f"pass_at_k.{run}.{budget}", value)
    assert check.lines == []


@pytest.mark.parametrize("number", seeds(20, 2))
def test_a_smaller_budget_thins_all_problems(number: int, tmp_path: Path) -> None:
    case = first_studies(number, lambda case: case.k >= 4)
    at = case.k // 2
    check = Disagreements(ol.compare(*case.write(tmp_path), at=at, replicates=100).to_dict())
    table = estimates.table(estimates.chances(case.problems, at))
    for name in ("P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR"):
        check.number(f"support.{name}", getattr(table, name))
    half = min(at, min(problem.before.n for problem in case.problems) // 2)
    retest = chance.retest(case.problems, half)
    check.same("chance.retest.k", half)
    check.number("chance.retest.net_ratio", retest.net_ratio)
    check.number("chance.retest.gain", retest.gain)
    for split in check.theirs("portfolio.curve") or ():
        value = estimates.portfolio(case.problems, int(split), at - int(split))
        check.number(f"portfolio/curve/{split}", value)
    assert check.lines == []
