"""Means with paired intervals, entropies at equal n, the 2x2 and forks: enumerated, simulated, and Table 5."""

import csv
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.stats.entropy import (
    Direction,
    Widening,
    entropy_at_equal_n,
    fork_height,
    mean_of_benchmarks,
    means,
    square,
    top_entropy_share,
)
from tests.places import SHARED_SPEC

TABLE5 = SHARED_SPEC / "tables" / "table5_entropy_accuracy_length_k32.csv"
BENCHMARKS = ("AIME24", "AMC23", "MATH500", "Minerva", "Olympiad")

# Rows of Table 5 of arXiv:2507.14843: metric, model, five benchmarks, Avg as printed.
ROWS = (
    ("avg@32_acc_pct", "DeepSeek-1.5B", "31.15", "72.81", "85.01", "32.18", "51.55", "54.54"),
    ("avg@32_acc_pct", "ProRL-1.5B", "45.62", "85.70", "92.01", "39.27", "64.56", "65.43"),
    ("response_length_tokens", "DeepSeek-1.5B", "16363", "9979", "5700", "8194", "11873", "10422"),
    ("response_length_tokens", "ProRL-1.5B", "7786", "6294", "5070", "6569", "6678", "6479"),
    ("token_entropy", "DeepSeek-1.5B", "0.45", "0.40", "0.42", "0.49", "0.44", "0.44"),
    ("token_entropy", "ProRL-1.5B", "0.47", "0.51", "0.54", "0.55", "0.52", "0.52"),
    ("answer_entropy", "DeepSeek-1.5B", "2.15", "0.91", "0.46", "1.65", "1.33", "1.30"),
    ("answer_entropy", "ProRL-1.5B", "1.24", "0.35", "0.18", "0.90", "0.63", "0.66"),
)


def average(row: Sequence[str]) -> tuple[float, float, float]:
    """Avg of a row as computed and as printed, and the unit of its last digit."""
    unit = 10.0 ** -len(row[-1].partition(".")[2])
    return mean_of_benchmarks(np.array(row[2:7], dtype=np.float64), np.array(BENCHMARKS)), float(row[-1]), unit


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[1]} {row[0]}")
def test_the_averages_of_table_5_are_means_of_its_benchmarks(row: Sequence[str]) -> None:
    actual, printed, unit = average(row)
    assert abs(actual - printed) <= unit / 2 + 1e-9


def test_all_of_table_5_is_reproduced_to_the_digits_printed() -> None:
    if not TABLE5.is_file():
        pytest.skip("no shared tables beside the project; the rows above stand for them")
    lines = [line for line in TABLE5.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.reader(lines))[1:]
    actual = [average(row) for row in rows]
    assert len(rows) == 36
    # Inputs are rounded to the unit, too: a mean of five may then be off by one unit, and is in four of the rows.
    assert all(abs(mean - printed) < unit for mean, printed, unit in actual)
    other = [row[:2] for row, (mean, printed, unit) in zip(rows, actual, strict=True) if abs(mean - printed) > unit / 2]
    assert other == [
        ["avg@32_acc_pct", "Skywork-OR1-7B"],
        ["response_length_tokens", "AceReason-7B"],
        ["response_length_tokens", "DeepSeek-14B"],
        ["answer_entropy", "Skywork-OR1-7B"],
    ]


def test_every_benchmark_weighs_the_same_however_many_problems_it_has() -> None:
    value_PR = np.array([[1.0, 2.0]] * 6 + [[3.0, 0.0]] * 2)
    benchmark_P = np.array(["a"] * 6 + ["b"] * 2)
    result = means(value_PR, benchmark_P, replicates=200)
    assert result.value_R.tolist() == [2.0, 1.0]
    assert result.difference_R.tolist() == [0.0, -1.0]


