"""Intervals over problems: the Bayesian bootstrap with four pseudo-problems, as matrix products in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.support.counting import Float, Integer

REPLICATES = 10_000
LEVEL = 0.95
_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def pair(self) -> list[float | None]:
        return [None if np.isnan(end) else float(end) for end in (self.low, self.high)]


def replicate_sums(
    value_PQ: Float, pseudo_XQ: Float, stratum_P: Integer, replicates: int = REPLICATES, seed: int = 0
) -> Float:
    """Weighted sums of Q columns over the problems (and X pseudo-problems) in each of B replicates.

    Weights are Exp(1) a problem (Rubin 1981), scaled so that every stratum keeps its size, and Gamma(1/2) a
    pseudo-problem, one a cell of the table. Without the pseudo-problems an observed zero has an interval of zero width.
    The same seed gives the same weights, so that statistics of the same problems are paired.
    """
    problems, columns = value_PQ.shape
    rng = np.random.default_rng([seed, problems])
    strata = int(stratum_P.max(initial=-1)) + 1
    member_PS = np.zeros((problems, strata))
    member_PS[np.arange(problems), stratum_P] = 1.0
    size_S = member_PS.sum(axis=0)
    sums_BQ = np.empty((replicates, columns))
    block = max(1, _BLOCK_BYTES // (8 * max(problems, 1)))
    for start in range(0, replicates, block):
        stop = min(start + block, replicates)
        weight_BP = rng.standard_exponential((stop - start, problems))
        scale_BS = size_S / (weight_BP @ member_PS)
        weight_BP *= scale_BS if strata == 1 else scale_BS[:, stratum_P]
        sums_BQ[start:stop] = weight_BP @ value_PQ
    pseudo = len(pseudo_XQ)
    pseudo_BX = np.random.default_rng([seed, problems, pseudo]).standard_gamma(0.5, (replicates, pseudo))
    return np.asarray(sums_BQ + pseudo_BX @ pseudo_XQ)


def percentile_intervals(replicate_BQ: Float, estimate_Q: Float, level: float = LEVEL) -> list[Interval]:
    """Percentile interval of every column, widened to hold its estimate; NaN replicates (0/0) are left out.

    Holding the estimate puts the lower end of NDR at 0 when E = 0 and the upper end of SRR at 1 when S = 0.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends_2Q = np.full((2, replicate_BQ.shape[1]), np.nan)
    usable_Q = ~np.isnan(replicate_BQ).all(axis=0)
    with np.errstate(invalid="ignore"):
        clean = np.isnan(replicate_BQ).any(axis=0)
        plain_Q = usable_Q & ~clean
        ends_2Q[:, plain_Q] = np.quantile(replicate_BQ[:, plain_Q], tails, axis=0)
        ragged_Q = usable_Q & clean
        if ragged_Q.any():
            ends_2Q[:, ragged_Q] = np.nanquantile(replicate_BQ[:, ragged_Q], tails, axis=0)
    low_Q, high_Q = np.fmin(ends_2Q[0], estimate_Q), np.fmax(ends_2Q[1], estimate_Q)
    unknown_Q = np.isnan(estimate_Q)
    return [
        Interval(np.nan, np.nan) if hidden else Interval(float(low), float(high))
        for low, high, hidden in zip(low_Q, high_Q, unknown_Q, strict=True)
    ]


def simultaneous_band(
    replicate_BK: Float, estimate_K: Float, within: tuple[float, float], level: float = LEVEL
) -> tuple[Float, Float]:
    """Ends of a band that holds the whole curve at once with the given confidence (max-t), clipped to its range.

    Pointwise intervals hold together only three times in four.
    """
    center_K, spread_K = replicate_BK.mean(axis=0), replicate_BK.std(axis=0)
    moving_K = spread_K > 0
    if not moving_K.any():
        return estimate_K.copy(), estimate_K.copy()
    deviation_B = (np.abs(replicate_BK - center_K)[:, moving_K] / spread_K[moving_K]).max(axis=1)
    reach_K = np.quantile(deviation_B, level) * spread_K
    low_K = np.clip(np.minimum(center_K - reach_K, estimate_K), *within)
    high_K = np.clip(np.maximum(center_K + reach_K, estimate_K), *within)
    return low_K, high_K


def strata(label_P: NDArray[np.str_] | Sequence[str]) -> Integer:
    """Codes 0, 1, ... of the labels (benchmarks)."""
    return np.unique(np.asarray(label_P), return_inverse=True)[1].astype(np.int64)


def wilson(successes: float, total: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a bare proportion, where the problems behind it are not known."""
    from scipy.stats import norm

    if total <= 0:
        return Interval(np.nan, np.nan)
    z2 = float(norm.ppf((1 + level) / 2)) ** 2
    share = successes / total
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = np.sqrt(z2 * (share * (1 - share) / total + z2 / (4 * total**2))) / (1 + z2 / total)
    return Interval(float(min(center - half, share)), float(max(center + half, share)))
