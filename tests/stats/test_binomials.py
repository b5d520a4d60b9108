"""Ratios of binomial coefficients against exact fractions and scipy."""

from fractions import Fraction
from math import comb, exp, inf, isnan, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.errors import OffleashError
from offleash.stats.binomials import MOST, log_hypergeometric, log_miss


@st.composite
def counts(draw: st.DrawFn, most: int = 40) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(0, n))


@given(counts())
@settings(deadline=None, max_examples=200)
def test_a_miss_is_a_ratio_of_binomial_coefficients(case: tuple[int, int, int]) -> None:
    n, c, k = case
    exact = Fraction(comb(n - c, k), comb(n, k))
    assert np.exp(log_miss(n, c, k)) == pytest.approx(float(exact), rel=1e-13, abs=0)


@given(counts(16_384))
@settings(deadline=None, max_examples=60)
def test_a_miss_keeps_twelve_digits_at_sixteen_thousand_samples(case: tuple[int, int, int]) -> None:
    n, c, k = case
    top, bottom = comb(n - c, k), comb(n, k)
    found = float(log_miss(n, c, k))
    if top == 0:
        assert found == -inf
    else:  # logs of the integers themselves, so that a chance below 1e-308 is still compared
        shift = max(bottom.bit_length() - top.bit_length() - 60, 0)
        assert found == pytest.approx(log(Fraction(top << shift, bottom)) - shift * log(2), rel=1e-12, abs=1e-12)


def test_an_empty_draw_always_misses_and_a_full_one_never_does() -> None:
    assert log_miss(5, 3, 0) == 0
    assert log_miss(5, 3, 3) == -inf
    assert isnan(log_miss(5, 3, 6))
    assert log_miss(5, 0, 5) == 0


def test_a_miss_broadcasts_over_problems_and_budgets() -> None:
    n, c, k = np.array([[10], [20]]), np.array([[3], [0]]), np.array([1, 4, 8])
    assert np.exp(log_miss(n, c, k)) == pytest.approx(np.array([[0.7, 35 / 210, 0], [1, 1, 1]]))


@given(counts(), st.integers(-2, 45))
@settings(deadline=None, max_examples=200)
def test_the_hypergeometric_is_scipys(case: tuple[int, int, int], hits: int) -> None:
    n, c, k = case
    assert np.exp(log_hypergeometric(hits, n, c, k)) == pytest.approx(stats.hypergeom.pmf(hits, n, c, k), abs=1e-12)


def test_the_hypergeometric_is_exact_and_sums_to_one_for_a_large_run() -> None:
    n, c, k = 8192, 700, 2048
    law = np.exp(log_hypergeometric(np.arange(k + 1), n, c, k))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    for hits in (0, 100, 175, 300):
        exact = Fraction(comb(c, hits) * comb(n - c, k - hits), comb(n, k))
        assert law[hits] == pytest.approx(float(exact), rel=1e-11)


def test_a_miss_at_the_largest_count_matches_the_product_of_its_factors() -> None:
    n, c, k = MOST, 3, MOST // 2
    exact = float(prod(Fraction(n - k - j, n - j) for j in range(c)))
    assert exp(float(log_miss(n, c, k))) == pytest.approx(exact, rel=1e-9)


def test_more_samples_than_can_be_counted_are_refused_with_the_number_found() -> None:
    with pytest.raises(OffleashError, match=f"{2 * MOST + 1:,}"):
        log_miss(2 * MOST + 1, 1, 1)
