"""Many tests at once: adjusted p-values, and the exact law of a count of unequal coin flips."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Tail(NamedTuple):
    """How surprising a count is: `P(X >= observed)`, and the mid-p that gives half of `P(X = observed)`."""

    p: float
    mid_p: float


def holm(p_P: ArrayLike) -> Floats:
    """Adjusted p-values that control the chance of any false alarm (Holm 1979)."""
    p = _probabilities(p_P)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return _back(np.minimum(stepped, 1.0), order)


def benjamini_hochberg(p_P: ArrayLike) -> Floats:
    """Adjusted p-values that control the share of false alarms among the alarms (Benjamini & Hochberg 1995)."""
    p = _probabilities(p_P)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    stepped = np.minimum.accumulate(scaled[::-1])[::-1]
    return _back(np.minimum(stepped, 1.0), order)


def poisson_binomial_pmf(p_P: ArrayLike) -> Floats:
    """Exact law of the number of successes among independent trials with chances `p_P`; entry j is P(X = j).

    Only sums and products of non-negative numbers, so every entry keeps its relative accuracy far into the tails,
    where a Fourier transform would leave round-off of 1e-16.
    """
    p = _probabilities(p_P)
    if p.size == 0:
        return np.ones(1)
    return _convolved([np.array([1.0 - x, x]) for x in p])


def upper_tail(p_P: ArrayLike, observed: int) -> Tail:
    """Chance of at least `observed` successes among independent trials with chances `p_P`, and its mid-p."""
    pmf = poisson_binomial_pmf(p_P)
    if observed <= 0:
        at = float(pmf[0]) if observed == 0 else 0.0
        return Tail(1.0, 1.0 - at / 2)
    if observed >= pmf.size:
        return Tail(0.0, 0.0)
    above, at = float(pmf[observed + 1 :].sum()), float(pmf[observed])
    return Tail(min(above + at, 1.0), min(above + at / 2, 1.0))


def _probabilities(p_P: ArrayLike) -> Floats:
    p = np.atleast_1d(np.asarray(p_P, dtype=np.float64))
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"expected a vector of numbers in [0, 1] without NaN, got shape {p.shape}: {p}")
    return p


def _back(sorted_P: Floats, order: NDArray[np.intp]) -> Floats:
    out = np.empty_like(sorted_P)
    out[order] = sorted_P
    return out


def _convolved(laws: Sequence[Floats]) -> Floats:
    # pairing neighbours keeps both sides of each convolution of equal length: P^2 multiplications in all
    while len(laws) > 1:
        paired = [np.convolve(a, b) for a, b in zip(laws[::2], laws[1::2], strict=False)]
        laws = paired if len(laws) % 2 == 0 else [*paired, laws[-1]]
    return laws[0]
