"""What chance alone gives: the exchange null, bounds on losses, lists, retest, confirmation, guessing; binomial bounds.

Counts are whole numbers here: (n, c) of all samples of a problem, for each run; the two n may differ. A gain is a loss
with the runs swapped, so only losses are written down.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.reference.estimates import Table, chances, exactly, miss, table
from tests.reference.studies import Problem

LEVEL = 0.05
BOUND = Fraction(1, 80)
"""Level of each of four bounds, by count and by problem, on losses and on gains: together 5%."""
FEWEST_REACHED_TWICE = 8
"""Effective problems, below which the net ratio has no interval."""


@dataclass(frozen=True)
class Pair:
    """Samples and successes of one problem, before and after."""

    name: str
    n_before: int
    c_before: int
    n_after: int
    c_after: int

    @property
    def lost(self) -> bool:
        return self.c_before > 0 and self.c_after == 0

    def swapped(self) -> "Pair":
        """The same with the runs exchanged: its losses are the gains of this one."""
        return Pair(self.name, self.n_after, self.c_after, self.n_before, self.c_before)


State = Callable[[int, int], int]
"""(samples, successes) to 1 reached, 0 not, -1 undetermined."""


def seen(n: int, c: int) -> int:
    """Reached means at least one success."""
    return int(c > 0)


def above(tau: Fraction) -> State:
    """Reached means a rate of at least tau, and above 0."""
    return lambda n, c: int(c > 0 and Fraction(c, n) >= tau)


def confident(k: int) -> State:
    """One-sided 95% Clopper-Pearson bounds against epsilon = -ln(0.05)/k, by the tails of the binomial they invert."""
    epsilon = -math.log(0.05) / k

    def state(n: int, c: int) -> int:
        if epsilon >= 1:
            return 0 if c < n or epsilon > 1 else -1
        if c > 0 and upper_tail(n, c, epsilon) < LEVEL:
            return 1
        return 0 if c < n and lower_tail(n, c, epsilon) <= LEVEL else -1

    return state


def upper_tail(n: int, c: int, rate: float) -> float:
    """P(Binomial(n, rate) >= c)."""
    return math.fsum(math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(c, n + 1))


def lower_tail(n: int, c: int, rate: float) -> float:
    """P(Binomial(n, rate) <= c)."""
    return math.fsum(math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(c + 1))


def hypergeometric_law(pair: Pair) -> list[tuple[int, Fraction]]:
    """Successes of the run before, given those of both: hypergeometric."""
    both = pair.c_before + pair.c_after
    ways = math.comb(pair.n_before + pair.n_after, both)
    low, high = max(0, both - pair.n_after), min(both, pair.n_before)
    return [
        (x, Fraction(math.comb(pair.n_before, x) * math.comb(pair.n_after, both - x), ways))
        for x in range(low, high + 1)
    ]


def lost_by_exchange(pair: Pair, state: State = seen) -> Fraction:
    """P(reached before and not after) if the successes fell on the samples of both runs at random."""
    both = pair.c_before + pair.c_after
    law = hypergeometric_law(pair)
    return sum(
        (p for x, p in law if state(pair.n_before, x) == 1 and state(pair.n_after, both - x) == 0),
        start=Fraction(0),
    )


def poisson_binomial(chance: Sequence[float]) -> np.ndarray:
    """Law of the number of successes of independent trials: all terms positive, so no digit is lost."""
    law = np.ones(1)
    for p in chance:
        law = np.append(law * (1 - p), 0.0) + np.append(0.0, law * p)
    return law


@dataclass(frozen=True)
class Null:
    """Losses observed, expected by exchange, and the tails of that law."""

    observed: int
    expected: float
    p: float
    mid_p: float


def exchange_null(pairs: Sequence[Pair], state: State = seen) -> Null:
    """The exact test of the number of losses."""
    observed = sum(state(p.n_before, p.c_before) == 1 and state(p.n_after, p.c_after) == 0 for p in pairs)
    loss = [float(lost_by_exchange(pair, state)) for pair in pairs]
    law = poisson_binomial(loss)
    tail = math.fsum(law[observed:])
    return Null(observed, math.fsum(loss), min(tail, 1.0), min(tail - law[observed] / 2, 1.0))


def loss_p(pair: Pair) -> Fraction:
    """One-sided Fisher p of a loss: 1 unless the run after has no success."""
    return lost_by_exchange(pair) if pair.lost else Fraction(1)


def fall_p(pair: Pair) -> Fraction:
    """One-sided Fisher p of a fall in rate on a problem that both runs reach: P(X >= c_before); else 1."""
    if pair.c_before == 0 or pair.c_after == 0:
        return Fraction(1)
    return sum((p for x, p in hypergeometric_law(pair) if x >= pair.c_before), start=Fraction(0))


def holm(p: Sequence[Fraction], level: Fraction) -> int:
    """How many hypotheses Holm's step-down method rejects."""
    for step, value in enumerate(sorted(p)):
        if value * (len(p) - step) > level:
            return step
    return len(p)


