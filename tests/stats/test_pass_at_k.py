"""Estimators of one run against enumeration of all subsets and all outcomes."""

import csv
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.stats.pass_at_k import (
    avg_at_k,
    bayes_at_n,
    cover_at,
    g_pass_at_k,
    log_miss_stopped,
    max_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_at_k_prefix,
    pass_hat_k,
    sampling_efficiency_gap,
)
from tests.places import SHARED_DATA

PART = Path(__file__).parent / "data" / "passk_grid_part.csv"
WHOLE = SHARED_DATA / "reference" / "passk_grid.csv"


@st.composite
def counts(draw: st.DrawFn, most: int = 9) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def hits_of_all_subsets(n: int, c: int, k: int) -> np.ndarray:
    return np.array([sum(subset) for subset in combinations([1] * c + [0] * (n - c), k)])


@given(counts())
@settings(deadline=None)
def test_pass_at_k_equals_enumeration_of_all_subsets(case: tuple[int, int, int]) -> None:
    assert pass_at_k(*case) == pytest.approx(np.mean(hits_of_all_subsets(*case) >= 1), abs=1e-13)


@given(counts())
@settings(deadline=None)
def test_pass_hat_k_equals_enumeration_of_all_subsets(case: tuple[int, int, int]) -> None:
    assert pass_hat_k(*case) == pytest.approx(np.mean(hits_of_all_subsets(*case) == case[2]), abs=1e-13)


@given(counts(), st.integers(0, 20))
@settings(deadline=None)
def test_g_pass_at_k_equals_enumeration_of_all_subsets(case: tuple[int, int, int], twentieths: int) -> None:
    n, c, k = case
    least = max(1, ceil(Fraction(twentieths, 20) * k))  # exact, so 0.15 * 20 needs 3 and not 4
    expected = np.mean(hits_of_all_subsets(n, c, k) >= least)
    assert g_pass_at_k(n, c, k, twentieths / 20) == pytest.approx(expected, abs=1e-12)


@given(counts())
@settings(deadline=None)
def test_mg_pass_at_k_is_the_mean_over_the_shares_above_one_half(case: tuple[int, int, int]) -> None:
    n, c, k = case
    if k == 1:
        return  # no share lies above one half: see the test of k = 1
    hits = hits_of_all_subsets(n, c, k)
    expected = 2 / k * sum(np.mean(hits >= i) for i in range(ceil(k / 2) + 1, k + 1))
    assert mg_pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


def test_mg_pass_at_1_is_an_empty_sum_and_no_crash() -> None:
    assert mg_pass_at_k([4, 4], [2, 0], 1) == pytest.approx([0, 0])


def test_g_pass_at_k_is_pass_at_k_at_no_share_and_pass_hat_k_at_all() -> None:
    c = np.arange(65)
    assert g_pass_at_k(64, c, 16, 0.0) == pytest.approx(pass_at_k(64, c, 16), abs=1e-12)
    assert g_pass_at_k(64, c, 16, 1.0) == pytest.approx(pass_hat_k(64, c, 16), abs=1e-12)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.integers(1, 8))
@settings(deadline=None)
def test_max_at_k_equals_enumeration_of_all_subsets(scores: list[float], k: int) -> None:
    result = max_at_k(scores, [0] * len(scores), 1, k)
    if k > len(scores):
        assert np.isnan(result).all()
    else:
        assert result[0] == pytest.approx(np.mean([max(subset) for subset in combinations(scores, k)]), abs=1e-12)


def test_max_at_k_keeps_problems_apart_in_any_order() -> None:
    problem, score = np.array([2, 0, 2, 0, 0]), np.array([0.5, 3.0, 0.0, 1.0, 2.0])
    result = max_at_k(score, problem, 3, 2)
    assert result[[0, 2]] == pytest.approx([8 / 3, 0.5])
    assert np.isnan(result[1])


def test_max_at_2_of_the_reference_scores() -> None:
    scores = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 1, 1]])
    result = max_at_k(scores.ravel(), np.repeat([0, 1], 5), 2, 2)
    assert result.mean() == pytest.approx(0.95, abs=1e-12)


def test_bayes_at_n_of_the_reference_outcomes() -> None:
    mean, deviation = bayes_at_n([[0, 1, 2, 2, 1], [1, 1, 0, 2, 2]], [0, 0.5, 1])
    assert mean == pytest.approx(0.5625, abs=1e-12)
    assert deviation == pytest.approx(0.091998, abs=1e-6)


def test_bayes_at_n_of_binary_outcomes_is_a_beta_posterior() -> None:
    mean, deviation = bayes_at_n([[0, 1, 1, 1, 0, 1, 1]], [0, 1])
    assert (mean, deviation) == pytest.approx((stats.beta.mean(6, 3), stats.beta.std(6, 3)))


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 14))
@settings(deadline=None)
def test_prefix_pass_is_any_of_the_first_k(sample: list[bool], k: int) -> None:
    first = sample.index(True) if any(sample) else -1
    result = pass_at_k_prefix(len(sample), first, k)
    assert np.isnan(result) if k > len(sample) else result == any(sample[:k])


def test_prefix_pass_over_all_orders_is_the_unbiased_pass() -> None:
    n, c = 7, 2
    for k in range(1, n + 1):
        firsts = [min(places) for places in combinations(range(n), c)]
        assert np.mean(pass_at_k_prefix(n, firsts, k)) == pytest.approx(pass_at_k(n, c, k))


