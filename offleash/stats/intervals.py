"""Confidence intervals over problems: Bayesian bootstrap with pseudo-problems, bands, and few problems.

Pseudo-problems keep an observed 0 or 1 from having an interval of no width. Replicates are matrix products in blocks;
the same seed gives the same weights, so statistics of the same problems are paired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import Float, Integer

REPLICATES = 10_000
LEVEL = 0.95
_BLOCK_BYTES = 64 << 20  # of weights held at a time: 838 problems at 10,000 replicates
_LARGE_STRATUM = 100  # problems in a stratum from which Exp(1) weights serve
MIN_SHAPE = 0.25  # 1 - 2/n is 0 or less for n <= 2; below a quarter one weight takes all in most replicates
_SMALL_STRATUM = 5  # problems below which a stratum cannot show its own spread


@dataclass(frozen=True)
class Interval:
    """A confidence interval; both ends are NaN where there is none.

    Example:
        >>> Interval(0.25, np.nan).to_json()
        [0.25, None]
    """

    low: float
    high: float

    def to_json(self) -> list[float | None]:
        """The ends as JSON has them: null where there is none."""
        return [None if np.isnan(end) else float(end) for end in (self.low, self.high)]


def replicate_sums(
    value_PQ: Float, pseudo_XQ: Float, stratum_P: Integer, replicates: int = REPLICATES, seed: int = 0
) -> Float:
    """Weighted sums of Q columns over the problems and X pseudo-problems in each of B replicates.

    Args:
        value_PQ: Q columns of P problems.
        pseudo_XQ: the same columns of X pseudo-problems.
        stratum_P: the stratum (benchmark) of each problem, as codes.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The sums, B x Q.

    Example:
        >>> value_PQ = np.array([[1.0], [0.0], [1.0], [1.0], [0.0], [1.0]])
        >>> stratum_P = np.zeros(6, dtype=np.int64)
        >>> round(float(replicate_sums(value_PQ, REACHED_OR_NOT[:, :1], stratum_P, replicates=1000).mean()), 1)
        4.5
    """
    sums_BQ = problem_sums(value_PQ, stratum_P, replicates, seed)
    return np.asarray(sums_BQ + pseudo_weights(len(pseudo_XQ), len(value_PQ), replicates, seed) @ pseudo_XQ)


def problem_sums(value_PQ: Float, stratum_P: Integer, replicates: int = REPLICATES, seed: int = 0) -> Float:
    """Weighted sums of Q columns over the problems in each of B replicates: the Bayesian bootstrap (Rubin 1981).

    Weights are Gamma(1 - 2/n), scaled so that every stratum keeps its size n: then the variance of a mean is the
    unbiased one. With Exp(1), the textbook's choice, it is short by (n-1)/(n+1), which matters in small strata; from a
    hundred problems on the two are the same for all purposes, and Exp(1) is cheaper.
    The same seed gives the same weights, so that statistics of the same problems are paired.

    Args:
        value_PQ: Q columns of P problems.
        stratum_P: the stratum (benchmark) of each problem, as codes.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The sums, B x Q.

    Example:
        >>> value_PQ = np.array([[1.0], [0.0], [1.0], [1.0], [0.0], [1.0]])
        >>> stratum_P = np.zeros(6, dtype=np.int64)
        >>> sums_BQ = problem_sums(value_PQ, stratum_P, replicates=1000)
        >>> sums_BQ.shape, round(float(sums_BQ.mean()), 1)
        ((1000, 1), 4.0)
    """
    problems, columns = value_PQ.shape
    pooled = _pool_small_strata(stratum_P).tobytes()
    sums_BQ = np.empty((replicates, columns))
    if replicates * problems * 8 <= _BLOCK_BYTES:
        np.matmul(_all_weights(problems, pooled, replicates, seed), value_PQ, out=sums_BQ)
        return sums_BQ
    start = 0
    for weight_BP in _weight_blocks(problems, pooled, replicates, seed):
        np.matmul(weight_BP, value_PQ, out=sums_BQ[start : start + len(weight_BP)])
        start += len(weight_BP)
    return sums_BQ


def _weight_blocks(problems: int, pooled: bytes, replicates: int, seed: int) -> Iterator[Float]:
    """The weights of all replicates, in blocks of bounded memory: one stream of numbers, wherever it is cut."""
    pooled_P = np.frombuffer(pooled, dtype=np.int64)
    rng = np.random.default_rng([seed, problems])
    strata = int(pooled_P.max(initial=-1)) + 1
    member_PS = np.zeros((problems, strata))
    member_PS[np.arange(problems), pooled_P] = 1.0
    size_S = member_PS.sum(axis=0)
    shape_P = np.maximum(1 - 2 / size_S, MIN_SHAPE)[pooled_P]
    all_large = size_S.min(initial=_LARGE_STRATUM) >= _LARGE_STRATUM
    block = max(1, _BLOCK_BYTES // (8 * max(problems, 1)))
    for start in range(0, replicates, block):
        shape = (min(start + block, replicates) - start, problems)
        weight_BP = rng.standard_exponential(shape) if all_large else rng.standard_gamma(shape_P, shape)
        scale_BS = size_S / np.maximum(weight_BP @ member_PS, 1e-300)
        weight_BP *= scale_BS if strata == 1 else scale_BS[:, pooled_P]
        yield weight_BP


@lru_cache(maxsize=1)  # a comparison resamples the same problems for its table, retest, guessing and diversity
def _all_weights(problems: int, pooled: bytes, replicates: int, seed: int) -> Float:
    blocks = list(_weight_blocks(problems, pooled, replicates, seed))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks) if blocks else np.empty((0, problems))


def gamma_shape(problems: int) -> float:
    """The shape of the weights of so many problems.

    Args:
        problems: how many are resampled.

    Returns:
        The shape; 1 is the exponential distribution.

    Example:
        >>> gamma_shape(10), gamma_shape(500)
        (0.8, 1.0)
    """
    return 1.0 if problems >= _LARGE_STRATUM else max(1 - 2 / problems, MIN_SHAPE)


def pseudo_weights(
    pseudo: int, problems: int, replicates: int = REPLICATES, seed: int = 0, stream: int | None = None
) -> Float:
    """Gamma(1/2) weights of pseudo-problems, one per cell of the table; without them an observed zero has no width.

    Args:
        pseudo: pseudo-problems.
        problems: problems beside them; part of the seed, so that other problems get other weights.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.
        stream: another number gives other weights of the same seed.

    Returns:
        The weights, B x X.

    Example:
        >>> pseudo_weights(4, 100, replicates=2).shape
        (2, 4)
    """
    state = [seed, problems, pseudo] if stream is None else [seed, problems, pseudo, stream]
    return np.random.default_rng(state).standard_gamma(0.5, (replicates, pseudo))


def percentile_intervals(replicate_BQ: Float, estimate_Q: Float, level: float = LEVEL) -> list[Interval]:
    """Percentile interval of every column, widened to hold its estimate; NaN replicates (0/0) are left out.

    Holding the estimate puts the lower end of NDR at 0 when E = 0 and the upper end of SRR at 1 when S = 0.

    Args:
        replicate_BQ: Q statistics in B replicates.
        estimate_Q: their estimates.
        level: of the intervals.

    Returns:
        One Interval per column; NaN ends where the estimate is NaN.

    Example:
        >>> interval = percentile_intervals(np.arange(1001.0)[:, None], np.array([500.0]))[0]
        >>> round(interval.low, 6), round(interval.high, 6)
        (25.0, 975.0)
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends_2Q = np.full((2, replicate_BQ.shape[1]), np.nan)
    usable_Q = ~np.isnan(replicate_BQ).all(axis=0)
    with np.errstate(invalid="ignore"):
        has_nan_Q = np.isnan(replicate_BQ).any(axis=0)
        complete_Q = usable_Q & ~has_nan_Q
        ends_2Q[:, complete_Q] = np.quantile(replicate_BQ[:, complete_Q], tails, axis=0)
        incomplete_Q = usable_Q & has_nan_Q
        if incomplete_Q.any():
            ends_2Q[:, incomplete_Q] = np.nanquantile(replicate_BQ[:, incomplete_Q], tails, axis=0)
    low_Q, high_Q = np.fmin(ends_2Q[0], estimate_Q), np.fmax(ends_2Q[1], estimate_Q)
    unknown_Q = np.isnan(estimate_Q)
    return [
        Interval(np.nan, np.nan) if is_unknown else Interval(float(low), float(high))
        for low, high, is_unknown in zip(low_Q, high_Q, unknown_Q, strict=True)
    ]


