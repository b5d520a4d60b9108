"""Groups of a training: shares without signal in known worlds, and the tail miss by enumeration."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from offleash.stats.groups import (
    RatePosterior,
    RateShift,
    chance_lost,
    draws_for_half,
    group_signal,
    rate_posterior,
    seen_posterior,
    shifted_counts,
    tail_miss,
)
from tests.effort import FULL

Rates = Callable[[np.random.Generator, int], np.ndarray]
WORLDS: dict[str, Rates] = {
    "many rare problems": lambda rng, size: rng.beta(0.3, 1.2, size),
    "some never solved": lambda rng, size: np.where(rng.random(size) < 0.3, 0.0, rng.beta(0.5, 2.0, size)),
    "two rates": lambda rng, size: np.where(rng.random(size) < 0.5, 0.02, 0.7),
    "mostly solved": lambda rng, size: rng.beta(4.0, 1.0, size),
}
GROUPS = 64


def covered(world: Rates, n: int, size: int, studies: int) -> tuple[float, float]:
    """How often the intervals hold the expected share, and that of a first step on problems of the training set."""
    expected = realised = 0
    for seed in range(studies):
        rng = np.random.default_rng([seed, n, size])
        rate_P = world(rng, 200)
        (signal,) = group_signal(np.full(200, n), rng.binomial(n, rate_P), [size], GROUPS)
        truth = float(((1 - rate_P) ** size + rate_P**size).mean())
        correct_G = rng.binomial(size, rate_P[rng.choice(200, GROUPS, replace=False)])
        share = float(((correct_G == 0) | (correct_G == size)).mean())
        expected += signal.low - 1e-9 <= truth <= signal.high + 1e-9
        realised += signal.step_low - 1e-9 <= share <= signal.step_high + 1e-9
    return expected / studies, realised / studies


@pytest.mark.parametrize("name", ["some never solved", "mostly solved"])
def test_the_intervals_of_a_plan_hold_what_a_first_step_shows(name: str) -> None:
    expected, realised = covered(WORLDS[name], 16, 32, 25)
    assert expected >= 0.8  # 92% and more in 200 studies, see below
    assert realised >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 32, 128])
@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("name", WORLDS)
def test_the_intervals_of_a_plan_cover_at_least_92_of_100(name: str, n: int, size: int) -> None:
    expected, realised = covered(WORLDS[name], n, size, 200 if FULL else 40)
    print(f"{name}, {n} samples, groups of {size}: expected share {expected:.3f}, first step {realised:.3f}")
    assert expected >= 0.92
    assert realised >= 0.92


def test_shares_without_signal_are_those_of_the_rates_where_counts_leave_no_doubt() -> None:
    rate_P = np.array([0.0, 0.25, 0.5, 1.0] * 10)
    drawn_P = np.full(40, 40_000)
    for signal in group_signal(drawn_P, (rate_P * drawn_P).astype(int), [2, 8]):
        assert signal.all_wrong == pytest.approx(((1 - rate_P) ** signal.size).mean(), abs=0.01)
        assert signal.all_right == pytest.approx((rate_P**signal.size).mean(), abs=0.01)
        assert signal.low <= signal.none <= signal.high


def test_a_problem_that_was_not_solved_yet_has_a_rate_above_zero_where_others_are_rare() -> None:
    posterior = rate_posterior([64] * 60, [0] * 20 + [1] * 20 + [2] * 20)
    rate_P = posterior.mean(posterior.rate_J)
    assert 0 < rate_P[0] < rate_P[20] < rate_P[40]
    assert rate_P[0] < 1 / 64


def test_half_are_solved_at_the_smallest_number_of_draws_that_does_it() -> None:
    posterior = rate_posterior([64] * 20, [1] * 10 + [32] * 10)
    rare_P = np.arange(20) < 10
    draws = draws_for_half(posterior, rare_P, 512)
    assert draws is not None
    missed = [posterior.mean((1 - posterior.rate_J) ** k)[rare_P].mean() for k in (draws - 1, draws)]
    assert missed[0] > 0.5 >= missed[1]
    assert draws_for_half(posterior, rare_P, draws - 1) is None
    assert draws_for_half(posterior, np.zeros(20, dtype=bool), 512) is None


@pytest.mark.parametrize(("tau", "rate"), [(0.1, 0.5), (0.2, 0.2), (0.05, 0.9), (0.3, 1.0)])
def test_the_tail_miss_is_the_sum_over_all_groups(tau: float, rate: float) -> None:
    chance = {"rare": tau, "other": rate - tau, "wrong": 1 - rate}
    for size in (1, 2, 3, 4):
        total = 0.0
        for group in product(chance, repeat=size):
            mixed = "wrong" in group and "other" in group
            if mixed and "rare" not in group:
                total += float(np.prod([chance[kind] for kind in group]))
        assert tail_miss(tau, rate, size) == pytest.approx(total)


def test_what_was_seen_once_is_rarer_than_its_share() -> None:
    """Of many rare solutions those that were seen are the lucky ones: 1 of 64 overstates them."""
    rng = np.random.default_rng(0)
    count_S = rng.binomial(64, 0.004, 4000)
    seen_S = count_S[count_S > 0]
    posterior = seen_posterior(np.full(len(seen_S), 64), seen_S)
    assert posterior.mean(posterior.rate_J).mean() == pytest.approx(0.004, rel=0.3)
    assert seen_S.mean() / 64 > 0.015


def test_the_chance_of_loss_is_what_trainings_that_shift_rates_show() -> None:
    rng, shift = np.random.default_rng(1), RateShift(-1.0, 1.3, 0.8)
    rate_P = np.array([0.004, 0.03, 0.3])
    posterior = RatePosterior(rate_P, np.eye(3))
    logit_PS = shift.offset + shift.slope * np.log(rate_P / (1 - rate_P))[:, None]
    after_PS = 1 / (1 + np.exp(-(logit_PS + shift.noise * rng.standard_normal((3, 40_000)))))
    missed_P = (rng.binomial(64, after_PS) == 0).mean(axis=1)
    assert chance_lost(posterior, shift, 64) == pytest.approx(missed_P, abs=0.01)
    seen_P = (rng.binomial(8, after_PS) == 1).mean(axis=1)
    assert shifted_counts(posterior, shift, 8, [1, 1, 1]) == pytest.approx(seen_P, abs=0.01)
    assert chance_lost(posterior, RateShift(0.0, 1.0, 0.0), 64) == pytest.approx((1 - rate_P) ** 64)