def adjusted(p: Sequence[Fraction]) -> list[Fraction]:
    """Benjamini-Hochberg q of every hypothesis: the smallest false discovery rate at which it is rejected."""
    q, least = [Fraction(1)] * len(p), Fraction(1)
    for rank, place in reversed(list(enumerate(sorted(range(len(p)), key=lambda i: p[i]), start=1))):
        least = min(least, p[place] * len(p) / rank)
        q[place] = least
    return q


def two_sided_p(pair: Pair) -> Fraction:
    """Did the rate change? Twice the smaller tail of the hypergeometric law, at most 1."""
    law = hypergeometric_law(pair)
    above = sum((p for x, p in law if x >= pair.c_before), start=Fraction(0))
    below = sum((p for x, p in law if x <= pair.c_before), start=Fraction(0))
    return min(Fraction(1), 2 * min(above, below))


def benjamini_hochberg(p: dict[str, Fraction], level: Fraction = Fraction(1, 20)) -> dict[str, Fraction]:
    """The hypotheses rejected at this false discovery rate, smallest p first."""
    ranked = sorted(p.items(), key=lambda item: item[1])
    last = max((rank for rank, (_, value) in enumerate(ranked, 1) if value * len(p) <= level * rank), default=0)
    return dict(ranked[:last])


def losses_at_least(pairs: Sequence[Pair], level: Fraction = BOUND) -> int:
    """The larger of two lower bounds: by the number of losses, and by problem; each at `level`."""
    return max(losses_by_count(pairs, level), holm([loss_p(pair) for pair in pairs], level))


def losses_by_count(pairs: Sequence[Pair], level: Fraction = BOUND) -> int:
    """The least m so that exchange explains the losses when the m most significant are left out."""
    lost = sorted((pair for pair in pairs if pair.lost), key=lost_by_exchange)
    rest = [pair for pair in pairs if not pair.lost]
    for m in range(len(lost) + 1):
        law = poisson_binomial([float(lost_by_exchange(pair)) for pair in rest + lost[m:]])
        if math.fsum(law[len(lost) - m :]) > level:
            return m
    raise AssertionError("leaving out all losses leaves a tail of 1")


def mcnemar(E: int, S: int) -> float:
    """Exact two-sided McNemar test: E of E + S fair coins."""
    tail = Fraction(sum(math.comb(E + S, j) for j in range(max(E, S), E + S + 1)), 2 ** (E + S))
    return float(min(Fraction(1), 2 * tail))


def strength(pairs: Sequence[Pair]) -> dict[str, int]:
    """Losses by the successes of the run before."""
    successes = [pair.c_before for pair in pairs if pair.lost]
    return {
        "weak": sum(c == 1 for c in successes),
        "middle": sum(2 <= c <= 4 for c in successes),
        "strong": sum(c >= 5 for c in successes),
    }


def in_both_halves(n: int, c: int) -> Fraction:
    """Chance that two disjoint halves of the samples, chosen at random, each have a success.

    By inclusion and exclusion; for an odd n a sample is left over, and the successes may all be that one.
    """
    half = n // 2
    return 1 - 2 * miss(n, c, half) + miss(n, c, 2 * half)


@dataclass(frozen=True)
class Confirmation:
    """Losses that would show in both halves of the samples, and how many of those exchange gives."""

    confirmed: float
    redraw: float


def confirmation(pairs: Sequence[Pair]) -> Confirmation:
    """Both numbers; after a loss the run before has all successes of the problem."""
    confirmed = math.fsum(float(in_both_halves(p.n_before, p.c_before)) for p in pairs if p.lost)
    chance = [
        float(lost_by_exchange(p) * in_both_halves(p.n_before, p.c_before + p.c_after))
        for p in pairs
        if 0 < p.c_before + p.c_after <= p.n_before
    ]
    return Confirmation(confirmed, math.fsum(chance))


def fewest_successes(n_before: int, n_after: int, level: Fraction) -> int | None:
    """Successes against none from which the p of a loss is at most `level`."""
    for c in range(1, n_before + 1):
        if lost_by_exchange(Pair("", n_before, c, n_after, 0)) <= level:
            return c
    return None


