"""Support change of each benchmark, and their unweighted mean (macro) beside the pooled counts (micro)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offleash.data.tally import Tally
from offleash.stats.change import SupportChange, change_at
from offleash.stats.intervals import (
    MIN_EFFECTIVE_PROBLEMS,
    NO_INTERVAL,
    Interval,
    clipped,
    percentile_intervals,
    student,
)
from offleash.stats.support_classes import RATIOS, Cells, CellSums, reach_PRK

CellsFunction = Callable[[Tally], Cells]

# how many targets a metric is about, from P, E, S and the number of all
DECIDING: dict[str, Callable[[float, float, float, float], float]] = {
    "SRR": lambda P, E, S, total: P + S,
    "NDR": lambda P, E, S, total: P + E,
    "SDS": lambda P, E, S, total: P + min(E, S),
    "NSCR": lambda P, E, S, total: P + E + S,
    "before": lambda P, E, S, total: total,
    "after": lambda P, E, S, total: total,
    "difference": lambda P, E, S, total: total,
}


@dataclass(frozen=True)
class BenchmarkChange:
    """One benchmark: its support change, and pass@1 and pass@k of both runs."""

    name: str  # empty: the problems name none
    problems: int
    change: SupportChange
    pass_at_1: tuple[float, float]  # before, after
    pass_at_k: tuple[float, float]  # at the k of the comparison


@dataclass(frozen=True)
class Macro:
    """Means over benchmarks, each weighing the same; one where a metric is undefined is left out of that mean."""

    value: dict[str, float]  # by metric; NaN where no benchmark defines it
    interval: dict[str, Interval]
    benchmarks: dict[str, int]  # how many went into each mean
    redraw: dict[str, float]  # the same mean of what two draws of one model would show; NaN where that is not known
    reasons: dict[str, str]  # by metric: why it has no interval


def by_benchmark(
    pair: Tally, whole: SupportChange, cells: CellsFunction, replicates: int, seed: int
) -> tuple[BenchmarkChange, ...]:
    """The support change of each benchmark, by name.

    Args:
        pair: counts of both runs over all benchmarks.
        whole: the change over all of them, which serves where there is one benchmark.
        cells: applies the rule and the budget in force to a part of the tally.
        replicates: of the bootstrap over the problems of a benchmark.
        seed: of the bootstrap.
    """
    names, changes = np.unique(pair.benchmark_P), []
    for name in names:
        benchmark_pair = pair.rows(pair.benchmark_P == name)
        change = (
            whole
            if len(names) == 1
            else change_at(cells(benchmark_pair).sums(replicates, seed), 0, benchmark_pair, whole.rule)
        )
        pass_1_R, pass_k_R = reach_PRK(benchmark_pair, np.array([1, change.k])).mean(axis=0).T
        problems = len(np.unique(benchmark_pair.problem_P))  # per answer a problem has several rows
        changes.append(
            BenchmarkChange(str(name), problems, change, (pass_1_R[0], pass_1_R[1]), (pass_k_R[0], pass_k_R[1]))
        )
    return tuple(changes)


def macro_mean(pair: Tally, cells: CellsFunction, replicates: int, seed: int) -> Macro | None:
    """The mean of the benchmarks with intervals; None for a single benchmark, where it is the pooled value.

    Problems are resampled within benchmarks: the mean is about these benchmarks, not about others like them. The four
    pseudo-problems of a table are shared out among the benchmarks. Four in each would pull every benchmark the same
    way, and the mean of many has a spread that is small against that: intervals of twenty benchmarks of ten problems
    covered .55. A benchmark in which few problems decide a metric does not show its own spread, and then the mean has
    no interval; of somewhat more problems it is as wide as their number asks for (Student's t).
    """
    names = np.unique(pair.benchmark_P)
    if len(names) < 2:
        return None
    parts: list[tuple[CellSums, int]] = []  # with the number of problems
    for number, name in enumerate(names):
        own_seed = _benchmark_seed(seed, number)
        rows = pair.rows(pair.benchmark_P == name)
        sums = cells(rows).sums(replicates, own_seed)
        shape = 0.5 / len(names)
        pseudo_B4 = np.random.default_rng([own_seed, len(names)]).standard_gamma(shape, (replicates, 4))
        parts.append((replace(sums, pseudo_B4=pseudo_B4), len(np.unique(rows.problem_P))))
    value, interval, used, redraw, reasons = {}, {}, {}, {}, {}
    for metric in RATIOS:
        known = [part for part in parts if not np.isnan(part[0].ratio(metric)[0][0])]
        estimates = [float(sums.ratio(metric)[0][0]) for sums, _ in known]
        used[metric], value[metric] = len(known), float(np.mean(estimates)) if known else float("nan")
        redraw[metric] = _mean_redraw([sums for sums, _ in known], metric)
        interval[metric], reason = _macro_interval(known, metric, value[metric])
        if reason is not None:
            reasons[metric] = reason
    return Macro(value, interval, used, redraw, reasons)


def _macro_interval(known: list[tuple[CellSums, int]], metric: str, value: float) -> tuple[Interval, str | None]:
    """The interval of a mean over benchmarks, or why there is none."""
    if not known:
        return NO_INTERVAL, None  # the value is undefined too
    deciding_S = np.array([min(DECIDING[metric](*sums.estimate_4K[:, 0]), problems) for sums, problems in known])
    if deciding_S.min() < MIN_EFFECTIVE_PROBLEMS:
        return NO_INTERVAL, (
            f"in a benchmark the problems that determine {metric} number {deciding_S.min():.3g}, "
            f"fewer than the {MIN_EFFECTIVE_PROBLEMS} needed to estimate its spread"
        )
    # replicate b of every benchmark together is replicate b of their mean: independent streams make that valid
    replicate_BS = np.stack([sums.ratio(metric)[1][:, 0] for sums, _ in known], axis=1)
    mean_B1, mean_1 = replicate_BS.mean(axis=1, keepdims=True), np.array([value])
    variance_S = np.nanvar(replicate_BS, axis=0)
    below = float((variance_S**2 / (deciding_S - 1)).sum())
    freedom = float(variance_S.sum()) ** 2 / below if below > 0 else float(deciding_S.sum())  # Welch and Satterthwaite
    ends = percentile_intervals(mean_B1, mean_1)
    wide = student(ends, mean_1, mean_B1, freedom + 1)[0]
    return clipped(wide, -1.0 if metric in ("NSCR", "difference") else 0.0, 1.0), None


def _mean_redraw(known: list[CellSums], metric: str) -> float:
    """The mean over benchmarks of what two draws of one model would show; NaN where that is not known."""
    same = [float(value_K[0]) for sums in known if (value_K := sums.redraw(metric)) is not None]
    return float(np.mean(same)) if same and len(same) == len(known) else float("nan")


def _benchmark_seed(seed: int, number: int) -> int:
    """A seed of its own for each benchmark: they vary independently."""
    return int(np.random.default_rng([seed, number]).integers(1 << 62))
