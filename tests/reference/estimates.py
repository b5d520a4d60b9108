"""Estimates of one run and of two: pass@k, the table at k, its rates, curves, crossing, equivalent budget, portfolio.

Each problem's value is a ratio of whole numbers, divided once; sums over problems are `math.fsum`. Only where the sign
of a difference decides (does a curve cross?) are sums exact rationals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

from tests.reference.studies import Problem, Record

FLAT = 1e-12
"""Values of pass@k that differ by less are taken for equal."""


def miss(n: int, c: int, k: int) -> Fraction:
    """Chance that k of the n samples, c of them correct, include no correct one: C(n-c, k)/C(n, k)."""
    return Fraction(math.comb(n - c, k), math.comb(n, k))


def pass_hat(n: int, c: int, k: int) -> Fraction:
    """Chance that k of the n samples are all correct."""
    return Fraction(math.comb(c, k), math.comb(n, k))


def at_least(n: int, c: int, k: int, least: int) -> Fraction:
    """Chance that at least `least` of k samples are correct (G-Pass@k)."""
    ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(least, k + 1))
    return Fraction(ways, math.comb(n, k))


@cache
def misses(n: int, c: int) -> tuple[float, ...]:
    """`miss` for k = 0 to n, each the quotient of two whole numbers."""
    values, over, under = [1.0], 1, 1
    for k in range(n):
        over, under = over * max(n - c - k, 0), under * (n - k)
        values.append(over / under)
    return tuple(values)


def stopped_miss(drawn: int, c: int, until: int, budget: int, k: int) -> Fraction:
    """Unbiased (1-p)^k of a problem that was stopped at success number `until`, or at the budget before it."""
    if c < until:
        return Fraction(math.comb(budget - k, c), math.comb(budget, c))
    if drawn - 1 - k < until - 1:
        return Fraction(0)
    return Fraction(math.comb(drawn - 1 - k, until - 1), math.comb(drawn - 1, until - 1))


@cache
def missed(record: Record) -> tuple[float, ...]:
    """Chance that k samples of a record include no correct one, for k from 0 to what was drawn."""
    if not record.until:
        return misses(record.n, record.c)
    curve = [stopped_miss(record.n, record.c, record.until, record.budget, k) for k in range(record.budget + 1)]
    return tuple(float(chance) for chance in curve)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, rounded once."""
    return math.fsum(values) / len(values)


def pass_at(records: Sequence[Record], k: int) -> float:
    """pass@k, mean over problems."""
    return mean([1 - missed(record)[k] for record in records])


def pass_by_prefix(records: Sequence[Record], k: int) -> float:
    """Share of problems with a correct sample among the first k."""
    return mean([float(any(record.outcomes[:k])) for record in records])


def budgets(k: int) -> list[int]:
    """The powers of two up to k, and k."""
    return sorted({2**power for power in range(k.bit_length())} | {k})


@dataclass(frozen=True)
class Table:
    """P, E, S, O, and the rates of them."""

    P: float
    E: float
    S: float
    O: float  # noqa: E741  (the paper's letter)

    @property
    def SRR(self) -> float | None:
        return _ratio(self.P, self.P + self.S)

    @property
    def NDR(self) -> float | None:
        return _ratio(self.E, self.P + self.E)

    @property
    def SDS(self) -> float | None:
        if self.SRR is None or self.NDR is None:
            return None
        return _ratio(2 * self.P * self.E, self.P**2 + 2 * self.P * self.E + self.E * self.S)

    @property
    def NSCR(self) -> float | None:
        return _ratio(self.E - self.S, self.P + self.E + self.S)


def _ratio(over: float, under: float) -> float | None:
    return over / under if under > 0 else None


def table(chances: Sequence[tuple[float, float]]) -> Table:
    """The expected table of problems with these chances (before, after) to be reached, independent in the two runs."""
    return Table(
        math.fsum(a * b for a, b in chances),
        math.fsum((1 - a) * b for a, b in chances),
        math.fsum(a * (1 - b) for a, b in chances),
        math.fsum((1 - a) * (1 - b) for a, b in chances),
    )


def chances(problems: Sequence[Problem], k: int) -> list[tuple[float, float]]:
    """(a_k, b_k) of every problem."""
    return [(1 - missed(p.before)[k], 1 - missed(p.after)[k]) for p in problems]


def exactly(record: Record, k: int) -> Fraction:
    """`missed` at one k, not rounded."""
    if record.until:
        return stopped_miss(record.n, record.c, record.until, record.budget, k)
    return miss(record.n, record.c, k)