def successes_needed(n_before: int, n_after: int, problems: int) -> int | None:
    """Successes against none whose loss is significant whatever the other problems show: Bonferroni over problems."""
    return fewest_successes(n_before, n_after, Fraction(1, 20 * problems))


def gains_at_most(gained: int, n_of_candidates: Sequence[int], rate: float) -> int:
    """The largest m for which m candidates of this rate would show `gained` or fewer in more than 5% of draws.

    It may be any m of them: those with the fewest samples, each seen with chance 1 - (1-rate)^n, show the fewest.
    """
    seen_P = [1 - (1 - rate) ** n for n in sorted(n_of_candidates)]
    m = gained
    while m < len(seen_P) and math.fsum(poisson_binomial(seen_P[: m + 1])[: gained + 1]) > LEVEL:
        m += 1
    return m


@dataclass(frozen=True)
class Retest:
    """The table at k beside what two draws of k samples of the run before would show."""

    net_ratio: float | None
    gain: float
    observed_SRR: float | None
    redraw_SRR: float | None
    redraw: float


def retest(problems: Sequence[Problem], k: int) -> Retest:
    """Needs 2k samples of the run before."""
    at_k, at_2k = ([exactly(p.before, size) for p in problems] for size in (k, 2 * k))
    a = [float(1 - x) for x in at_k]
    twice = [float(1 - 2 * x + y) for x, y in zip(at_k, at_2k, strict=True)]
    once = [float(x - y) for x, y in zip(at_k, at_2k, strict=True)]
    now = table(chances(problems, k))
    kept = math.fsum(twice)
    reached = math.fsum(a)
    return Retest(
        net_ratio=now.P / kept if kept > 0 else None,
        gain=now.E - math.fsum(once),
        observed_SRR=now.SRR,
        redraw_SRR=kept / reached if reached > 0 else None,
        redraw=math.fsum(once),
    )


def twice(problem: Problem, k: int) -> float:
    """2 a_k - a_2k: chance that two disjoint draws of k samples of the run before both reach the problem."""
    return float(1 - 2 * exactly(problem.before, k) + exactly(problem.before, 2 * k))


def effective(weight: Sequence[float]) -> float:
    """How many problems decide a weighted sum (Satterthwaite 1946): its variance has components in proportion to w^2,
    as well known as that of (sum of w^2)^2 / sum of w^4 problems of equal weight."""
    fourth = math.fsum(w**4 for w in weight)
    return math.fsum(w**2 for w in weight) ** 2 / fourth if fourth > 0 else 0.0


def redraw(problems: Sequence[Problem], k: int) -> Table:
    """The table of two disjoint draws of k from the samples of both runs: what one model drawn twice would show.

    A draw of k misses with chance m_k = C(N-C, k)/C(N, k), both draws together, being a draw of 2k, with m_2k.
    """
    cells = [(miss(n, c, k), miss(n, c, 2 * k)) for n, c in map(pooled, problems)]
    exchanged = math.fsum(float(once - both) for once, both in cells)
    P = math.fsum(float(1 - 2 * once + both) for once, both in cells)
    return Table(P, exchanged, exchanged, math.fsum(float(both) for _, both in cells))


def pooled(problem: Problem) -> tuple[int, int]:
    """Samples and successes of both runs."""
    return problem.before.n + problem.after.n, problem.before.c + problem.after.c


def redraw_by(problems: Sequence[Problem], k: int, state: State) -> Table:
    """The same by any rule: x and y successes in the two draws have C(k, x) C(k, y) C(N-2k, C-x-y) of C(N, C) ways."""
    ways = {at: [math.comb(k, x) if state(k, x) == at else 0 for x in range(k + 1)] for at in (1, 0)}
    # ways to have s successes in the two draws together, each draw in the state that the cell says
    drawn = {
        cell: [
            sum(ways[cell[0]][x] * ways[cell[1]][s - x] for x in range(max(0, s - k), min(s, k) + 1))
            for s in range(2 * k + 1)
        ]
        for cell in ((1, 1), (0, 1), (0, 0))
    }
    total = dict.fromkeys(drawn, 0.0)
    for n, c in map(pooled, problems):
        for cell, ways_S in drawn.items():
            kept = sum(w * math.comb(n - 2 * k, c - s) for s, w in enumerate(ways_S[: c + 1]) if w)
            total[cell] += float(Fraction(kept, math.comb(n, c)))
    return Table(total[1, 1], total[0, 1], total[0, 1], total[0, 0])


def at_the_floor(n: int, c: int, floor: float) -> bool:
    """Reached, but no more often than guessing explains: one-sided binomial test at 5%."""
    return c > 0 and floor > 0 and upper_tail(n, c, floor) > LEVEL