def test_swapping_the_runs_turns_the_difference_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    value_PR, benchmark_P = rng.normal(1.0, 0.3, (30, 2)), np.array(["a", "b"] * 15)
    first, other = (means(value, benchmark_P, replicates=1000) for value in (value_PR, value_PR[:, ::-1]))
    assert first.difference_R[1] == pytest.approx(-other.difference_R[1])
    ends, turned = first.difference_interval_R[1], other.difference_interval_R[1]
    assert (ends.low, ends.high) == pytest.approx((-turned.high, -turned.low))


def test_a_run_that_knows_nothing_leaves_out_no_problem_of_the_others() -> None:
    value_PR = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, 5.0], [np.nan, np.nan, 9.0]])
    result = means(value_PR, np.array(["a"] * 3), replicates=200)
    assert result.problems == 2
    np.testing.assert_array_equal(result.value_R, [2.0, np.nan, 3.5])
    np.testing.assert_array_equal(result.difference_R, [0.0, np.nan, 1.5])
    assert result.direction(1) is Direction.UNKNOWN
    nothing = means(np.full((3, 2), np.nan), np.array(["a"] * 3), replicates=200)
    assert np.isnan(nothing.value_R).all()
    assert nothing.problems == 0


def test_paired_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, held, worlds = np.random.default_rng(1), 0, 200
    for world in range(worlds):
        own_P = rng.normal(0.0, 2.0, 30)  # problems differ more than runs do: only paired intervals are narrow
        value_PR = np.stack([own_P, own_P + rng.normal(0.1, 0.2, 30)], axis=1) + 10
        ends = means(value_PR, np.array(["a"] * 30), replicates=400, seed=world).difference_interval_R[1]
        held += ends.low <= 0.1 <= ends.high
        assert ends.high - ends.low < 0.4
    assert 0.89 <= held / worlds <= 0.985


def test_runs_that_look_the_same_get_an_interval_with_a_width_only_where_that_may_be_luck() -> None:
    same_PR, first = np.zeros((10, 2)), np.array(["a"] * 10)
    for widened in (Widening(share=True), Widening(0.7)):
        ends = means(same_PR, first, widened, 1000).difference_interval_R[1]
        assert ends.low < -0.01 < 0.01 < ends.high
    plain = means(same_PR, first, replicates=1000).difference_interval_R[1]
    assert (plain.low, plain.high) == (0.0, 0.0)


@pytest.mark.parametrize("widened", [Widening(), Widening(float(np.log(2)))])
def test_few_problems_have_no_interval_unless_of_a_share_and_neither_have_few_that_decide(widened: Widening) -> None:
    rng = np.random.default_rng(0)
    for sizes in ([1], [4], [7], [1] * 7, [3, 100]):
        benchmark_P = np.repeat([f"b{place}" for place in range(len(sizes))], sizes)
        value_PR = rng.normal(5.0, 1.0, (benchmark_P.size, 2))
        result = means(value_PR, benchmark_P, widened, 200)
        assert result.direction(1) is Direction.UNKNOWN
        assert np.isnan([end.low for end in result.interval_R]).all()
        assert not np.isnan(result.difference_R).any()
        assert means(value_PR / 10, benchmark_P, Widening(share=True), 200).direction(1) is not Direction.UNKNOWN


@pytest.mark.parametrize("problems", [8, 10, 30])
@pytest.mark.parametrize("by", [0.0, float(np.log(2))], ids=["token", "answer"])
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_a_mean_that_did_not_move_is_said_to_have_moved_at_most_about_as_often_as_the_level(
    problems: int, by: float, spread: float
) -> None:
    rng, worlds, false = np.random.default_rng([problems, int(10 * by)]), 300, 0
    for world in range(worlds):
        after_P = 5.0 + rng.normal(0.0, spread, problems)
        value_PR = np.stack([np.full(problems, 5.0), after_P], axis=1)
        result = means(value_PR, np.array(["a"] * problems), Widening(by), 400, seed=world)
        assert result.direction(1) is not Direction.UNKNOWN
        false += result.direction(1) in (Direction.UP, Direction.DOWN)
    assert false / worlds <= 0.08
    sure = np.stack([np.full(problems, 5.0), 5.0 + 6 * spread + rng.normal(0.0, spread, problems)], axis=1)
    assert means(sure, np.array(["a"] * problems), Widening(by), 400).direction(1) is Direction.UP


