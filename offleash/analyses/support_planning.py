"""Planning: the budget at which a loss of each problem could be made certain, and what it costs, from a pilot."""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from offleash.stats.binomials import Float, Integer
from offleash.stats.rules import beta_prior
from offleash.stats.sensitivity import chance_of_detection, smallest_certain_loss

_POINTS = 64  # of each problem's posterior


@dataclass(frozen=True)
class BudgetPlan:
    """For K budgets: the chance that each problem is settled, and the samples that takes, stopped early or not.

    A problem is settled when the run before would show successes enough for its loss to be certain.
    """

    k_K: Integer
    least_K: Integer  # successes that make a loss certain at each budget
    chance_PK: Float  # of each problem
    samples_K: Integer  # of one run
    until_K: Integer  # successes at which a problem would stop: those that settle it, unless others were asked for
    stopped_K: Float  # samples of one run that stops so, expected
    problems: int


def budget_plan(drawn_P: Integer, correct_P: Integer, k_K: Integer, until: int | None = None) -> BudgetPlan:
    """Predict from a pilot's counts what larger budgets would settle (beta-binomial, fitted to all problems)."""
    shape_a, shape_b = beta_prior(drawn_P.astype(np.float64), correct_P.astype(np.float64))
    level = (np.arange(_POINTS) + 0.5) / _POINTS
    wins_P, rest_P = shape_a + correct_P, shape_b + drawn_P - correct_P
    rate_PQ: Float = np.asarray(special.betaincinv(wins_P[:, None], rest_P[:, None], level), dtype=np.float64)
    problems = len(drawn_P)
    least = [smallest_certain_loss(int(k), problems) for k in k_K]
    least_K = np.array([int(k) + 1 if one is None else one for k, one in zip(k_K, least, strict=True)])
    chance_PK = np.stack(
        [chance_of_detection(rate_PQ, k, need).mean(axis=1) for k, need in zip(k_K, least_K, strict=True)], axis=1
    )
    until_K = least_K if until is None else np.full_like(least_K, until)
    costs = (stopped_cost(rate_PQ, int(k), int(m)) for k, m in zip(k_K, until_K, strict=True))
    stopped_K = np.array([cost_PQ.mean(axis=1).sum() for cost_PQ in costs])
    return BudgetPlan(
        k_K=k_K,
        least_K=least_K,
        chance_PK=chance_PK,
        samples_K=k_K * problems,
        until_K=until_K,
        stopped_K=stopped_K,
        problems=problems,
    )


def stopped_cost(rate: Float, k: int, until: int) -> Float:
    """Expected samples of a problem of each rate when it stops at its until-th success or at k."""
    p = np.maximum(rate, 1e-300)
    ended = stats.binom.sf(until, k + 1, p)
    return np.asarray(k * stats.binom.cdf(until - 1, k, p) + np.where(ended > 0, until * ended / p, 0.0))
