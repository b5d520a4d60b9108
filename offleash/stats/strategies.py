"""Solution strategies ("ways") from their counts: how many, how new, and what a redraw of the run before shows.

W ways of P problems in two runs: way w of problem `problem_W[w]` was seen `count_W2[w]` times in each. There are two
bases for a fair comparison: equal numbers of samples *drawn* (a model that is right more often shows more ways), and
equal numbers of *correct* samples per problem (so that accuracy does not pass for diversity). All expectations are
exact: subsets are drawn without replacement (Hurlbert 1971), and the redraw splits the samples of the run before into
two such draws that share none.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from offleash.stats.binomials import Float, Integer, log_miss
from offleash.stats.intervals import REPLICATES, Estimate, Interval, percentile_intervals, replicate_sums
from offleash.stats.support_classes import AFTER, BEFORE

MIN_PROBLEMS = 10  # problems below which nothing is said about richness or novelty: too few to show their spread


class Basis(StrEnum):
    DRAWN = "drawn"
    CORRECT = "correct"


@dataclass(frozen=True)
class StrategyCounts:
    """How often each way was seen in the run before and in the run after.

    Example:
        >>> count_W2, problem_W = np.array([[4, 0], [1, 6]] * 10), np.repeat(np.arange(10), 2)
        >>> counts = StrategyCounts(count_W2, problem_W, np.full((10, 2), 16), np.zeros(10, dtype=np.int64))
        >>> counts.correct_P2[0]
        array([5, 6])
    """

    count_W2: Integer
    problem_W: Integer  # codes 0..P-1
    drawn_P2: Integer
    stratum_P: Integer

    @property
    def correct_P2(self) -> Integer:
        """Correct samples whose way is known."""
        sums = [np.bincount(self.problem_W, self.count_W2[:, r], len(self.drawn_P2)) for r in (BEFORE, AFTER)]
        return np.stack(sums, axis=1).astype(np.int64)


@dataclass(frozen=True)
class StrategyNovelty:
    """Shares of what the run after shows that as many samples of the run before do not; and of its own second draw.

    Example:
        >>> count_W2, problem_W = np.array([[4, 0], [1, 6]] * 10), np.repeat(np.arange(10), 2)
        >>> counts = StrategyCounts(count_W2, problem_W, np.full((10, 2), 16), np.zeros(10, dtype=np.int64))
        >>> novelty(counts, Basis.CORRECT, k=8, replicates=100).enough
        True
    """

    basis: Basis
    n: float  # samples of each side, drawn or correct; mean over problems
    problems: int
    strategies: Estimate  # share of the ways of the run after that are new
    strategies_redraw: Estimate
    strategies_excess: Estimate  # the difference of the two: 0 for the same model
    mass: Estimate  # share of the correct samples of the run after that were solved in a new way
    mass_redraw: Estimate
    mass_excess: Estimate

    @property
    def enough(self) -> bool:
        """Whether the problems are enough to say anything."""
        return self.problems >= MIN_PROBLEMS


@dataclass(frozen=True)
class Richness:
    """Mean number of different ways a problem at equal numbers of samples.

    Example:
        >>> count_W2, problem_W = np.array([[4, 0], [1, 6]] * 10), np.repeat(np.arange(10), 2)
        >>> counts = StrategyCounts(count_W2, problem_W, np.full((10, 2), 16), np.zeros(10, dtype=np.int64))
        >>> richness(counts, Basis.CORRECT, k=8, replicates=100).enough
        True
    """

    basis: Basis
    n: float
    problems: int
    before: Estimate
    after: Estimate
    difference: Estimate

    @property
    def enough(self) -> bool:
        """Whether the problems are enough to say anything."""
        return self.problems >= MIN_PROBLEMS


def novelty(
    counts: StrategyCounts, basis: Basis, k: int, replicates: int = REPLICATES, seed: int = 0
) -> StrategyNovelty | None:
    """Novelty at up to k samples a side, as many as leave a redraw of the run before; None where there are too few.

    On the basis of drawn samples every problem has the same number; of correct ones, as many as both runs have.

    Args:
        counts: how often each strategy was seen.
        basis: equal numbers of samples drawn, or of correct ones.
        k: samples per side, at most.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The shares with their 95% intervals.

    Example:
        >>> count_W2, problem_W = np.array([[4, 0], [1, 6]] * 10), np.repeat(np.arange(10), 2)
        >>> counts = StrategyCounts(count_W2, problem_W, np.full((10, 2), 16), np.zeros(10, dtype=np.int64))
        >>> new = novelty(counts, Basis.DRAWN, k=8, replicates=100)
        >>> round(new.strategies.value, 3), round(new.strategies_redraw.value, 3)
        (0.5, 0.368)
    """
    total_P2 = counts.drawn_P2 if basis is Basis.DRAWN else counts.correct_P2
    n_P = np.minimum(total_P2[:, BEFORE] // 2, total_P2[:, AFTER])
    if basis is Basis.DRAWN:
        n_P = np.full_like(n_P, min(k, int(n_P.min(initial=k))))
    kept_P = n_P >= 1
    if not kept_P.any():
        return None
    value_P8 = _novelty_columns(counts, total_P2, np.where(kept_P, n_P, 0))[kept_P]
    sample_2 = (1 / total_P2[kept_P]).mean(axis=0)
    estimate_Q, interval = _shares(value_P8, sample_2, counts.stratum_P[kept_P], replicates, seed)
    share, redraw, excess, mass, mass_redraw, mass_excess = (
        Estimate(float(value), ends) for value, ends in zip(estimate_Q, interval, strict=True)
    )
    n, problems = float(n_P[kept_P].mean()), int(kept_P.sum())
    return StrategyNovelty(basis, n, problems, share, redraw, excess, mass, mass_redraw, mass_excess)


def richness(
    counts: StrategyCounts, basis: Basis, k: int, replicates: int = REPLICATES, seed: int = 0
) -> Richness | None:
    """Richness rarefied to k drawn samples, or to the correct samples of the run that has fewer of them.

    Args:
        counts: how often each strategy was seen.
        basis: equal numbers of samples drawn, or of correct ones.
        k: samples, at most.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The means with their 95% intervals; None where no problem has a sample.

    Example:
        >>> count_W2, problem_W = np.array([[4, 0], [1, 6]] * 10), np.repeat(np.arange(10), 2)
        >>> counts = StrategyCounts(count_W2, problem_W, np.full((10, 2), 16), np.zeros(10, dtype=np.int64))
        >>> rich = richness(counts, Basis.CORRECT, k=8, replicates=100)
        >>> round(rich.before.value, 3), round(rich.after.value, 3)
        (2.0, 1.0)
    """
    total_P2 = counts.drawn_P2 if basis is Basis.DRAWN else counts.correct_P2
    n_P = total_P2.min(axis=1)
    if basis is Basis.DRAWN:
        n_P = np.full_like(n_P, min(k, int(n_P.min(initial=k))))
    kept_P = n_P >= 1
    if not kept_P.any():
        return None
    n_W, total_W2 = n_P[counts.problem_W], total_P2[counts.problem_W]
    seen_PR = [
        _per_problem(counts, _expected_seen_count(total_W2[:, r], counts.count_W2[:, r], n_W)) for r in (BEFORE, AFTER)
    ]
    before_P, after_P = (seen_P[kept_P] for seen_P in seen_PR)
    value_P4 = np.stack([before_P, after_P, after_P - before_P, np.ones_like(after_P)], axis=1)
    sums_B4 = replicate_sums(value_P4, _change_columns(value_P4), counts.stratum_P[kept_P], replicates, seed)
    estimate_3 = value_P4[:, :3].mean(axis=0)
    ends = percentile_intervals(sums_B4[:, :3] / sums_B4[:, 3:], estimate_3)
    estimates = (Estimate(float(value), interval) for value, interval in zip(estimate_3, ends, strict=True))
    return Richness(basis, float(n_P[kept_P].mean()), int(kept_P.sum()), *estimates)


def _change_columns(value_P4: Float) -> Float:
    """Pseudo-problems in which the run after shows more, and fewer: by a way, or twice as far as problems move.

    Without them few problems that happen to move alike have an interval of no width, and others too short a one.
    """
    size = max(1.0, 2 * float(np.sqrt(np.mean(value_P4[:, 2] ** 2))))
    common_mean = float(value_P4[:, [BEFORE, AFTER]].mean())
    return np.array([[common_mean - move / 2, common_mean + move / 2, move, 1.0] for move in (size, -size)])


def _novelty_columns(counts: StrategyCounts, total_P2: Integer, n_P: Integer) -> Float:
    """New and all, of ways and of mass, of the run after and of a second draw of the run before: P x 8."""
    n_W, total_W2 = n_P[counts.problem_W], total_P2[counts.problem_W]
    (base_W, rl_W), (all_W, drawn_W) = counts.count_W2.T, total_W2.T
    unseen_W = np.exp(log_miss(all_W, base_W, n_W))  # in n samples of the run before
    seen_W = _expected_seen_count(drawn_W, rl_W, n_W)
    redraw_W = unseen_W - np.exp(log_miss(all_W, base_W, 2 * n_W))
    share_W2 = counts.count_W2 / np.maximum(total_W2, 1)
    # a sample of the second draw: none of the others of its way is among n of the remaining samples
    sample_unseen_W = np.where(base_W > 0, np.exp(log_miss(all_W - 1, np.maximum(base_W - 1, 0), n_W)), 0.0)
    columns = (
        (unseen_W * seen_W, seen_W),
        (redraw_W, 1 - unseen_W),
        (share_W2[:, AFTER] * unseen_W, share_W2[:, AFTER]),
        (share_W2[:, BEFORE] * sample_unseen_W, share_W2[:, BEFORE]),
    )
    return np.stack([_per_problem(counts, np.nan_to_num(column_W)) for pair in columns for column_W in pair], axis=1)


def _shares(
    value_P8: Float, sample_2: Float, stratum_P: Integer, replicates: int, seed: int
) -> tuple[Float, list[Interval]]:
    """New over all, for ways then mass: of the run after, of a redraw, and their difference; with intervals.

    Two pseudo-problems, new only after and only in the redraw, give a zero its width and few problems the spread that
    they cannot show: each has one way, and as much new mass as the problem that moved most, or one sample.
    """
    share_P4 = np.nan_to_num(_ratios(value_P8))
    mean_total_4 = np.array([1.0, 1.0, *value_P8[:, [5, 7]].mean(axis=0)])
    most = np.abs(share_P4[:, 2] - share_P4[:, 3]).max()
    pseudo_new_4 = np.array([1.0, 1.0, *np.maximum(most * mean_total_4[2:], sample_2[[AFTER, BEFORE]])])
    pseudo_28 = np.zeros((2, 8))
    pseudo_28[:, 1::2] = np.maximum(mean_total_4, pseudo_new_4)
    pseudo_28[0, [0, 4]] = pseudo_new_4[[0, 2]]
    pseudo_28[1, [2, 6]] = pseudo_new_4[[1, 3]]
    sums_B8 = replicate_sums(value_P8, pseudo_28, stratum_P, replicates, seed)
    shares = [_ratios(value_P8.sum(axis=0)[None]), _ratios(sums_B8)]
    estimate_1Q, replicate_BQ = (
        np.stack([new_B, redraw_B, new_B - redraw_B, mass_B, mass_redraw_B, mass_B - mass_redraw_B], axis=1)
        for new_B, redraw_B, mass_B, mass_redraw_B in (share.T for share in shares)
    )
    return estimate_1Q[0], percentile_intervals(replicate_BQ, estimate_1Q[0])


def _ratios(sums_B8: Float) -> Float:
    ratio_B4: Float = np.full((len(sums_B8), 4), np.nan)
    np.divide(sums_B8[:, 0::2], sums_B8[:, 1::2], out=ratio_B4, where=sums_B8[:, 1::2] > 0)
    return ratio_B4


def _expected_seen_count(total_W: Integer, count_W: Integer, n_W: Integer) -> Float:
    """Chance that n of the samples, without replacement, show the way; 0 where there are fewer than n."""
    return np.nan_to_num(0.0 - np.expm1(log_miss(total_W, count_W, n_W)))


def _per_problem(counts: StrategyCounts, value_W: NDArray[np.float64]) -> Float:
    return np.bincount(counts.problem_W, weights=value_W, minlength=len(counts.drawn_P2)).astype(np.float64)