def simultaneous_band(
    replicate_BK: Float, estimate_K: Float, bounds: tuple[float, float], level: float = LEVEL
) -> tuple[Float, Float]:
    """Ends of a band that holds the whole curve at once with the given confidence (max-t), clipped to its range.

    Pointwise intervals hold together only three times in four.

    Args:
        replicate_BK: the curve in B replicates.
        estimate_K: the curve.
        bounds: the least and the largest value it can have.
        level: of the band.

    Returns:
        Lower and upper ends, K each.

    Example:
        >>> replicate_BK = np.random.default_rng(0).normal(0.5, 0.1, (1000, 3))
        >>> low_K, high_K = simultaneous_band(replicate_BK, np.full(3, 0.5), (0.0, 1.0))
        >>> bool((low_K < 0.3).all()), bool((high_K > 0.7).all())
        (True, True)
    """
    center_K, spread_K = replicate_BK.mean(axis=0), replicate_BK.std(axis=0)
    varying_K = spread_K > 0
    if not varying_K.any():
        return estimate_K.copy(), estimate_K.copy()
    deviation_B = (np.abs(replicate_BK - center_K)[:, varying_K] / spread_K[varying_K]).max(axis=1)
    half_width_K = np.quantile(deviation_B, level) * spread_K
    low_K = np.clip(np.minimum(center_K - half_width_K, estimate_K), *bounds)
    high_K = np.clip(np.maximum(center_K + half_width_K, estimate_K), *bounds)
    return low_K, high_K


