"""What chance alone would show: the exchange null, a redraw of the same model, McNemar, and multiple testing.

stats/significance.py builds on the adjusted p-values and exact tails in the second part. The chance region at the end
is drawn in the plane of problems (comparing/figures/plane.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.data.tally import Tally
from offleash.errors import OffleashError
from offleash.stats.binomials import (
    Float,
    Integer,
    half_binomial_at_most,
    hypergeometric_at_least,
    hypergeometric_at_most,
    log_miss,
)
from offleash.stats.intervals import (
    MIN_EFFECTIVE_PROBLEMS,
    NO_INTERVAL,
    REPLICATES,
    Interval,
    clipped,
    effective_size,
    percentile_intervals,
    replicate_sums,
    strata,
)
from offleash.stats.support_classes import AFTER, BEFORE, reach_PRK


@dataclass(frozen=True)
class ExchangeNull:
    """E and S if both runs had the same rate on every problem, given how often each problem was solved in all.

    A small p_S says that some rate fell, a small p_E that some rate rose, which sharpening alone does.
    """

    expected_E: float
    expected_S: float
    p_E: float
    p_S: float
    mid_p_E: float
    mid_p_S: float


@dataclass(frozen=True)
class Retest:
    """This pair against two draws of the run before: a net ratio and a net gain, 1 and 0 for the same model.

    Net, because both compare sums over problems: a rate that rose offsets a problem that was lost. As a measure of
    retention the ratio is too high wherever rates rose, and it can exceed 1; half of the problems may be gone at 1.
    """

    k: int
    net_ratio: float  # kept by the run after over kept by a redraw of the run before
    gain: float  # gained by the run after minus gained by a redraw of the run before
    observed_SRR: float  # of this pair at this k
    redraw_SRR: float  # that two draws of the run before would show at this k
    redraw: float  # E, and S, that two draws of the run before would show at this k
    net_ratio_interval: Interval
    gain_interval: Interval
    extrapolated: bool  # True: pass@2k is forecast (Good-Toulmin), since only k were drawn


def lost_by_exchange(
    drawn_P2: Integer, correct_P2: Integer, least: int | Integer = 1, most: int | Integer = 0
) -> Float:
    """Chance of each problem to be lost, P(S_i), when both runs have the same rate and its successes are exchangeable.

    Given C successes in all, those of the run before are Hypergeometric(n_b + n_r, C, n_b): the unknown rate cancels,
    so the null needs no estimate of it. For `seen` all C must fall to the run before: C(n_b, C)/C(n_b + n_r, C).

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.
        least: successes of the run before from which it reaches a problem; 1 for the rule `seen`.
        most: successes of the run after up to which it does not; 0 for `seen`. Both may differ by problem.

    Returns:
        The chance of each problem; 0 where it was never solved, since such a problem cannot be lost.

    Example:
        >>> lost_by_exchange(np.array([[8, 8], [8, 8]]), np.array([[3, 0], [0, 0]])).round(4)
        array([0.1, 0. ])
    """
    # Invariant: the total C of a problem is fixed, and only its division between the runs is random. Unequal numbers of
    # samples are exact as they stand: thinning would throw successes away.
    total_P, drawn_P = correct_P2.sum(axis=1), drawn_P2.sum(axis=1)
    if np.all(np.equal(least, 1)) and np.all(np.equal(most, 0)):
        return np.where(total_P >= 1, np.exp(log_miss(drawn_P, drawn_P2[:, AFTER], total_P)), 0.0)
    enough_P = np.maximum(least, total_P - most)
    return hypergeometric_at_least(enough_P, drawn_P, total_P, drawn_P2[:, BEFORE])


def exchange_null(
    drawn_P2: Integer, correct_P2: Integer, least: int | Integer = 1, most: int | Integer = 0
) -> ExchangeNull:
    """Exact Poisson-binomial tails of the numbers of E and S problems under exchange.

    A problem is in with at least `least` successes and out with at most `most`; `seen` is 1 and 0. The runs may have
    different numbers of samples: E and S are then those seen at each run's own n, and so are their expectations.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.
        least: successes from which a problem is reached: one number, or one per problem and run.
        most: successes up to which it is not reached, in the same form.

    Returns:
        Expected E and S of an unchanged model, and how surprising the observed ones are.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> null = exchange_null(drawn_P2, correct_P2)
        >>> round(null.expected_S, 4), round(null.p_S, 4)
        (0.5008, 0.0004)
    """
    least_P2, most_P2 = (
        np.broadcast_to(np.asarray(bound, dtype=np.int64), correct_P2.shape) for bound in (least, most)
    )
    lost_P = lost_by_exchange(drawn_P2, correct_P2, least_P2[:, BEFORE], most_P2[:, AFTER])
    gained_P = lost_by_exchange(drawn_P2[:, ::-1], correct_P2[:, ::-1], least_P2[:, AFTER], most_P2[:, BEFORE])
    inside, outside = correct_P2 >= least_P2, correct_P2 <= most_P2
    S = int((inside[:, BEFORE] & outside[:, AFTER]).sum())
    E = int((outside[:, BEFORE] & inside[:, AFTER]).sum())
    # problems are independent but have different chances: their number is Poisson-binomial, not binomial. It is
    # discrete, so p is conservative (size .016 to .038 at .05); mid-p is the less conservative reading.
    p_S, mid_p_S = upper_tail(lost_P, S)
    p_E, mid_p_E = upper_tail(gained_P, E)
    return ExchangeNull(float(gained_P.sum()), float(lost_P.sum()), p_E, p_S, mid_p_E, mid_p_S)


@dataclass(frozen=True)
class ExchangeAtK:
    """What an unchanged model would show at k samples of each run: the expectation that belongs to a table at k."""

    changed: float  # expected E, and expected S: with k samples of each run they are equal
    either: float  # problems that at least one of the runs would reach


def exchange_at_k(drawn_P2: Integer, correct_P2: Integer, k: int) -> ExchangeAtK:
    """Expected E and S of an unchanged model at k samples of each run, from all samples of both.

    Under exchange the samples of both runs are one pool of n_b + n_r with C correct. Of two sets of k drawn from it
    without replacement, the one misses and the other does not with chance miss(k) - miss(2k). At n_b = n_r = k this is
    the expectation of `exchange_null`.

    Args:
        drawn_P2: samples of each problem in the run before and the run after, at least k of each.
        correct_P2: correct ones among them.
        k: the budget of the table.

    Returns:
        Both expectations, summed over problems.

    Example:
        >>> expected = exchange_at_k(np.array([[8, 8], [8, 4]]), np.array([[3, 0], [1, 0]]), 4)
        >>> round(expected.changed, 4), round(expected.either, 4)
        (0.6262, 1.5667)
    """
    total_P, drawn_P = correct_P2.sum(axis=1), drawn_P2.sum(axis=1)
    miss_P, miss_both_P = (np.exp(log_miss(drawn_P, total_P, samples)) for samples in (k, 2 * k))
    return ExchangeAtK(float((miss_P - miss_both_P).sum()), float((1 - miss_both_P).sum()))


def mcnemar(E: int, S: int) -> float:
    """Exact two-sided McNemar test of the net change; E = S gives 1 however large both are.

    Args:
        E: problems that only the run after reached.
        S: problems that only the run before reached.

    Returns:
        The p-value: E is Binomial(E + S, 1/2) when neither run reaches more.

    Example:
        >>> round(mcnemar(2, 9), 6), mcnemar(100, 100)
        (0.06543, 1.0)
    """
    if E == S:
        return 1.0
    return min(2 * half_binomial_at_most(int(min(E, S)), int(E + S)), 1.0)  # the law of a fair coin is symmetric


def retest(pair: Tally, k: int, replicates: int = REPLICATES, seed: int = 0) -> Retest:
    """Two runs at budget `k` against two draws of the run before, with Good-Toulmin where 2k were not drawn.

    With a and b the chances of a problem to be reached before and after, a redraw keeps a^2 and gains a(1-a) of it in
    expectation. So the net ratio is sum ab / sum a^2 and the gain sum (1-a)(b-a): differences b - a of either sign
    offset each other in both.

    Args:
        pair: a tally of two runs, before and after.
        k: the budget; where 2k samples were drawn, pass@2k is exact.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The net ratio and gain with their intervals, beside the SRR of this pair and of a redraw. No interval of the
        ratio where fewer than MIN_EFFECTIVE_PROBLEMS problems, by how much they weigh, would be reached twice.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [6, 8], [1, 2]])
        >>> twice = retest(pair, k=4, replicates=200)
        >>> round(twice.observed_SRR, 3), round(twice.redraw_SRR, 3), round(twice.net_ratio, 3)
        (0.649, 0.777, 0.835)
    """
    available_P = np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)[:, BEFORE]
    extrapolated = bool((available_P < 2 * k).any())
    reach_PR = reach_PRK(pair, np.array([k]))[:, :, 0]
    before_P, after_P = reach_PR[:, BEFORE], reach_PR[:, AFTER]
    if extrapolated:
        if (pair.drawn_PR[:, BEFORE] != k).any() or pair.stopped_PR[:, BEFORE].any():
            raise OffleashError(
                f"A redraw at k={k} needs {2 * k} samples per problem, or exactly {k} without early stopping. "
                f"Use k={int(available_P.min()) // 2}."
            )
        new_P = _next_draw(pair.correct_PR[:, BEFORE])
    else:
        new_P = reach_PRK(pair, np.array([2 * k]))[:, BEFORE, 0] - before_P
    row_P = np.unique(pair.problem_P, return_inverse=True)[1]
    first_P = np.unique(pair.problem_P, return_index=True)[1]
    # kept by the run after; reached again by a redraw, 2 a_k - a_2k; gained beyond what a redraw gains
    columns = [before_P * after_P, before_P - new_P, (1 - before_P) * after_P - new_P]
    value_P3: Float = np.stack([np.bincount(row_P, weights=column) for column in columns], axis=1).astype(np.float64)
    # (kept, kept twice, gain): a loss, a keep, and half a keep that a redraw would not show: the ratio can exceed 1
    pseudo_43 = np.array([[0.0, 1, 1], [1, 1, -1], [0.5, 0, 0], [0, 0, 0]])
    sums_B3 = replicate_sums(value_P3, pseudo_43, strata(pair.benchmark_P[first_P]), replicates, seed)
    kept, kept_by_redraw, gain = value_P3.sum(axis=0)
    least = 1e-9 * max(
        float(before_P.sum()), 1.0
    )  # 2 a_k - a_2k is 0 where no problem was reached twice, but for rounding
    kept_by_redraw = kept_by_redraw if kept_by_redraw > least else 0.0
    estimate_2 = np.array([kept / kept_by_redraw if kept_by_redraw > 0 else np.nan, gain])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_B = np.where(sums_B3[:, 1] > least, sums_B3[:, 0] / sums_B3[:, 1], np.nan)
    ratio_range, gain_range = percentile_intervals(np.stack([ratio_B, sums_B3[:, 2]], axis=1), estimate_2)
    if float(effective_size(np.maximum(value_P3[:, 1], 0.0))) < MIN_EFFECTIVE_PROBLEMS:
        ratio_range = NO_INTERVAL
    # (1-a)(b-a) is at least -1/4 and at most 1 for every target; pseudo-problems would let an interval pass these ends
    gain_range = clipped(gain_range, min(-len(pair) / 4, float(gain)), float(len(pair)))
    seen = float(before_P.sum())
    observed, redraw_share = (
        (float(kept) / seen, float(kept_by_redraw) / seen) if seen > 0 else (float("nan"), float("nan"))
    )
    expected_redraw = float(new_P.sum())
    return Retest(
        k,
        float(estimate_2[0]),
        float(gain),
        observed,
        redraw_share,
        expected_redraw,
        ratio_range,
        gain_range,
        extrapolated,
    )


def _next_draw(correct_P: Integer) -> Float:
    """What each problem adds to the smoothed Good-Toulmin estimate of what as many samples again would reach."""
    from offleash.stats.forecast import SMOOTHING, good_toulmin_weights

    weight_J = np.append(0.0, good_toulmin_weights(SMOOTHING))
    return np.where(correct_P <= SMOOTHING, weight_J[np.minimum(correct_P, SMOOTHING)], 0.0)


# Multiple testing: adjusted p-values, and the exact distribution of a count of unequal coin flips.


Floats = NDArray[np.float64]


class Tail(NamedTuple):
    """How surprising a count is: `P(X >= observed)`, and the mid-p that gives half of `P(X = observed)`.

    Example:
        >>> upper_tail([0.5, 0.5], 2).mid_p
        0.125
    """

    p: float
    mid_p: float


def holm(p_P: ArrayLike) -> Floats:
    """Adjusted p-values that control the chance of any false alarm (Holm 1979).

    Args:
        p_P: p-values.

    Returns:
        The adjusted p-values, in the order of `p_P`.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = _probabilities(p_P)
    order = np.argsort(p, kind="stable")
    monotone = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return _in_original_order(np.minimum(monotone, 1.0), order)


