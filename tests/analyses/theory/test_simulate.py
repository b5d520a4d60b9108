"""Simulated samples: their tally is one, and the estimators' means are the exact values."""

import numpy as np
import pytest

from offleash.analyses.theory.exact import pass_at_k, success_rates
from offleash.analyses.theory.policy import tilt
from offleash.analyses.theory.world import random_world, simulate
from offleash.errors import OffleashError
from offleash.stats.pass_at_k import pass_at_k as estimated_pass
from offleash.stats.pass_at_k import pass_at_k_prefix

WORLD = random_world(np.random.default_rng(21), 30, 6)


def test_the_mean_of_the_estimator_is_exact_pass_at_k_for_every_k_and_policy() -> None:
    policies = {"base": WORLD.base_XY, "tilt": tilt(WORLD, 1.0)}
    k_K, times = np.array([1, 2, 5, 16, 24]), 400
    estimate_TRK = np.empty((times, 2, len(k_K)))
    prefix_TRK = np.empty_like(estimate_TRK)
    for t in range(times):
        one = simulate(WORLD, policies, 24, seed=t).tally
        drawn, correct, first = (a[:, :, None] for a in (one.drawn_PR, one.correct_PR, one.first_PR))
        estimate_TRK[t] = estimated_pass(drawn, correct, k_K).mean(axis=0)
        prefix_TRK[t] = pass_at_k_prefix(drawn, first, k_K).mean(axis=0)
    exact_RK = np.stack([pass_at_k(success_rates(p_XY, WORLD.correct_XY), k_K) for p_XY in policies.values()])
    for found_TRK in (estimate_TRK, prefix_TRK):
        error_RK = found_TRK.std(axis=0) / np.sqrt(times)
        assert (np.abs(found_TRK.mean(axis=0) - exact_RK) < 4.5 * error_RK + 1e-12).all()


def test_the_tally_counts_what_was_drawn_in_its_order() -> None:
    one = simulate(WORLD, {"a": WORLD.base_XY, "b": WORLD.base_XY}, 50, seed=1, head=20)
    hit_RXN = np.stack([np.take_along_axis(WORLD.correct_XY, ids, axis=1) for ids in one.answer_RXN])
    tally = one.tally
    assert (tally.correct_PR == hit_RXN.sum(axis=2).T).all()
    assert (tally.head_PR == hit_RXN[:, :, :20].sum(axis=2).T).all()
    for p, r in np.ndindex(tally.first_PR.shape):
        hits = np.flatnonzero(hit_RXN[r, p])
        assert tally.first_PR[p, r] == (hits[0] if hits.size else -1)
    assert (one.answer_RXN[0] != one.answer_RXN[1]).any()  # the same policy drawn twice is not the same samples
    assert tally.problem_P[:2].tolist() == ["x00", "x01"]


def test_a_head_longer_than_the_draw_is_refused() -> None:
    with pytest.raises(OffleashError, match="60"):
        simulate(WORLD, {"base": WORLD.base_XY}, 50, head=60)
    with pytest.raises(OffleashError, match="at least one policy"):
        simulate(WORLD, {}, 50)