def test_changes_of_few_problems_all_one_way_by_chance_are_no_finding() -> None:
    change_P = np.zeros(12)
    change_P[:2] = 0.5  # two problems that moved are up both by chance one time in two
    value_PR = np.stack([np.full(12, 1.0), 1.0 + change_P], axis=1)
    assert means(value_PR, np.array(["a"] * 12), replicates=1000).direction(1) is Direction.UNRESOLVED


def counts() -> st.SearchStrategy[list[list[int]]]:
    """Counts of the answers to one problem in two runs."""
    return st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=2, max_size=2)


@given(counts())
def test_entropy_at_equal_n_is_the_mean_over_all_subsets_of_the_smaller_number(case: list[list[int]]) -> None:
    flat = [(np.array(item), np.zeros(len(item), dtype=np.int64)) for item in case]
    value_PR, n_P = entropy_at_equal_n(flat, 1)
    n = min(sum(item) for item in case)
    assert n_P.tolist() == [n]
    if n < 2:
        assert np.isnan(value_PR).all()
        return
    for r, item in enumerate(case):
        samples = [answer for answer, times in enumerate(item) for _ in range(times)]
        shares = [np.bincount(subset) / n for subset in combinations(samples, n)]
        plain = np.mean([-sum(p * np.log(p) for p in share if p > 0) for share in shares])
        assert value_PR[0, r] == pytest.approx(plain, abs=1e-9)


def test_more_samples_of_the_same_shares_do_not_look_more_diverse_at_equal_n() -> None:
    count_A, problem_A = np.array([4, 4, 2, 7, 3]), np.array([0, 0, 0, 2, 2])
    value_PR, n_P = entropy_at_equal_n([(count_A, problem_A), (10 * count_A, problem_A)], 3)
    assert n_P.tolist() == [10, 0, 10]
    assert np.isnan(value_PR[1]).all()
    assert (np.abs(value_PR[[0, 2], 0] - value_PR[[0, 2], 1]) < 0.12).all()


@given(st.lists(st.floats(0, 5), min_size=5, max_size=40), st.floats(0.05, 0.95))
def test_forks_hold_what_the_sorted_tokens_hold(entropies: list[float], share: float) -> None:
    """Heights so fine that every token has its own: then nothing is taken at a mean."""
    order = np.sort(np.array(entropies) + 0.01)
    result = top_entropy_share(np.ones(order.size), order, share)
    whole = share * order.size
    part = order[::-1].cumsum()
    at = int(np.floor(whole))
    exact = (part[at - 1] if at else 0.0) + (whole - at) * (order[::-1][at] if at < order.size else 0.0)
    assert float(result) == pytest.approx(exact / order.sum(), rel=1e-6)
    assert float(result) >= share - 1e-9


def test_the_height_of_forks_is_that_of_the_lowest_of_them() -> None:
    tokens_H = np.array([70.0, 0.0, 10.0, 15.0, 5.0])
    assert fork_height(tokens_H, 0.1) == pytest.approx(0.3)  # 20 of 100 tokens: those of 0.4 and of 0.3
    assert fork_height(tokens_H, 0.1, share=0.21) == pytest.approx(0.2)
    assert np.isnan(fork_height(np.zeros(3), 0.1))


def test_problems_are_counted_by_the_way_of_both_entropies() -> None:
    way = np.array(
        [[0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 0, 1, 1], [0, 1, np.nan, 1]]
    )
    result = square(way[:, :2], way[:, 2:], Direction.UP, Direction.DOWN)
    cells = (result.up_up, result.up_down, result.down_up, result.down_down, result.level)
    assert cells == (1, 2, 1, 1, 1)
    turned = square(way[:, 1::-1], way[:, :1:-1], Direction.DOWN, Direction.UP)
    assert (turned.up_up, turned.up_down, turned.down_up, turned.down_down) == (1, 1, 2, 1)