def _pool_small_strata(stratum_P: Integer) -> Integer:
    """Strata of fewer than five problems joined into one, and that one, if still small, with the smallest other."""
    size_S = np.bincount(stratum_P)
    small = size_S < _SMALL_STRATUM
    if not small.any():
        return stratum_P
    small_strata = np.flatnonzero(small)
    if size_S[small_strata].sum() < _SMALL_STRATUM and not small.all():
        large_strata = np.flatnonzero(~small)
        small_strata = np.append(small_strata, large_strata[np.argmin(size_S[large_strata])])
    merged_S = np.arange(size_S.size)
    merged_S[small_strata] = small_strata[0]
    return np.unique(merged_S[stratum_P], return_inverse=True)[1].astype(np.int64)


def strata(label_P: NDArray[np.str_] | Sequence[str]) -> Integer:
    """Codes 0, 1, ... of the labels (benchmarks).

    Args:
        label_P: a label per problem.

    Returns:
        Codes in the order of the sorted labels.

    Example:
        >>> strata(['b', 'a', 'b'])
        array([1, 0, 1])
    """
    return np.unique(np.asarray(label_P), return_inverse=True)[1].astype(np.int64)


def wilson(successes: float, total: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a bare proportion, where the problems behind it are not known.

    Args:
        successes: how many.
        total: of how many.
        level: of the interval.

    Returns:
        The interval; NaN ends where the total is 0.

    Example:
        >>> interval = wilson(8, 10)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.4902, 0.9433)
    """
    from scipy.special import ndtri

    if total <= 0:
        return Interval(np.nan, np.nan)
    z2 = float(ndtri((1 + level) / 2)) ** 2
    share = successes / total
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = np.sqrt(z2 * (share * (1 - share) / total + z2 / (4 * total**2))) / (1 + z2 / total)
    return Interval(float(min(center - half, share)), float(max(center + half, share)))


# Means, shares and ratios over few problems: no interval below MIN_EFFECTIVE_PROBLEMS of them, a wider one just above.


REACHED_OR_NOT = np.array([[1.0, 1.0], [0.0, 1.0]])  # pseudo-problems: without them a share of 0 or 1 has no width


@dataclass(frozen=True)
class Estimate:
    """A mean over problems and its 95% interval, for which problems are resampled."""

    value: float
    interval: Interval


def share_of(value_P: Float, stratum_P: Integer) -> Estimate:
    """A share of problems, with the two pseudo-problems that keep its interval from having no width.

    Args:
        value_P: 1 or 0 per problem.
        stratum_P: the stratum (benchmark) of each problem, as codes.

    Returns:
        The share and its 95% interval.

    Example:
        >>> share = share_of(np.array([1.0, 1.0, 0.0, 1.0]), np.zeros(4, dtype=np.int64))
        >>> share.value, share.interval.high < 1
        (0.75, True)
    """
    columns_P2 = np.stack([value_P, np.ones_like(value_P)], axis=1)
    sums_B2 = replicate_sums(columns_P2, REACHED_OR_NOT, stratum_P)
    mean = float(value_P.mean())
    return Estimate(mean, percentile_intervals((sums_B2[:, 0] / sums_B2[:, 1])[:, None], np.array([mean]))[0])


def mean_of(value_P: Float, stratum_P: Integer, least: float = 0.0) -> Estimate:
    """A mean over the problems where the value, at least `least`, is known; no interval where they are few.

    Args:
        value_P: a value per problem; NaN: not known.
        stratum_P: the stratum (benchmark) of each problem, as codes.
        least: the smallest value that is possible.

    Returns:
        The mean and its 95% interval, NaN where fewer than MIN_EFFECTIVE_PROBLEMS problems are known.

    Example:
        >>> mean_of(np.array([1.0, 3.0, np.nan]), np.zeros(3, dtype=np.int64)).value
        2.0
    """
    known_P = ~np.isnan(value_P)
    value_Q, ends = ratios(value_P[:, None], known_P[:, None].astype(np.float64), stratum_P)
    return Estimate(float(value_Q[0]), clipped(ends[0], least))


MIN_EFFECTIVE_PROBLEMS = 8  # problems below which a measure without edges cannot show its own spread
NO_INTERVAL = Interval(np.nan, np.nan)


def clipped(ends: Interval, least: float = -np.inf, most: float = np.inf) -> Interval:
    """An interval cut off where its measure ends; one that is not known stays so.

    Args:
        ends: an interval.
        least: the smallest value that is possible.
        most: the largest.

    Returns:
        The interval within them.

    Example:
        >>> clipped(Interval(-0.2, 0.5), 0.0, 1.0)
        Interval(low=0.0, high=0.5)
    """
    return Interval(*(float(np.clip(end, least, most)) for end in (ends.low, ends.high)))


def effective_size(weight_P: ArrayLike) -> Float:
    """How many equally weighing problems would show as much of the spread of a weighted mean (Satterthwaite 1946).

    Along the first axis; 0 where nothing weighs.

    Args:
        weight_P: a weight per problem, along the first axis.

    Returns:
        A number of problems that weigh the same.

    Example:
        >>> float(effective_size(np.array([1.0, 1.0, 1.0, 0.0])))
        3.0
    """
    square_P = np.asarray(weight_P, dtype=np.float64) ** 2
    above, below = square_P.sum(axis=0) ** 2, (square_P**2).sum(axis=0)
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


NORMAL_QUANTILE = 1.959963984540054  # of (1 + LEVEL)/2
MANY_DEGREES = 30  # of freedom, from which the expansion is good to 2e-6


def _student_quantile(freedom_Q: Float) -> Float:
    """The quantile (1 + LEVEL)/2 of Student's t: Fisher's expansion where freedom is large, else scipy.

    Importing scipy takes longer than comparing two files of counts, whose benchmarks are seldom small.
    """
    if freedom_Q.size and freedom_Q.min() >= MANY_DEGREES:
        z, inverse_Q = NORMAL_QUANTILE, 1 / freedom_Q
        first_Q = (z**3 + z) / 4 * inverse_Q
        second_Q = (5 * z**5 + 16 * z**3 + 3 * z) / 96 * inverse_Q**2
        third_Q = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 * inverse_Q**3
        return np.asarray(z + first_Q + second_Q + third_Q)
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom_Q, (1 + LEVEL) / 2))


def student(
    ends: Sequence[Interval],
    value_Q: Float,
    value_BQ: Float,
    problems: ArrayLike,
    resampled_problems: int | None = None,
) -> list[Interval]:
    """Percentile intervals of few problems made wider about their values, by Student's t over the normal quantile.

    The bootstrap has the spread of a mean right on average, and makes no allowance for how little a few problems show
    of it. Where few problems differ at all, all of them one way by chance, a percentile cannot pass 0: no end is nearer
    than t standard deviations of the replicates. `problems` are those that have a part in each of the Q values; where
    they were resampled `among` more of them, weights that are right for all are too even for these.

    Args:
        ends: percentile intervals of Q values.
        value_Q: the values.
        value_BQ: the values in the replicates.
        problems: how many have a part in each value.
        resampled_problems: how many were resampled; default: the same.

    Returns:
        Wider intervals about the same values.

    Example:
        >>> value_BQ = np.random.default_rng(0).normal(0.0, 1.0, (4000, 1))
        >>> wide = student([Interval(-1.96, 1.96)], np.array([0.0]), value_BQ, problems=5)[0]
        >>> round(wide.low, 1), round(wide.high, 1)
        (-2.8, 2.8)
    """
    n_Q = np.broadcast_to(np.maximum(np.asarray(problems, dtype=np.float64), 2.0), value_Q.shape)
    correction_Q = (
        1.0 if resampled_problems is None else np.sqrt((n_Q * gamma_shape(resampled_problems) + 1) / (n_Q - 1))
    )
    t_factor_Q = _student_quantile(n_Q - 1) * correction_Q
    factor_Q = t_factor_Q / NORMAL_QUANTILE
    known_BQ = np.isfinite(value_BQ)
    count_Q = np.maximum(known_BQ.sum(axis=0), 1)
    mean_Q = np.where(known_BQ, value_BQ, 0.0).sum(axis=0) / count_Q
    square_BQ = np.where(known_BQ, value_BQ - mean_Q, 0.0) ** 2
    least_Q = t_factor_Q * np.sqrt(square_BQ.sum(axis=0) / count_Q)
    return [
        Interval(
            float(value - np.maximum(factor * (value - interval.low), least)),
            float(value + np.maximum(factor * (interval.high - value), least)),
        )
        for interval, value, factor, least in zip(ends, value_Q, factor_Q, least_Q, strict=True)
    ]


def ratios(
    numerator_PQ: Float, denominator_PQ: Float, stratum_P: Integer, replicates: int = REPLICATES, seed: int = 0
) -> tuple[Float, list[Interval]]:
    """Q ratios of sums over problems, each with its interval over problems; all of them paired.

    No interval where fewer than MIN_EFFECTIVE_PROBLEMS problems, counted by how much they weigh, have a part in a
    ratio: they do not show how others differ. Of somewhat more it is as wide as their number asks for (Student's t).

    Args:
        numerator_PQ: of P problems; NaN: not known.
        denominator_PQ: of P problems.
        stratum_P: the stratum (benchmark) of each problem, as codes.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The ratios of the sums, NaN for 0/0, and their 95% intervals.

    Example:
        >>> estimate_Q, ends = ratios(np.arange(10.0)[:, None], np.ones((10, 1)), np.zeros(10, dtype=np.int64))
        >>> estimate_Q, ends[0].low < 4.5 < ends[0].high
        (array([4.5]), True)
    """
    known_PQ = np.isfinite(numerator_PQ) & (denominator_PQ > 0)
    top_PQ, weight_PQ = np.where(known_PQ, numerator_PQ, 0.0), np.where(known_PQ, denominator_PQ, 0.0)
    total_Q, effective_Q = weight_PQ.sum(axis=0), effective_size(weight_PQ)
    estimate_Q = np.divide(top_PQ.sum(axis=0), total_Q, out=np.full(len(total_Q), np.nan), where=total_Q > 0)
    if not len(numerator_PQ):
        return estimate_Q, [NO_INTERVAL] * len(estimate_Q)
    columns = np.concatenate([top_PQ, weight_PQ], axis=1)
    sums_BQ = problem_sums(columns, stratum_P, replicates, seed)
    numerator_BQ, denominator_BQ = np.split(sums_BQ, 2, axis=1)
    ratio_BQ = np.divide(numerator_BQ, denominator_BQ, out=np.full_like(numerator_BQ, np.nan), where=denominator_BQ > 0)
    percentile_ends = percentile_intervals(ratio_BQ, estimate_Q)
    student_ends = student(percentile_ends, estimate_Q, ratio_BQ, effective_Q, resampled_problems=len(numerator_PQ))
    return estimate_Q, [
        interval if problems_effective >= MIN_EFFECTIVE_PROBLEMS else NO_INTERVAL
        for interval, problems_effective in zip(student_ends, effective_Q, strict=True)
    ]
