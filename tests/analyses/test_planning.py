"""Planning: the cost of stopping early by enumeration, and what a pilot predicts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.analyses.planning import budget_plan, stopped_cost
from offleash.stats.power import successes_needed


def cost_by_enumeration(p: float, k: int, until: int) -> float:
    cost = 0.0
    for outcome in product([0, 1], repeat=k):
        total = np.cumsum(outcome)
        stop = int(np.argmax(total >= until)) + 1 if total[-1] >= until else k
        cost += stop * p ** total[-1] * (1 - p) ** (k - total[-1])
    return cost


@given(st.floats(0.001, 1), st.integers(1, 8), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_the_cost_of_stopping_early_equals_enumeration_of_all_outcomes(p: float, k: int, until: int) -> None:
    assert stopped_cost(np.array([p]), k, until)[0] == pytest.approx(cost_by_enumeration(p, k, until))


def test_an_impossible_problem_costs_its_whole_budget_and_a_sure_one_its_successes() -> None:
    assert stopped_cost(np.array([0.0, 1e-12, 1.0]), 4096, 5) == pytest.approx([4096, 4096, 5])


def test_a_plan_settles_more_at_more_cost() -> None:
    rng = np.random.default_rng(0)
    correct = rng.binomial(32, rng.beta(0.3, 1, 60))
    plan = budget_plan(np.full(60, 32), correct, np.array([4, 32, 256, 2048]), until=5)
    assert plan.min_successes_K.tolist() == [5, *(successes_needed(k, k, 60) for k in (32, 256, 2048))]
    assert plan.chance_PK.sum(axis=0)[0] == 0  # four samples can make no loss certain
    assert (np.diff(plan.chance_PK.sum(axis=0)) > 0).all()
    assert plan.samples_K.tolist() == [240, 1920, 15_360, 122_880]
    assert (plan.stopped_cost_K <= plan.samples_K).all()
    assert plan.chance_PK.sum(axis=0) == pytest.approx(plan.chance_PK.sum(axis=0))


def test_a_plan_predicts_what_a_larger_budget_then_settles() -> None:
    rng = np.random.default_rng(1)
    problems, k = 3000, 512
    rate = rng.beta(0.4, 1.5, problems)
    plan = budget_plan(np.full(problems, 64), rng.binomial(64, rate), np.array([k]), until=5)
    settled = (rng.binomial(k, rate) >= plan.min_successes_K[0]).sum()
    assert plan.chance_PK.sum(axis=0)[0] == pytest.approx(settled, rel=0.03)
    assert plan.stopped_cost_K[0] == pytest.approx(stopped_cost(rate, k, 5).sum(), rel=0.03)


def test_a_problem_stops_at_the_successes_that_settle_it_unless_told_otherwise() -> None:
    k = np.array([64, 1024])
    plan = budget_plan(np.full(60, 64), np.arange(60), k)
    assert plan.stop_successes_K.tolist() == plan.min_successes_K.tolist()
    sooner = budget_plan(np.full(60, 64), np.arange(60), k, until=5)
    assert (sooner.stopped_cost_K < plan.stopped_cost_K).all()
    assert (plan.stopped_cost_K < plan.samples_K).all()
