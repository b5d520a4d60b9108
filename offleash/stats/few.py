"""Few problems: from how many on an interval can be given, and how much wider it has to be."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from offleash.stats.binomials import Float, Integer
from offleash.stats.intervals import (
    LEVEL,
    REPLICATES,
    Interval,
    gamma_shape,
    percentile_intervals,
    problem_sums,
    replicate_sums,
)

REACHED_OR_NOT = np.array([[1.0, 1.0], [0.0, 1.0]])  # pseudo-problems: without them a share of 0 or 1 has no width


@dataclass(frozen=True)
class Estimate:
    """A mean over problems and its 95% interval, for which problems are resampled."""

    value: float
    interval: Interval


def share_of(value_P: Float, stratum_P: Integer) -> Estimate:
    """A share of problems, with the two pseudo-problems that keep its interval from having no width."""
    columns_P2 = np.stack([value_P, np.ones_like(value_P)], axis=1)
    sums_B2 = replicate_sums(columns_P2, REACHED_OR_NOT, stratum_P)
    mean = float(value_P.mean())
    return Estimate(mean, percentile_intervals((sums_B2[:, 0] / sums_B2[:, 1])[:, None], np.array([mean]))[0])


def mean_of(value_P: Float, stratum_P: Integer, least: float = 0.0) -> Estimate:
    """A mean over the problems where the value, at least `least`, is known; no interval where they are few."""
    known_P = ~np.isnan(value_P)
    value_Q, ends = ratios(value_P[:, None], known_P[:, None].astype(np.float64), stratum_P)
    return Estimate(float(value_Q[0]), clipped(ends[0], least))


FEW = 8  # problems below which a measure without edges cannot show its own spread
NONE = Interval(np.nan, np.nan)


def clipped(ends: Interval, least: float = -np.inf, most: float = np.inf) -> Interval:
    """An interval cut off where its measure ends; one that is not known stays so."""
    return Interval(*(float(np.clip(end, least, most)) for end in (ends.low, ends.high)))


def effective(weight_P: ArrayLike) -> Float:
    """How many equally weighing problems would tell as much of the spread of a weighted mean (Satterthwaite 1946).

    Along the first axis; 0 where nothing weighs.
    """
    square_P = np.asarray(weight_P, dtype=np.float64) ** 2
    above, below = square_P.sum(axis=0) ** 2, (square_P**2).sum(axis=0)
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def student(
    ends: Sequence[Interval], value_Q: Float, value_BQ: Float, problems: ArrayLike, among: int | None = None
) -> list[Interval]:
    """Percentile intervals of few problems made wider about their values, by Student's t over the normal quantile.

    The bootstrap has the spread of a mean right on average, and no room for how little few problems tell of it. Where
    few problems differ at all, all of them one way by chance, a percentile cannot pass 0: no end is nearer than t
    standard deviations of the replicates. `problems` are those that have a part in each of the Q values; where they
    were resampled `among` more of them, weights that are right for all are too even for these.
    """
    n_Q = np.broadcast_to(np.maximum(np.asarray(problems, dtype=np.float64), 2.0), value_Q.shape)
    tail = (1 + LEVEL) / 2
    short_Q = 1.0 if among is None else np.sqrt((n_Q * gamma_shape(among) + 1) / (n_Q - 1))
    t_Q = stdtrit(n_Q - 1, tail) * short_Q
    factor_Q = t_Q / float(ndtri(tail))
    known_BQ = np.isfinite(value_BQ)
    count_Q = np.maximum(known_BQ.sum(axis=0), 1)
    middle_Q = np.where(known_BQ, value_BQ, 0.0).sum(axis=0) / count_Q
    square_BQ = np.where(known_BQ, value_BQ - middle_Q, 0.0) ** 2
    least_Q = t_Q * np.sqrt(square_BQ.sum(axis=0) / count_Q)
    return [
        Interval(
            float(value - np.maximum(factor * (value - one.low), least)),
            float(value + np.maximum(factor * (one.high - value), least)),
        )
        for one, value, factor, least in zip(ends, value_Q, factor_Q, least_Q, strict=True)
    ]


def ratios(
    above_PQ: Float, below_PQ: Float, stratum_P: Integer, replicates: int = REPLICATES, seed: int = 0
) -> tuple[Float, list[Interval]]:
    """Q ratios of sums over problems, each with its interval over problems; all of them paired.

    No interval where fewer than FEW problems, counted by how much they weigh, have a part in a ratio: they do not show
    how others differ. Of somewhat more it is as wide as their number asks for (Student's t).
    """
    known_PQ = np.isfinite(above_PQ) & (below_PQ > 0)
    top_PQ, bottom_PQ = np.where(known_PQ, above_PQ, 0.0), np.where(known_PQ, below_PQ, 0.0)
    total_Q, telling_Q = bottom_PQ.sum(axis=0), effective(bottom_PQ)
    estimate_Q = np.divide(top_PQ.sum(axis=0), total_Q, out=np.full(len(total_Q), np.nan), where=total_Q > 0)
    if not len(above_PQ):
        return estimate_Q, [NONE] * len(estimate_Q)
    columns = np.concatenate([top_PQ, bottom_PQ], axis=1)
    sums_BQ = problem_sums(columns, stratum_P, replicates, seed)
    above_BQ, below_BQ = np.split(sums_BQ, 2, axis=1)
    ratio_BQ = np.divide(above_BQ, below_BQ, out=np.full_like(above_BQ, np.nan), where=below_BQ > 0)
    plain = percentile_intervals(ratio_BQ, estimate_Q)
    wide = student(plain, estimate_Q, ratio_BQ, telling_Q, among=len(above_PQ))
    return estimate_Q, [one if telling >= FEW else NONE for one, telling in zip(wide, telling_Q, strict=True)]
