"""Means of runs over problems and benchmarks with paired intervals, entropies at equal n, and where tokens are unsure.

The average is the mean of benchmarks, each the mean of its problems: "Avg" of Table 5 in arXiv:2507.14843.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from offleash.support.counting import Float, Integer
from offleash.support.diversity import entropy_rarefied
from offleash.support.resampling import LEVEL as CONFIDENCE
from offleash.support.resampling import REPLICATES, Interval, percentile_intervals, problem_sums, pseudo_weights, strata

Text = NDArray[np.str_]

FEW = 8  # problems below which a measure without edges cannot show its own spread
LEVEL = 1e-9  # a smaller difference of entropies is rounding
TOP = 0.2  # share of tokens called forks: arXiv:2506.01939


@dataclass(frozen=True)
class Widened:
    """Pseudo-problems that widen the intervals of a measure, lest runs that look the same get one of no width.

    Of a `share` they lie at 0 and 1, a difference of shares then at -1, 0 and 1: as in the intervals of pass@k.
    Of another measure they lie so far on both sides of its mean; 0 where problems differ anyway.
    """

    by: float = 0.0
    share: bool = False


class Way(StrEnum):
    """Which way a mean went, as far as its interval tells."""

    UP = "up"
    DOWN = "down"
    UNRESOLVED = "not resolved"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Means:
    """One measure of R runs over the problems that all of them know: means, and what they differ by from the first."""

    problems: int
    value_R: Float  # NaN: that run does not know it
    interval_R: tuple[Interval, ...]
    difference_R: Float  # from the first run; 0 for itself
    difference_interval_R: tuple[Interval, ...]

    def way(self, r: int) -> Way:
        """Which way run r went from the first."""
        ends = self.difference_interval_R[r]
        if np.isnan(self.difference_R[r]) or np.isnan(ends.low):
            return Way.UNKNOWN
        return Way.UP if ends.low > 0 else Way.DOWN if ends.high < 0 else Way.UNRESOLVED


@dataclass(frozen=True)
class Square:
    """Problems by the way of their token entropy and of their answer entropy, from the first run to another."""

    up_up: int  # token entropy, then answer entropy
    up_down: int
    down_up: int
    down_down: int
    level: int  # one of the two is the same in both runs
    token: Way  # of the mean
    answer: Way

    @property
    def problems(self) -> int:
        """Problems that know both entropies in both runs."""
        return self.up_up + self.up_down + self.down_up + self.down_down + self.level


def mean_of_benchmarks(value_P: Float, benchmark_P: Text) -> float:
    """The mean over benchmarks of their means over problems."""
    return float((value_P * _evened(benchmark_P)).mean()) if len(value_P) else float("nan")


def means(
    value_PR: Float, benchmark_P: Text, widened: Widened | None = None, replicates: int = REPLICATES, seed: int = 0
) -> Means:
    """Means of benchmarks of every run and their differences from the first run, on the problems all of them know.

    A column of NaN is a run that does not know the measure: it has no mean, and leaves out no problem. Of a few
    problems only a share has an interval; where one small benchmark weighs as much as a large one, its few problems
    decide, and it is their number that counts.
    """
    told_R = ~np.isnan(value_PR).all(axis=0)
    known_P = ~np.isnan(value_PR[:, told_R]).any(axis=1) & bool(told_R.any())
    value, benchmark = value_PR[known_P], benchmark_P[known_P]
    problems, runs = value.shape
    both = np.concatenate([value, value - value[:, :1]], axis=1)
    usable = np.flatnonzero(~np.isnan(both).any(axis=0) & (problems > 0))
    estimate = np.full(2 * runs, np.nan)
    ends = [Interval(np.nan, np.nan)] * (2 * runs)
    if usable.size:
        even_P = _evened(benchmark)
        estimate[usable] = (both[:, usable] * even_P[:, None]).mean(axis=0)
    how = widened or Widened()
    effective = _effective(benchmark)
    if usable.size and (effective >= FEW or how.share):
        sums_BQ = problem_sums(both[:, usable] * even_P[:, None], strata(benchmark), replicates, seed)
        mean_BQ = _widened(sums_BQ, usable < runs, how, problems, seed)
        found = percentile_intervals(mean_BQ, estimate[usable])
        if not how.share:
            found = student(found, estimate[usable], mean_BQ, effective)
        for place, interval in zip(usable, found, strict=True):
            ends[place] = Interval(max(interval.low, 0.0), interval.high) if place < runs else interval
    return Means(problems, estimate[:runs], tuple(ends[:runs]), estimate[runs:], tuple(ends[runs:]))


def square(token_P2: Float, answer_P2: Float, token: Way, answer: Way) -> Square:
    """The four cells of problems that know both entropies in both runs, beside the ways of the means."""
    token_P, answer_P = (value[:, 1] - value[:, 0] for value in (token_P2, answer_P2))
    known_P = ~np.isnan(token_P) & ~np.isnan(answer_P)
    sign = [np.where(np.abs(one) < LEVEL, 0, np.sign(one))[known_P] for one in (token_P, answer_P)]
    count = {(t, a): int(((sign[0] == t) & (sign[1] == a)).sum()) for t in (1, -1) for a in (1, -1)}
    level = int(known_P.sum()) - sum(count.values())
    return Square(count[1, 1], count[1, -1], count[-1, 1], count[-1, -1], level, token, answer)


def entropy_at_equal_n(counts: Sequence[tuple[Integer, Integer]], problems: int) -> tuple[Float, Integer]:
    """Plug-in entropy of every run, each problem rarefied to the samples that all runs have of it; and those n.

    Of each run the counts of answers and the problems they belong to. At equal n the bias is the same for all runs,
    and no problem is left out but those with fewer than two samples in some run.
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


