"""How many more problems a larger budget would reach: smoothed Good-Toulmin at 2n, a range up to 8n.

A problem that was reached stays reached; of the others, how many have a rate too small to be seen in n samples and how
many have a rate of 0 is not identified. The range therefore follows every distribution of rates that the likelihood of
the counts does not rule out (stats/mixture.py), whatever its shape, and adds the noise of drawing.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import log_miss
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 8  # length of the binomial that damps the alternating series
MAX_EXTRAPOLATION = 8  # times n; beyond, the range holds almost everything
MIN_SAMPLES = 4  # samples per problem below which counts hardly tell rates apart
MAX_SEPARATE_COUNT = (
    16  # correct samples beyond which a count says nothing about the problems that larger budgets newly reach
)
MAX_SIZES = 8  # different numbers of samples that are kept apart; more are rounded to steps of SIZE_STEP
SIZE_STEP = 1.1  # a rate is then off by a twentieth at most, less than the distance of two rates on the grid
LOG_LIKELIHOOD_DROP = 3.0  # -log(.05): where no problem is reached, the upper end is then that of the rule of three
# Standard deviations of drawing noise on top of that. How many problems were reached by luck is a Poisson variable:
# with 2.33 the lower end allows for 2.33^2/4 = 1.36 of them, which holds in 95% for any mean, as 1.96 would not
Z_LOW, Z_HIGH = 2.33, 1.96
MAX_VARIANCE = 0.25  # of being reached or not


@dataclass(frozen=True)
class Forecast:
    """Coverage (share of these problems reached) at each budget as a range, with what it rests on.

    Up to n both ends are the unbiased pass@k, from n to 8n the range; NaN beyond, and where `reason` says why there is
    none. `newly_at_2n` is the smoothed Good-Toulmin count of problems that doubling n would newly reach.
    """

    n: int
    problems: int
    observed: float
    budgets_K: Ints
    low_K: Floats
    high_K: Floats
    newly_at_2n: float
    notes: tuple[str, ...]
    reason: str | None = None


def good_toulmin(frequencies_J: ArrayLike, factor: float = 2.0) -> float:
    """Expected number of problems newly reached when n grows to `factor` n: sum_j -(-t)^j P(Bin(8, 1/(1+t)) >= j) f_j.

    t = factor - 1; `frequencies_J[j-1]` is f_j, the problems with j correct samples; at factor 2 the smoothing is
    Bin(8, 1/2) (Good & Toulmin 1956; Efron & Thisted 1976). NaN outside 1 <= factor <= 2, where the series is unstable.

    Args:
        frequencies_J: problems with 1, 2, 3, ... correct samples.
        factor: by which n grows, 1 to 2.

    Returns:
        The expected number; NaN outside 1 <= factor <= 2.

    Example:
        >>> round(good_toulmin([5, 3, 1]), 4)
        2.9414
    """
    t = factor - 1.0
    if not 0.0 <= t <= 1.0:
        return float("nan")
    f_J = np.asarray(frequencies_J, dtype=np.float64)[:SMOOTHING]
    return float(good_toulmin_weights(f_J.size, t) @ f_J)


def good_toulmin_weights(frequencies: int, t: float = 1.0) -> Floats:
    """The weights of the first f_j in the smoothed Good-Toulmin sum: -(-t)^j P(Bin(8, 1/(1+t)) >= j) for j = 1, 2, ...

    Args:
        frequencies: how many of them, at most SMOOTHING; beyond, the weights are 0.
        t: how many further times n samples are to be drawn, 0 to 1.

    Returns:
        One weight for each j from 1.

    Example:
        >>> good_toulmin_weights(3) * 256
        array([ 255., -247.,  219.])
    """
    p = 1 / (1 + t)
    pmf_I = np.array([comb(SMOOTHING, i) * p**i * (1 - p) ** (SMOOTHING - i) for i in range(SMOOTHING + 1)])
    at_least_J = np.cumsum(pmf_I[::-1])[::-1][1 : frequencies + 1]
    return np.asarray(-((-t) ** np.arange(1, frequencies + 1)) * at_least_J)


def forecast(drawn_P: ArrayLike, correct_P: ArrayLike, budgets_K: ArrayLike) -> Forecast:
    """Coverage at budgets up to 8n, n being the fewest samples of any problem that has some.

    The range is for the same problems: it holds both the share that k samples would be seen to reach if the draw were
    continued and its expectation, the mean of 1 - (1 - rate)^k. It is a profile-likelihood interval of the share newly
    reached, over all distributions of rates, widened by the noise of drawing. No parametric family is assumed; where
    the counts do not identify the future, it is wide.

    Args:
        drawn_P: samples of each problem.
        correct_P: correct ones among them.
        budgets_K: the budgets to forecast.

    Returns:
        A range of coverage at each budget, NaN beyond 8n, and notes on what it rests on.

    Example:
        >>> ahead = forecast([16] * 50, [0] * 10 + [1] * 4 + [2] * 6 + [8] * 20 + [16] * 10, [16, 32])
        >>> round(ahead.observed, 2), ahead.low_K.round(2), ahead.high_K.round(2)
        (0.8, array([0.8 , 0.77]), array([0.8, 1. ]))
    """
    drawn, correct = np.asarray(drawn_P, dtype=np.int64), np.asarray(correct_P, dtype=np.int64)
    budgets = np.atleast_1d(np.asarray(budgets_K, dtype=np.int64))
    drawn, correct, left_out = drawn[drawn > 0], correct[drawn > 0], int(np.count_nonzero(drawn <= 0))
    notes = [f"{left_out} problems without samples are left out"] if left_out else []
    if drawn.size == 0:
        nan_K = np.full(budgets.size, np.nan)
        return Forecast(0, 0, np.nan, budgets, nan_K, nan_K, np.nan, tuple(notes), "no samples, so no forecast")
    n = int(drawn.min())
    if drawn.max() > n:
        notes.append(
            f"samples per problem differ ({n} to {drawn.max()}): n is the smallest, and each problem continues from "
            "its own"
        )
    low, high = _coverage(drawn, correct, budgets), _coverage(drawn, correct, budgets)
    is_forecast, is_supported = budgets > n, budgets <= MAX_EXTRAPOLATION * n
    reason = _no_range(n, drawn.size)
    if reason is None and (is_forecast & is_supported).any():
        low[is_forecast & is_supported], high[is_forecast & is_supported] = _range(
            drawn, correct, budgets[is_forecast & is_supported]
        )
        notes.append(
            "the range covers every distribution of success rates that the counts do not rule out, and sampling noise"
        )
    if not is_supported.all():
        notes.append(f"no forecast beyond {MAX_EXTRAPOLATION}n = {MAX_EXTRAPOLATION * n} samples")
    unknown = (budgets < 1) | ~is_supported | (is_forecast if reason else False)
    low[unknown], high[unknown] = np.nan, np.nan
    return Forecast(
        n, drawn.size, float(np.mean(correct > 0)), budgets, low, high, _newly_reached(correct), tuple(notes), reason
    )


def _no_range(n: int, problems: int) -> str | None:
    """Why nothing beyond n can be forecast, in a sentence."""
    if problems < MIN_EFFECTIVE_PROBLEMS:
        return f"a forecast needs {MIN_EFFECTIVE_PROBLEMS} problems to show how rates differ; found {problems}"
    if n < MIN_SAMPLES:
        return (
            f"a forecast needs {MIN_SAMPLES} samples per problem to distinguish small rates from large ones; found {n}"
        )
    return None


def _range(drawn_P: Ints, correct_P: Ints, budgets_K: Ints) -> tuple[Floats, Floats]:
    """Ends of the coverage beyond n: what is reached, and the share of problems that is newly reached."""
    from offleash.stats.mixture import (
        RateLikelihood,
        functional_range,
        miss,
        npmle,
    )  # most comparisons read no forecast

    n_U, count_U = np.unique(drawn_P, return_counts=True)
    rounded_P = drawn_P
    if n_U.size > MAX_SIZES:
        rounded_P = np.rint(SIZE_STEP ** np.rint(np.log(drawn_P) / np.log(SIZE_STEP))).astype(np.int64)
    likelihood = RateLikelihood.from_counts(rounded_P, np.minimum(correct_P, rounded_P), MAX_SEPARATE_COUNT)
    rate_J, best = likelihood.rate_J, npmle(likelihood)
    new_KJ, sampling_variance_K = np.zeros((budgets_K.size, rate_J.size)), np.zeros(budgets_K.size)
    for n, count in zip(n_U, count_U / drawn_P.size, strict=True):
        # the chance to be missed by n samples and reached by k; with more than k samples, pass@k is known up to luck
        new_KJ += count * (miss(rate_J, n) - miss(rate_J, np.maximum(budgets_K, n)[:, None]))
        capped_K1 = np.minimum(budgets_K, n)[:, None]
        sampling_variance_K += (
            count * (n > budgets_K) * ((miss(rate_J, capped_K1) - miss(rate_J, 2 * capped_K1)) @ best.weight_J)
        )
    min_new_K, max_new_K = functional_range(likelihood, best, new_KJ, LOG_LIKELIHOOD_DROP)
    # The number newly reached has a variance of at most N new (1 - new). Its expectation given the rates differs from
    # what is seen by as much: problems with a small rate were reached or not by luck, with a variance of N times the
    # share newly reached at 2n. So the lower end may be below what is reached, by Z_LOW^2/4 = 1.4 problems at most.
    low_noise, high_noise = Z_LOW / np.sqrt(drawn_P.size), Z_HIGH / np.sqrt(drawn_P.size)
    variance_K = np.maximum(min_new_K + sampling_variance_K, low_noise**2 / 4)  # x - noise sqrt(x) is least there
    low_K = variance_K - sampling_variance_K - low_noise * np.sqrt(np.minimum(variance_K, MAX_VARIANCE))
    high_K = max_new_K + high_noise * np.sqrt(np.minimum(max_new_K + sampling_variance_K, MAX_VARIANCE))
    seen_K = _coverage(drawn_P, correct_P, budgets_K)
    low_K, high_K = np.clip(seen_K + low_K, 0, 1), np.clip(seen_K + high_K, 0, 1)
    order = np.argsort(budgets_K, kind="stable")  # coverage cannot fall with the budget
    low_K[order], high_K[order] = np.maximum.accumulate(low_K[order]), np.maximum.accumulate(high_K[order])
    return low_K, high_K


def _newly_reached(correct_P: Ints) -> float:
    """Good-Toulmin at 2n, which can be negative or too large, within what is possible; NaN if no problem is reached."""
    if not correct_P.any():
        return float("nan")
    frequencies = np.bincount(correct_P[correct_P > 0])[1:]
    return float(np.clip(good_toulmin(frequencies), 0, np.count_nonzero(correct_P == 0)))


def _coverage(drawn_P: Ints, correct_P: Ints, budgets_K: Ints) -> Floats:
    """Mean pass@k, thinned up to a problem's own n and observed from there on."""
    case_U, weight_U = np.unique(np.stack([drawn_P, correct_P]), axis=1, return_counts=True)
    n_U1, c_U1 = case_U[0][:, None], case_U[1][:, None]
    miss_UK = np.exp(log_miss(n_U1, c_U1, np.minimum(budgets_K, n_U1)))
    return np.asarray(1 - weight_U @ miss_UK / drawn_P.size)
