"""Splits of a budget between two runs against enumeration, symmetry and worlds with a known best split."""

from collections.abc import Callable
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
    if told.best is None:  # which run draws all makes no difference
        assert listed[0] == pytest.approx(max(listed))
        assert listed[-1] == pytest.approx(max(listed))
    else:
        assert listed[told.best] == pytest.approx(max(listed))
    # the split is chosen on other problems than it is valued on, and never looks better than the best on all of them
    assert told.value <= max(listed) + 1e-12
    assert 0 <= told.gain <= max(listed) - max(listed[0], listed[-1]) + 1e-12


@pytest.mark.parametrize("k", [16, 31])
def test_swapping_the_runs_mirrors_the_splits(k: int) -> None:
    rng = np.random.default_rng(0)
    drawn, correct = np.full((40, 2), 32), rng.integers(0, 6, (40, 2))
    first, two = portfolio(drawn, correct, k), portfolio(drawn, correct[:, ::-1], k)
    assert first.coverage_S == pytest.approx(two.coverage_S[::-1])
    assert first.value == pytest.approx(two.value)
    assert (first.gain, first.gain_low, first.gain_high) == pytest.approx((two.gain, two.gain_low, two.gain_high))
    assert (first.all_base, first.all_rl) == pytest.approx((two.all_rl, two.all_base))
    assert first.best is not None
    assert two.best is not None
    assert first.best == k - two.best


@given(st.lists(pair, min_size=2, max_size=9), st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_swapping_the_runs_mirrors_ties_too(correct: list[tuple[int, int]], k: int) -> None:
    drawn, counts = np.full((len(correct), 2), 5), np.array(correct)
    first, two = (portfolio(drawn, c, k, halvings=3, replicates=20) for c in (counts, counts[:, ::-1]))
    assert first.value == pytest.approx(two.value)
    assert first.gain == pytest.approx(two.gain)
    assert (first.best is None) == (two.best is None)
    if first.best is not None and two.best is not None and counts[:, 0].sum() != counts[:, 1].sum():
        assert first.best == k - two.best


def test_a_budget_of_any_size_has_splits_that_mirror() -> None:
    for k in (1, 2, 64, 65, 129, 1000, 1001, 8191):
        told = portfolio(np.full((2, 2), 8191), np.ones((2, 2)), k, replicates=2)
        assert (k - told.base_S[::-1]).tolist() == told.base_S.tolist()


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


def test_no_gain_is_claimed_over_a_run_that_solves_nothing() -> None:
    """The base solves 3 of 20 problems, the RL model none: no split can do better than all samples from the base."""
    correct = np.zeros((20, 2), dtype=int)
    correct[:3, 0] = 1, 2, 40
    for seed in range(5):
        told = portfolio(np.full((20, 2), 64), correct, 64, seed=seed)
        assert told.best == 64
        assert (told.gain, told.gain_low) == (0, 0)
        assert told.value <= told.all_base + 1e-12 == pytest.approx(0.15)
        assert told.gain_high < 0.15  # not 0: twenty problems do not show that the RL model never solves another


def test_of_equal_splits_a_run_alone_is_preferred() -> None:
    told = portfolio(np.full((10, 2), 8), np.repeat([[8, 8], [0, 0]], 5, axis=0), 8)
    assert told.best is None  # the same either way
    # four of eight samples, one of them wrong, always hold a correct one: both runs alone reach the same
    assert portfolio(np.full((10, 2), 8), np.repeat([[8, 7], [0, 0]], 5, axis=0), 4).best is None
    assert portfolio(np.full((10, 2), 8), np.repeat([[8, 2], [0, 0]], 5, axis=0), 4).best == 4
    assert portfolio(np.full((10, 2), 8), np.repeat([[2, 8], [0, 0]], 5, axis=0), 4).best == 0


# Worlds whose gain is known: rates of problems, by the base and by the RL model. None served for choosing a constant.


Rates = tuple[np.ndarray, np.ndarray]


def rl_solves_nothing(rng: np.random.Generator, problems: int) -> Rates:
    rate = rng.beta(0.5, 2, problems)
    return rate, np.zeros(problems)


def base_solves_nothing(rng: np.random.Generator, problems: int) -> Rates:
    return np.zeros(problems), rng.beta(0.2, 0.8, problems) * (rng.random(problems) < 0.5)


def same_model(rng: np.random.Generator, problems: int) -> Rates:
    rate = rng.beta(0.2, 1.5, problems)
    return rate, rate


def same_at_the_edge(rng: np.random.Generator, problems: int) -> Rates:
    """Half of the problems with a rate at which they are reached by one run and not by the other, by luck."""
    rate = np.where(rng.random(problems) < 0.5, 0.02, 0.3)
    return rate, rate


def nested(rng: np.random.Generator, problems: int) -> Rates:
    rate = 10 ** rng.uniform(-4, 0, problems)
    return rate, rate * (rng.random(problems) < 0.5)


def sharpened(rng: np.random.Generator, problems: int) -> Rates:
    rate = rng.beta(0.4, 6, problems)
    return rate, 1 - (1 - rate) ** 3


def exchanged(rng: np.random.Generator, problems: int) -> Rates:
    """A fifth of the problems is solved by each run alone."""
    rate, part = rng.beta(1, 4, problems), rng.random(problems)
    return rate * (part > 0.2), rate * (part < 0.8)


def lopsided(rng: np.random.Generator, problems: int) -> Rates:
    """Most of what RL loses is rare in the base, and it gains on a few problems."""
    rate, part = 10 ** rng.uniform(-3, 0, problems), rng.random(problems)
    return rate * (part > 0.06), np.where(part < 0.75, 1 - (1 - rate) ** 2, 0.0)


def moved(rng: np.random.Generator, problems: int) -> Rates:
    odds = rng.normal(-4, 2, problems)
    return 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-odds - rng.normal(0.5, 1.5, problems)))


