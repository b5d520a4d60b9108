"""Did reach within k samples fall, and was anything gained that sharpening does not explain?

The reach of a run is the number of problems that k samples solve, in expectation: the sum of 1-(1-p)^k. These two tests
decide the headline of a comparison (comparing/headline.py); they are about these two models on these problems.
"""

from dataclasses import dataclass

import numpy as np

from offleash.data.tally import Tally
from offleash.stats.binomials import Float, Integer, binomial_pmf
from offleash.stats.chance import holm
from offleash.stats.pass_at_k import log_miss_stopped
from offleash.stats.significance import CONFIDENCE, TIE_FACTOR
from offleash.stats.support_classes import AFTER, BEFORE

Z = 1.96  # each side of 95%
UNSEEN = 2.0  # variance granted to gains too rare to be seen: with it, E = 0 requires 3 more losses than gains
STEPS = 80  # of the golden-section search: the interval shrinks to 2e-17
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class ReachChange:
    """The reach of two runs within k samples, in problems, and whether it fell or rose significantly."""

    k: int
    before: float
    after: float
    fell: bool
    rose: bool


def reach_change(pair: Tally, k: int, confidence: float = CONFIDENCE) -> ReachChange:
    """Whether the number of problems within reach of k samples differs between two runs, on these very problems.

    The variance of a problem's estimated reach is at most k/n a(1-a), a = 1-(1-p)^k (Hoeffding 1948, for U-statistics),
    and a(1-a) <= k p (1-p)^(k-1), the chance of exactly one success in k samples: so the number of problems solved
    exactly once estimates an upper bound of the variance without a model of the rates. Rises too rare to be seen at
    all add a little more, at most one problem for each that a run never solved.

    Args:
        pair: a tally of two runs, before and after, per problem.
        k: the budget.
        confidence: with which neither `fell` nor `rose` is wrong; half of the error goes to each.

    Returns:
        Both reaches, and whether the second is significantly lower or higher.

    Example:
        >>> pair = ol.tally_of_counts(64, [[40, 0]] * 5 + [[30, 50]] * 20 + [[0, 0]] * 5)
        >>> reach_change(pair, 64)
        ReachChange(k=64, before=25.0, after=20.0, fell=True, rose=False)
    """
    budget_PR = np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)
    miss_PR = _miss(pair, budget_PR, k)
    reach_R = (1 - miss_PR).sum(axis=0)
    single_hit_PR = k * (_miss(pair, budget_PR, k - 1) - miss_PR)
    # a record that ends at its first success shows no second one: those that ended in the second half of the budget
    # bound the same chance, since P(k/2 < N <= k) >= k/2 p (1-p)^(k-1)
    late_hit_PR = 2.0 * (pair.stopped_PR & (pair.drawn_PR > k / 2) & (pair.drawn_PR <= k))
    single_hit_PR = np.where(pair.until_R == 1, late_hit_PR, single_hit_PR)
    share_PR = np.where(pair.until_R > 0, 1.0, k / np.maximum(budget_PR, 1))
    variance = float((share_PR * single_hit_PR).sum())
    difference = float(reach_R[AFTER] - reach_R[BEFORE])
    unreached_R = (pair.correct_PR == 0).sum(axis=0)

    z = Z
    if confidence != CONFIDENCE:
        from statistics import NormalDist  # a hundredth of a second that a comparison of two runs can spare

        z = NormalDist().inv_cdf((1 + confidence) / 2)

    def limit(unseen: int) -> float:
        return float(min(z * np.sqrt(variance + UNSEEN), z * np.sqrt(variance) + unseen)) + 1e-9

    return ReachChange(
        k,
        float(reach_R[BEFORE]),
        float(reach_R[AFTER]),
        fell=bool(-difference > limit(int(unreached_R[BEFORE]))),
        rose=bool(difference > limit(int(unreached_R[AFTER]))),
    )


def _miss(pair: Tally, budget_PR: Integer, k: int) -> Float:
    """Unbiased (1-p)^k of every problem in both runs."""
    return np.exp(log_miss_stopped(pair.drawn_PR, pair.correct_PR, pair.stopped_PR, budget_PR, k))


