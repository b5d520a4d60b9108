"""The tilt: never shrinks, can widen the answers, and is where an exact training under a KL leash ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.analyses.theory.dynamics import Dynamics, MeasurementSettings, train
from offleash.analyses.theory.exact import Level, entropy, pass_at_k, success_rates, support
from offleash.analyses.theory.policy import TabularPolicy, logits_of, matched_beta, tabular, tilt, tilted_rates
from offleash.analyses.theory.statements.reweighting import EXAMPLE_WORLD
from offleash.analyses.theory.world import random_world, world_of
from offleash.errors import OffleashError


def test_the_entropy_of_the_example_rises_from_0_5553_to_2_3901_nats() -> None:
    before, after = (entropy(p_XY)[0] for p_XY in (EXAMPLE_WORLD.base_XY, tilt(EXAMPLE_WORLD, 5.0)))
    assert (round(before, 4), round(after, 4)) == (0.5553, 2.3901)


@given(st.integers(0, 10**6), st.floats(0, 50), st.floats(0, 0.5))
def test_the_tilt_loses_nothing_at_any_epsilon_and_pass_at_k_never_falls(seed: int, beta: float, eps: float) -> None:
    world = random_world(np.random.default_rng(seed), 5, 6, zeros=0.2)
    for strength in (beta, float("inf")):
        after_XY = tilt(world, strength)
        for level in Level:
            # an answer at the very edge of epsilon may round below it
            assert support(world.base_XY, after_XY * (1 + 1e-9), world.correct_XY, eps, level).S == 0
        before, after = (pass_at_k(success_rates(p, world.correct_XY), [1, 7, 300]) for p in (world.base_XY, after_XY))
        assert (after >= before - 1e-12).all()


def test_at_beta_0_the_tilt_is_the_base_and_at_infinity_the_base_among_correct_answers() -> None:
    world = world_of({"A": 0.1, "B": 0.3, "c": 0.6}, {"A": 0.0, "b": 0.5, "c": 0.5})
    assert tilt(world, 0.0) == pytest.approx(world.base_XY)
    limit_XY = tilt(world, float("inf"))
    assert limit_XY.tolist() == pytest.approx(np.array([[0.25, 0.75, 0], [0, 0.5, 0.5]]))
    assert tilt(world, 60.0) == pytest.approx(limit_XY)
    with pytest.raises(OffleashError, match="found -1"):
        tilt(world, -1.0)


@given(st.integers(0, 10**6), st.floats(0.001, 0.999))
def test_the_matched_beta_gives_the_pass_at_1_it_was_asked_for(seed: int, share: float) -> None:
    world = random_world(np.random.default_rng(seed), 6, 5, concentration=1.0)
    base_X = success_rates(world.base_XY, world.correct_XY)
    wanted = base_X.mean() + share * (1 - base_X.mean())
    beta = matched_beta(world, wanted)
    assert success_rates(tilt(world, beta), world.correct_XY).mean() == pytest.approx(wanted, abs=1e-9)
    assert tilted_rates(base_X, beta) == pytest.approx(success_rates(tilt(world, beta), world.correct_XY))


def test_what_cannot_be_matched_has_beta_0_or_infinity() -> None:
    world = world_of({"A": 0.2, "b": 0.8}, {"A": 0.0, "b": 1.0})
    assert matched_beta(world, 0.05) == 0.0
    assert matched_beta(world, 0.6) == float("inf")


def test_exact_training_of_a_table_under_a_kl_leash_ends_in_the_tilt() -> None:
    world = random_world(np.random.default_rng(3), 4, 5, concentration=1.0)
    recipe = Dynamics("reinforce", group=None, rate=2.0, steps=3_000, kl=0.5)
    final = train(
        tabular(world), world, recipe, np.random.default_rng(0), MeasurementSettings((1,), every=10_000)
    ).final
    assert final.probability_XY == pytest.approx(tilt(world, 2.0), abs=1e-6)


def test_without_a_leash_it_does_not_end_in_the_limit_of_the_tilt() -> None:
    world = world_of({"A": 0.4, "B": 0.1, "c": 0.5})
    recipe = Dynamics("reinforce", group=None, rate=1.0, steps=3_000)
    final = train(
        tabular(world), world, recipe, np.random.default_rng(0), MeasurementSettings((1,), every=10_000)
    ).final
    p_XY = final.probability_XY
    assert p_XY[0, 0] + p_XY[0, 1] > 0.99
    assert p_XY[0, 1] < 0.1 < tilt(world, float("inf"))[0, 1]  # the rarer correct answer even lost


def test_a_natural_step_of_the_logits_by_the_reward_is_the_tilt() -> None:
    world = random_world(np.random.default_rng(4), 4, 5)
    updated = TabularPolicy(logits_of(world.base_XY)).updated(world.correct_XY.astype(float), 1.7)
    assert updated.probability_XY == pytest.approx(tilt(world, 1.7))


def test_what_the_base_cannot_do_no_tilt_can() -> None:
    for beta in (1.0, 800.0, np.inf):
        assert tilted_rates(np.array([0.0, 0.3]), beta)[0] == 0
    assert tilted_rates(np.array([0.0, 0.3]), np.inf).tolist() == [0.0, 1.0]