WITHOUT_GAIN = (rl_solves_nothing, base_solves_nothing, same_model, same_at_the_edge, nested, sharpened)
WITH_GAIN = (exchanged, lopsided, moved)


def true_gain(world: Callable[[np.random.Generator, int], Rates], k: int) -> float:
    if world in WITHOUT_GAIN:
        return 0.0
    base, rl = world(np.random.default_rng(99), 200_000)
    split = portfolio(np.full((1, 2), k), np.ones((1, 2)), k, replicates=2).base_S
    coverage = [float(np.mean(1 - (1 - base) ** s * (1 - rl) ** (k - s))) for s in split]
    return max(coverage) - max(coverage[0], coverage[-1])


def studies(
    world: Callable[[np.random.Generator, int], Rates], problems: int, n: int, k: int, number: int
) -> tuple[float, float]:
    """Shares of studies that claim a better split, and whose interval holds the true gain."""
    truth, claimed, held = true_gain(world, k), 0, 0
    for study in range(number):
        rng = np.random.default_rng([problems, n, study])
        told = portfolio(
            np.full((problems, 2), n), rng.binomial(n, np.stack(world(rng, problems), axis=1)), k, replicates=400
        )
        claimed += told.gain_low > 0
        held += told.gain_low - 1e-12 <= truth <= told.gain_high + 1e-12
    return claimed / number, held / number


@pytest.mark.parametrize("world", WITHOUT_GAIN)
@pytest.mark.parametrize(("problems", "n", "k"), [(20, 64, 64), (100, 16, 16)])
def test_no_better_split_is_claimed_where_there_is_none(
    world: Callable[[np.random.Generator, int], Rates], problems: int, n: int, k: int
) -> None:
    claimed, held = studies(world, problems, n, k, 40)
    assert claimed <= 0.05
    assert held >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("world", [*WITHOUT_GAIN, *WITH_GAIN])
@pytest.mark.parametrize("problems", [8, 30, 100, 500])
@pytest.mark.parametrize(("n", "k"), [(16, 16), (64, 32), (1024, 1024)])
def test_the_interval_holds_the_gain_and_claims_none_where_there_is_none(
    world: Callable[[np.random.Generator, int], Rates], problems: int, n: int, k: int
) -> None:
    claimed, held = studies(world, problems, n, k, 200)
    print(f"portfolio {world.__name__} N={problems} n={n} k={k}: claimed {claimed:.3f}, held {held:.3f}")
    assert held >= 0.92
    if world in WITHOUT_GAIN:
        assert claimed <= 0.05


def test_a_gain_that_exists_is_found() -> None:
    for n, k in ((64, 32), (64, 64)):
        claimed, held = studies(exchanged, 100, n, k, 20)
        assert claimed >= 0.8
        assert held >= 0.9


def test_below_eight_problems_the_gain_has_no_interval() -> None:
    correct = np.repeat([[16, 0], [0, 16]], 4, axis=0)
    seven, eight = (portfolio(np.full((size, 2), 64), correct[:size], 16) for size in (7, 8))
    assert np.isfinite([seven.value, seven.gain]).all()
    assert np.isnan([seven.gain_low, seven.gain_high]).all()
    assert eight.gain_low <= eight.gain <= eight.gain_high


def test_one_sample_cannot_be_split() -> None:
    told = portfolio(np.full((10, 2), 8), np.repeat([[8, 0], [0, 8]], 5, axis=0), 1)
    assert (told.gain, told.gain_low, told.gain_high) == (0, 0, 0)


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