def leads(problems: Sequence[Problem], k: int) -> list[int]:
    """Who has the higher pass@k at 1, ..., k: 1 the run before, -1 the run after, 0 both the same, exactly."""
    signs = []
    for budget in range(1, k + 1):
        lead = math.fsum(missed(problem.after)[budget] - missed(problem.before)[budget] for problem in problems)
        if abs(lead) < 1e-9:  # rounding could decide: exactly, then
            exact = sum(exactly(p.after, budget) - exactly(p.before, budget) for p in problems)
            signs.append((exact > 0) - (exact < 0))
        else:
            signs.append(1 if lead > 0 else -1)
    return signs


@dataclass(frozen=True)
class Crossing:
    """Where the run before overtakes: between which budgets, interpolated in log k, and how often the lead changes."""

    k: float | None
    sign_changes: int


def crossing(problems: Sequence[Problem], k: int) -> Crossing:
    """The last change of the lead to the run before; a tie is none, and a lead that is given back is none."""
    ahead = [(budget, sign) for budget, sign in enumerate(leads(problems, k), start=1) if sign]
    changes = [(left, right) for left, right in pairwise(ahead) if left[1] != right[1]]
    if not changes or ahead[-1][1] < 0:
        return Crossing(None, len(changes))
    low, high = changes[-1][0][0], changes[-1][1][0]
    lead_low, lead_high = (
        pass_at([p.before for p in problems], at) - pass_at([p.after for p in problems], at) for at in (low, high)
    )
    share = lead_low / (lead_low - lead_high)
    return Crossing(math.exp(math.log(low) + share * math.log(high / low)), len(changes))


@dataclass(frozen=True)
class Equivalent:
    """Samples of the run before that do as well; None outside 1 to n. On a plateau every k of it would answer."""

    k: float | None
    plateau: bool = False


def equivalent(problems: Sequence[Problem], of: int, k: int) -> Equivalent:
    """The budget at which the run before has pass@`of` of the run after, interpolated in log k between neighbours."""
    goal = pass_at([problem.after for problem in problems], of)
    curve = [pass_at([problem.before for problem in problems], budget) for budget in range(1, k + 1)]
    if goal == 0 or curve[0] > goal + FLAT or curve[-1] < goal - FLAT:
        return Equivalent(None)  # when nothing was reached, any number of samples does as well as any other
    reached = next(budget for budget, value in enumerate(curve, start=1) if value >= goal - FLAT)
    beside = {max(reached - 1, 1), reached, min(reached + 1, k)}
    values = [curve[budget - 1] for budget in sorted(beside)]
    plateau = any(right - left < 1e-6 for left, right in pairwise(values))
    if reached == 1:
        return Equivalent(1.0, plateau)
    left, right = curve[reached - 2], curve[reached - 1]
    share = (goal - left) / (right - left)
    return Equivalent(math.exp(math.log(reached - 1) + share * math.log(reached / (reached - 1))), plateau)


def portfolio(problems: Sequence[Problem], k1: int, k2: int) -> float:
    """Share of problems reached by k1 samples of the run before and k2 of the run after."""
    return mean([1 - missed(p.before)[k1] * missed(p.after)[k2] for p in problems])


def good_toulmin(successes: Sequence[int]) -> float | None:
    """Problems that as many samples again would newly reach; kept between 0 and the number not reached."""
    if not any(successes):
        return None
    total = Fraction(0)
    for j in range(1, 9):
        tail = Fraction(sum(math.comb(8, i) for i in range(j, 9)), 2**8)
        total -= (-1) ** j * tail * sum(c == j for c in successes)
    return float(min(max(total, Fraction(0)), Fraction(sum(c == 0 for c in successes))))


def tipping_rate(reached: float, neither: float, k: int) -> float | None:
    """Rate phi with reached/(reached + neither) = 1 - (1-phi)^k: false positives alone would reach as many."""
    if reached <= 0 or neither <= 0:
        return None
    return -math.expm1(math.log(neither / (reached + neither)) / k)


def shared_tipping_rate(now: Table, k: int) -> float | None:
    """Rate phi that, in both runs, would give E + S: M = E + S + O problems that no run can solve show in a run with
    chance q = 1 - (1-phi)^k, and in one run alone with 2q(1-q), which is at most a half."""
    M, changed = now.E + now.S + now.O, now.E + now.S
    if changed <= 0 or 2 * changed > M:
        return None
    q = changed / M / (1 + math.sqrt(1 - 2 * changed / M))
    return -math.expm1(math.log1p(-q) / k)
