"""Curves over the budget k: pass@k of both runs and their support change, with intervals and simultaneous bands."""

from dataclasses import dataclass

import numpy as np

from offleash.stats.binomials import Float, Integer
from offleash.stats.classes import CellSums
from offleash.stats.intervals import percentile_intervals, simultaneous_band

WITHIN = {"NSCR": (-1.0, 1.0), "difference": (-1.0, 1.0)}  # every other ratio lies between 0 and 1


@dataclass(frozen=True)
class Curve:
    """One statistic at K budgets: its estimate, pointwise intervals, and a band that holds the whole curve at once."""

    name: str
    k_K: Integer
    value_K: Float
    low_K: Float
    high_K: Float
    band_low_K: Float
    band_high_K: Float


def budgets(most: int) -> Integer:
    """Powers of two up to the largest budget, and that budget itself."""
    powers = 2 ** np.arange(int(most).bit_length(), dtype=np.int64)
    return np.unique(np.append(powers[powers <= most], most))


def dense_budgets(most: int, each_octave: int = 12) -> Integer:
    """Every k up to 16, then some in each octave: fine enough to place a crossing; holds `budgets` too."""
    spread = 2 ** np.arange(4, np.log2(max(most, 1)), 1 / each_octave)
    grid = np.concatenate([np.arange(1, 17), np.rint(spread).astype(np.int64), budgets(most)])
    return np.unique(grid[grid <= most])


def curve(sums: CellSums, name: str, k_K: Integer | None = None) -> Curve:
    """The curve of a ratio (before, after, difference, SRR, NDR, SDS, NSCR) at some of the budgets of `sums`."""
    k_K = sums.k_K if k_K is None else k_K
    place = sums.place(k_K)
    estimate_K, replicate_BK = sums.ratio(name, place)
    ends = percentile_intervals(replicate_BK, estimate_K)
    low_K, high_K = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
    band_low_K, band_high_K = np.full(len(k_K), np.nan), np.full(len(k_K), np.nan)
    known_K = ~np.isnan(estimate_K) & ~np.isnan(replicate_BK).any(axis=0)
    band_low_K[known_K], band_high_K[known_K] = simultaneous_band(
        replicate_BK[:, known_K], estimate_K[known_K], WITHIN.get(name, (0.0, 1.0))
    )
    # a band is symmetric and an interval need not be: what holds the whole curve holds each point too
    band_low_K, band_high_K = np.minimum(band_low_K, low_K), np.maximum(band_high_K, high_K)
    return Curve(name, k_K, estimate_K, low_K, high_K, band_low_K, band_high_K)
