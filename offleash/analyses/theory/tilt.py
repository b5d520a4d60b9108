"""The tilt: the best policy under a KL leash, q exp(beta R)/Z, and its limit without one (C.4, C.5)."""

import numpy as np

from offleash.analyses.theory.exact import success_rates
from offleash.analyses.theory.policy import logits_of, softmax
from offleash.analyses.theory.world import Float, World
from offleash.errors import OffleashError


def tilt(world: World, beta: float) -> Float:
    """pi*(y|x) = q(y|x) exp(beta R(x,y)) / Z(x); at beta = inf the base restricted to the correct answers.

    A problem whose correct answers all have probability 0 has no such limit: its base stays as it is.
    """
    if beta < 0 or np.isnan(beta):
        raise OffleashError(f"beta is the weight of the reward, at least 0; found {beta}.")
    if np.isinf(beta):
        kept_XY = np.where(world.correct_XY, world.base_XY, 0.0)
        rate_X = kept_XY.sum(axis=1, keepdims=True)
        return np.where(rate_X > 0, kept_XY / np.where(rate_X > 0, rate_X, 1.0), world.base_XY)
    return softmax(logits_of(world.base_XY) + beta * world.correct_XY)


def matched_beta(world: World, pass_at_1: float) -> float:
    """The beta at which the tilt's mean success rate is `pass_at_1`, by bisection; 0 and inf where none is."""
    rate_X = success_rates(world.base_XY, world.correct_XY)
    limit = float((rate_X > 0).mean())
    if pass_at_1 <= rate_X.mean():
        return 0.0
    if pass_at_1 >= limit:
        return float("inf")
    low, high = 0.0, 1.0
    while tilted_rates(rate_X, high).mean() < pass_at_1:
        low, high = high, 2 * high
        if high > 1e4:
            return float("inf")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted_rates(rate_X, middle).mean() < pass_at_1 else (low, middle)
    return high


def tilted_rates(rate_X: Float, beta: float) -> Float:
    """Success rates under the tilt, from those of the base: the odds of being right grow by exp(beta)."""
    below_X = rate_X + (1 - rate_X) * np.exp(-beta)  # in the form that does not overflow at large beta
    return np.asarray(np.divide(rate_X, below_X, out=np.zeros_like(below_X), where=rate_X > 0))
