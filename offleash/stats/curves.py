"""Curves over the budget k: pass@k and support metrics with intervals and bands, crossings, equivalent budgets.

A `Curve` is one statistic of two runs; `PassCurve`, part of the public API, has pass@k of every run of a tally.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from offleash.data.tally import Tally
from offleash.display import html
from offleash.stats.binomials import Float, Integer
from offleash.stats.change import common_budget
from offleash.stats.intervals import LEVEL, REPLICATES, simultaneous_band
from offleash.stats.support_classes import BEFORE, CellSums, reach_PRK, thinned_cells

EQUALITY_TOLERANCE = 1e-12  # pass@k of two runs that differ by less are equal but for rounding
RATIO_BOUNDS = {"NSCR": (-1.0, 1.0), "difference": (-1.0, 1.0)}  # every other ratio lies between 0 and 1


@dataclass(frozen=True, repr=False)
class Curve:
    """One statistic at K budgets: its estimate, pointwise intervals, and a band that holds the whole curve at once."""

    name: str
    k_K: Integer
    value_K: Float
    low_K: Float
    high_K: Float
    band_low_K: Float
    band_high_K: Float
    redraw_K: Float | None = None  # of two draws of one model; None where that is not computed

    def __repr__(self) -> str:
        values = ", ".join(f"{k}: {value:.4g}" for k, value in zip(self.k_K.tolist(), self.value_K, strict=True))
        return f"<Curve {self.name!r} over k; {values}>"


def budgets(most: int) -> Integer:
    """Powers of two up to the largest budget, and that budget itself.

    Args:
        most: the largest budget.

    Returns:
        The budgets, ascending.

    Example:
        >>> budgets(12)
        array([ 1,  2,  4,  8, 12])
    """
    powers = 2 ** np.arange(int(most).bit_length(), dtype=np.int64)
    return np.unique(np.append(powers[powers <= most], most))


def dense_budgets(most: int, per_octave: int = 12) -> Integer:
    """Every k up to 16, then some in each octave: fine enough to place a crossing; holds `budgets` too.

    Args:
        most: the largest budget.
        per_octave: budgets between a power of two and the next.

    Returns:
        The budgets, ascending.

    Example:
        >>> dense_budgets(24, per_octave=2)
        array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 23,
               24])
    """
    spread = 2 ** np.arange(4, np.log2(max(most, 1)), 1 / per_octave)
    grid = np.concatenate([np.arange(1, 17), np.rint(spread).astype(np.int64), budgets(most)])
    return np.unique(grid[grid <= most])


def curve(sums: CellSums, name: str, k_K: Integer | None = None) -> Curve:
    """The curve of a ratio (before, after, difference, SRR, NDR, SDS, NSCR) at some of the budgets of `sums`.

    Args:
        sums: sums of the cells at many budgets.
        name: a key of RATIOS in stats/support_classes.py.
        k_K: the budgets; default: all of `sums`.

    Returns:
        The curve with pointwise intervals and a simultaneous band.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 8], [0, 8], [1, 0], [1, 0]])
        >>> sums = thinned_cells(pair, dense_budgets(8)).sums(200)
        >>> curve(sums, 'difference', np.array([1, 8])).value_K.round(3)
        array([ 0.2, -0.4])
    """
    k_K = sums.k_K if k_K is None else k_K
    index_K = sums.index_of(k_K)
    estimate_K, replicate_BK = sums.ratio(name, index_K)
    ends = sums.intervals(name, index_K, plain=(estimate_K, replicate_BK))
    low_K, high_K = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
    band_low_K, band_high_K = np.full(len(k_K), np.nan), np.full(len(k_K), np.nan)
    known_K = ~np.isnan(estimate_K) & ~np.isnan(replicate_BK).any(axis=0)
    band_low_K[known_K], band_high_K[known_K] = simultaneous_band(
        replicate_BK[:, known_K], estimate_K[known_K], RATIO_BOUNDS.get(name, (0.0, 1.0))
    )
    # a band is symmetric and an interval need not be: what holds the whole curve holds each point too
    band_low_K, band_high_K = np.minimum(band_low_K, low_K), np.maximum(band_high_K, high_K)
    redraw_K = sums.redraw(name)
    return Curve(
        name,
        k_K,
        estimate_K,
        low_K,
        high_K,
        band_low_K,
        band_high_K,
        None if redraw_K is None else redraw_K[index_K],
    )


# Where the run before overtakes, and how many of its samples one sample of the run after is worth.


@dataclass(frozen=True)
class Crossing:
    """The budget beyond which the run before has the higher pass@k.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 8], [0, 8], [1, 0], [1, 0]])
        >>> sums = thinned_cells(pair, dense_budgets(8)).sums(200)
        >>> crossing(sums).text()
        'k = 2.39 [< 1, > 8], not resolved'
    """

    k: float | None
    low: float  # 0: below 1
    high: float  # inf: above the largest budget
    most: int
    sign_changes: int
    reason: str | None

    @property
    def is_resolved(self) -> bool:
        return self.k is not None and self.low >= 1 and self.high <= self.most

    def text(self) -> str:
        if self.k is None:
            return self.reason or "none"
        state = "" if self.is_resolved else ", not resolved"
        return f"k = {self.k:.3g} [{', '.join(self.ends())}]{state}"

    def ends(self) -> tuple[str, str]:
        """The ends in words: "< 1" and "> n" lie beyond what was drawn."""
        return _end(self.low, self.most), _end(self.high, self.most)


@dataclass(frozen=True)
class EquivalentBudget:
    """The k at which the run before has the pass@k that the run after has at `of`; `kappa` is their ratio.

    Example:
        >>> EquivalentBudget(of=1, k=4.8, low=3.9, high=6.2, most=64, reason=None).text()
        '4.8 [3.9, 6.2]'
    """

    of: int
    k: float | None
    low: float  # 0: below 1; inf: above the largest budget
    high: float  # the upper end, in the same unit
    most: int
    reason: str | None

    @property
    def kappa(self) -> float | None:
        """1 where the curves cross. A fall alone shows no loss: rates that rose unequally make it fall too."""
        return None if self.k is None else self.k / self.of

    def text(self) -> str:
        k = self.reason if self.k is None else f"{self.k:.3g}"
        return f"{k} [{', '.join(self.ends())}]"

    def ends(self) -> tuple[str, str]:
        """The ends in words: "< 1" and "> n" lie beyond what was drawn."""
        return _end(self.low, self.most), _end(self.high, self.most)


def crossing(sums: CellSums, pair: Tally | None = None) -> Crossing:
    """Invert the pointwise intervals of pass@k before minus after: the last sign change to positive, and its ends.

    Args:
        sums: sums of the cells at dense budgets.
        pair: the tally they come from; with it the point lies between neighbouring whole numbers of samples, without it
            between neighbouring budgets of `sums`.

    Returns:
        The budget, its interval, and why there is none where `k` is None.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 8], [0, 8], [1, 0], [1, 0]])
        >>> sums = thinned_cells(pair, dense_budgets(8)).sums(200)
        >>> round(crossing(sums).k, 2)
        2.39
    """
    difference_K, intervals = sums.ratio_of("difference"), sums.intervals("difference")
    k_K, ahead_K = sums.k_K, -difference_K
    low_K, high_K = (-np.array([getattr(interval, end) for interval in intervals]) for end in ("high", "low"))
    most, sign_K = int(k_K[-1]), np.sign(np.where(np.abs(ahead_K) < EQUALITY_TOLERANCE, 0.0, ahead_K))
    signs = sign_K[sign_K != 0]
    changes = int((signs[1:] != signs[:-1]).sum())
    behind_index, after = np.flatnonzero(high_K < 0), np.flatnonzero(low_K <= 0)
    low = float(k_K[behind_index[-1]]) if behind_index.size else 0.0
    start = after[-1] + 1 if after.size else 0
    high = float(k_K[start]) if start < len(k_K) else np.inf
    point, reason = _last_overtaking(k_K, ahead_K, sign_K, pair)
    return Crossing(point, low, high, most, changes, reason)


def equivalent_budget(sums: CellSums, of: int = 1, level: float = LEVEL, pair: Tally | None = None) -> EquivalentBudget:
    """How many samples of the run before do as well as `of` samples of the run after, with a percentile interval.

    Args:
        sums: sums of the cells at dense budgets.
        of: samples of the run after.
        level: of the interval.
        pair: the tally that the sums come from, as for `crossing`.

    Returns:
        The budget; its `k` is None, with a reason, where it lies outside 1 to the largest budget.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 6], [2, 5], [1, 4]])
        >>> sums = thinned_cells(pair, dense_budgets(8)).sums(200)
        >>> round(equivalent_budget(sums).k, 2)
        2.81
    """
    return equivalent_budgets(sums, np.array([of]), level, pair)[0]


def equivalent_budgets(
    sums: CellSums, budget_K: Integer, level: float = LEVEL, pair: Tally | None = None
) -> tuple[EquivalentBudget, ...]:
    """Equivalent budgets of several numbers of samples of the run after.

    Args:
        sums: sums of the cells at dense budgets.
        budget_K: samples of the run after.
        level: of the intervals.
        pair: the tally that the sums come from, as for `crossing`.

    Returns:
        One EquivalentBudget for each of `budget_K`.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 6], [2, 5], [1, 4]])
        >>> sums = thinned_cells(pair, dense_budgets(8)).sums(200)
        >>> [round(budget.k, 2) for budget in equivalent_budgets(sums, np.array([1, 2]))]
        [2.81, 5.62]
    """
    before_K, before_BK = sums.ratio("before", paired=True)
    after_K, after_BK = sums.ratio("after", sums.index_of(budget_K), paired=True)
    tails, most, results = [(1 - level) / 2, (1 + level) / 2], int(sums.k_K[-1]), []
    estimate_K = _invert(sums.k_K, np.broadcast_to(before_K, (len(budget_K), len(before_K))), after_K)
    if pair is not None:
        estimate_K = _refine(pair, sums.k_K, before_K, after_K, estimate_K)
    for i, of in enumerate(budget_K):
        estimate = float(estimate_K[i])
        replicate_B = _invert(sums.k_K, before_BK, after_BK[:, i])
        low, high = np.quantile(replicate_B, tails, method="inverted_cdf")
        reason = None
        if after_K[i] == 0 and before_K[0] == 0:
            reason = "neither run has a correct sample at such a small budget"
        elif estimate < 1:
            reason = "less than one sample of the run before"
        elif np.isinf(estimate):
            reason = f"more than {most} samples of the run before"
        ends = min(float(low), estimate), max(float(high), estimate)
        results.append(EquivalentBudget(int(of), None if reason else estimate, *ends, most, reason))
    return tuple(results)


def _last_overtaking(
    k_K: Integer, ahead_K: Float, sign_K: Float, pair: Tally | None
) -> tuple[float | None, str | None]:
    most = int(k_K[-1])
    nonzero = np.flatnonzero(sign_K)
    if not nonzero.size:
        return None, "the curves are equal at every k"
    overtakings = [(i, j) for i, j in pairwise(nonzero) if sign_K[i] < 0 < sign_K[j]]
    if not overtakings:
        conclusion = (
            "before is ahead at every k" if sign_K[nonzero[0]] > 0 else f"before is never ahead up to k = {most}"
        )
        return None, conclusion
    if sign_K[nonzero[-1]] < 0:
        return None, f"before was ahead for a while and is behind again at k = {most}"
    where_2 = np.array(overtakings[-1])
    k_2, ahead_2 = k_K[where_2], ahead_K[where_2]
    if pair is not None:
        k_2, ahead_2 = _overtaking_between(pair, *k_2.tolist())
    share = -ahead_2[0] / (ahead_2[1] - ahead_2[0])
    return float(np.exp(np.log(k_2[0]) + share * (np.log(k_2[1]) - np.log(k_2[0])))), None


def _overtaking_between(pair: Tally, low: int, high: int) -> tuple[Integer, Float]:
    """The neighbouring budgets between which the run before overtakes, and how far it is ahead at both.

    It is behind at `low` and ahead at `high`. Budgets at which both are equal are skipped.
    """
    behind, ahead = low, high
    while ahead - behind > 1:
        middle = (behind + ahead) // 2
        lead = _lead(pair, np.array([middle]))[0]
        if abs(lead) < EQUALITY_TOLERANCE:
            break
        behind, ahead = (middle, ahead) if lead < 0 else (behind, middle)
    k_K = np.arange(behind, ahead + 1)
    lead_K = _lead(pair, k_K)
    first = int(np.flatnonzero(lead_K <= -EQUALITY_TOLERANCE)[-1])
    last = first + 1 + int(np.flatnonzero(lead_K[first + 1 :] >= EQUALITY_TOLERANCE)[0])
    return k_K[[first, last]], lead_K[[first, last]]


def _lead(pair: Tally, k_K: Integer) -> Float:
    """pass@k of the run before minus that of the run after."""
    before_K, after_K = reach_PRK(pair, k_K).mean(axis=0)
    return np.asarray(before_K - after_K)


def _refine(pair: Tally, k_K: Integer, before_K: Float, target_Q: Float, estimate_Q: Float) -> Float:
    """The equivalent budgets between neighbouring whole numbers of samples: bisection, since pass@k rises with k."""
    right_Q = (before_K < target_Q[:, None] - EQUALITY_TOLERANCE).sum(axis=1)
    is_inner = np.flatnonzero((right_Q > 0) & (right_Q < len(k_K)))
    low_Q, high_Q, target_Q = k_K[right_Q[is_inner] - 1], k_K[right_Q[is_inner]], target_Q[is_inner]
    while (high_Q - low_Q > 1).any():
        middle_Q = (low_Q + high_Q) // 2
        reached_Q = reach_PRK(pair, middle_Q)[:, BEFORE].mean(axis=0) >= target_Q - EQUALITY_TOLERANCE
        low_Q, high_Q = np.where(reached_Q, low_Q, middle_Q), np.where(reached_Q, middle_Q, high_Q)
    value_2Q = np.stack([reach_PRK(pair, end_Q)[:, BEFORE].mean(axis=0) for end_Q in (low_Q, high_Q)])
    rise_Q = value_2Q[1] - value_2Q[0]
    share_Q = np.clip((target_Q - value_2Q[0]) / np.where(rise_Q > 0, rise_Q, 1.0), 0.0, 1.0)
    budget_Q = estimate_Q.copy()
    budget_Q[is_inner] = np.exp(np.log(low_Q) + share_Q * (np.log(high_Q) - np.log(low_Q)))
    return budget_Q


def _invert(k_K: Integer, curve_BK: Float, target_B: Float) -> Float:
    """The k at which each rising curve meets its target: 0 below the first budget, inf above the last."""
    below_B = (curve_BK < target_B[:, None] - EQUALITY_TOLERANCE).sum(axis=1)
    rows = np.arange(len(curve_BK))
    right_B = np.clip(below_B, 1, max(len(k_K) - 1, 1)) if len(k_K) > 1 else np.zeros(len(rows), np.int64)
    left_B = np.maximum(right_B - 1, 0)
    low_B, high_B = curve_BK[rows, left_B], curve_BK[rows, right_B]
    rise_B = np.where(high_B > low_B, high_B - low_B, 1.0)
    share_B = np.clip((target_B - low_B) / rise_B, 0.0, 1.0)
    log_k = np.log(k_K)
    budget_B = np.exp(log_k[left_B] + share_B * (log_k[right_B] - log_k[left_B]))
    first_B = curve_BK[:, 0]
    below_range_B = (below_B == 0) & (first_B > target_B + EQUALITY_TOLERANCE)
    return np.where(below_B == len(k_K), np.inf, np.where(below_range_B, 0.0, budget_B))


def _end(value: float, most: int) -> str:
    return "< 1" if value < 1 else f"> {most}" if value > most else f"{value:.3g}"


# pass@k of every run of a tally, and where two of them cross.


@dataclass(frozen=True, repr=False)
class PassCurve:
    """pass@k of R runs at the same budgets.

    Example:
        >>> tally = ol.tally_of_counts(8, [[4, 0], [2, 8], [0, 8], [1, 0]])
        >>> curves = pass_curve(tally, replicates=200)
        >>> curves.crossing('before', 'after').text()
        'k = 3.15 [< 1, > 8], not resolved'
    """

    tally: Tally
    runs: dict[str, Curve]
    replicates: int
    seed: int

    def crossing(self, before: str, after: str) -> Crossing:
        """The budget beyond which the run before has the higher pass@k."""
        return crossing(self._sums(before, after), self.tally.pair(before, after))

    def equivalent_budget(self, before: str, after: str, of: int = 1) -> EquivalentBudget:
        """How many samples of the run before do as well as `of` samples of the run after."""
        return equivalent_budget(self._sums(before, after, of), of, pair=self.tally.pair(before, after))

    def _sums(self, before: str, after: str, of: int = 1) -> CellSums:
        pair = self.tally.pair(before, after)
        grid = dense_budgets(common_budget(pair))
        return thinned_cells(pair, np.union1d(grid, [of])).sums(self.replicates, self.seed)

    def __str__(self) -> str:
        k_K = next(iter(self.runs.values())).k_K
        rows = ["k".rjust(8) + "".join(name.rjust(24) for name in self.runs)]
        for i, k in enumerate(k_K):
            cells = (f"{c.value_K[i]:.4f} [{c.low_K[i]:.3f}, {c.high_K[i]:.3f}]" for c in self.runs.values())
            rows.append(f"{k:8d}" + "".join(cell.rjust(24) for cell in cells))
        return "\n".join(rows)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        return html(self)


def pass_curve(tally: Tally, replicates: int = REPLICATES, seed: int = 0) -> PassCurve:
    """The unbiased pass@k curve of every run, up to the largest budget that every problem has.

    Args:
        tally: samples drawn and correct of one or more runs.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        A curve for each run.

    Example:
        >>> counts = ol.tally_of_counts(8, [[2, 4], [0, 1]], runs=("base", "rl"))
        >>> curve = ol.pass_curve(counts, replicates=100)
        >>> list(curve.runs)
        ['base', 'rl']
    """
    k_K = budgets(common_budget(tally))
    runs = {}
    for name in tally.runs:
        sums = thinned_cells(tally.pair(name, name), k_K).sums(replicates, seed)
        runs[name] = curve(sums, "before", np.asarray(k_K))
    return PassCurve(tally, runs, replicates, seed)
