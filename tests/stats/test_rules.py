"""Rules: when a problem counts as reached."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.errors import OffleashError
from offleash.stats.support_classes import (
    IN,
    OUT,
    UNDETERMINED,
    Certified,
    above,
    beta_prior,
    certified,
    confident,
    epsilon,
    posterior,
    seen,
)


def test_epsilon_of_the_reference() -> None:
    assert epsilon(8192, 0.05) == pytest.approx(3.6569e-4, abs=5e-9)


def test_seen_is_at_least_one_success() -> None:
    assert seen([0, 1, 7]).tolist() == [OUT, IN, IN]


@given(st.integers(1, 200), st.integers(0, 99), st.data())
@settings(deadline=None)
def test_above_compares_whole_numbers_without_rounding(n: int, percent: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    assert above(n, c, percent / 100) == (IN if c and 100 * c >= percent * n else OUT)


@pytest.mark.parametrize("tau", [-0.1, 1.0, 1.5])
def test_a_threshold_that_is_no_rate_is_refused(tau: float) -> None:
    with pytest.raises(OffleashError, match=str(tau)):
        above(10, 5, tau)


@pytest.mark.parametrize("k", [64, 256, 1024, 8192])
def test_at_the_whole_budget_confidence_needs_seven_successes_and_none_is_out(k: int) -> None:
    state = confident(k, np.arange(20), float(epsilon(k)))
    assert state[0] == OUT
    assert (state[1:7] == UNDETERMINED).all()
    assert (state[7:] == IN).all()


@pytest.mark.parametrize("k", [64, 256, 1024, 8192])
def test_with_fewer_samples_than_the_budget_nothing_is_out(k: int) -> None:
    # k - 1 is the exception to the sentence in the specification: -ln(zeta)/k is larger than the exact bound
    # 1 - zeta^(1/k) by just enough that k - 1 samples without a success already fall below it.
    n = np.arange(1, k - 1)
    assert (confident(n, 0, float(epsilon(k))) == UNDETERMINED).all()
    assert confident(k - 1, 0, float(epsilon(k))) == OUT


@given(st.integers(1, 60), st.floats(0.01, 0.9), st.data())
@settings(deadline=None)
def test_confidence_is_a_pair_of_one_sided_binomial_tests(n: int, threshold: float, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    too_many, too_few = stats.binom.sf(c - 1, n, threshold), stats.binom.cdf(c, n, threshold)
    if min(abs(too_many - 0.05), abs(too_few - 0.05)) < 1e-9:
        return
    expected = IN if too_many < 0.05 else OUT if too_few < 0.05 else UNDETERMINED
    assert confident(n, c, threshold) == expected


def test_confidence_errs_no_more_often_than_zeta() -> None:
    n, threshold, c = 200, 0.02, np.arange(201)
    state = confident(n, c, threshold)
    for p in (0.001, 0.01, 0.0199):
        assert stats.binom.pmf(c, n, p)[state == IN].sum() <= 0.05
    for p in (0.0201, 0.03, 0.2):
        assert stats.binom.pmf(c, n, p)[state == OUT].sum() <= 0.05


def test_ten_completions_of_half_the_threshold_are_in_by_mass_and_out_by_completion() -> None:
    eps = 0.01
    assert certified(10 * eps / 2, 0.0, eps / 2, eps, Certified.MASS) == IN
    assert certified(10 * eps / 2, 0.0, eps / 2, eps, Certified.COMPLETION) == OUT


def test_a_certificate_of_mass_is_undetermined_while_enough_is_unexplored() -> None:
    state = certified([0.02, 0.004, 0.004], [0.5, 0.005, 0.007], [0.02, 0.004, 0.004], 0.01)
    assert state.tolist() == [IN, OUT, UNDETERMINED]


def test_the_prior_is_found_from_many_problems() -> None:
    rng = np.random.default_rng(0)
    n = np.full(4000, 50.0)
    c = rng.binomial(50, rng.beta(0.5, 2.0, 4000)).astype(float)
    assert beta_prior(n, c) == pytest.approx((0.5, 2.0), rel=0.1)


def test_the_posterior_rule_is_right_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    p = rng.beta(0.5, 3.0, 20_000)
    state = posterior(np.full(20_000, 100), rng.binomial(100, p), 0.03)
    assert np.mean(p[state == IN] > 0.03) > 0.95
    assert np.mean(p[state == OUT] <= 0.03) > 0.95
    assert (state == UNDETERMINED).any()