def benjamini_hochberg(p_P: ArrayLike) -> Floats:
    """Adjusted p-values that control the share of false alarms among the alarms (Benjamini & Hochberg 1995).

    Args:
        p_P: p-values.

    Returns:
        The adjusted p-values, in the order of `p_P`.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(6)
        array([0.03, 0.04, 0.04])
    """
    p = _probabilities(p_P)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    monotone = np.minimum.accumulate(scaled[::-1])[::-1]
    return _in_original_order(np.minimum(monotone, 1.0), order)


def poisson_binomial_pmf(p_P: ArrayLike) -> Floats:
    """Exact law of the number of successes among independent trials with chances `p_P`; entry j is P(X = j).

    Only sums and products of non-negative numbers, so every entry keeps its relative accuracy far into the tails,
    where a Fourier transform would leave round-off of 1e-16.

    Args:
        p_P: the chance of success of each trial.

    Returns:
        P + 1 chances, of 0 to P successes.

    Example:
        >>> poisson_binomial_pmf([0.5, 0.5, 0.1]).round(4)
        array([0.225, 0.475, 0.275, 0.025])
    """
    p = _probabilities(p_P)
    if p.size == 0:
        return np.ones(1)
    return _convolve_all([np.array([1.0 - x, x]) for x in p])


