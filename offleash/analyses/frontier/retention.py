"""Retention: how much of what the base reaches a model still reaches, relative to the base drawn again; from counts.

SRR alone cannot be read against a floor: the base drawn twice has an SRR below 1. So the base has two samples for every
one of the others, and retention is SRR divided by the SRR of the base against itself. With a and b the chances that k
samples of the base and of the model reach a problem, it is the sum of ab over the sum of aa: both are estimated without
bias, by thinning the samples of each problem. All intervals resample problems; those of one set of problems are paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offleash.data.tally import Tally
from offleash.stats.binomials import Float, Integer, log_miss
from offleash.stats.intervals import (
    LEVEL,
    Estimate,
    Interval,
    percentile_intervals,
    problem_sums,
    pseudo_weights,
    share_of,
    strata,
    student,
)

# Pseudo-problems, as (kept by the model, kept by the base drawn again): without them a model that lost nothing, or the
# base itself, would have an interval of no width.
_KEPT_OR_NOT = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
PORTFOLIO_SHARES = tuple(number / 8 for number in range(9))  # of the budget that goes to the base


@dataclass(frozen=True)
class PointSums:
    """What each of P problems adds to the numbers of R points; the first point is the base.

    Example:
        >>> counts = ol.tally_of_counts([[16, 8], [16, 8]], [[8, 0], [8, 4]], runs=("base", "rl"))
        >>> PointSums.of(counts, 8).retention(1).value.round(3)
        np.float64(0.5)
    """

    k: int
    stratum_P: Integer
    pass_1_PR: Float
    reach_PR: Float  # chance that k samples reach the problem
    kept_PR: Float  # chance that k samples of the base and k of the point do; of the base, k others of its own

    @classmethod
    def of(cls, tally: Tally, k: int) -> "PointSums":
        """From counts: the base has 2k samples of every problem or more, every other point k or more."""
        drawn_PR, correct_PR = tally.drawn_PR, tally.correct_PR
        reach_PR = -np.expm1(log_miss(drawn_PR, correct_PR, k))
        kept_PR = reach_PR[:, :1] * reach_PR
        miss_P, miss_twice_P = (np.exp(log_miss(drawn_PR[:, 0], correct_PR[:, 0], size)) for size in (k, 2 * k))
        kept_PR[:, 0] = np.maximum(1 - 2 * miss_P + miss_twice_P, 0.0)
        return cls(k, strata(tally.benchmark_P), correct_PR / drawn_PR, reach_PR, kept_PR)

    def __len__(self) -> int:
        return len(self.stratum_P)

    def pass_1(self, point: int) -> Estimate:
        return share_of(self.pass_1_PR[:, point], self.stratum_P)

    def pass_k(self, point: int) -> Estimate:
        return share_of(self.reach_PR[:, point], self.stratum_P)

    def srr(self, point: int) -> Estimate:
        """SRR as everywhere else: what the point keeps of what k samples of the base reach."""
        return self._ratio(self.kept_PR[:, point], self.reach_PR[:, 0], _KEPT_OR_NOT[:2])

    def retention(self, point: int) -> Estimate:
        """SRR of the point divided by SRR of the base drawn again; 1 for the base, without an interval."""
        if point == 0:
            return Estimate(1.0, Interval(1.0, 1.0))
        return self.retention_of(self.kept_PR[:, point])

    def retention_of(self, kept_P: Float) -> Estimate:
        """The same of anything that keeps problems with these chances."""
        return self._ratio(kept_P, self.kept_PR[:, 0], _KEPT_OR_NOT)

    def lost(self, point: int) -> Estimate:
        """Problems lost beyond those that the base drawn again loses: S over chance."""
        value_P = self.kept_PR[:, 0] - self.kept_PR[:, point]
        if point == 0:
            return Estimate(0.0, Interval(0.0, 0.0))
        return self._signed(value_P, len(self))

    def gain(self, point: int, comparisons: int = 1) -> Estimate:
        """pass@1 above that of the base; its interval holds together with as many others (Bonferroni)."""
        value_P = self.pass_1_PR[:, point] - self.pass_1_PR[:, 0]
        sums_B1 = problem_sums(value_P[:, None], self.stratum_P)
        value_1 = np.array([value_P.mean()])
        ends = percentile_intervals(sums_B1 / len(self), value_1, 1 - (1 - LEVEL) / comparisons)
        return Estimate(float(value_1[0]), student(ends, value_1, sums_B1 / len(self), len(self))[0])

    def _ratio(self, kept_P: Float, base_P: Float, pseudo_X2: Float) -> Estimate:
        """A ratio of sums over problems; NaN where the base reaches nothing."""
        if not base_P.sum() > 0:
            return Estimate(float("nan"), Interval(float("nan"), float("nan")))
        sums_B2 = problem_sums(np.stack([kept_P, base_P], axis=1), self.stratum_P)
        sums_B2 = sums_B2 + pseudo_weights(len(pseudo_X2), len(self)) @ pseudo_X2
        value = float(kept_P.sum() / base_P.sum())
        ends = percentile_intervals((sums_B2[:, 0] / sums_B2[:, 1])[:, None], np.array([value]))
        return Estimate(value, ends[0])

    def _signed(self, value_P: Float, scale: float) -> Estimate:
        """A sum over problems of values between -1 and 1, with a pseudo-problem at each end."""
        sums_B = problem_sums(value_P[:, None], self.stratum_P)[:, 0]
        pseudo_B2 = pseudo_weights(2, len(self))
        weight_B = len(self) + pseudo_B2.sum(axis=1)
        value_B = scale * (sums_B + pseudo_B2 @ np.array([1.0, -1.0])) / weight_B
        value = scale * float(value_P.mean())
        return Estimate(value, percentile_intervals(value_B[:, None], np.array([value]))[0])


# A budget of k that is split between the base and the model after RL.


def portfolio_curve_of(tally: Tally, rl: int, k: int) -> tuple[Float, Float]:
    """pass@1 of a sample and retention's numerator, P x shares, where a share of the k samples is the base's.

    The base's part of the split and the base that it is measured against are disjoint samples of one pool.
    """
    drawn_P, correct_P = tally.drawn_PR[:, 0], tally.correct_PR[:, 0]
    rate_P, rate_rl_P = correct_P / drawn_P, tally.correct_PR[:, rl] / tally.drawn_PR[:, rl]
    miss_P = np.exp(log_miss(drawn_P, correct_P, k))
    pass_1, kept = [], []
    for share in PORTFOLIO_SHARES:
        own = round(share * k)
        miss_rl_P = np.exp(log_miss(tally.drawn_PR[:, rl], tally.correct_PR[:, rl], k - own))
        miss_own_P, miss_both_P = (np.exp(log_miss(drawn_P, correct_P, size)) for size in (own, k + own))
        pass_1.append(share * rate_P + (1 - share) * rate_rl_P)
        # both reach = 1 - (reference misses) - (split misses) + (both miss)
        kept.append(1 - miss_P - miss_own_P * miss_rl_P + miss_both_P * miss_rl_P)
    return np.stack(pass_1, axis=1), np.maximum(np.stack(kept, axis=1), 0.0)


# Differences at equal pass@1.


@dataclass(frozen=True)
class RetentionDifference:
    """Retention of a curve minus that of a point, where the curve has the pass@1 of the point."""

    curve: str
    point: str
    pass_1: float
    curve_retention: float  # interpolated between two points of the curve
    point_retention: float
    difference: Estimate  # its interval holds together with those of all other comparisons


def differences_at_equal_pass_1(
    sums: PointSums, comparisons: Sequence[tuple[str, Float, Float, str, int]]
) -> tuple[RetentionDifference, ...]:
    """Compare points with curves at equal pass@1, paired over problems.

    Between two neighbours on its curve, in the order of their pass@1, a curve is a straight line. Each replicate of the
    problems interpolates again, so the interval includes the uncertainty of where pass@1 is equal. All intervals hold
    together with 95% (Bonferroni).

    Args:
        sums: of all points.
        comparisons: name of the curve, its pass@1 and kept chances (P x C), name and number of the point.

    Returns:
        The differences, without those of points whose pass@1 is outside the curve's.
    """
    usable = [entry for entry in comparisons if _covers(entry[1], sums.pass_1_PR[:, entry[4]])]
    results = []
    for curve, pass_1_PC, kept_PC, label, point in usable:
        size = pass_1_PC.shape[1]
        columns_PQ = np.concatenate(
            [pass_1_PC, kept_PC, sums.pass_1_PR[:, [point]], sums.kept_PR[:, [point, 0]]], axis=1
        )
        total_1Q = columns_PQ.sum(axis=0, keepdims=True)
        curve_1, point_1 = _retentions(total_1Q, size, len(sums), np.zeros(1), np.zeros(1))
        sums_BQ = problem_sums(columns_PQ, sums.stratum_P)
        pseudo_B2 = pseudo_weights(2, len(sums))
        curve_B, point_B = _retentions(sums_BQ, size, len(sums), pseudo_B2[:, 0], pseudo_B2[:, 1])
        value_1 = curve_1 - point_1
        ends = percentile_intervals((curve_B - point_B)[:, None], value_1, 1 - (1 - LEVEL) / len(usable))
        results.append(
            RetentionDifference(
                curve,
                label,
                float(total_1Q[0, 2 * size] / len(sums)),
                float(curve_1[0]),
                float(point_1[0]),
                Estimate(float(value_1[0]), ends[0]),
            )
        )
    return tuple(results)


def _covers(pass_1_PC: Float, pass_1_P: Float) -> bool:
    mean_C, mean = pass_1_PC.mean(axis=0), pass_1_P.mean()
    return bool(mean_C.min() <= mean <= mean_C.max())


def _retentions(sums_BQ: Float, size: int, problems: int, curve_B: Float, point_B: Float) -> tuple[Float, Float]:
    """Retention of a curve at a point's pass@1, and of the point, in B replicates.

    Pseudo-problems that only one of both keeps, with the weights `curve_B` and `point_B`, keep the difference from
    having no width where no problem differs.
    """
    pass_1_BC, kept_BC = sums_BQ[:, :size], sums_BQ[:, size : 2 * size]
    at_B, kept_B, base_B = sums_BQ[:, 2 * size], sums_BQ[:, 2 * size + 1], sums_BQ[:, 2 * size + 2]
    order_BC = np.argsort(pass_1_BC, axis=1, kind="stable")
    x_BC, y_BC = np.take_along_axis(pass_1_BC, order_BC, 1), np.take_along_axis(kept_BC, order_BC, 1)
    row_B = np.arange(len(at_B))
    right_B = np.clip((x_BC < at_B[:, None]).sum(axis=1), 1, size - 1)
    left_x, right_x = x_BC[row_B, right_B - 1], x_BC[row_B, right_B]
    width_B = np.maximum(right_x - left_x, 1e-12 * problems)
    part_B = np.clip((at_B - left_x) / width_B, 0.0, 1.0)
    on_curve_B = (1 - part_B) * y_BC[row_B, right_B - 1] + part_B * y_BC[row_B, right_B]
    below_B = np.maximum(base_B + curve_B + point_B, 1e-12)
    return (on_curve_B + curve_B) / below_B, (kept_B + point_B) / below_B
