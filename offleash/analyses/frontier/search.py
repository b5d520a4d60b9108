"""The search for the recommended point: a coarse grid, refinement where retention crosses the floor, confirmation.

The search sees counts only, through `Measure`, and every decision follows from them: after a kill, or on another
machine with the same run folders, it makes the same decisions again. Points are chosen on one part of the problems and
the recommended one is confirmed on the other part, so that the interval of its retention owes nothing to the choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil, isfinite

import numpy as np

from offleash.analyses.frontier.retention import (
    PORTFOLIO_SHARES,
    PointSums,
    RetentionDifference,
    differences_at_equal_pass_1,
    portfolio_curve_of,
)
from offleash.data.tally import Tally
from offleash.stats.binomials import Float
from offleash.stats.intervals import Estimate

CLOSEST = 0.04  # blending weights nearer than this are not refined further
INNER = 0.2  # of an interval between two weights: a new weight is not nearer to either of them


class Family(StrEnum):
    BASE = "base"
    BLEND = "blend"
    RL = "rl"
    TEMPERATURE = "temperature"
    CHECKPOINT = "checkpoint"


class Part(StrEnum):
    """Which problems: those that choose, or those that confirm."""

    CHOOSING = "choosing"
    HELD_OUT = "held_out"


@dataclass(frozen=True)
class Candidate:
    """A model at a decoding that may be recommended."""

    label: str
    family: Family
    weight: float | None = None  # of the model after RL in a blend; 0 of the base, 1 of that model
    temperature: float | None = None  # where it is not that of the decoding


@dataclass(frozen=True)
class Grid:
    """The points that are drawn first, and how many may follow."""

    base: Candidate
    rl: Candidate
    checkpoints: tuple[Candidate, ...] = ()
    weights: tuple[float, ...] = ()  # of blends; empty where the two models cannot be blended
    temperatures: tuple[float, ...] = ()  # of the model after RL
    refinements: int = 0

    @property
    def trained(self) -> tuple[Candidate, ...]:
        return (*self.checkpoints, self.rl)

    @property
    def coarse(self) -> tuple[Candidate, ...]:
        """Blends and temperatures of the coarse grid."""
        blends = tuple(blend(weight) for weight in self.weights)
        return blends + tuple(
            Candidate(f"{self.rl.label} at T {value:g}", Family.TEMPERATURE, None, value) for value in self.temperatures
        )


def blend(weight: float) -> Candidate:
    return Candidate(f"blend {weight:g}", Family.BLEND, weight)


# Counts of all candidates on a part of the problems, the first of them the base with 2k samples.
Measure = Callable[[Sequence[Candidate], Part], Tally]


@dataclass(frozen=True)
class FrontierPoint:
    """A candidate with its numbers on the choosing problems."""

    label: str
    family: Family
    weight: float | None
    temperature: float | None
    pass_1: Estimate
    pass_k: Estimate
    SRR: Estimate
    retention: Estimate  # SRR divided by that of the base drawn again
    lost_over_chance: Estimate  # problems
    dominated: bool  # another point has at least its pass@1 and its retention


@dataclass(frozen=True)
class PortfolioPoint:
    """A budget of which a share is the base's and the rest that of the model after RL."""

    base_share: float
    pass_1: float
    retention: Estimate


@dataclass(frozen=True)
class HeldOutConfirmation:
    """The recommended point on the problems that did not choose it."""

    problems: int
    pass_1: Estimate
    base_pass_1: Estimate
    rl_pass_1: Estimate
    gain: Estimate  # of pass@1 over the base
    pass_k: Estimate
    SRR: Estimate
    redraw_SRR: float  # of the base drawn again
    retention: Estimate
    rl_retention: Estimate
    shown: bool  # the lower end of retention is at or above the floor
    problems_needed: int | None  # held out, that would show it at this estimate; None: shown, or no number would


@dataclass(frozen=True)
class Search:
    """What was measured and what follows from it."""

    points: tuple[FrontierPoint, ...]
    portfolio: tuple[PortfolioPoint, ...]
    differences: tuple[RetentionDifference, ...]
    gains: tuple[tuple[str, Estimate], ...]  # of pass@1 over the base, by every trained model; together 95%
    problems: int  # that chose
    recommended: FrontierPoint | None
    reason: str | None  # why nothing is recommended
    confirmation: HeldOutConfirmation | None


NO_GAIN, NO_POINT = "no_gain", "none_above_floor"


def search(grid: Grid, measure: Measure, k: int, floor: float) -> Search:
    """Measure the coarse grid, refine it, choose by the rule and confirm the choice on held-out problems.

    The rule: the highest pass@1 among the points whose retention is at least the floor. Nothing is recommended where no
    trained model has a pass@1 significantly above the base's at the same decoding: then there is no gain to trade.

    Args:
        grid: what to draw first, and how many refinements.
        measure: draws what is missing, and gives counts.
        k: the budget at which retention is meant.
        floor: the least retention, above 0 and at most 1.
    """
    candidates = [grid.base, *grid.trained]
    tally = measure(candidates, Part.CHOOSING)
    sums = PointSums.of(tally, k)
    trained = len(grid.trained)
    gains = tuple((candidate.label, sums.gain(r, trained)) for r, candidate in enumerate(candidates) if r)
    if not any(gain.interval.low > 0 for _, gain in gains):
        return Search(_points(candidates, sums), (), (), gains, len(sums), None, NO_GAIN, None)
    candidates += grid.coarse
    tally = measure(candidates, Part.CHOOSING)
    for _ in range(grid.refinements):
        weight = next_weight(candidates, PointSums.of(tally, k), floor)
        if weight is None:
            break
        candidates.append(blend(weight))
        tally = measure(candidates, Part.CHOOSING)
    sums = PointSums.of(tally, k)
    points = _points(candidates, sums)
    compared = compare_families(grid, candidates, tally, sums)
    portfolio = _portfolio(tally, sums, candidates.index(grid.rl))
    best = max(
        (point for point in points if point.retention.value >= floor), key=lambda point: point.pass_1.value
    )  # the base itself has a retention of 1
    if best.family is Family.BASE:
        return Search(points, portfolio, compared, gains, len(sums), None, NO_POINT, None)
    chosen = candidates[points.index(best)]
    confirmation = confirm(grid, chosen, measure, k, floor)
    return Search(points, portfolio, compared, gains, len(sums), best, None, confirmation)