def held_by_top(tokens_H: Float, entropy_H: Float, share: float = TOP) -> Float:
    """How much of all entropy the most uncertain tokens hold, from tokens and entropy by height, lowest first.

    Any axes may stand before that of heights. The bin that the share ends in is taken in part, at its mean.
    """
    tokens, entropy = tokens_H[..., ::-1], entropy_H[..., ::-1]
    wanted = share * tokens.sum(axis=-1, keepdims=True)
    before = np.cumsum(tokens, axis=-1) - tokens
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(tokens > 0, np.clip((wanted - before) / tokens, 0.0, 1.0), 0.0)
        return np.asarray((part * entropy).sum(axis=-1) / entropy.sum(axis=-1))


def fork_height(tokens_H: Float, step: float, share: float = TOP) -> float:
    """The entropy (nats) from which on a token is among the most uncertain, to the step of the heights."""
    above_H = np.cumsum(tokens_H[::-1])[::-1]
    reached = np.flatnonzero(above_H >= share * above_H[0]) if above_H.size and above_H[0] > 0 else np.array([])
    return float(reached[-1] * step) if reached.size else float("nan")


def replicate_tokens(value_PQ: Float, benchmark_P: Text, replicates: int = REPLICATES, seed: int = 0) -> Float:
    """Sums over tokens in every replicate: problems are resampled, and all of their tokens with them."""
    return problem_sums(value_PQ, strata(benchmark_P), replicates, seed)


def student(ends: Sequence[Interval], value_Q: Float, value_BQ: Float, problems: float) -> list[Interval]:
    """Percentile intervals of few problems made wider about their values, by Student's t over the normal quantile.

    The bootstrap has the spread of a mean right on average, and no room for how little few problems tell of it. Where
    few problems differ at all, all of them one way by chance, a percentile cannot pass 0: no end is nearer than t
    standard deviations of the replicates.
    """
    tail = (1 + CONFIDENCE) / 2
    t = float(stdtrit(max(problems - 1, 1.0), tail))
    factor = t / float(ndtri(tail))
    known_BQ = np.isfinite(value_BQ)
    middle_Q = np.where(known_BQ, value_BQ, 0.0).sum(axis=0) / np.maximum(known_BQ.sum(axis=0), 1)
    square_BQ = np.where(known_BQ, value_BQ - middle_Q, 0.0) ** 2
    least_Q = t * np.sqrt(square_BQ.sum(axis=0) / np.maximum(known_BQ.sum(axis=0), 1))
    return [
        Interval(
            float(value - np.maximum(factor * (value - one.low), least)),
            float(value + np.maximum(factor * (one.high - value), least)),
        )
        for one, value, least in zip(ends, value_Q, least_Q, strict=True)
    ]


def _effective(benchmark_P: Text) -> float:
    """How many equally weighing problems would tell as much of the spread of the mean (Satterthwaite 1946)."""
    square_P = _evened(benchmark_P) ** 2
    return float(square_P.sum() ** 2 / (square_P**2).sum()) if square_P.size else 0.0


def _evened(benchmark_P: Text) -> Float:
    """The weight of each problem that makes all benchmarks weigh the same; their mean is 1."""
    _, code_P, size_S = np.unique(benchmark_P, return_inverse=True, return_counts=True)
    return np.asarray(len(benchmark_P) / (size_S.size * size_S[code_P]), dtype=np.float64)


def _widened(sums_BQ: Float, alone_Q: NDArray[np.bool_], how: Widened, problems: int, seed: int) -> Float:
    """Means of the replicates with the pseudo-problems; `alone_Q` are those of one run, the others differences."""
    if not how.share and how.by == 0:
        return sums_BQ / problems
    weight_B4 = pseudo_weights(4, problems, len(sums_BQ), seed)  # none, one, other, both: the cells of two runs
    if how.share:
        alone_B1, apart_B1 = weight_B4[:, [0]], weight_B4[:, [1]] - weight_B4[:, [2]]
        size_B1, alone_size_B1 = weight_B4.sum(axis=1, keepdims=True), weight_B4[:, [0, 3]].sum(axis=1, keepdims=True)
        added_BQ = np.where(alone_Q, alone_B1, apart_B1)
        return np.asarray((sums_BQ + added_BQ) / (problems + np.where(alone_Q, alone_size_B1, size_B1)))
    up_B1, down_B1 = weight_B4[:, [1]], weight_B4[:, [2]]  # they add to the spread that problems show, and take none
    return np.asarray(sums_BQ / problems + how.by * (up_B1 - down_B1) / (problems + up_B1 + down_B1))
