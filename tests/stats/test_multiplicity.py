"""Adjusted p-values and Poisson-binomial tails against enumeration and exact fractions."""

import time
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.stats.chance import benjamini_hochberg, holm, poisson_binomial_pmf, upper_tail

chances = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(chances)
@settings(deadline=None, max_examples=60)
def test_the_poisson_binomial_equals_enumeration_of_all_outcomes(p: list[float]) -> None:
    law = np.zeros(len(p) + 1)
    for outcome in product([0, 1], repeat=len(p)):
        law[sum(outcome)] += np.prod([x if hit else 1 - x for x, hit in zip(p, outcome, strict=True)])
    assert poisson_binomial_pmf(p) == pytest.approx(law, rel=1e-12, abs=1e-300)


def test_equal_chances_give_the_binomial() -> None:
    assert poisson_binomial_pmf(np.full(77, 0.3)) == pytest.approx(stats.binom.pmf(np.arange(78), 77, 0.3), rel=1e-10)


def test_no_trials_give_zero_successes() -> None:
    assert poisson_binomial_pmf([]).tolist() == [1.0]


def test_far_tails_keep_their_relative_accuracy() -> None:
    n, p = 400, Fraction(1, 8)
    law = poisson_binomial_pmf(np.full(n, 0.125))
    for j in (0, 50, 150, 180):
        exact = comb(n, j) * p**j * (1 - p) ** (n - j)
        assert law[j] == pytest.approx(float(exact), rel=1e-9)
    tail = sum((comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(215, n + 1)), Fraction(0))
    assert float(tail) < 1e-85
    assert upper_tail(np.full(n, 0.125), 215).p == pytest.approx(float(tail), rel=1e-9)


def test_five_thousand_problems_take_less_than_a_second() -> None:
    p = np.random.default_rng(0).random(5000)
    start = time.process_time()
    law = poisson_binomial_pmf(p)
    assert time.process_time() - start < 1
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert law @ np.arange(5001) == pytest.approx(p.sum())


@given(chances, st.integers(-1, 10))
@settings(deadline=None, max_examples=60)
def test_the_tail_and_its_mid_p_are_sums_of_the_law(p: list[float], observed: int) -> None:
    law = poisson_binomial_pmf(p)
    j = np.arange(law.size)
    tail = upper_tail(p, observed)
    assert tail.p == pytest.approx(law[j >= observed].sum(), abs=1e-12)
    assert tail.mid_p == pytest.approx(law[j > observed].sum() + law[j == observed].sum() / 2, abs=1e-12)


@given(chances)
@settings(deadline=None, max_examples=60)
def test_adjusted_p_values_equal_their_definitions(p: list[float]) -> None:
    m, ordered = len(p), sorted(p)
    rank = [ordered.index(x) for x in p]
    last = [m - 1 - ordered[::-1].index(x) for x in p]
    by_holm = [min(1, max(ordered[i] * (m - i) for i in range(r_last + 1))) for r_last in last]
    by_bh = [min(1, *(ordered[i] * m / (i + 1) for i in range(r, m))) for r in rank]
    assert holm(p) == pytest.approx(by_holm)
    assert benjamini_hochberg(p) == pytest.approx(by_bh)
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p, method="bh"))
    assert np.all(benjamini_hochberg(p) <= holm(p) + 1e-15)


def test_the_order_of_the_problems_does_not_matter() -> None:
    p = np.array([0.01, 0.2, 0.03, 0.03, 0.9])
    turn = np.array([3, 0, 4, 1, 2])
    for adjust in (holm, benjamini_hochberg):
        assert adjust(p[turn]).tolist() == adjust(p)[turn].tolist()
    assert holm([]).size == 0


def test_a_p_value_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="without NaN"):
        holm([0.1, np.nan])
