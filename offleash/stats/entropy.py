"""Entropy of runs: paired means over benchmarks with intervals, answer entropy at equal n, and forking tokens.

`means` takes any measure per problem. It averages within benchmarks and then over them: "Avg" of Table 5 in
arXiv:2507.14843. The single-run estimators are in stats/diversity.py, the analysis itself in analyses/entropy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from offleash.stats.binomials import Float, Integer
from offleash.stats.diversity import entropy_rarefied
from offleash.stats.intervals import (
    MIN_EFFECTIVE_PROBLEMS,
    NO_INTERVAL,
    REPLICATES,
    Interval,
    clipped,
    effective_size,
    percentile_intervals,
    problem_sums,
    pseudo_weights,
    strata,
    student,
)

Text = NDArray[np.str_]

ROUNDING = 1e-9  # a smaller difference of entropies is rounding
FORK_SHARE = 0.2  # share of tokens called forks: arXiv:2506.01939


@dataclass(frozen=True)
class Widening:
    """Pseudo-problems that widen the intervals of a measure, lest runs that look the same get one of no width.

    Of a `share` they lie at 0 and 1, a difference of shares then at -1, 0 and 1: as in the intervals of pass@k.
    Of another measure they lie so far on both sides of its mean; 0 where problems differ anyway.
    """

    by: float = 0.0
    share: bool = False


class Direction(StrEnum):
    """Which way a mean went, as far as its interval tells."""

    UP = "up"
    DOWN = "down"
    UNRESOLVED = "not resolved"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Means:
    """One measure of R runs over the problems that all of them know: means, and what they differ by from the first.

    Example:
        >>> value_PR = np.array([[0.1, 0.3], [0.2, 0.5], [0.4, 0.4]] * 4)
        >>> benchmark_P = np.array(['a'] * 6 + ['b'] * 6)
        >>> str(means(value_PR, benchmark_P, replicates=500).direction(1))
        'up'
    """

    problems: int
    value_R: Float  # NaN: that run does not know it
    interval_R: tuple[Interval, ...]
    difference_R: Float  # from the first run; 0 for itself
    difference_interval_R: tuple[Interval, ...]

    def direction(self, r: int) -> Direction:
        """Which way run r went from the first."""
        ends = self.difference_interval_R[r]
        if np.isnan(self.difference_R[r]) or np.isnan(ends.low):
            return Direction.UNKNOWN
        return Direction.UP if ends.low > 0 else Direction.DOWN if ends.high < 0 else Direction.UNRESOLVED


@dataclass(frozen=True)
class Square:
    """Problems by the way of their token entropy and of their answer entropy, from the first run to another.

    Example:
        >>> Square(1, 2, 3, 4, 5, Direction.UP, Direction.DOWN).problems
        15
    """

    up_up: int  # token entropy, then answer entropy
    up_down: int
    down_up: int
    down_down: int
    level: int  # one of the two is the same in both runs
    token: Direction  # of the mean
    answer: Direction

    @property
    def problems(self) -> int:
        """Problems that know both entropies in both runs."""
        return self.up_up + self.up_down + self.down_up + self.down_down + self.level


def mean_of_benchmarks(value_P: Float, benchmark_P: Text) -> float:
    """The mean over benchmarks of their means over problems.

    Args:
        value_P: a value per problem.
        benchmark_P: the benchmark of each problem.

    Returns:
        The mean; NaN without problems.

    Example:
        >>> mean_of_benchmarks(np.array([1.0, 1.0, 1.0, 5.0]), np.array(['a', 'a', 'a', 'b']))
        3.0
    """
    return float((value_P * _benchmark_weights(benchmark_P)).mean()) if len(value_P) else float("nan")


def means(
    value_PR: Float,
    benchmark_P: Text,
    interval_widening: Widening | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Means:
    """Means of benchmarks of every run and their differences from the first run, on the problems all of them know.

    A column of NaN is a run that does not know the measure: it has no mean, and leaves out no problem. Of a few
    problems only a share has an interval; where one small benchmark weighs as much as a large one, its few problems
    decide, and it is their number that counts.

    Args:
        value_PR: the measure of each problem in each run; NaN: not known.
        benchmark_P: the benchmark of each problem.
        interval_widening: pseudo-problems of the measure; default: none.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        Means and differences with their 95% intervals.

    Example:
        >>> value_PR = np.array([[0.1, 0.3], [0.2, 0.5], [0.4, 0.4]] * 4)
        >>> benchmark_P = np.array(['a'] * 6 + ['b'] * 6)
        >>> means(value_PR, benchmark_P, replicates=500).difference_R.round(4)
        array([0.    , 0.1667])
    """
    known_R = ~np.isnan(value_PR).all(axis=0)
    known_P = ~np.isnan(value_PR[:, known_R]).any(axis=1) & bool(known_R.any())
    value, benchmark = value_PR[known_P], benchmark_P[known_P]
    problems, runs = value.shape
    both = np.concatenate([value, value - value[:, :1]], axis=1)
    usable = np.flatnonzero(~np.isnan(both).any(axis=0) & (problems > 0))
    estimate, ends = np.full(2 * runs, np.nan), [NO_INTERVAL] * (2 * runs)
    if usable.size:
        benchmark_weight_P, widening = _benchmark_weights(benchmark), interval_widening or Widening()
        estimate[usable] = (both[:, usable] * benchmark_weight_P[:, None]).mean(axis=0)
        intervals = _intervals(
            both[:, usable], estimate[usable], usable < runs, benchmark, widening, (replicates, seed)
        )
        for index, interval in zip(usable, intervals, strict=True):
            most = 1.0 if widening.share else np.inf
            ends[index] = clipped(interval, 0.0 if index < runs else -most, most)
    return Means(problems, estimate[:runs], tuple(ends[:runs]), estimate[runs:], tuple(ends[runs:]))


def square(token_P2: Float, answer_P2: Float, token: Direction, answer: Direction) -> Square:
    """The four cells of problems that know both entropies in both runs, beside the ways of the means.

    Args:
        token_P2: token entropy of each problem before and after; NaN: not known.
        answer_P2: answer entropy of the same problems, before and after.
        token: which way the mean token entropy went.
        answer: which way the mean answer entropy went.

    Returns:
        Counts of problems.

    Example:
        >>> token_P2, answer_P2 = np.array([[1.0, 2.0], [1.0, 0.5]]), np.array([[1.0, 0.0], [1.0, 1.0]])
        >>> cells = square(token_P2, answer_P2, Direction.UNRESOLVED, Direction.DOWN)
        >>> cells.up_down, cells.level
        (1, 1)
    """
    token_P, answer_P = (value[:, 1] - value[:, 0] for value in (token_P2, answer_P2))
    known_P = ~np.isnan(token_P) & ~np.isnan(answer_P)
    sign = [np.where(np.abs(change_P) < ROUNDING, 0, np.sign(change_P))[known_P] for change_P in (token_P, answer_P)]
    count = {(t, a): int(((sign[0] == t) & (sign[1] == a)).sum()) for t in (1, -1) for a in (1, -1)}
    level = int(known_P.sum()) - sum(count.values())
    return Square(count[1, 1], count[1, -1], count[-1, 1], count[-1, -1], level, token, answer)


def entropy_at_equal_n(counts: Sequence[tuple[Integer, Integer]], problems: int) -> tuple[Float, Integer]:
    """Plug-in entropy of every run, each problem rarefied to the samples that all runs have of it; and those n.

    Of each run the counts of answers and the problems they belong to. At equal n the bias is the same for all runs,
    and no problem is left out but those with fewer than two samples in some run.

    Args:
        counts: for each run, the counts of its answers and the row of the problem of each.
        problems: how many problems there are.

    Returns:
        Nats per problem and run, NaN where a run has fewer than two samples; and the n of each problem.

    Example:
        >>> base = np.array([3, 1]), np.array([0, 0])
        >>> rl = np.array([2]), np.array([0])
        >>> value_PR, n_P = entropy_at_equal_n([base, rl], 1)
        >>> value_PR.round(4), n_P
        (array([[0.3466, 0.    ]]), array([2]))
    """
    total_RP = [np.bincount(problem_A, weights=count_A, minlength=problems) for count_A, problem_A in counts]
    n_P = np.min(total_RP, axis=0).astype(np.int64)
    value_PR = np.full((problems, len(counts)), np.nan)
    levels = np.unique(n_P[n_P >= 2])
    for r, (count_A, problem_A) in enumerate(counts):
        order = np.argsort(n_P[problem_A], kind="stable")
        count, problem = count_A[order], problem_A[order]
        start_N, stop_N = (np.searchsorted(n_P[problem], levels, side=side) for side in ("left", "right"))
        for n, start, stop in zip(levels.tolist(), start_N, stop_N, strict=True):
            row_U, code_A = np.unique(problem[start:stop], return_inverse=True)
            value_PR[row_U, r] = entropy_rarefied(count[start:stop], code_A, row_U.size, n)
    return value_PR, n_P


def top_entropy_share(tokens_H: Float, entropy_H: Float, share: float = FORK_SHARE) -> Float:
    """How much of all entropy the most uncertain tokens hold, from tokens and entropy by height, lowest first.

    Any axes may stand before that of heights. The bin that the share ends in is taken in part, at its mean.

    Args:
        tokens_H: tokens in each bin of entropy, lowest first.
        entropy_H: the sum of their entropies.
        share: of tokens that are called forks.

    Returns:
        A share of all entropy; NaN where there is none.

    Example:
        >>> float(top_entropy_share(np.array([8.0, 2.0]), np.array([1.0, 3.0])))
        0.75
    """
    tokens, entropy = tokens_H[..., ::-1], entropy_H[..., ::-1]
    wanted_tokens = share * tokens.sum(axis=-1, keepdims=True)
    before = np.cumsum(tokens, axis=-1) - tokens
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(tokens > 0, np.clip((wanted_tokens - before) / tokens, 0.0, 1.0), 0.0)
        return np.asarray((part * entropy).sum(axis=-1) / entropy.sum(axis=-1))


def fork_height(tokens_H: Float, step: float, share: float = FORK_SHARE) -> float:
    """The entropy (nats) from which on a token is among the most uncertain, to the step of the heights.

    Args:
        tokens_H: tokens in each bin of entropy, lowest first.
        step: the width of a bin in nats.
        share: of tokens that are called forks.

    Returns:
        Nats; NaN without tokens.

    Example:
        >>> fork_height(np.array([8.0, 1.0, 1.0]), step=0.5)
        0.5
    """
    above_H = np.cumsum(tokens_H[::-1])[::-1]
    reached = np.flatnonzero(above_H >= share * above_H[0]) if above_H.size and above_H[0] > 0 else np.array([])
    return float(reached[-1] * step) if reached.size else float("nan")


def replicate_tokens(value_PQ: Float, benchmark_P: Text, replicates: int = REPLICATES, seed: int = 0) -> Float:
    """Sums over tokens in every replicate: problems are resampled, and all of their tokens with them.

    Args:
        value_PQ: sums over the tokens of each problem.
        benchmark_P: the benchmark of each problem.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        Sums in each replicate, B x Q.

    Example:
        >>> replicate_tokens(np.ones((6, 1)), np.array(['a'] * 6), replicates=3).round(6).ravel()
        array([6., 6., 6.])
    """
    return problem_sums(value_PQ, strata(benchmark_P), replicates, seed)


def _intervals(
    value_PQ: Float,
    estimate_Q: Float,
    single_run_Q: NDArray[np.bool_],
    benchmark_P: Text,
    widening: Widening,
    drawn: tuple[int, int],
) -> Sequence[Interval]:
    """Of means of one run (`single_run_Q`) and of differences; `drawn`: replicates and their seed."""
    effective_problems = float(effective_size(_benchmark_weights(benchmark_P)))
    if effective_problems < MIN_EFFECTIVE_PROBLEMS and not widening.share:
        return [NO_INTERVAL] * len(estimate_Q)
    code_P = strata(benchmark_P)
    member_PS = np.eye(int(code_P.max()) + 1)[code_P]
    above_PSQ = member_PS[:, :, None] * value_PQ[:, None, :]
    columns = np.concatenate([above_PSQ.reshape(len(code_P), -1), member_PS], axis=1)
    sums_BQ = problem_sums(columns, code_P, *drawn)
    size_BS = sums_BQ[:, -member_PS.shape[1] :]
    above_BSQ = sums_BQ[:, : -member_PS.shape[1]].reshape(-1, *above_PSQ.shape[1:])
    mean_BQ = _widened_intervals(above_BSQ, size_BS, single_run_Q, widening, effective_problems, drawn[1])
    intervals = percentile_intervals(mean_BQ, estimate_Q)
    return intervals if widening.share else student(intervals, estimate_Q, mean_BQ, effective_problems)


def _benchmark_weights(benchmark_P: Text) -> Float:
    """The weight of each problem that makes all benchmarks weigh the same; their mean is 1."""
    _, code_P, size_S = np.unique(benchmark_P, return_inverse=True, return_counts=True)
    return np.asarray(len(benchmark_P) / (size_S.size * size_S[code_P]), dtype=np.float64)


def _widened_intervals(
    above_BSQ: Float, size_BS: Float, single_run_Q: NDArray[np.bool_], widening: Widening, problems: float, seed: int
) -> Float:
    """Means of benchmarks in the replicates with the pseudo-problems; `single_run_Q`: of one run, not differences.

    Pseudo-problems of a share are shared among the benchmarks: one of few problems is widened as such.
    """
    B, S, _ = above_BSQ.shape
    if widening.share:
        rng = np.random.default_rng([seed, round(problems), S])
        weight_BS4 = rng.standard_gamma(0.5 / S, (B, S, 4))  # none, one, other, both: the cells of two runs
        pseudo_sum_BSQ = np.where(single_run_Q, weight_BS4[:, :, [0]], weight_BS4[:, :, [1]] - weight_BS4[:, :, [2]])
        pseudo_weight_BSQ = np.where(
            single_run_Q, weight_BS4[:, :, [0, 3]].sum(-1)[..., None], weight_BS4.sum(-1)[..., None]
        )
        return np.asarray(((above_BSQ + pseudo_sum_BSQ) / (size_BS[..., None] + pseudo_weight_BSQ)).mean(axis=1))
    mean_BQ = (above_BSQ / size_BS[..., None]).mean(axis=1)
    if widening.by == 0:
        return np.asarray(mean_BQ)
    weight_B4 = pseudo_weights(4, round(problems), B, seed)
    up_B1, down_B1 = weight_B4[:, [1]], weight_B4[:, [2]]  # they add to the spread that problems show, and take none
    return np.asarray(mean_BQ + widening.by * (up_B1 - down_B1) / (problems + up_B1 + down_B1))
