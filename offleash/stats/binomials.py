"""Ratios of binomial coefficients and the tails of exact tests, exact to rounding for any number of samples.

The ratios, at the cost of a table lookup, are behind pass@k, thinning to a smaller k and rarefaction; the binomial and
hypergeometric tails behind every exact test of the other files here. `scipy.stats` has the same tails, and takes a
second to import; `scipy.special` a third of that, so it is imported by the functions that need it.
"""

from functools import lru_cache
from math import lgamma, log, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.errors import OffleashError

Float = NDArray[np.float64]
Integer = NDArray[np.int64]

MAX_SAMPLES_PER_RUN = 1 << 22  # samples per problem and run; the table for two runs takes 128 MB there

# Log-factorials are large and differ by little: subtracting them as floats costs ten digits at n = 16,384. Here every
# log is cut into two integers, a coarse and a fine one, whose sums are exact.
_COARSE, _FINE = 36, 53


NEGLIGIBLE = 1e-17  # of a sum: what a term below it adds is lost in rounding


def log_miss(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Log of C(n-c, k)/C(n, k): the chance that k of the n drawn, without replacement, include none of the c correct.

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        k: the budget.

    Returns:
        The logs, broadcast over the arguments: 0 for k = 0, -inf where a miss is impossible (k > n-c), NaN for k > n.

    Example:
        >>> np.exp(log_miss(4, 1, [0, 1, 2])).round(6)
        array([1.  , 0.75, 0.5 ])
        >>> log_miss(4, 2, [3, 5])
        array([-inf,  nan])
    """
    n, c, k = _integers(drawn, correct, k)
    possible = (k <= n - c) & (n >= 0) & (k >= 0)
    n, c, k, known = np.where(possible, n, 0), np.where(possible, c, 0), np.where(possible, k, 0), k <= n
    log = _log_factorials([(n - c, 1), (n - c - k, -1), (n, -1), (n - k, 1)])
    return np.where(possible, log, np.where(known, -np.inf, np.nan))


def log_hypergeometric(hits: ArrayLike, drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Log chance that k of the n drawn, without replacement, hold exactly `hits` of the c correct.

    Args:
        hits: correct samples among the k.
        drawn: samples n.
        correct: correct ones c among the n.
        k: samples taken, at most n.

    Returns:
        The logs, broadcast over the arguments; -inf where that number of hits is impossible.

    Example:
        >>> np.exp(log_hypergeometric([0, 1, 2], 4, 2, 2)).round(6)
        array([0.166667, 0.666667, 0.166667])
    """
    x, n, c, k = _integers(hits, drawn, correct, k)
    possible = (x >= 0) & (x <= c) & (k - x >= 0) & (k - x <= n - c) & (c <= n)
    x, n, c, k = (np.where(possible, value, 0) for value in (x, n, c, k))
    wrong_total, wrong_drawn = n - c, k - x
    terms = [
        (c, 1),
        (x, -1),
        (c - x, -1),
        (wrong_total, 1),
        (wrong_drawn, -1),
        (wrong_total - wrong_drawn, -1),
        (n, -1),
        (k, 1),
        (n - k, 1),
    ]
    return np.where(possible, _log_factorials(terms), -np.inf)


def hypergeometric_at_least(hits: ArrayLike, drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Chance that k of the n drawn, without replacement, hold at least `hits` of the c correct.

    This is one tail of Fisher's exact test. The terms are summed away from the mean, where each is a known ratio of the
    one before: a small tail keeps its relative accuracy, and the number of terms is a few standard deviations.

    Args:
        hits: correct samples among the k; any integer.
        drawn: samples n.
        correct: correct ones c among the n.
        k: samples taken, at most n.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> hypergeometric_at_least([0, 2, 3, 4], 6, 3, 3).round(6)
        array([1.  , 0.5 , 0.05, 0.  ])
    """
    x, n, c, k = _integers(hits, drawn, correct, k)
    x = np.clip(x, np.maximum(k - (n - c), 0), np.minimum(c, k) + 1)
    above = x * n > k * c  # beyond the mean; before it, sum P(X < hits), which is a tail of the k - X wrong ones
    start, kind = np.where(above, x, k - x + 1), np.where(above, c, n - c)
    term = np.exp(log_hypergeometric(start, n, kind, k))
    tail = term.copy().reshape(-1)
    nonzero_terms = np.flatnonzero(term)
    j, term, kind, k_, n_ = (value.reshape(-1)[nonzero_terms] for value in (start, term, kind, k, n))
    while nonzero_terms.size:
        term = term * ((kind - j) * (k_ - j) / ((j + 1) * (n_ - kind - k_ + j + 1.0)))
        tail[nonzero_terms] += term
        j = j + 1
        unfinished = term > NEGLIGIBLE * tail[nonzero_terms]
        if not unfinished.all():
            nonzero_terms, j, term, kind, k_, n_ = (
                value[unfinished] for value in (nonzero_terms, j, term, kind, k_, n_)
            )
    chance = tail.reshape(x.shape)
    return np.where(above, np.minimum(chance, 1.0), np.maximum(1.0 - chance, 0.0))


def hypergeometric_at_most(hits: ArrayLike, drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Chance that k of the n drawn, without replacement, hold at most `hits` of the c correct.

    Args:
        hits: correct samples among the k; any integer.
        drawn: samples n.
        correct: correct ones c among the n.
        k: samples taken, at most n.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> hypergeometric_at_most([-1, 0, 1, 3], 6, 3, 3).round(6)
        array([0.  , 0.05, 0.5 , 1.  ])
    """
    x, n, c, k = _integers(hits, drawn, correct, k)
    return hypergeometric_at_least(k - x, n, n - c, k)  # at most x correct are at least k - x wrong


def binomial_at_least(hits: ArrayLike, draws: ArrayLike, rate: ArrayLike) -> Float:
    """Chance of at least `hits` successes in independent draws of one rate.

    Args:
        hits: successes; any integer.
        draws: the number of draws.
        rate: the chance of success of each.

    Returns:
        The chances, broadcast over the arguments: the regularised incomplete beta function I_rate(hits, draws-hits+1).

    Example:
        >>> binomial_at_least([0, 1, 2, 3], 2, 0.1).round(6)
        array([1.  , 0.19, 0.01, 0.  ])
    """
    from scipy.special import betainc

    x, n = _integers(hits, draws)
    inside = np.clip(x, 1, np.maximum(n, 1))
    chance = betainc(inside, np.maximum(n - inside + 1, 1), np.asarray(rate, dtype=np.float64))
    return np.where(x <= 0, 1.0, np.where(x > n, 0.0, chance))


def binomial_at_most(hits: ArrayLike, draws: ArrayLike, rate: ArrayLike) -> Float:
    """Chance of at most `hits` successes in independent draws of one rate.

    Args:
        hits: successes; any integer.
        draws: the number of draws.
        rate: the chance of success of each.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> binomial_at_most([-1, 0, 1, 2], 2, 0.1).round(6)
        array([0.  , 0.81, 0.99, 1.  ])
    """
    from scipy.special import betaincc

    x, n = _integers(hits, draws)
    inside = np.clip(x, 0, np.maximum(n - 1, 0))
    chance = betaincc(inside + 1, np.maximum(n - inside, 1), np.asarray(rate, dtype=np.float64))
    return np.where(x < 0, 0.0, np.where(x >= n, 1.0, chance))


def binomial_pmf(hits: ArrayLike, draws: ArrayLike, rate: ArrayLike) -> Float:
    """Chance of exactly `hits` successes in independent draws of one rate.

    By the saddle point of Loader (2000), "Fast and accurate computation of binomial probabilities": the difference of
    log-factorials and of n log p, both large, would leave five digits fewer at 16,384 draws.

    Args:
        hits: successes; any integer.
        draws: the number of draws.
        rate: the chance of success of each.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> binomial_pmf([0, 1, 2, 3], 2, 0.1).round(6)
        array([0.81, 0.18, 0.01, 0.  ])
    """
    x, n = _integers(hits, draws)
    p = np.asarray(rate, dtype=np.float64)
    is_inner = (x > 0) & (x < n)  # at the ends the saddle point is p^n or (1-p)^n itself
    hit_count, miss_count = np.where(is_inner, x, 1), np.where(is_inner, n - x, 1)
    both = hit_count + miss_count
    with np.errstate(divide="ignore", invalid="ignore"):
        log = _stirling_error(both) - _stirling_error(hit_count) - _stirling_error(miss_count)
        log = log - _deviance(hit_count, both * p) - _deviance(miss_count, both * (1 - p))
        saddle_point = np.exp(log) * np.sqrt(both / (2 * np.pi * hit_count * miss_count))
        ends = np.where(x == 0, np.exp(n * np.log1p(-p)), np.where(x == n, p ** np.maximum(n, 0), 0.0))
    ends = np.where((x == 0) & (n == 0), 1.0, ends)
    return np.where(is_inner, np.where((p > 0) & (p < 1), saddle_point, 0.0), ends)


def _deviance(count: Integer, mean: Float) -> Float:
    """count log(count/mean) + mean - count, without cancellation where the two are near (Loader's bd0)."""
    far_from_mean = count * np.log(count / mean) + mean - count
    slope = (count - mean) / (count + mean)
    near_mean, power = (count - mean) * slope, 2 * count * slope
    for j in range(1, 9):  # slope^2 < 0.01: nine terms leave 1e-18
        power = power * slope**2
        near_mean = near_mean + power / (2 * j + 1)
    return np.where(np.abs(slope) < 0.1, near_mean, far_from_mean)


# log n! - log(sqrt(2 pi n) (n/e)^n): for small n from the definition, then Stirling's series
_SMALL = 16
_SMALL_ERRORS = np.array(
    [0.0] + [lgamma(n + 1.0) - (n + 0.5) * log(n) + n - 0.5 * log(2 * pi) for n in range(1, _SMALL)]
)


def _stirling_error(n: Integer) -> Float:
    inverse = 1.0 / np.maximum(n, _SMALL)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    return np.where(n < _SMALL, _SMALL_ERRORS[np.minimum(n, _SMALL - 1)], series)


def half_binomial_at_most(hits: int, draws: int) -> float:
    """Chance of at most `hits` heads in so many tosses of a fair coin, for the sign test; needs no scipy.

    Args:
        hits: heads, below half of the tosses.
        draws: tosses.

    Returns:
        The chance, from C(n, j)/2^n and the ratios j/(n-j+1) of neighbouring terms.

    Example:
        >>> half_binomial_at_most(1, 4)
        0.3125
    """
    below = np.arange(hits, 0, -1)
    terms = _log_factorials(
        [(np.array([value]), sign) for value, sign in ((draws, 1), (hits, -1), (draws - hits, -1), (2, -draws))]
    )
    return float(np.exp(terms[0]) * (1 + np.cumprod(below / (draws - below + 1)).sum()))


def _integers(*values: ArrayLike) -> tuple[Integer, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.int64) for value in values)))