def test_pass_at_k_beyond_what_was_drawn_is_not_a_number() -> None:
    assert np.isnan(pass_at_k(5, [0, 3, 5], 6)).all()
    assert np.isnan(pass_hat_k(5, 5, 6))
    assert np.isnan(g_pass_at_k(5, 5, 6, 0.5))


@given(st.integers(1, 30), st.floats(0.01, 0.99), st.data())
@settings(deadline=None, max_examples=40)
def test_pass_at_k_is_unbiased(n: int, p: float, data: st.DataObject) -> None:
    k, c = data.draw(st.integers(1, n)), np.arange(n + 1)
    assert stats.binom.pmf(c, n, p) @ pass_at_k(n, c, k) == pytest.approx(1 - (1 - p) ** k, abs=1e-12)


def stopped_records(until: int, budget: int) -> Iterator[tuple[int, int, bool, int]]:
    """Every way a record can end: samples drawn, correct, stopped, and how many sequences end that way."""
    for n in range(until, budget + 1):
        yield n, until, True, comb(n - 1, until - 1)
    for c in range(min(until, budget + 1)):
        yield budget, c, False, comb(budget, c)


@given(st.integers(1, 5), st.integers(1, 12), st.floats(0.01, 0.99))
@settings(deadline=None)
def test_a_stopped_record_gives_every_power_of_the_miss_rate_without_bias(until: int, budget: int, p: float) -> None:
    records = list(stopped_records(until, budget))
    n, c, stopped, ways = (np.array(column) for column in zip(*records, strict=True))
    chance = ways * p**c * (1 - p) ** (n - c)
    assert chance.sum() == pytest.approx(1)
    for k in range(1, budget + 1):
        miss = np.exp(log_miss_stopped(n, c, stopped, budget, k))
        assert chance @ miss == pytest.approx((1 - p) ** k, abs=1e-12)


@given(st.integers(1, 4), st.integers(1, 9))
@settings(deadline=None)
def test_a_stopped_record_follows_the_printed_formula(until: int, budget: int) -> None:
    for (n, c, stopped, _), k in product(stopped_records(until, budget), range(1, budget + 1)):
        if stopped:
            exact = Fraction(comb(n - 1 - k, until - 1), comb(n - 1, until - 1)) if n - 1 - k >= until - 1 else 0
        else:
            exact = Fraction(comb(budget - k, c), comb(budget, c))
        assert np.exp(log_miss_stopped(n, c, stopped, budget, k)) == pytest.approx(float(exact), abs=1e-13)


def test_counting_a_stopped_record_as_a_plain_one_would_be_biased() -> None:
    until, budget, p, k = 2, 8, 0.3, 3
    records = [record for record in stopped_records(until, budget) if record[0] >= k]
    n, c, _, ways = (np.array(column) for column in zip(*records, strict=True))
    chance = ways * p**c * (1 - p) ** (n - c)
    assert chance @ pass_at_k(n, c, k) / chance.sum() > 1 - (1 - p) ** k + 0.02


def test_a_stopped_record_says_nothing_beyond_its_budget() -> None:
    assert np.isnan(log_miss_stopped([5, 10], [2, 1], [True, False], 10, 11)).all()
    assert np.exp(log_miss_stopped(5, 2, True, 10, 10)) == 0


def test_cover_at_a_share_counts_problems_with_at_least_that_rate() -> None:
    assert cover_at([10, 10, 10, 10], [0, 3, 5, 10], 0.3) == 0.75
    assert cover_at([10, 10, 10, 10], [0, 3, 5, 10], 0.31) == 0.5
    assert np.isnan(cover_at([], [], 0.5))


def test_a_problem_without_samples_is_not_covered_at_every_rate() -> None:
    assert cover_at([10, 0], [0, 0], 0.5) != 0.5


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 12))
@settings(deadline=None)
def test_pass_with_replacement_is_a_weighted_integral_of_cover(correct: list[int], k: int) -> None:
    # Cover is a step function with steps at multiples of 1/20, so the integral is a finite sum
    n, edge = np.full(len(correct), 20), np.arange(21) / 20
    inside = [cover_at(n, correct, (low + high) / 2) for low, high in pairwise(edge)]
    weight = (1 - edge[:-1]) ** k - (1 - edge[1:]) ** k  # of k (1-t)^(k-1) between two steps
    expected = np.mean(1 - (1 - np.array(correct) / 20) ** k)
    assert weight @ np.array(inside) == pytest.approx(expected, abs=1e-12)


def test_avg_at_k_is_the_share_correct_and_unknown_without_samples() -> None:
    result = avg_at_k([4, 0, 8], [1, 0, 8])
    assert result[[0, 2]] == pytest.approx([0.25, 1])
    assert np.isnan(result[1])


def test_the_sampling_efficiency_gap_is_what_sampling_still_had_to_give() -> None:
    assert sampling_efficiency_gap(0.9, 0.6) == pytest.approx(0.3)


def grid(path: Path) -> np.ndarray:
    with path.open() as file:
        rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")]
    return np.array(rows[1:], dtype=np.float64)


def test_pass_at_k_matches_the_reference_grid_to_twelve_digits() -> None:
    n, c, k, exact = grid(PART).T
    assert len(n) == 200
    assert n.max() == 8192
    assert np.abs(pass_at_k(n, c, k) - exact).max() < 1e-12


def test_pass_at_k_matches_the_whole_reference_grid() -> None:
    if not WHOLE.exists():
        pytest.skip(f"{WHOLE} is not here; its hardest rows are in {PART.name}")
    n, c, k, exact = grid(WHOLE).T
    assert len(n) == 1600
    assert np.abs(pass_at_k(n, c, k) - exact).max() < 1e-12