def upper_tail(p_P: ArrayLike, observed: int) -> Tail:
    """Chance of at least `observed` successes among independent trials with chances `p_P`, and its mid-p.

    Args:
        p_P: the chance of success of each trial.
        observed: the number of successes.

    Returns:
        The tail and its mid-p.

    Example:
        >>> upper_tail([0.5, 0.5], 1)
        Tail(p=0.75, mid_p=0.5)
    """
    pmf = poisson_binomial_pmf(p_P)
    if observed <= 0:
        probability_of_observed = float(pmf[0]) if observed == 0 else 0.0
        return Tail(1.0, 1.0 - probability_of_observed / 2)
    if observed >= pmf.size:
        return Tail(0.0, 0.0)
    above, probability_of_observed = float(pmf[observed + 1 :].sum()), float(pmf[observed])
    return Tail(min(above + probability_of_observed, 1.0), min(above + probability_of_observed / 2, 1.0))


def _probabilities(p_P: ArrayLike) -> Floats:
    p = np.atleast_1d(np.asarray(p_P, dtype=np.float64))
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"expected a vector of numbers in [0, 1] without NaN, got shape {p.shape}: {p}")
    return p


def _in_original_order(sorted_P: Floats, order: NDArray[np.intp]) -> Floats:
    unsorted_P = np.empty_like(sorted_P)
    unsorted_P[order] = sorted_P
    return unsorted_P


