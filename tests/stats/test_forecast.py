"""Forecasts of newly reached problems in worlds whose rates are known, and on degenerate data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln

from offleash.stats.binomials import log_miss
from offleash.stats.forecast import forecast, good_toulmin


def world(a: float, b: float, never: float, problems: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rate = np.where(rng.random(problems) < never, 0.0, rng.beta(a, b, problems))
    return np.full(problems, n), rng.binomial(n, rate)


def test_good_toulmin_has_the_weights_of_the_specification() -> None:
    tail = [255, 247, 219, 163, 93, 37, 9, 1]  # 256 P(Bin(8, 1/2) >= j), j = 1..8
    for j in range(1, 9):
        f = np.zeros(12)
        f[j - 1] = 10
        assert good_toulmin(f) == pytest.approx((-1) ** (j + 1) * 10 * tail[j - 1] / 256)
    assert good_toulmin(np.eye(12)[10]) == 0


def test_no_growth_adds_nothing_and_more_than_double_is_not_told() -> None:
    assert good_toulmin([5, 3, 1], 1.0) == 0
    assert np.isnan(good_toulmin([5, 3, 1], 2.5))
    assert np.isnan(good_toulmin([5, 3, 1], 0.5))
    assert good_toulmin([]) == 0


@pytest.mark.parametrize("factor", [1.3, 2.0])
def test_good_toulmin_is_nearly_unbiased_in_a_world_of_rare_rates(factor: float) -> None:
    rng, n = np.random.default_rng(0), 200
    rate = rng.beta(0.3, 20, 300)
    truth = ((1 - rate) ** n - (1 - rate) ** (factor * n)).sum()
    told = [
        good_toulmin(np.bincount(c[c > 0], minlength=9)[1:], factor) for c in rng.binomial(n, rate, size=(400, 300))
    ]
    assert np.mean(told) == pytest.approx(truth, rel=0.1)


def test_up_to_n_the_forecast_is_the_unbiased_estimate() -> None:
    drawn, correct = world(0.3, 5, 0.2, 60, 64, 1)
    budgets = np.array([1, 2, 8, 64])
    told = forecast(drawn, correct, budgets)
    thinned = 1 - np.exp(log_miss(drawn[:, None], correct[:, None], budgets)).mean(axis=0)
    assert told.low_K == pytest.approx(thinned)
    assert told.high_K == pytest.approx(thinned)
    assert told.observed == pytest.approx(np.mean(correct > 0))


@pytest.mark.parametrize("never", [0.0, 0.3])
def test_the_range_holds_the_truth_in_the_models_own_worlds(never: float) -> None:
    a, b, n, problems = 0.25, 6.0, 128, 4000
    told = forecast(*world(a, b, never, problems, n, 7), [256, 512, 1024])
    truth = (1 - never) * (1 - np.exp(betaln(a, b + told.budgets_K) - betaln(a, b)))
    assert np.all(told.low_K - 0.012 < truth)
    assert np.all(truth < told.high_K + 0.012)
    best = max(told.fits, key=lambda fit: fit.log_likelihood)
    assert best.never == pytest.approx(never, abs=0.1)
    assert all(fit.log_likelihood >= best.log_likelihood - 1.92 for fit in told.fits)


@pytest.mark.parametrize("never", [0.0, 0.2])
def test_the_range_holds_what_a_larger_budget_would_reach(never: float) -> None:
    rng, n, inside = np.random.default_rng(11), 64, np.zeros(3)
    for _ in range(12):
        rate = rng.beta(0.25, 1.6, 150) * (rng.random(150) >= never)
        k = n * np.array([2, 4, 8])
        told = forecast(np.full(150, n), rng.binomial(n, rate), k)
        truth = (1 - (1 - rate[:, None]) ** k).mean(axis=0)
        inside += (told.low_K <= truth) & (truth <= told.high_K)
    assert (inside >= 10).all()


def test_beyond_eight_times_n_nothing_is_told_and_the_reason_is_given() -> None:
    told = forecast(*world(0.3, 5, 0.2, 60, 16, 2), [16, 128, 129])
    assert np.isfinite(told.low_K).tolist() == [True, True, False]
    assert np.isnan(told.high_K[2])
    assert any("beyond 8n = 128" in note for note in told.notes)


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), min_size=1, max_size=8))
@settings(deadline=None, max_examples=25)
def test_any_counts_give_an_ordered_rising_range_or_none(rows: list[tuple[int, float]]) -> None:
    drawn = np.array([n for n, _ in rows])
    correct = np.array([round(n * share) for n, share in rows])
    told = forecast(drawn, correct, [1, 2, 4, 8, 16, 32, 64, 1000])
    known = np.isfinite(told.low_K)
    assert np.array_equal(known, np.isfinite(told.high_K))
    low, high = told.low_K[known], told.high_K[known]
    assert np.all((low >= -1e-12) & (low <= high + 1e-12) & (high <= 1 + 1e-12))
    assert known.any() == bool((drawn > 0).any())
    if drawn.min() == drawn.max():
        assert np.all(np.diff(low) >= -1e-9)


def test_when_every_problem_is_reached_the_forecast_is_one() -> None:
    told = forecast([10, 10], [10, 1], [10, 40])
    assert told.low_K.tolist() == told.high_K.tolist() == [1, 1]
    assert told.newly_at_2n == 0
    assert any("every problem is reached" in note for note in told.notes)


def test_when_no_problem_is_reached_only_a_bound_is_told() -> None:
    told = forecast(np.full(30, 100), np.zeros(30), [100, 200, 800])
    assert told.low_K.tolist() == [0, 0, 0]
    assert told.high_K == pytest.approx(-np.log(0.05) * np.array([0, 1, 7]) / 30)
    assert np.isnan(told.newly_at_2n)
    assert told.fits == ()
    assert forecast([50], [0], [400]).high_K.tolist() == [1]


def test_the_bound_holds_when_no_problem_was_reached_by_chance() -> None:
    n, problems = 100, 30
    rate = np.full(problems, -np.log(0.05) / (n * problems))  # the worst that stays unseen one time in twenty
    bound = forecast(np.full(problems, n), np.zeros(problems), [400]).high_K[0]
    assert np.mean((1 - rate) ** n * (1 - (1 - rate) ** 300)) <= bound
    assert (1 - rate[0]) ** (n * problems) == pytest.approx(0.05, rel=0.01)


def test_no_samples_give_no_forecast() -> None:
    told = forecast([0, 0], [0, 0], [1, 2])
    assert np.isnan(told.low_K).all()
    assert np.isnan(told.observed)


def test_the_order_of_problems_does_not_matter() -> None:
    drawn, correct = world(0.3, 5, 0.2, 60, 64, 1)
    first, two = forecast(drawn, correct, [128, 512]), forecast(drawn[::-1], correct[::-1], [128, 512])
    assert first.low_K == pytest.approx(two.low_K)
    assert first.high_K == pytest.approx(two.high_K)


def test_problems_with_different_numbers_of_samples_go_on_from_their_own() -> None:
    told = forecast([8, 32], [0, 4], [16, 64])
    assert told.low_K[0] >= 0.5 * (1 - np.exp(log_miss(32, 4, 16))) - 1e-12
    assert told.low_K[1] >= 0.5 - 1e-12
    assert any("differ (8 to 32)" in note for note in told.notes)
