"""Support change of each benchmark, and their unweighted mean (macro) beside the pooled counts (micro)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offleash.data.tally import Tally
from offleash.stats.binomials import Float
from offleash.stats.change import SupportChange, change_at
from offleash.stats.intervals import Interval, percentile_intervals
from offleash.stats.support_classes import RATIOS, Cells, reach_PRK

CellsFunction = Callable[[Tally], Cells]


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
    names, out = np.unique(pair.benchmark_P), []
    for name in names:
        part = pair.rows(pair.benchmark_P == name)
        change = whole if len(names) == 1 else change_at(cells(part).sums(replicates, seed), 0, part, whole.rule)
        pass_1_R, pass_k_R = reach_PRK(part, np.array([1, change.k])).mean(axis=0).T
        problems = len(np.unique(part.problem_P))  # per answer a problem has several rows
        out.append(BenchmarkChange(str(name), problems, change, (pass_1_R[0], pass_1_R[1]), (pass_k_R[0], pass_k_R[1])))
    return tuple(out)


def macro_mean(pair: Tally, cells: CellsFunction, replicates: int, seed: int) -> Macro | None:
    """The mean of the benchmarks with intervals; None for a single benchmark, where it is the pooled value.

    Problems are resampled within benchmarks: the mean is about these benchmarks, not about others like them.
    """
    names = np.unique(pair.benchmark_P)
    if len(names) < 2:
        return None
    estimate: dict[str, list[float]] = {name: [] for name in RATIOS}
    replicate: dict[str, list[Float]] = {name: [] for name in RATIOS}
    for number, name in enumerate(names):
        part = pair.rows(pair.benchmark_P == name)
        sums = cells(part).sums(replicates, _benchmark_seed(seed, number))
        for ratio in RATIOS:
            value_K, value_BK = sums.ratio(ratio)
            estimate[ratio].append(float(value_K[0]))
            replicate[ratio].append(value_BK[:, 0])
    value, interval, used = {}, {}, {}
    for ratio in RATIOS:
        known = [i for i, value_of_benchmark in enumerate(estimate[ratio]) if not np.isnan(value_of_benchmark)]
        used[ratio] = len(known)
        value[ratio] = float(np.mean([estimate[ratio][i] for i in known])) if known else float("nan")
        # replicate b of every benchmark together is replicate b of their mean: independent streams make that valid
        mean_B1 = np.mean([replicate[ratio][i] for i in known], axis=0)[:, None] if known else np.full((1, 1), np.nan)
        interval[ratio] = percentile_intervals(mean_B1, np.array([value[ratio]]))[0]
    return Macro(value, interval, used)


def _benchmark_seed(seed: int, number: int) -> int:
    """A seed of its own for each benchmark: they vary independently."""
    return int(np.random.default_rng([seed, number]).integers(1 << 62))
