"""All runs in one table: pass@1, pass@k and the support rates of each run after the first, with 95% intervals.

The rows keep the order in which the runs were named: with overlapping intervals a rank would say more than is known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.headline import Finding, headline
from offleash.data.tally import Per
from offleash.stats.change import SupportChange
from offleash.stats.curves import Curve, curve
from offleash.stats.intervals import Estimate, Interval
from offleash.stats.support_classes import thinned_cells

RATE_NAMES = ("SRR", "NDR", "NSCR")
CURVES = ("before", "after", "difference")
# the arrays of a curve, cut to one budget together
_CURVE_ARRAYS = ("k_K", "value_K", "low_K", "high_K", "band_low_K", "band_high_K")


@dataclass(frozen=True)
class LeaderboardRow:
    """One run: how often one and k samples solve a problem, and its support against that of the first run."""

    run: str
    k: int
    pass_at_1: Estimate | None  # None per answer or solution, where there is no pass@k
    pass_at_k: Estimate | None
    SRR: Estimate | None  # None: the first run, with which the others are compared
    NDR: Estimate | None
    NSCR: Estimate | None
    redraw: dict[str, float] | None  # the rates that an unchanged model drawn twice would have
    finding: Finding | None

    def rate(self, name: str) -> Estimate | None:
        """SRR, NDR or NSCR by its name."""
        estimate: Estimate | None = getattr(self, name)
        return estimate


def leaderboard(comparisons: Sequence[Comparison]) -> list[LeaderboardRow]:
    """The first run and each run after it, in the order in which they were compared; empty for a single comparison."""
    if len(comparisons) < 2:
        return []
    return [_first_row(comparisons[0]), *(_row(comparison) for comparison in comparisons)]


def _first_row(comparison: Comparison) -> LeaderboardRow:
    k = comparison.change.k
    first, all_k = (_pass_estimate(comparison, budget, "before") for budget in (1, k))
    return LeaderboardRow(comparison.before.name, k, first, all_k, None, None, None, None, None)


def _row(comparison: Comparison) -> LeaderboardRow:
    change = comparison.change
    SRR, NDR, NSCR = (Estimate(change.value[name], change.interval[name]) for name in RATE_NAMES)
    first, all_k = (_pass_estimate(comparison, budget, "after") for budget in (1, change.k))
    finding = headline(comparison).finding
    return LeaderboardRow(comparison.after.name, change.k, first, all_k, SRR, NDR, NSCR, _redraw(change), finding)


def _redraw(change: SupportChange) -> dict[str, float] | None:
    return None if change.redraw is None else {name: change.redraw.value.get(name, math.nan) for name in RATE_NAMES}


def _pass_estimate(comparison: Comparison, k: int, side: str) -> Estimate | None:
    """pass@k of one run; None per answer or solution."""
    if comparison.tally.per is not Per.PROBLEM:
        return None
    run_curves = curves_at(comparison, k)[side]
    return Estimate(float(run_curves.value_K[0]), Interval(float(run_curves.low_K[0]), float(run_curves.high_K[0])))


def curves_at(comparison: Comparison, k: int) -> dict[str, Curve]:
    """pass@k before, after and their difference at one budget, from the curves where they have it."""
    index = np.flatnonzero(comparison.curves["before"].k_K == k)
    # curves are kept at powers of two and the largest budget; another k is computed here, with the same seed
    if not index.size:
        cells = thinned_cells(comparison.tally, np.array([k]))
        sums = cells.sums(comparison.question.replicates, comparison.question.seed)
        return {name: curve(sums, name) for name in CURVES}
    whole = {name: comparison.curves[name] for name in CURVES}
    return {
        name: Curve(of_all.name, *(getattr(of_all, axis)[index] for axis in _CURVE_ARRAYS))
        for name, of_all in whole.items()
    }
