"""Distributions of rates without a shape: the largest likelihood and the ends of functionals by other solvers."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from offleash.stats.mixture import Mixture, RateLikelihood, functional_range, miss, npmle, rate_grid


def by_em(rate_J: np.ndarray, drawn: np.ndarray, correct: np.ndarray, steps: int = 5_000) -> np.ndarray:
    chance_PJ = binom.pmf(correct[:, None], drawn[:, None], rate_J)
    weight_J = np.full(rate_J.size, 1 / rate_J.size)
    for _ in range(steps):
        weight_J = weight_J * (chance_PJ / (chance_PJ @ weight_J)[:, None]).mean(axis=0)
    return weight_J


def log_likelihood(rate_J: np.ndarray, weight_J: np.ndarray, drawn: np.ndarray, correct: np.ndarray) -> float:
    return float(np.log(binom.pmf(correct[:, None], drawn[:, None], rate_J) @ weight_J).sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_is_that_of_expectation_maximisation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = rng.choice([16, 24], 40)
    correct = rng.binomial(drawn, rng.beta(0.4, 2, 40))
    fit = npmle(RateLikelihood.from_counts(drawn, correct))
    em_J = by_em(fit.rate_J, drawn, correct)
    ours, theirs = (log_likelihood(fit.rate_J, weight_J, drawn, correct) for weight_J in (fit.weight_J, em_J))
    assert fit.weight_J.sum() == pytest.approx(1)
    assert fit.weight_J.min() > 0
    assert ours >= theirs - 2e-3
    assert fit.pass_at_k(8) == pytest.approx(1 - miss(fit.rate_J, 8) @ em_J, abs=0.01)


def by_cutting_planes(likelihood: RateLikelihood, best: Mixture, value_J: np.ndarray, drop: float) -> float:
    """The largest mean of a function, from outside: linear programs under tangents of the log-likelihood (Kelley)."""
    floor, size = best.log_likelihood - drop, value_J.size
    slopes: list[np.ndarray] = []
    bounds: list[float] = []
    outer = np.full(size, 1 / size)
    for _ in range(80):
        inside, outside = 0.0, 1.0  # the point where the way from the best to the program's optimum leaves the set
        for _ in range(40):
            middle = (inside + outside) / 2
            mixed = best.weight_J + middle * (outer - best.weight_J)
            inside, outside = (middle, outside) if likelihood.log_likelihood(mixed) >= floor else (inside, middle)
        edge = best.weight_J + inside * (outer - best.weight_J)
        slope = likelihood.chance_UJ.T @ (likelihood.weight_U / (likelihood.chance_UJ @ edge))
        slopes.append(-slope)
        bounds.append(float(likelihood.log_likelihood(edge) - slope @ edge - floor))
        found = linprog(-value_J, A_ub=slopes, b_ub=bounds, A_eq=np.ones((1, size)), b_eq=[1.0], bounds=(0, 1))
        assert found.x is not None
        outer = np.maximum(found.x, 0)
        if value_J @ outer - value_J @ edge < 1e-4:
            break
    return float(value_J @ outer)


@pytest.mark.parametrize(
    "correct", [[0] * 9, [0, 0, 0, 1, 1, 7, 10, 12], [0, 0, 0, 0, 0, 1, 2, 2, 3, 12], [1, 1, 2, 4, 12, 12, 12, 12]]
)
@pytest.mark.parametrize("times", [2, 8])
def test_the_ends_of_a_functional_are_those_of_linear_programs(correct: list[int], times: int) -> None:
    likelihood = RateLikelihood.from_counts(np.full(len(correct), 12), correct)
    best = npmle(likelihood)
    value_J = miss(likelihood.rate_J, 12) - miss(likelihood.rate_J, 12 * times)
    low_K, high_K = functional_range(likelihood, best, value_J, 1.92)
    assert high_K[0] == pytest.approx(by_cutting_planes(likelihood, best, value_J, 1.92), abs=2e-3)
    assert low_K[0] == pytest.approx(-by_cutting_planes(likelihood, best, -value_J, 1.92), abs=2e-3)


def test_every_distribution_within_the_drop_is_inside_the_range() -> None:
    rng = np.random.default_rng(1)
    likelihood = RateLikelihood.from_counts(np.full(60, 32), rng.binomial(32, rng.beta(0.3, 2, 60)))
    best = npmle(likelihood)
    value_KJ = np.stack([1 - miss(likelihood.rate_J, k) for k in (1, 32, 256)])
    low_K, high_K = functional_range(likelihood, best, value_KJ, 1.92)
    inside = 0
    for _ in range(2000):
        other = rng.dirichlet(best.weight_J * rng.choice([30, 100, 300]) + 0.01)
        if likelihood.log_likelihood(other + 1e-300) >= best.log_likelihood - 1.92:
            inside += 1
            assert (low_K <= value_KJ @ other).all()
            assert (value_KJ @ other <= high_K).all()
    assert inside > 20


def test_pooling_large_counts_leaves_small_rates_alone() -> None:
    rng = np.random.default_rng(2)
    drawn, correct = np.full(400, 256), rng.binomial(256, rng.beta(0.3, 2, 400))
    ends = []
    for pooled in (16, None):
        likelihood = RateLikelihood.from_counts(drawn, correct, pooled)
        value_J = miss(likelihood.rate_J, 256) - miss(likelihood.rate_J, 1024)
        ends.append(np.concatenate(functional_range(likelihood, npmle(likelihood), value_J, 1.92)))
    assert ends[0] == pytest.approx(ends[1], abs=0.01)


def test_a_wide_drop_and_a_constant_function_are_no_trouble() -> None:
    likelihood = RateLikelihood.from_counts([8] * 4, [0, 0, 0, 0])
    best = npmle(likelihood)
    low_K, high_K = functional_range(likelihood, best, np.ones((1, likelihood.rate_J.size)), 1.92)
    assert (low_K[0], high_K[0]) == (1, 1)
    assert best.pass_at_k(8)[0] < 1e-2
    none, some = functional_range(likelihood, best, likelihood.rate_J > 0.01, 1.92)
    assert none[0] == pytest.approx(0, abs=1e-2)
    assert 0.3 < some[0] <= 1


def test_the_grid_has_both_ends_and_even_odds() -> None:
    rate_J = rate_grid(100)
    odds = rate_J[1:-1] / (1 - rate_J[1:-1])
    assert (rate_J[0], rate_J[-1]) == (0, 1)
    assert np.ptp(np.diff(np.log(odds))) < 1e-9
    assert rate_J[1] == pytest.approx(1e-5, rel=1e-3)
    assert Mixture(rate_J, np.eye(rate_J.size)[-1], 0.0).pass_at_k([1, 5]).tolist() == [1, 1]
