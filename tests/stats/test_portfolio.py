"""Splits of a budget between two runs against enumeration, symmetry and worlds with a known best split."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.stats.portfolio import portfolio, portfolio_curve

pair = st.tuples(st.integers(0, 5), st.integers(0, 5))


def hit(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, c of them correct, include a correct one, by listing all subsets."""
    return float(np.mean([any(s) for s in combinations([True] * c + [False] * (n - c), k)])) if k else 0.0


@given(st.lists(pair, min_size=2, max_size=4), st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_every_split_equals_enumeration_of_all_subsets(correct: list[tuple[int, int]], k: int) -> None:
    told = portfolio(np.full((len(correct), 2), 5), correct, k, halvings=2, replicates=20)
    assert told.base_S.tolist() == list(range(k + 1))
    listed = [
        np.mean([1 - (1 - hit(5, base, k1)) * (1 - hit(5, rl, k - k1)) for base, rl in correct]) for k1 in range(k + 1)
    ]
    assert told.coverage_S == pytest.approx(listed)
    assert told.all_base == pytest.approx(listed[-1])
    assert told.all_rl == pytest.approx(listed[0])
    assert told.best is not None
    assert listed[told.best] == pytest.approx(max(listed))
    assert told.value <= max(listed) + 1e-12


def test_swapping_the_runs_mirrors_the_splits() -> None:
    rng = np.random.default_rng(0)
    drawn, correct = np.full((40, 2), 32), rng.integers(0, 6, (40, 2))
    first, two = portfolio(drawn, correct, 16), portfolio(drawn, correct[:, ::-1], 16)
    assert first.coverage_S == pytest.approx(two.coverage_S[::-1])
    assert first.value == pytest.approx(two.value)
    assert (first.gain, first.gain_low, first.gain_high) == pytest.approx((two.gain, two.gain_low, two.gain_high))
    assert (first.all_base, first.all_rl) == pytest.approx((two.all_rl, two.all_base))


def test_two_runs_that_solve_different_halves_are_worth_mixing() -> None:
    correct = np.repeat([[16, 0], [0, 16]], 50, axis=0)
    told = portfolio(np.full((100, 2), 64), correct, 16)
    assert told.best == 8
    assert told.gain > 0.3
    assert told.gain_low > 0.25
    assert told.gain_low < told.gain < told.gain_high


def test_a_run_that_dominates_takes_the_whole_budget() -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 3, 80)
    told = portfolio(np.full((80, 2), 64), np.stack([base, base * 10], axis=1), 16)
    assert told.best == 0
    assert told.gain == pytest.approx(0, abs=1e-12)


def test_two_runs_of_the_same_model_gain_nothing_by_cross_fitting() -> None:
    rng = np.random.default_rng(2)
    gains, flattered = [], []
    for seed in range(40):
        rate = rng.beta(0.3, 3, 30)
        correct = rng.binomial(64, np.stack([rate, rate], axis=1))
        told = portfolio(np.full((30, 2), 64), correct, 32, replicates=2, seed=seed)
        gains.append(told.gain)
        flattered.append(told.coverage_S.max() - told.value)
    assert np.mean(flattered) > 0
    assert abs(np.mean(gains)) < 0.03


def test_problems_with_too_few_samples_are_left_out_and_counted() -> None:
    told = portfolio([[8, 8], [8, 8], [8, 4]], [[1, 1], [2, 0], [4, 4]], 8)
    assert (told.problems, told.left_out) == (2, 1)
    alone = portfolio([[8, 8], [8, 8]], [[1, 1], [2, 0]], 8)
    assert told.coverage_S.tolist() == alone.coverage_S.tolist()


def test_one_problem_or_none_gives_no_cross_fitted_value() -> None:
    first, none = portfolio([[8, 8]], [[1, 1]], 4), portfolio([[2, 8]], [[1, 1]], 4)
    assert np.isfinite(first.coverage_S).all()
    assert np.isnan([first.value, first.gain, first.gain_low, first.gain_high]).all()
    assert none.best is None
    assert np.isnan(none.coverage_S).all()


def test_large_budgets_use_sixty_five_splits_with_both_ends() -> None:
    told = portfolio(np.full((3, 2), 1000), np.full((3, 2), 3), 1000, replicates=5)
    assert told.base_S.size == 65
    assert (told.base_S[0], told.base_S[-1]) == (0, 1000)


def test_the_curve_holds_the_portfolio_of_each_budget() -> None:
    rng = np.random.default_rng(3)
    drawn, correct = np.full((20, 2), 20), rng.integers(0, 5, (20, 2))
    curve = portfolio_curve(drawn, correct, replicates=50)
    assert curve.budget_K.tolist() == [1, 2, 4, 8, 16]
    for i, k in enumerate(curve.budget_K):
        told = portfolio(drawn, correct, int(k), replicates=50)
        assert told.best is not None
        assert curve.share_K[i] == told.best / k
        assert (curve.value_K[i], curve.gain_high_K[i]) == (told.value, told.gain_high)
    assert curve.gain_K[0] == 0
    assert portfolio_curve(np.empty((0, 2)), np.empty((0, 2))).budget_K.size == 0


def test_a_seed_gives_the_same_interval_again() -> None:
    drawn, correct = np.full((9, 2), 16), np.random.default_rng(4).integers(0, 4, (9, 2))
    assert portfolio(drawn, correct, 8, seed=3).gain_low == portfolio(drawn, correct, 8, seed=3).gain_low
    with pytest.raises(ValueError, match="k=0"):
        portfolio(drawn, correct, 0)
