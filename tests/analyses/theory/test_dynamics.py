"""Training: gradients against finite differences, expected updates against the enumeration of all groups."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.analyses.theory.dynamics import Dynamics, MeasurementSettings, rollouts, train
from offleash.analyses.theory.exact import divergence, entropy, success_rates
from offleash.analyses.theory.policy import (
    DELTA,
    METHODS,
    SharedPolicy,
    TabularPolicy,
    entropy_slope,
    kl_slope,
    shared,
    slope,
    softmax,
    tabular,
)
from offleash.analyses.theory.world import Float, TheoryWorld, random_world, world_of
from offleash.errors import OffleashError

WORLD = random_world(np.random.default_rng(11), 2, 3, concentration=1.0)


def numerical(value: Callable[[Float], float], at: Float, step: float = 1e-5) -> Float:
    """Derivatives by central differences."""
    out = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        out[place] = (value(up) - value(down)) / (2 * step)
    return out


def objective(p_XY: Float, world: TheoryWorld, kl: float, bonus: float) -> float:
    leash = kl * divergence(p_XY, world.base_XY).sum()
    return float(success_rates(p_XY, world.correct_XY).sum() - leash + bonus * entropy(p_XY).sum())


def exact_slope(p_XY: Float, world: TheoryWorld, kl: float, bonus: float) -> Float:
    push_XY = slope("reinforce", p_XY, p_XY, world.correct_XY)
    return push_XY + kl * kl_slope(p_XY, world.base_XY) + bonus * entropy_slope(p_XY)


@pytest.mark.parametrize(("kl", "bonus"), [(0.0, 0.0), (0.7, 0.0), (0.0, 0.4), (0.3, 0.2)])
def test_the_exact_slope_of_a_table_is_the_derivative_of_its_objective(kl: float, bonus: float) -> None:
    logit_XY = np.random.default_rng(0).standard_normal((2, 3))
    by_hand = numerical(lambda at: objective(softmax(at), WORLD, kl, bonus), logit_XY)
    assert exact_slope(softmax(logit_XY), WORLD, kl, bonus) == pytest.approx(by_hand, abs=1e-8)


def test_the_gradient_of_shared_parameters_is_the_derivative_by_both_factors() -> None:
    rng = np.random.default_rng(1)
    start = shared(WORLD, 2, rng)
    policy = SharedPolicy(start.base_XY, start.problem_XD, rng.standard_normal(start.answer_DY.shape))
    p_XY = policy.probability_XY
    by_problem, by_answer = policy.gradient(exact_slope(p_XY, WORLD, 0.3, 0.2))

    def at(problem_XD: Float, answer_DY: Float) -> float:
        return objective(SharedPolicy(policy.base_XY, problem_XD, answer_DY).probability_XY, WORLD, 0.3, 0.2)

    assert by_problem == pytest.approx(numerical(lambda u: at(u, policy.answer_DY), policy.problem_XD), abs=1e-8)
    assert by_answer == pytest.approx(numerical(lambda v: at(policy.problem_XD, v), policy.answer_DY), abs=1e-8)
    updated = policy.updated(exact_slope(p_XY, WORLD, 0.3, 0.2), 0.1)
    assert updated.problem_XD == pytest.approx(policy.problem_XD + 0.1 * by_problem)


def advantages(method: str, reward_N: np.ndarray) -> np.ndarray:
    """The textbook's advantages of one group, rollout by rollout."""
    if method == "nsr":
        return np.where(reward_N > 0, 0.0, -1.0)
    centred = reward_N - reward_N.mean()
    return np.asarray(centred / (reward_N.std() + DELTA) if method == "grpo" else centred)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("group", [2, 3])
def test_the_mean_update_of_simulated_groups_equals_the_enumeration_of_all_groups(method: str, group: int) -> None:
    p_Y, right_Y = WORLD.base_XY[0], WORLD.correct_XY[0]
    expected_Y, from_shares_Y = np.zeros(3), np.zeros(3)
    for ys in product(range(3), repeat=group):
        chance = float(np.prod(p_Y[list(ys)]))
        score_NY = np.eye(3)[list(ys)] - p_Y  # derivative of log-probability by the logits
        each_N = advantages(method, right_Y[list(ys)].astype(float))
        expected_Y += chance * (each_N[:, None] * score_NY).mean(axis=0)
        share_XY = np.bincount(ys, minlength=3)[None] / group
        from_shares_Y += chance * slope(method, share_XY, p_Y[None], right_Y[None])[0]
    assert from_shares_Y == pytest.approx(expected_Y)
    rng, many = np.random.default_rng(5), 40_000
    alike = np.repeat(WORLD.base_XY[:1], many, axis=0)
    pushes = slope(method, rollouts(alike, Dynamics(method, group), rng), alike, np.repeat(right_Y[None], many, axis=0))
    error_Y = pushes.std(axis=0) / np.sqrt(many)
    assert (np.abs(pushes.mean(axis=0) - expected_Y) < 5 * error_Y + 1e-12).all()