def _log_factorials(terms: list[tuple[Integer, int]]) -> Float:
    """Sum of sign * log(value!) over the terms, in integers until the end."""
    largest = max((int(value.max(initial=0)) for value, _ in terms), default=0)
    coarse_table, fine_table = _table(_size(largest))
    shape = terms[0][0].shape
    sum_coarse, sum_fine = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for value, sign in terms:
        sum_coarse += sign * coarse_table[value]
        sum_fine += sign * fine_table[value]
    return np.ldexp(sum_coarse.astype(np.float64), -_COARSE) + np.ldexp(sum_fine.astype(np.float64), -_FINE)


def _size(largest: int) -> int:
    if largest > 2 * MAX_SAMPLES_PER_RUN:
        raise OffleashError(
            f"A problem has {largest:,} samples over all runs; offleash supports up to {MAX_SAMPLES_PER_RUN:,} per "
            "run. Check that this column is the number of samples."
        )
    return max(1 << 15, 1 << largest.bit_length())


@lru_cache(maxsize=4)
def _table(size: int) -> tuple[Integer, Integer]:
    logs = np.log(np.maximum(np.arange(size + 1, dtype=np.float64), 1.0))
    coarse_part = np.rint(np.ldexp(logs, _COARSE))
    fine_part = np.rint(np.ldexp(logs - np.ldexp(coarse_part, -_COARSE), _FINE))
    return np.cumsum(coarse_part.astype(np.int64)), np.cumsum(fine_part.astype(np.int64))