def beyond_sharpening_p(pair: Tally, factor: float) -> Float:
    """p of each gained problem for the hypothesis that its rate after is at most `factor` times its rate before.

    Sharpening, p -> 1-(1-p)^m, multiplies no rate by more than m: what it explains is no expansion. The p-value is
    exact for the pair of counts: the largest chance, over all rates allowed, of no success before and as many after.

    Args:
        pair: a tally of two runs, before and after, per problem.
        factor: m; below 1 it counts as 1, infinite where sharpening explains anything.

    Returns:
        A p-value per problem: 1 for those that the run before solved or the run after did not.

    Example:
        >>> pair = ol.tally_of_counts(64, [[0, 3], [0, 60], [1, 60]])
        >>> beyond_sharpening_p(pair, 4.0).round(6)
        array([0.284991, 0.      , 1.      ])
    """
    gained_P = (pair.correct_PR[:, BEFORE] == 0) & (pair.correct_PR[:, AFTER] > 0)
    p_P = np.ones(len(pair))
    if not np.isfinite(factor) or not gained_P.any():
        return p_P
    factor = max(factor, 1.0)
    missed_G = pair.drawn_PR[gained_P, BEFORE]
    drawn_G, hits_G = pair.drawn_PR[gained_P, AFTER], pair.correct_PR[gained_P, AFTER]

    def log_chance(rate_G: Float) -> Float:
        # of a run that stopped on sample N at its m-th success, the event is "m or more of the first N"
        with np.errstate(divide="ignore"):
            return np.asarray(missed_G * np.log1p(-rate_G / factor) + np.log(_at_least(hits_G, drawn_G, rate_G)))

    # both terms are concave in the rate after, so their sum has one maximum
    low_G, high_G = np.zeros(len(missed_G)), np.ones(len(missed_G))
    for _ in range(STEPS):
        left_G, right_G = high_G - GOLDEN * (high_G - low_G), low_G + GOLDEN * (high_G - low_G)
        rising_G = log_chance(left_G) < log_chance(right_G)
        low_G, high_G = np.where(rising_G, left_G, low_G), np.where(rising_G, high_G, right_G)
    p_P[gained_P] = np.minimum(np.exp(log_chance((low_G + high_G) / 2)), 1.0)
    return p_P


def _at_least(hits_G: Integer, drawn_G: Integer, rate_G: Float) -> Float:
    """P(Bin(n, rate) >= hits) by its series: scipy's incomplete beta function costs half a second of import.

    The terms pmf(hits + j) are summed over 12 standard deviations; 7 or more above the hits the tail is 1.
    """
    term_J = np.arange(1, int(12 * np.sqrt(drawn_G.max()) + 60) + 1)
    inner_G = np.clip(rate_G, 1e-300, 1 - 1e-15)
    with np.errstate(over="ignore", invalid="ignore"):
        left_GJ = np.maximum(drawn_G[:, None] - hits_G[:, None] - term_J + 1, 0)
        ratio_GJ = left_GJ / (hits_G[:, None] + term_J) * (inner_G / (1 - inner_G))[:, None]
        sum_G = binomial_pmf(hits_G, drawn_G, inner_G) * (1 + np.cumprod(ratio_GJ, axis=1).sum(axis=1))
    mean_G = drawn_G * inner_G
    above_G = mean_G - hits_G > 7 * np.sqrt(mean_G * (1 - inner_G)) + 7
    return np.where(rate_G <= 0, 0.0, np.where(above_G | np.isnan(sum_G), 1.0, np.minimum(sum_G, 1.0)))


def gains_beyond_sharpening(pair: Tally, factor: float, alpha: float = 0.025) -> int:
    """Gained problems whose rate rose by more than sharpening explains, significant after Holm over all problems.

    Args:
        pair: a tally of two runs, before and after, per problem.
        factor: the largest factor by which sharpening may raise a rate.
        alpha: the chance that any of them is none.

    Returns:
        Their number.

    Example:
        >>> gains_beyond_sharpening(ol.tally_of_counts(64, [[0, 3], [0, 60], [1, 60]]), 4.0)
        1
    """
    return int((holm(beyond_sharpening_p(pair, factor)) <= alpha * TIE_FACTOR).sum())