def test_in_expectation_reinforce_and_negative_samples_alone_push_alike() -> None:
    p_XY, correct_XY = WORLD.base_XY, WORLD.correct_XY
    assert slope("nsr", p_XY, p_XY, correct_XY) == pytest.approx(slope("reinforce", p_XY, p_XY, correct_XY))


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_infinitely_many_rollouts_are_the_limit_of_large_ones(method: str) -> None:
    p_XY, rng = WORLD.base_XY, np.random.default_rng(6)
    share_XY = rollouts(p_XY, Dynamics(method, 2_000_000), rng)
    limit_XY = rollouts(p_XY, Dynamics(method, None), rng)
    assert slope(method, share_XY, p_XY, WORLD.correct_XY) == pytest.approx(
        slope(method, limit_XY, p_XY, WORLD.correct_XY), abs=3e-3
    )


@given(st.integers(0, 10**6), st.sampled_from(["reinforce", "grpo"]), st.sampled_from([2, 8, None]))
def test_no_group_lowers_the_success_rate_of_any_problem_in_a_table(seed: int, method: str, group: int | None) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(rng, 4, 5)
    before_X = success_rates(world.base_XY, world.correct_XY)
    after_XY = train(
        tabular(world), world, Dynamics(method, group, 0.5, 5), rng, MeasurementSettings((1,))
    ).final.probability_XY
    assert (success_rates(after_XY, world.correct_XY) >= before_X - 1e-12).all()


def test_a_group_without_success_or_without_failure_teaches_nothing() -> None:
    p_XY, right_XY = np.array([[0.2, 0.3, 0.5]]), np.array([[True, False, False]])
    for share in ([[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]):
        for method in ("reinforce", "grpo"):
            assert slope(method, np.array(share), p_XY, right_XY) == pytest.approx(0.0)


def test_the_logit_of_an_answer_that_nobody_drew_stays_and_its_probability_moves() -> None:
    p_XY, right_XY = np.array([[0.2, 0.3, 0.5]]), np.array([[True, True, False]])
    push_XY = slope("reinforce", np.array([[0.5, 0.0, 0.5]]), p_XY, right_XY)
    assert push_XY[0, 1] == 0
    assert TabularPolicy(np.log(p_XY)).updated(push_XY, 1.0).probability_XY[0, 1] != pytest.approx(0.3, abs=1e-3)


def test_seeded_answers_reach_what_on_policy_rollouts_never_see() -> None:
    world = world_of({"RARE": 1e-6, "wrong": 1 - 1e-6})
    how, seed_X = MeasurementSettings((1,)), np.array([0])
    plain, seeded = (
        train(tabular(world), world, Dynamics(rate=1.0, seeded=share), np.random.default_rng(0), how, seed_X)
        for share in (0.0, 0.25)
    )
    assert plain.pass_SK[-1, 0] == pytest.approx(1e-6)
    assert seeded.pass_SK[-1, 0] > 0.9
    never = world_of({"NEVER": 0.0, "wrong": 1.0})
    stuck = train(tabular(never), never, Dynamics(seeded=0.5, steps=50), np.random.default_rng(0), how, seed_X)
    assert stuck.pass_SK[-1, 0] == 0  # no finite push undoes a logit of minus infinity


def test_seeded_infinite_groups_are_the_limit_of_finite_ones() -> None:
    p_XY, seed_X = WORLD.base_XY, np.array([1, 2])
    large_XY, limit_XY = (
        rollouts(p_XY, Dynamics(group=group, seeded=0.25), np.random.default_rng(0), seed_X)
        for group in (1_000_000, None)
    )
    assert large_XY == pytest.approx(limit_XY, abs=2e-3)


def test_an_entropy_bonus_keeps_more_entropy_and_a_leash_more_of_the_base() -> None:
    world = random_world(np.random.default_rng(12), 8, 8, concentration=0.5)
    recipes = {
        "plain": Dynamics(steps=300),
        "bonus": Dynamics(steps=300, entropy=0.1),
        "leash": Dynamics(steps=300, kl=0.1),
    }
    ends = {
        name: train(tabular(world), world, recipe, np.random.default_rng(0), MeasurementSettings((1,), 0.01))
        for name, recipe in recipes.items()
    }
    assert ends["bonus"].entropy_S[-1] > ends["plain"].entropy_S[-1] + 0.1
    assert ends["leash"].kl_S[-1] < ends["plain"].kl_S[-1] - 0.1
    assert ends["leash"].answers_retained_S[-1] >= ends["plain"].answers_retained_S[-1]


def test_a_history_begins_with_the_base_and_tells_what_was_kept() -> None:
    world = random_world(np.random.default_rng(13), 6, 6)
    one = train(
        tabular(world), world, Dynamics(steps=25), np.random.default_rng(0), MeasurementSettings((1, 4), 0.01, every=10)
    )
    assert one.step_S.tolist() == [0, 10, 20, 25]
    rate_X = success_rates(world.base_XY, world.correct_XY)
    assert one.pass_SK[0] == pytest.approx([rate_X.mean(), (1 - (1 - rate_X) ** 4).mean()])
    assert (one.answers_retained_S[0], one.problems_retained_S[0], one.kl_S[0]) == (1, 1, 0)
    assert (one.kept_answers_S <= one.answers_S).all()


def test_a_recipe_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OffleashError, match="gpro"):
        Dynamics("gpro")
    with pytest.raises(OffleashError, match="found 0"):
        Dynamics(group=0)
    with pytest.raises(OffleashError, match=r"found 1\.5"):
        Dynamics(seeded=1.5)
    with pytest.raises(OffleashError, match="seed_X"):
        train(tabular(WORLD), WORLD, Dynamics(seeded=0.5), np.random.default_rng(0))
