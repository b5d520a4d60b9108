"""What a study could have shown: how many successes a loss needs, and how many gains may have stayed unseen.

`successes_needed` is known before a study is drawn and drives `offleash plan`; `gain_power` belongs to a finished one,
where "no gains" means little unless a gain would have been seen. comparing/evidence.py applies it to two runs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from offleash.stats.binomials import Float, Integer, binomial_at_least, binomial_pmf, log_miss
from offleash.stats.significance import CONFIDENCE, TIE_FACTOR
from offleash.stats.support_classes import AFTER, BEFORE, epsilon

POWER = 0.8  # chance from which on a study is said to detect something
RATE_STEPS = (0.25, 1.0, 4.0, 16.0)  # rates at which unseen gains are bounded, in units of epsilon(n)


def successes_needed(drawn: int, other: int, tests: int, alpha: float = 1 - CONFIDENCE) -> int | None:
    """Successes of one run, against none of the other, that are significant whatever the other problems show.

    Bonferroni over all tests: an a-priori figure. The lists of a finished study use Benjamini-Hochberg, which accepts
    fewer successes where many problems changed (`smallest_significant_count`).

    Args:
        drawn: samples of the run that has the successes.
        other: samples of the run that has none.
        tests: problems tested, times the runs after the first.
        alpha: the error over all of them.

    Returns:
        The number of successes; None where not even `drawn` of them are enough.

    Example:
        >>> successes_needed(256, 256, 30), successes_needed(256, 256, 500), successes_needed(4, 4, 30)
        (10, 14, None)
    """
    return smallest_significant_count(drawn, other, alpha / max(tests, 1))


def smallest_significant_count(drawn: int, other: int, level: float) -> int | None:
    """Successes of one run, against none of the other, whose one-sided Fisher p is at most a level.

    Args:
        drawn: samples of the run that has the successes.
        other: samples of the run that has none.
        level: of the p-value; that of a list is `list_level` of stats/significance.py.

    Returns:
        The smallest such number; None where none is.

    Example:
        >>> smallest_significant_count(256, 256, 0.05), smallest_significant_count(256, 64, 0.05)
        (5, 14)
    """
    hits = np.arange(1, drawn + 1)
    enough = np.flatnonzero(log_miss(drawn + other, other, hits) <= np.log(level * TIE_FACTOR))
    return int(hits[enough[0]]) if enough.size else None


def chance_of_detection(rate: Float, k: int, least: int) -> Float:
    """Chance that a problem of each rate shows the successes that make its loss, or its gain, significant.

    Args:
        rate: the rate of the run that has the successes.
        k: samples of each problem.
        least: successes that are significant (`successes_needed`).

    Returns:
        A chance for each rate.

    Example:
        >>> chance_of_detection(np.array([0.01, 0.1]), 256, 10).round(4)
        array([3.000e-04, 9.999e-01])
    """
    return binomial_at_least(least, k, rate)


def detectable_rate(k: int, least: int, power: float = POWER) -> float:
    """The smallest rate at which a problem shows `least` successes in k samples with the given chance.

    Args:
        k: samples of the problem.
        least: successes that are significant.
        power: the chance.

    Returns:
        The rate.

    Example:
        >>> round(detectable_rate(256, 10), 4)
        0.0486
    """
    low, high = 0.0, 1.0
    while high - low > 1e-12:  # the chance grows with the rate
        rate = (low + high) / 2
        low, high = (low, rate) if _chance_of_at_least(least, k, rate) >= power else (rate, high)
    return high


def _chance_of_at_least(least: int, k: int, rate: float) -> float:
    """P(Bin(k, rate) >= least) from the few terms below it: importing `scipy.special` would take longer."""
    return float(max(0.0, 1 - binomial_pmf(np.arange(least), k, rate).sum()))


@dataclass(frozen=True)
class GainsAtRate:
    """Problems that the run before did not reach, and that the run after solves with at least some rate."""

    rate: float  # of the run after
    chance_seen: float  # that a problem with this rate shows a success, in the fewest samples that a candidate has
    chance_significant: float | None  # that its gain alone is significant; None where none can be
    at_most: int  # how many candidates may have this rate or a higher one: upper 95% bound


@dataclass(frozen=True)
class GainPower:
    """What "no gains" is worth: how many problems could have been gained, and which gains would have been seen.

    Example:
        >>> gain_power(np.full((4, 2), 64), np.array([[True, True]] * 3 + [[False, False]]), 4).candidates
        1
    """

    problems: int
    candidates: int  # problems that the run before did not reach: no others can be gained
    gained: int  # of these, reached by the run after
    samples: int  # of the run after, per candidate; the fewest
    successes_needed: int | None  # for a single gain to be significant, whatever the other problems show
    detectable_rate: float | None  # at which a single gain is significant with a chance of 80%
    confidence: float  # of each `at_most`
    at: tuple[GainsAtRate, ...]  # by rate, ascending; one of them is epsilon of `samples`

    @property
    def at_epsilon(self) -> GainsAtRate | None:
        """The bound at epsilon, the rate that so many samples miss with a chance of 5%; None without candidates."""
        return next((bound for bound in self.at if np.isclose(bound.rate, epsilon(self.samples))), None)


def gain_power(
    available_P2: Integer, reached_P2: ArrayLike, tests: int, confidence: float = CONFIDENCE, counted: bool = True
) -> GainPower:
    """How many gains the samples leave room for, and how small a gain would have been significant.

    The estimand of `at_most` at rate r: the number of problems that the run before did not reach in its samples and
    that the run after solves with a chance of at least r per sample.

    Args:
        available_P2: samples of each problem in the run before and the run after; of a record that stopped, its budget.
        reached_P2: whether each run had a success.
        tests: problems tested, times the runs after the first.
        confidence: of each upper bound.
        counted: False where a run stopped early: its successes are then not counted to the end.

    Returns:
        The power.

    Example:
        >>> reached_P2 = np.array([[1, 1]] * 70 + [[0, 0]] * 30)
        >>> power = gain_power(np.full((100, 2), 1024), reached_P2, tests=100)
        >>> power.candidates, power.successes_needed, round(power.detectable_rate, 4)
        (30, 11, 0.0133)
        >>> [(round(bound.rate, 5), round(bound.chance_seen, 2), bound.at_most) for bound in power.at]
        [(0.00073, 0.53, 3), (0.00293, 0.95, 0), (0.0117, 1.0, 0), (0.04681, 1.0, 0)]
    """
    available_P2, reached_P2 = np.asarray(available_P2), np.asarray(reached_P2, dtype=bool)
    candidate_P = ~reached_P2[:, BEFORE]
    drawn_C = available_P2[candidate_P, AFTER]
    gained = int(reached_P2[candidate_P, AFTER].sum())
    samples = int(drawn_C.min(initial=available_P2[:, AFTER].max(initial=0)))
    other = int(available_P2[candidate_P, BEFORE].min(initial=available_P2[:, BEFORE].max(initial=0)))
    needed = successes_needed(samples, other, tests) if counted and samples else None
    at = []
    for step in RATE_STEPS if drawn_C.size and samples else ():
        rate = step * float(epsilon(samples))
        if rate < 1:
            significant = None if needed is None else _chance_of_at_least(needed, samples, rate)
            seen = float(-np.expm1(samples * np.log1p(-rate)))
            at.append(GainsAtRate(rate, seen, significant, max_candidates_with_rate(drawn_C, gained, rate, confidence)))
    detectable = None if needed is None else detectable_rate(samples, needed)
    return GainPower(
        len(available_P2), int(candidate_P.sum()), gained, samples, needed, detectable, confidence, tuple(at)
    )


def max_candidates_with_rate(drawn_C: ArrayLike, gained: int, rate: float, confidence: float = CONFIDENCE) -> int:
    """Upper bound on the candidates that have at least this rate, given how many of them were reached.

    A candidate with rate r or more is reached with a chance of at least 1 - (1-r)^n. If m candidates had it, those
    reached among them would be at least Poisson-binomial; the bound is the largest m whose chance of showing `gained`
    or fewer is above 1 - confidence. The m candidates with fewest samples are the least favourable ones. Exact: the
    candidates were chosen by the samples of the run before alone, which say nothing about the draws of the run after.

    Args:
        drawn_C: samples of the run after, per candidate.
        gained: how many of the candidates it reached.
        rate: the rate r.
        confidence: of the bound.

    Returns:
        The largest number of candidates that the data leave room for.

    Example:
        >>> max_candidates_with_rate([1024] * 30, 0, 0.001), max_candidates_with_rate([1024] * 30, 5, 0.001)
        (2, 13)
    """
    chance_C = -np.expm1(np.sort(np.asarray(drawn_C, dtype=np.float64)) * np.log1p(-rate))
    pmf_of_reached = np.zeros(gained + 1)  # of the number reached among the first m candidates, up to `gained`
    pmf_of_reached[0] = 1.0
    for m, chance in enumerate(chance_C):
        pmf_of_reached[1:] = pmf_of_reached[1:] * (1 - chance) + pmf_of_reached[:-1] * chance
        pmf_of_reached[0] *= 1 - chance
        # equality up to rounding excludes m: at epsilon the chance of a miss is 5% exactly
        if pmf_of_reached.sum() <= (1 - confidence) * TIE_FACTOR:
            return m
    return len(chance_C)