def next_weight(candidates: Sequence[Candidate], sums: PointSums, floor: float) -> float | None:
    """The blending weight at which retention crosses the floor, by linear interpolation; None where it is known.

    The crossing of the largest weights counts, since pass@1 rises with the weight. A new weight keeps a fifth of the
    interval away from both ends, so that noise at one end does not waste it.
    """
    kept_R = sums.kept_PR.sum(axis=0)
    line = sorted((c.weight, float(kept_R[r] / kept_R[0])) for r, c in enumerate(candidates) if c.weight is not None)
    crossings = [pair for pair in pairwise(line) if pair[0][1] >= floor > pair[1][1]]
    if line[-1][1] >= floor or not crossings or len(line) < 3:
        return None
    (low, kept_low), (high, kept_high) = crossings[-1]
    if high - low < 2 * CLOSEST:
        return None
    part = (kept_low - floor) / (kept_low - kept_high)
    return round(low + (high - low) * min(max(part, INNER), 1 - INNER), 2)


def _points(candidates: Sequence[Candidate], sums: PointSums) -> tuple[FrontierPoint, ...]:
    pass_1_R = sums.pass_1_PR.mean(axis=0)
    retentions = [sums.retention(r) for r in range(len(candidates))]
    kept_R = np.array([retention.value for retention in retentions])
    points = []
    for r, candidate in enumerate(candidates):
        as_good_R = (pass_1_R >= pass_1_R[r]) & (kept_R >= kept_R[r])
        better_R = as_good_R & ((pass_1_R > pass_1_R[r]) | (kept_R > kept_R[r]))
        points.append(
            FrontierPoint(
                candidate.label,
                candidate.family,
                candidate.weight,
                candidate.temperature,
                sums.pass_1(r),
                sums.pass_k(r),
                sums.srr(r),
                retentions[r],
                sums.lost(r),
                bool(better_R.any()),
            )
        )
    return tuple(points)


def _portfolio(tally: Tally, sums: PointSums, rl: int) -> tuple[PortfolioPoint, ...]:
    pass_1_PC, kept_PC = portfolio_curve_of(tally, rl, sums.k)
    return tuple(
        PortfolioPoint(share, float(pass_1_PC[:, c].mean()), sums.retention_of(kept_PC[:, c]))
        for c, share in enumerate(PORTFOLIO_SHARES)
    )


BLENDS, PORTFOLIO = "blends", "portfolio"


def compare_families(
    grid: Grid, candidates: Sequence[Candidate], tally: Tally, sums: PointSums
) -> tuple[RetentionDifference, ...]:
    """The blends against every temperature and checkpoint, and the portfolio against the blends of the coarse grid.

    Which points are compared is fixed before anything is drawn: the refined weights, which the samples chose, are only
    points of the curve.
    """
    if not grid.weights:
        return ()
    on_line = [r for r, candidate in enumerate(candidates) if candidate.weight is not None]
    curve: tuple[Float, Float] = sums.pass_1_PR[:, on_line], sums.kept_PR[:, on_line]
    others = [
        (BLENDS, *curve, candidate.label, r)
        for r, candidate in enumerate(candidates)
        if candidate.family in (Family.TEMPERATURE, Family.CHECKPOINT)
    ]
    split = portfolio_curve_of(tally, candidates.index(grid.rl), sums.k)
    coarse = [blend(weight) for weight in grid.weights]
    mixed = [(PORTFOLIO, *split, candidate.label, r) for r, candidate in enumerate(candidates) if candidate in coarse]
    return differences_at_equal_pass_1(sums, [*others, *mixed])


def confirm(grid: Grid, chosen: Candidate, measure: Measure, k: int, floor: float) -> HeldOutConfirmation:
    """The chosen point, the base and the model after RL on problems that had no part in the choice."""
    candidates = [grid.base, grid.rl] if chosen == grid.rl else [grid.base, grid.rl, chosen]
    sums = PointSums.of(measure(candidates, Part.HELD_OUT), k)
    at = len(candidates) - 1
    retention = sums.retention(at)
    shown = retention.interval.low >= floor
    return HeldOutConfirmation(
        problems=len(sums),
        pass_1=sums.pass_1(at),
        base_pass_1=sums.pass_1(0),
        rl_pass_1=sums.pass_1(1),
        gain=sums.gain(at),
        pass_k=sums.pass_k(at),
        SRR=sums.srr(at),
        redraw_SRR=sums.srr(0).value,
        retention=retention,
        rl_retention=sums.retention(1),
        shown=shown,
        problems_needed=None if shown else _problems_needed(retention, floor, len(sums)),
    )


def _problems_needed(retention: Estimate, floor: float, problems: int) -> int | None:
    """Held-out problems at which the lower end would be at the floor: its distance shrinks as 1/sqrt(problems)."""
    above, half = retention.value - floor, retention.value - retention.interval.low
    if not isfinite(above) or above <= 0:
        return None
    return ceil(problems * (half / above) ** 2)
