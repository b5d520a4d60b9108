"""Ratios of binomial coefficients against exact fractions and scipy."""

from fractions import Fraction
from math import comb, exp, inf, isnan, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import stats

from offleash.errors import OffleashError
from offleash.stats.binomials import (
    MAX_SAMPLES_PER_RUN,
    binomial_at_least,
    binomial_at_most,
    binomial_pmf,
    half_binomial_at_most,
    hypergeometric_at_least,
    hypergeometric_at_most,
    log_hypergeometric,
    log_miss,
)
from tests.effort import examples


@st.composite
def counts(draw: st.DrawFn, most: int = 40) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(0, n))


@given(counts())
@settings(deadline=None, max_examples=examples(200))
def test_a_miss_is_a_ratio_of_binomial_coefficients(case: tuple[int, int, int]) -> None:
    n, c, k = case
    exact = Fraction(comb(n - c, k), comb(n, k))
    assert np.exp(log_miss(n, c, k)) == pytest.approx(float(exact), rel=1e-13, abs=0)


@given(counts(16_384))
@settings(deadline=None, max_examples=60)
def test_a_miss_keeps_twelve_digits_at_sixteen_thousand_samples(case: tuple[int, int, int]) -> None:
    n, c, k = case
    top, bottom = comb(n - c, k), comb(n, k)
    result = float(log_miss(n, c, k))
    if top == 0:
        assert result == -inf
    else:  # logs of the integers themselves, so that a chance below 1e-308 is still compared
        shift = max(bottom.bit_length() - top.bit_length() - 60, 0)
        assert result == pytest.approx(log(Fraction(top << shift, bottom)) - shift * log(2), rel=1e-12, abs=1e-12)


def test_an_empty_draw_always_misses_and_a_full_one_never_does() -> None:
    assert log_miss(5, 3, 0) == 0
    assert log_miss(5, 3, 3) == -inf
    assert isnan(log_miss(5, 3, 6))
    assert log_miss(5, 0, 5) == 0


def test_a_miss_broadcasts_over_problems_and_budgets() -> None:
    n, c, k = np.array([[10], [20]]), np.array([[3], [0]]), np.array([1, 4, 8])
    assert np.exp(log_miss(n, c, k)) == pytest.approx(np.array([[0.7, 35 / 210, 0], [1, 1, 1]]))


@given(counts(), st.integers(-2, 45))
@settings(deadline=None, max_examples=examples(200))
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
    n, c, k = MAX_SAMPLES_PER_RUN, 3, MAX_SAMPLES_PER_RUN // 2
    exact = float(prod(Fraction(n - k - j, n - j) for j in range(c)))
    assert exp(float(log_miss(n, c, k))) == pytest.approx(exact, rel=1e-9)


def test_more_samples_than_can_be_counted_are_refused_with_the_number_found() -> None:
    with pytest.raises(OffleashError, match=f"{2 * MAX_SAMPLES_PER_RUN + 1:,}"):
        log_miss(2 * MAX_SAMPLES_PER_RUN + 1, 1, 1)


SIZES = (1, 2, 5, 40, 300, 2_048, 16_384, 32_768)
RATES = (0.0, 1e-300, 1e-12, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 1 - 1e-6, 1.0)
TINY = 1e-290  # below it a float has lost digits, or is 0


def agree(ours: np.ndarray, expected: ArrayLike) -> None:
    theirs = np.asarray(expected)
    big = theirs > TINY
    np.testing.assert_allclose(ours[big], theirs[big], rtol=4e-12, atol=0)
    assert (ours[~big] <= 1e-280).all()


def binomial_cases(draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Successes at both ends, beyond them, about the mean and far from it, at every rate."""
    rng = np.random.default_rng(draws)
    rates = np.array(RATES)
    near = rng.binomial(draws, rates, (12, rates.size)) + rng.integers(-3, 4, (12, rates.size))
    ends = np.array([-1, 0, 1, draws - 1, draws, draws + 1])
    hits = np.concatenate([near, np.broadcast_to(np.append(ends, rng.integers(0, draws + 1, 12))[:, None], (18, 12))])
    return hits, np.broadcast_to(rates, hits.shape)


@pytest.mark.parametrize("draws", SIZES)
def test_binomial_tails_are_scipys(draws: int) -> None:
    hits, rate = binomial_cases(draws)
    agree(binomial_at_least(hits, draws, rate), stats.binom.sf(hits - 1, draws, rate))
    agree(binomial_at_most(hits, draws, rate), stats.binom.cdf(hits, draws, rate))
    agree(binomial_pmf(hits, draws, rate), stats.binom.pmf(hits, draws, rate))


def hypergeometric_cases(drawn: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(drawn)
    correct = np.concatenate([[0, 0, drawn, drawn, 1, drawn // 2], rng.integers(0, drawn + 1, 300)])
    k = np.concatenate([[0, drawn // 2, drawn // 2, drawn, drawn // 2, drawn // 2], rng.integers(0, drawn + 1, 300)])
    least, most = np.maximum(0, k - (drawn - correct)), np.minimum(correct, k)
    return rng.integers(least - 1, most + 2), np.full_like(k, drawn), correct, k


@pytest.mark.parametrize("drawn", SIZES)
def test_hypergeometric_tails_are_scipys(drawn: int) -> None:
    hits, n, c, k = hypergeometric_cases(drawn)
    agree(hypergeometric_at_least(hits, n, c, k), stats.hypergeom.sf(hits - 1, n, c, k))
    agree(hypergeometric_at_most(hits, n, c, k), stats.hypergeom.cdf(hits, n, c, k))


@given(counts(), st.integers(-2, 45))
@settings(deadline=None, max_examples=examples(200))
def test_a_hypergeometric_tail_is_a_sum_of_fractions(case: tuple[int, int, int], hits: int) -> None:
    n, c, k = case
    ways = sum(comb(c, j) * comb(n - c, k - j) for j in range(max(hits, 0), min(c, k) + 1))
    result = float(hypergeometric_at_least(hits, n, c, k))
    assert result == pytest.approx(float(Fraction(ways, comb(n, k))), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("drawn", [4, 30, 256, 2_048, 16_384])
def test_fishers_test_decides_as_scipys_does(drawn: int) -> None:
    """Two runs of so many samples, every pair of counts on a grid: the same side of every level."""
    grid = np.unique(np.concatenate([np.arange(min(drawn, 20) + 1), np.geomspace(1, drawn, 12).astype(int)]))
    before, after = (side.ravel() for side in np.meshgrid(grid, grid))
    law = (2 * drawn, before + after, drawn)
    ours, theirs = hypergeometric_at_most(after, *law), stats.hypergeom.cdf(after, *law)
    for level in (0.05, 0.025, 0.01, 1e-4):
        assert ((ours <= level) == (theirs <= level)).all()


@pytest.mark.parametrize(("hits", "draws"), [(0, 1), (0, 40), (3, 12), (99, 200), (300, 700), (1_500, 3_404)])
def test_the_sign_test_is_scipys(hits: int, draws: int) -> None:
    exact = Fraction(sum(comb(draws, j) for j in range(hits + 1)), 2**draws)
    assert half_binomial_at_most(hits, draws) == pytest.approx(float(exact), rel=1e-12)
    assert 2 * float(exact) == pytest.approx(stats.binomtest(hits, draws, 0.5).pvalue, rel=1e-9)
