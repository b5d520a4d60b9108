"""Resampled intervals of random studies, against an own bootstrap: each end within Monte Carlo error.

With 1000 replicates in the package and 8000 here, a low end must be between the quantiles .009 and .067 of the
reference and a high end between .933 and .991; with the default of 10,000 between .016 and .040, .960 and .984
(`levels` in tests/reference/resampling.py).
"""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from tests.reference import chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.compared import REPLICATES, STUDIES, document, seeds
from tests.reference.resampling import (
    FEWEST,
    Ends,
    allowed,
    corners,
    least_inside,
    quantile_range,
    weights,
)
from tests.reference.studies import Problem, Study, study

RATES = ("SRR", "NDR", "SDS", "NSCR")
GRID = 0.015
"""Relative error of a replicate's equivalent budget: the package interpolates it between 12 budgets in each octave."""


class Replicates:
    """A study resampled: the table and pass@k in every replicate."""

    def __init__(self, problems: tuple[Problem, ...], seed: int) -> None:
        rng = np.random.default_rng([22, seed])
        self.problems = problems
        self.weight_BP = weights([problem.benchmark for problem in problems], rng)
        self.corner_B4 = corners(4, rng)  # a pseudo-problem each of P, E, S and O
        self.more_B4 = corners(4, rng)  # what an empty cell may hold beside its pseudo-problem

    def total(self, value_P: np.ndarray) -> np.ndarray:
        """Weighted sum over problems."""
        return np.asarray(self.weight_BP @ value_P)

    def cells(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """P, E, S and O at k in every replicate, with their pseudo-problems, and as estimated."""
        a, b = self.chances(k)
        cells = (a * b, (1 - a) * b, a * (1 - b), (1 - a) * (1 - b))
        resampled = [self.total(cell) + self.corner_B4[:, place] for place, cell in enumerate(cells)]
        return np.array(resampled), np.array([cell.sum() for cell in cells])

    def rates(self, k: int) -> dict[str, np.ndarray]:
        """SRR, NDR, SDS and NSCR at k."""
        cell_4B, _ = self.cells(k)
        return {name: rate(name, cell_4B) for name in RATES}

    def ends(self, name: str, k: int, estimate: float, drawn: int) -> Ends:
        """Where the ends of the interval of a rate, or of the difference of pass@k, may be."""
        cell_4B, held_4 = self.cells(k)
        groups = [(place,) for place in range(4) if "PESO"[place] in CELLS_OF[name]]
        variants = [cell_4B, *few(cell_4B, held_4, groups, self.more_B4.T, name not in ("NSCR", "difference"))]
        return widest([allowed(rate(name, variant), estimate, drawn) for variant in variants])

    def pass_ends(self, value_P: np.ndarray, drawn: int) -> Ends:
        """The same of pass@k of one run, with a pseudo-problem that is reached and one that is not."""
        pseudo_2B, more_2B = self.corner_B4.T[:2], self.more_B4.T[:2]
        total_2B = np.array([self.total(value_P), self.total(1 - value_P)]) + pseudo_2B
        held_2 = np.array([value_P.sum(), (1 - value_P).sum()])
        variants = [total_2B, *few(total_2B, held_2, [(0,), (1,)], more_2B, True)]
        return widest([allowed(v[0] / v.sum(axis=0), float(value_P.mean()), drawn) for v in variants])

    def chances(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """a_k and b_k of every problem."""
        a, b = np.array(estimates.chances(self.problems, k)).T
        return a, b

    def pass_curves(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """pass@1, ..., pass@k of both runs, paired: the same weights, and the four pseudo-problems, for both."""
        P, E, S, _ = self.corner_B4.T
        whole_B1 = (len(self.problems) + self.corner_B4.sum(axis=1))[:, None]
        reached_PK = [
            1 - np.array([estimates.missed(getattr(problem, run))[1 : k + 1] for problem in self.problems])
            for run in ("before", "after")
        ]
        before_BK = (self.total(reached_PK[0]) + (P + S)[:, None]) / whole_B1
        return before_BK, (self.total(reached_PK[1]) + (P + E)[:, None]) / whole_B1


CELLS_OF = {"SRR": "PS", "NDR": "PE", "SDS": "PES", "NSCR": "PES", "difference": "ES"}
"""The cells that a rate depends on."""


def rate(name: str, cell_4B: np.ndarray) -> np.ndarray:
    """A rate of P, E, S and O."""
    P, E, S, _ = cell_4B
    if name == "SDS":
        return np.asarray(2 * P * E / (P**2 + 2 * P * E + E * S))
    above, below = {
        "SRR": (P, P + S),
        "NDR": (E, P + E),
        "NSCR": (E - S, P + E + S),
        "difference": (E - S, cell_4B.sum(axis=0)),
    }[name]
    return np.asarray(above / below)


def few(
    cell_CB: np.ndarray, held_C: np.ndarray, groups: list[tuple[int]], more_CB: np.ndarray, none: bool
) -> Iterator[np.ndarray]:
    """A cell with c < 2 problems may hold more, by 1 - c/2 of another Gamma(1/2), or none: c - 1 of it, at least 0."""
    for (place,) in groups:
        c = held_C[place]
        if c < 2:
            more, less = cell_CB.copy(), cell_CB.copy()
            more[place] += (1 - c / 2) * more_CB[place]
            less[place] *= max(c - 1, 0)
            yield from (more, less) if none else (more,)


def widest(every: list[Ends]) -> Ends:
    """The lowest of the low ends and the highest of the high ones."""
    low, high = zip(*every, strict=True)
    return (min(a for a, _ in low), min(b for _, b in low)), (max(a for a, _ in high), max(b for _, b in high))


@cache
def replicates(seed: int) -> Replicates:
    """The study of this seed, resampled."""
    return Replicates(study(seed).problems, seed)


def rate_ends(name: str, resampled: Replicates, table: estimates.Table, k: int, drawn: int) -> Ends:
    """Ends of a rate: E = 0 puts the low ends of NDR and SDS at 0, S = 0 the high end of SRR at 1."""
    low, high = resampled.ends(name, k, getattr(table, name), drawn)
    if name in ("NDR", "SDS") and table.E == 0:
        low = (0.0, 0.0)
    if name == "SRR" and table.S == 0:
        high = (1.0, 1.0)
    return low, high


def enough(seed: int) -> Study:
    """The study of this seed, or a skip where the weights of its problems are not defined."""
    case = study(seed)
    if len(case.problems) < FEWEST:
        pytest.skip("weights of one or two problems are not defined")
    return case


@pytest.mark.parametrize("seed", seeds(STUDIES, 8))
def test_intervals_of_the_table_and_its_curves_agree(seed: int) -> None:
    case, check, resampled = enough(seed), Disagreements(document(seed)), replicates(seed)
    for k in estimates.budgets(case.k):
        table = estimates.table(estimates.chances(case.problems, k))
        for name in RATES:
            if getattr(table, name) is not None:
                ends = rate_ends(name, resampled, table, k, REPLICATES)
                check.within(f"curves.{name}.interval.{k}", ends)
                if k == case.k:
                    check.within(f"support.interval.{name}", ends)
    for number, (name, part) in enumerate(case.benchmarks.items()):
        if len(part) >= FEWEST:
            table, own = estimates.table(estimates.chances(part, case.k)), _part(part, seed, number)
            for metric in RATES:
                if getattr(table, metric) is not None:
                    ends = rate_ends(metric, own, table, case.k, REPLICATES)
                    check.within(f"benchmarks.{name}.interval.{metric}", ends)
    assert check.lines == []


def _part(part: list[Problem], seed: int, number: int) -> Replicates:
    """One benchmark alone, resampled."""
    return Replicates(tuple(part), 1000 * (number + 1) + seed)


@pytest.mark.parametrize("seed", seeds(STUDIES, 8))
def test_intervals_and_bands_of_pass_at_k_agree(seed: int) -> None:
    case, check, resampled = enough(seed), Disagreements(document(seed)), replicates(seed)
    before_BK, after_BK = resampled.pass_curves(case.k)
    budgets = estimates.budgets(case.k)
    inside = np.ones(len(before_BK), bool)
    for k in budgets:
        a, b = resampled.chances(k)
        for run, value in (("before", a), ("after", b)):
            check.within(f"pass_at_k.{run}_interval.{k}", resampled.pass_ends(value, REPLICATES))
        difference_B = after_BK[:, k - 1] - before_BK[:, k - 1]
        ends = resampled.ends("difference", k, float(b.mean() - a.mean()), REPLICATES)
        check.within(f"pass_at_k.difference_interval.{k}", ends)
        low, high = check.theirs(f"pass_at_k.difference_band.{k}")
        inside &= (difference_B >= low - 1e-12) & (difference_B <= high + 1e-12)
    if inside.mean() < least_inside(REPLICATES):
        check.lines.append(f"difference_band holds {inside.mean()} of the curves")
    for name in RATES:
        check_band(check, name, resampled, budgets)
    assert check.lines == []


def check_band(check: Disagreements, name: str, resampled: Replicates, budgets: list[int]) -> None:
    """The band of a rate holds 95% of the whole curves; each budget where it is defined."""
    inside = np.ones(len(resampled.weight_BP), bool)
    for k in budgets:
        low, high = check.theirs(f"curves.{name}.band.{k}")
        if low is not None:
            value_B = resampled.rates(k)[name]
            inside &= (value_B >= low - 1e-12) & (value_B <= high + 1e-12)
    if inside.mean() < least_inside(REPLICATES):
        check.lines.append(f"curves.{name}.band holds {inside.mean()} of the curves")


@pytest.mark.parametrize("seed", seeds(STUDIES, 8))
def test_intervals_of_crossing_equivalent_budget_and_retest_agree(seed: int) -> None:
    case, check, resampled = enough(seed), Disagreements(document(seed)), replicates(seed)
    before_BK, after_BK = resampled.pass_curves(case.k)
    if check.theirs("equivalent_budget.k") is not None:
        budget_B = equivalent_budgets(before_BK, after_BK[:, 0])
        for place, q in enumerate((0.025, 0.975)):
            low, high = quantile_range(budget_B, q, REPLICATES)
            end = end_of(check, "equivalent_budget", place)
            if not low * (1 - GRID) - 1e-9 <= end <= high * (1 + GRID) + 1e-9:
                check.lines.append(f"equivalent_budget end {place}: {end}, reference {low} to {high}")
    if check.theirs("crossing.interval"):
        loosest, tightest = (crossing_ends(resampled, case.k, sign) for sign in (1, -1))
        ends = end_of(check, "crossing", 0), end_of(check, "crossing", 1)
        # a grid of budgets moves an end to a neighbour on it
        if not loosest[0] * 0.97 - 1 <= ends[0] <= tightest[0] * 1.03 + 1:
            check.lines.append(f"crossing low end: {ends[0]}, reference {loosest[0]} to {tightest[0]}")
        if not tightest[1] * 0.97 - 1 <= ends[1] <= loosest[1] * 1.03 + 1:
            check.lines.append(f"crossing high end: {ends[1]}, reference {tightest[1]} to {loosest[1]}")
    check_retest(case, check, resampled)
    assert check.lines == []


def end_of(check: Disagreements, key: str, place: int) -> float:
    """An end of an interval of budgets: `< 1` is 0, `> n` is infinite."""
    end, text = check.theirs(f"{key}.interval")[place], check.theirs(f"{key}.ends")[place]
    if end is None:
        return 0.0 if text.startswith("<") else math.inf
    return float(end)


def equivalent_budgets(curve_BK: np.ndarray, goal_B: np.ndarray) -> np.ndarray:
    """The budget at which each replicate's curve reaches its goal; 0 below one sample, infinite beyond the last."""
    reached_B = (curve_BK < goal_B[:, None]).sum(axis=1)  # budgets that are not enough
    left_B = np.maximum(reached_B, 1)
    right_B = np.minimum(reached_B, curve_BK.shape[1] - 1)
    row_B = np.arange(len(goal_B))
    low_B, high_B = curve_BK[row_B, left_B - 1], curve_BK[row_B, right_B]
    rise_B = np.where(high_B > low_B, high_B - low_B, 1.0)
    budget_B = left_B * ((right_B + 1) / left_B) ** ((goal_B - low_B) / rise_B)
    budget_B = np.where(reached_B == 0, np.where(curve_BK[:, 0] > goal_B, 0.0, 1.0), budget_B)
    return np.where(reached_B == curve_BK.shape[1], math.inf, budget_B)


def crossing_ends(resampled: Replicates, most: int, sign: int) -> tuple[float, float]:
    """The last budget whose interval is below 0 and the first from which all are above, with intervals made wider
    (sign 1) or tighter (-1) by Monte Carlo error."""
    wide = 0 if sign > 0 else 1
    low_K, high_K = np.empty(most), np.empty(most)
    for k in range(1, most + 1):
        a, b = resampled.chances(k)
        low, high = resampled.ends("difference", k, float(b.mean() - a.mean()), REPLICATES)
        low_K[k - 1], high_K[k - 1] = -high[1 - wide], -low[wide]  # of the lead of the run before
    behind = np.nonzero(high_K < 0)[0]
    not_ahead = np.nonzero(low_K <= 0)[0]
    first = int(not_ahead[-1]) + 2 if len(not_ahead) else 1
    return float(behind[-1] + 1) if len(behind) else 0.0, float(first) if first <= most else math.inf


def check_retest(case: Study, check: Disagreements, resampled: Replicates) -> None:
    """Pseudo-problems (kept, kept twice) of (0, 1), (1, 1) and (1/2, 0) for the ratio; +1, -1, 0, 0 for the gain,
    whose interval ends at -N/4 and N; no interval of the ratio where fewer than 8 problems decide it."""
    k = min(case.k, min(problem.before.n for problem in case.problems) // 2)
    if not k or (retest := chance.retest(case.problems, k)).net_ratio is None:
        return
    a, b = resampled.chances(k)
    again = np.array([1 - estimates.missed(problem.before)[2 * k] for problem in case.problems])
    first, second, third, _ = resampled.corner_B4.T
    kept_B = resampled.total(a * b) + second + third / 2
    twice_B = resampled.total(2 * a - again) + first + second
    if chance.effective([chance.twice(problem, k) for problem in case.problems]) < chance.FEWEST_REACHED_TWICE:
        check.same("chance.retest.interval.net_ratio", [None, None])
    else:
        ends = allowed(kept_B / twice_B, retest.net_ratio, REPLICATES)
        check.within("chance.retest.interval.net_ratio", ends)
    N = len(case.problems)
    gain_B = np.clip(resampled.total((1 - a) * b - (again - a)) + first - second, -N / 4, N)
    check.within("chance.retest.interval.gain", allowed(gain_B, retest.gain, REPLICATES))


def test_intervals_agree_at_the_default_number_of_replicates(tmp_path: Path) -> None:
    case = study(8)
    check = Disagreements(ol.compare(*case.write(tmp_path)).to_dict())
    table = estimates.table(estimates.chances(case.problems, case.k))
    for name in RATES:
        check.within(f"support.interval.{name}", rate_ends(name, replicates(8), table, case.k, 10_000))
    assert check.lines == []