def _convolve_all(pmfs: Sequence[Floats]) -> Floats:
    # pairing neighbours keeps both sides of each convolution of equal length: P^2 multiplications in all
    while len(pmfs) > 1:
        convolved_pairs = [np.convolve(a, b) for a, b in zip(pmfs[::2], pmfs[1::2], strict=False)]
        pmfs = convolved_pairs if len(pmfs) % 2 == 0 else [*convolved_pairs, pmfs[-1]]
    return pmfs[0]


# The chance region: pairs of success counts that a test of equal rates does not reject.


LEVEL = 0.05


def chance_region(drawn: tuple[int, int], correct_C: ArrayLike, level: float = LEVEL) -> tuple[Integer, Integer]:
    """For each number of successes before, the fewest and the most successes after that could be chance.

    Fisher's exact test, twice the smaller tail, at the given level; `drawn` samples before and after.

    Args:
        drawn: samples before and after.
        correct_C: numbers of successes before.
        level: of the two-sided test.

    Returns:
        The fewest and the most successes after, for each number before.

    Example:
        >>> low_C, high_C = chance_region((16, 16), [0, 8, 16])
        >>> low_C, high_C
        (array([ 0,  2, 12]), array([ 4, 14, 16]))
    """
    before, after = drawn
    correct_C = np.asarray(correct_C, dtype=np.int64)

    def p_at_most(candidate_C: Integer) -> Float:
        return hypergeometric_at_most(candidate_C, before + after, correct_C + candidate_C, after)

    def p_at_least(candidate_C: Integer) -> Float:
        return hypergeometric_at_least(candidate_C, before + after, correct_C + candidate_C, after)

    low_C = _first(lambda candidate_C: p_at_most(candidate_C) > level / 2, correct_C, after)
    high_C = _first(lambda candidate_C: p_at_least(candidate_C) <= level / 2, correct_C, after) - 1
    return low_C, high_C


def _first(condition: Callable[[Integer], NDArray[np.bool_]], correct_C: Integer, most: int) -> Integer:
    """The least number from 0 to `most` from which on a condition holds, most + 1 where none does; by halving.

    Both tails move one way as the successes after grow, whatever their total then is.
    """
    low_C, high_C = np.zeros_like(correct_C), np.full_like(correct_C, most + 1)
    while (low_C < high_C).any():
        midpoint_C = np.minimum((low_C + high_C) // 2, most)
        satisfied_C = condition(midpoint_C)
        undecided_C = low_C < high_C
        high_C = np.where(undecided_C & satisfied_C, midpoint_C, high_C)
        low_C = np.where(undecided_C & ~satisfied_C, midpoint_C + 1, low_C)
    return low_C
