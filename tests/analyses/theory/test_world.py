"""Worlds, policies and exact values: what is exact equals brute force, zeros stay zeros, bad worlds are refused."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from offleash.analyses.theory.exact import (
    Level,
    divergence,
    entropy,
    expected_support,
    pass_at_k,
    reached,
    success_rates,
    support,
)
from offleash.analyses.theory.policy import nucleus, shared, softmax, tabular, tied
from offleash.analyses.theory.world import TheoryWorld, draw, method_world, random_world, world_of
from offleash.errors import OffleashError


def test_exact_pass_at_k_equals_the_enumeration_of_all_sequences_of_k_answers() -> None:
    world = random_world(np.random.default_rng(1), problems=3, answers=4, zeros=0.3)
    for k in (1, 2, 3, 4):
        brute = np.mean(
            [
                sum(np.prod(row[list(ys)]) for ys in product(range(4), repeat=k) if right[list(ys)].any())
                for row, right in zip(world.base_XY, world.correct_XY, strict=True)
            ]
        )
        rate_X = success_rates(world.base_XY, world.correct_XY)
        assert pass_at_k(rate_X, k)[0] == pytest.approx(brute)


def test_the_limit_of_pass_at_k_is_the_share_of_problems_that_can_be_solved() -> None:
    rate_X = np.array([0.0, 1e-12, 0.5, 1.0])
    assert pass_at_k(rate_X, [1, np.inf]).tolist() == pytest.approx([rate_X.mean(), 0.75])


def test_support_at_epsilon_counts_answers_problems_by_completion_and_by_mass() -> None:
    world = world_of({"A": 0.04, "B": 0.04, "c": 0.92}, {"A": 0.3, "b": 0.7, "C": 0.0})
    after_XY = np.array([[0.5, 0.0, 0.5], [0.02, 0.98, 0.0]])
    table = {level: support(world.base_XY, after_XY, world.correct_XY, 0.05, level) for level in Level}
    assert vars(table[Level.ANSWER]) == {"P": 0, "E": 1, "S": 1, "O": 2}
    assert vars(table[Level.COMPLETION]) == {"P": 0, "E": 1, "S": 1, "O": 0}
    assert vars(table[Level.MASS]) == {"P": 1, "E": 0, "S": 1, "O": 0}  # two answers of 0.04 are a mass of 0.08
    assert table[Level.MASS].SRR == 0.5
    assert table[Level.ANSWER].SRR == 0
    assert np.isnan(support(after_XY, after_XY, world.correct_XY, 0.999, Level.ANSWER).SRR)


def test_swapping_the_policies_swaps_lost_and_found() -> None:
    rng = np.random.default_rng(2)
    world, other = random_world(rng, 20, 6), random_world(rng, 20, 6)
    for level in Level:
        one = support(world.base_XY, other.base_XY, world.correct_XY, 0.1, level)
        turned = support(other.base_XY, world.base_XY, world.correct_XY, 0.1, level)
        assert (one.P, one.E, one.S, one.O) == (turned.P, turned.S, turned.E, turned.O)


def test_expected_support_equals_the_mean_over_all_outcomes_of_k_samples() -> None:
    a, b, k = 0.3, 0.6, 2
    outcome = dict.fromkeys("PESO", 0.0)
    for draws in product([True, False], repeat=2 * k):
        chance = np.prod([(a if hit else 1 - a) if i < k else (b if hit else 1 - b) for i, hit in enumerate(draws)])
        cell = {(True, True): "P", (False, True): "E", (True, False): "S", (False, False): "O"}
        outcome[cell[any(draws[:k]), any(draws[k:])]] += float(chance)
    assert vars(expected_support(np.array([a]), np.array([b]), k)) == pytest.approx(outcome)


def test_entropy_and_divergence_are_those_of_scipy() -> None:
    rng = np.random.default_rng(3)
    p, q = (random_world(rng, 5, 6).base_XY for _ in range(2))
    assert entropy(p) == pytest.approx(stats.entropy(p, axis=1))
    assert divergence(p, q) == pytest.approx(stats.entropy(p, q, axis=1))
    assert divergence(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))[0] == np.inf
    assert divergence(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))[0] == pytest.approx(np.log(2))


def test_every_policy_starts_as_the_base_and_keeps_its_zeros() -> None:
    rng = np.random.default_rng(4)
    world = random_world(rng, 6, 8, zeros=0.5)
    push_XY = rng.standard_normal(world.base_XY.shape)
    for policy in (tabular(world), shared(world, 3, rng, similarity=0.5), tied(world)):
        assert policy.probability_XY == pytest.approx(world.base_XY)
        assert (policy.updated(push_XY, 5.0).probability_XY[world.base_XY == 0] == 0).all()


@given(st.integers(0, 10**6), st.floats(0.05, 1.0))
def test_the_nucleus_is_the_fewest_answers_that_reach_the_mass(seed: int, top_p: float) -> None:
    p_XY = random_world(np.random.default_rng(seed), 4, 7).base_XY
    for row, cut in zip(p_XY, nucleus(p_XY, top_p), strict=True):
        kept = cut > 0
        assert row[kept].sum() >= top_p - 1e-9
        assert row[kept].sum() - row[kept].min() <= top_p + 1e-12
        assert row[kept].min() >= row[~kept].max(initial=0.0)
        assert cut[kept] == pytest.approx(row[kept] / row[kept].sum())


def test_a_nucleus_of_all_the_mass_keeps_what_rounding_would_lose() -> None:
    p_XY = np.array([[0.5, 0.5, 1e-20]])
    assert (nucleus(p_XY, 1.0) > 0).all()
    assert (nucleus(p_XY, 0.999) > 0).tolist() == [[True, True, False]]


def test_draws_have_the_frequencies_of_the_policy_and_never_hit_a_zero() -> None:
    rng = np.random.default_rng(5)
    p_XY = random_world(rng, 40, 6, zeros=0.4).base_XY
    drawn_XN = draw(p_XY, 4_000, rng)
    count_XY = np.stack([np.bincount(row, minlength=6) for row in drawn_XN])
    assert (count_XY[p_XY == 0] == 0).all()
    z_XY = (count_XY - 4_000 * p_XY) / np.sqrt(4_000 * p_XY * (1 - p_XY) + 1)
    assert np.abs(z_XY).max() < 5


def test_softmax_does_not_overflow() -> None:
    assert softmax(np.array([[1e4, 0.0, -np.inf]])).tolist() == [[1.0, 0.0, 0.0]]


def test_problems_without_probabilities_are_refused_with_what_was_found() -> None:
    with pytest.raises(OffleashError, match=r"problem 1 .*0\.5, 0\.4"):
        TheoryWorld(np.array([[0.5, 0.5], [0.5, 0.4]]), np.zeros((2, 2), dtype=bool))
    with pytest.raises(OffleashError, match="negative"):
        TheoryWorld(np.array([[1.5, -0.5]]), np.zeros((1, 2), dtype=bool))
    with pytest.raises(OffleashError, match=r"\(1, 2\) probabilities and \(1, 3\)"):
        TheoryWorld(np.array([[0.5, 0.5]]), np.zeros((1, 3), dtype=bool))


def test_random_worlds_are_worlds_and_the_same_for_the_same_seed() -> None:
    makers: tuple[Callable[[np.random.Generator], TheoryWorld], ...] = (
        lambda rng: random_world(rng, 50, 6, zeros=0.4),
        lambda rng: method_world(rng, 50, 6, 3, 2.0, 1.0),
    )
    for make in makers:
        one, same = (make(np.random.default_rng([7, 1])) for _ in range(2))
        assert (one.base_XY == same.base_XY).all()
        assert (one.correct_XY == same.correct_XY).all()
        assert one.correct_XY.any(axis=1).all()
        assert (make(np.random.default_rng([7, 2])).base_XY != one.base_XY).any()


def test_taking_answers_and_digits_away_leaves_a_world() -> None:
    world = random_world(np.random.default_rng(8), 3, 5)
    assert world.without_answer(2).answers == 4
    assert world.without_problem(0).problems == 2
    assert reached(world.rounded(2).base_XY, world.correct_XY, -1.0, Level.MASS).all()
    assert str(world_of({"RIGHT": 0.1, "wrong": 0.9})) == "problem 1: 0.1 correct, 0.9"


@pytest.mark.parametrize("base", [[[np.nan, 1.0]], [[0.5, 0.5], [-0.5, 1.5]], [[0.5, 0.4]], []])
def test_a_world_whose_probabilities_are_none_is_refused_with_the_problem(base: list[list[float]]) -> None:
    base_XY = np.array(base, dtype=np.float64).reshape(len(base), 2)
    with pytest.raises(OffleashError) as error:
        TheoryWorld(base_XY, np.zeros_like(base_XY, dtype=bool))
    assert f"problem {len(base) - 1}" in str(error.value) or not base
