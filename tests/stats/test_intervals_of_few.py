"""Few problems: intervals that hold what they promise, and none where too few problems could show it."""

import numpy as np
import pytest

from offleash.stats.entropy import Widening, means
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS, Interval, clipped, effective_size, ratios

ONE = np.zeros(100, np.int64)


def among(value_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of a few of a hundred problems, as a ratio takes them."""
    above, below = np.full((100, 1), np.nan), np.zeros((100, 1))
    above[: len(value_N), 0], below[: len(value_N), 0] = value_N, 1.0
    return above, below


@pytest.mark.parametrize("problems", [8, 12, 30])
def test_a_class_of_few_among_many_problems_has_an_interval_that_holds_its_mean(problems: int) -> None:
    rng, hits = np.random.default_rng(problems), 0
    for seed in range(300):
        _, (ends,) = ratios(*among(rng.normal(size=problems)), ONE, 400, seed)
        hits += ends.low <= 0 <= ends.high
    assert hits / 300 > 0.92  # 95% is meant


def test_fewer_than_eight_problems_have_a_value_and_no_interval() -> None:
    for problems in (1, 2, MIN_EFFECTIVE_PROBLEMS - 1):
        (value,), (ends,) = ratios(*among(np.ones(problems)), ONE)
        assert value == 1
        assert np.isnan(ends.low)


def test_one_problem_that_outweighs_all_others_counts_as_one() -> None:
    assert effective_size([1.0] * 10) == pytest.approx(10)
    assert effective_size([1.0] * 10 + [100.0]) < 1.1
    assert effective_size([0.0, 0.0]) == 0
    above, below = among(np.ones(20))
    below[0] = above[0] = 1000.0
    assert np.isnan(ratios(above, below, ONE)[1][0].low)


@pytest.mark.parametrize("sizes", [(2, 60), (5, 60), (8, 300), (30, 30)])
def test_a_share_over_uneven_benchmarks_is_as_sure_as_its_smallest_lets_it_be(sizes: tuple[int, int]) -> None:
    rng, hits = np.random.default_rng(sum(sizes)), 0
    benchmark_P = np.repeat(["a", "b"], sizes)
    for seed in range(120):
        value_PR = rng.binomial(32, rng.beta(0.6, 0.6, (len(benchmark_P), 2))) / 32
        result = means(value_PR, benchmark_P, Widening(share=True), 400, seed)
        ends = result.difference_interval_R[1]
        hits += ends.low <= 0 <= ends.high
        assert all(0 <= item.low <= item.high <= 1 for item in result.interval_R)
    assert hits / 120 > 0.9


def test_what_is_the_same_everywhere_has_no_spread_however_uneven_its_benchmarks_are() -> None:
    sizes = [2] * 10 + [4] * 10
    result = means(np.full((60, 2), 1000.0), np.repeat([f"b{i}" for i in range(20)], sizes))
    for ends in result.interval_R:
        assert ends.low == pytest.approx(1000) == ends.high


def test_an_interval_is_cut_off_where_its_measure_ends() -> None:
    assert clipped(Interval(-0.2, 1.4), 0.0, 1.0) == Interval(0.0, 1.0)
    assert np.isnan(clipped(Interval(np.nan, np.nan), 0.0, 1.0).low)
