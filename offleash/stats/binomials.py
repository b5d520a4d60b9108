"""Ratios of binomial coefficients, exact to rounding, at the cost of a table lookup for any number of samples.

They are behind pass@k, thinning to a smaller k, rarefaction and the exact tests of the other files here.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.errors import OffleashError

Float = NDArray[np.float64]
Integer = NDArray[np.int64]

MOST = 1 << 22  # samples a problem and run; the table for two runs takes 128 MB there

# Log-factorials are large and differ by little: subtracting them as floats costs ten digits at n = 16,384. Here every
# log is cut into two integers, a coarse and a fine one, whose sums are exact.
_COARSE, _FINE = 36, 53


def log_miss(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Log of C(n-c, k)/C(n, k): the chance that k of the n drawn, without replacement, include none of the c correct.

    0 for k = 0, -inf where a miss is impossible (k > n-c), NaN for k > n.
    """
    n, c, k = _integers(drawn, correct, k)
    possible = (k <= n - c) & (n >= 0) & (k >= 0)
    n, c, k, known = np.where(possible, n, 0), np.where(possible, c, 0), np.where(possible, k, 0), k <= n
    log = _log_factorials([(n - c, 1), (n - c - k, -1), (n, -1), (n - k, 1)])
    return np.where(possible, log, np.where(known, -np.inf, np.nan))


def log_hypergeometric(hits: ArrayLike, drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Log chance that k of the n drawn, without replacement, hold exactly `hits` of the c correct."""
    x, n, c, k = _integers(hits, drawn, correct, k)
    possible = (x >= 0) & (x <= c) & (k - x >= 0) & (k - x <= n - c) & (c <= n)
    x, n, c, k = (np.where(possible, value, 0) for value in (x, n, c, k))
    wrong, rest = n - c, k - x
    terms = [(c, 1), (x, -1), (c - x, -1), (wrong, 1), (rest, -1), (wrong - rest, -1), (n, -1), (k, 1), (n - k, 1)]
    return np.where(possible, _log_factorials(terms), -np.inf)


def _integers(*values: ArrayLike) -> tuple[Integer, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.int64) for value in values)))


def _log_factorials(terms: list[tuple[Integer, int]]) -> Float:
    """Sum of sign * log(value!) over the terms, in integers until the end."""
    largest = max((int(value.max(initial=0)) for value, _ in terms), default=0)
    coarse, fine = _table(_size(largest))
    shape = terms[0][0].shape
    sum_coarse, sum_fine = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for value, sign in terms:
        sum_coarse += sign * coarse[value]
        sum_fine += sign * fine[value]
    return np.ldexp(sum_coarse.astype(np.float64), -_COARSE) + np.ldexp(sum_fine.astype(np.float64), -_FINE)


def _size(largest: int) -> int:
    if largest > 2 * MOST:
        raise OffleashError(
            f"A problem has {largest:,} samples in all runs together; offleash counts up to {MOST:,} a run. "
            "Is that column the number of samples?"
        )
    return max(1 << 15, 1 << largest.bit_length())


@lru_cache(maxsize=4)
def _table(size: int) -> tuple[Integer, Integer]:
    logs = np.log(np.maximum(np.arange(size + 1, dtype=np.float64), 1.0))
    coarse = np.rint(np.ldexp(logs, _COARSE))
    fine = np.rint(np.ldexp(logs - np.ldexp(coarse, -_COARSE), _FINE))
    return np.cumsum(coarse.astype(np.int64)), np.cumsum(fine.astype(np.int64))
