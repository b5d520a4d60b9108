"""Intervals by the Bayesian bootstrap with pseudo-problems: an own generator, more replicates, and Monte Carlo error.

Weights of the problems of a benchmark of size n are Dirichlet with parameter 1 - 2/n each, times n: the variance of a
weighted mean is then s^2/(n - 1) with s^2 the mean squared deviation, as for an unbiased variance. Pseudo-problems, at
each corner of what a problem can be, have weights Gamma(1/2).
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

REPLICATES = 8000
STANDARD_ERRORS = 5.0
FEWEST = 3
"""With one or two problems the parameter 1 - 2/n is not positive: their weights are not defined by the document."""
SMALL = 5
"""Benchmarks with fewer problems are pooled, with the smallest other one (by name among equals) if they are too few."""
LARGE = 100
"""Problems from which on weights are exponential."""

Ends = tuple[tuple[float, float], tuple[float, float]]
"""What the low and the high end of an interval may be."""


def strata(benchmark_P: Sequence[str]) -> np.ndarray:
    """Which problems share weights of a fixed sum: those of a benchmark, or of several small ones."""
    size = Counter(benchmark_P)
    ranked = sorted(size, key=lambda name: (size[name], name))
    pooled = [name for name in ranked if size[name] < SMALL]
    if pooled and sum(size[name] for name in pooled) < SMALL:
        pooled = ranked[: len(pooled) + 1]
    return np.array(["" if name in pooled else name for name in benchmark_P])


def weights(benchmark_P: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Weights of the problems, a row per replicate; those of a stratum add up to its number of problems."""
    stratum_P = strata(benchmark_P)
    weight_BP = np.empty((REPLICATES, len(benchmark_P)))
    for stratum in sorted(set(stratum_P)):
        mine_P = stratum_P == stratum
        n = int(mine_P.sum())
        gamma_BP = rng.gamma(1 - 2 / n if n < LARGE else 1.0, size=(REPLICATES, n))
        weight_BP[:, mine_P] = n * gamma_BP / gamma_BP.sum(axis=1, keepdims=True)
    return weight_BP


def corners(number: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of the pseudo-problems."""
    return rng.gamma(0.5, size=(REPLICATES, number))


def levels(q: float, replicates: int) -> tuple[float, float]:
    """Levels of the reference at which the quantile q of another bootstrap with `replicates` may be.

    Of B replicates a share q is below the quantile; its level u in the reference of R replicates is then off by
    sqrt(u (1-u) (1/B + 1/R)). Five of these standard errors to either side are Wilson's interval: nothing is assumed
    about the law of the replicates, and an end fails by chance once in two million.
    """
    n, z = 1 / (1 / replicates + 1 / REPLICATES), STANDARD_ERRORS
    centre = (q + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(q * (1 - q) / n + z**2 / (4 * n**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def quantile_range(value_B: np.ndarray, q: float, replicates: int) -> tuple[float, float]:
    """Where the quantile q of another bootstrap with `replicates` may be."""
    # no interpolation: a replicate may be infinite, where no budget drawn does as well
    low, high = np.quantile(value_B, levels(q, replicates), method="inverted_cdf")
    return float(low), float(high)


def allowed(value_B: np.ndarray, estimate: float, replicates: int) -> Ends:
    """Where the ends of a 95% percentile interval may be, which is widened to include the estimate."""
    (a, b), (c, d) = (quantile_range(value_B, q, replicates) for q in (0.025, 0.975))
    return (min(a, estimate) - 1e-9, min(b, estimate) + 1e-9), (max(c, estimate) - 1e-9, max(d, estimate) + 1e-9)


def least_inside(replicates: int) -> float:
    """Share of the reference's curves that a 95% band of another bootstrap must hold."""
    return levels(0.95, replicates)[0]
