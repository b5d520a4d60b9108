"""Policies (a table of logits, or logits that problems share through few numbers), their gradients, and the tilt.

Both kinds of policy keep exact zeros.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from offleash.analyses.theory.exact import divergence, entropy, success_rates
from offleash.analyses.theory.world import Flags, Float, TheoryWorld
from offleash.errors import OffleashError


class TablePolicy(Protocol):
    """A policy over the answers of a world: its probabilities, and the policy after one gradient step.

    Policies are immutable: `updated` returns a new one, so that training can be replayed from any of its policies.
    """

    @property
    def probability_XY(self) -> Float: ...

    def updated(self, slope_XY: Float, rate: float) -> Self:
        """The policy after a gradient step; `slope_XY` is the objective's derivative by the logits."""
        ...


@dataclass(frozen=True)
class TabularPolicy:
    """Every answer of every problem has a logit of its own; -inf is an answer that is never given."""

    logit_XY: Float

    @property
    def probability_XY(self) -> Float:
        return softmax(self.logit_XY)

    def updated(self, slope_XY: Float, rate: float) -> "TabularPolicy":
        return TabularPolicy(self.logit_XY + rate * slope_XY)  # -inf plus anything finite stays -inf


@dataclass(frozen=True)
class SharedPolicy:
    """Logits = base + U V with few columns D: what one problem learns moves the others (as LoRA, arXiv:2106.09685)."""

    base_XY: Float  # logits, never trained
    problem_XD: Float
    answer_DY: Float

    @property
    def probability_XY(self) -> Float:
        return softmax(self.base_XY + self.problem_XD @ self.answer_DY)

    def gradient(self, slope_XY: Float) -> tuple[Float, Float]:
        """Derivatives of the objective by both factors, from those by the logits."""
        return slope_XY @ self.answer_DY.T, self.problem_XD.T @ slope_XY

    def updated(self, slope_XY: Float, rate: float) -> "SharedPolicy":
        by_problem_XD, by_answer_DY = self.gradient(slope_XY)
        return SharedPolicy(self.base_XY, self.problem_XD + rate * by_problem_XD, self.answer_DY + rate * by_answer_DY)


def tabular(world: TheoryWorld) -> TabularPolicy:
    """The base of a world as a tabular policy."""
    return TabularPolicy(logits_of(world.base_XY))


def shared(world: TheoryWorld, width: int, rng: np.random.Generator, similarity: float = 0.0) -> SharedPolicy:
    """The base of a world with `width` shared directions: features of problems, nothing learnt yet.

    Args:
        world: whose base it is.
        width: columns D of U V. The fewer, the more one problem's update moves the others.
        rng: draws the features of problems, of mean square 1 per problem.
        alike: the part of that mean square which all problems have in common.
    """
    problem_XD = np.sqrt((1 - similarity) / width) * rng.standard_normal((world.problems, width))
    problem_XD[:, 0] += np.sqrt(similarity)
    # V starts at 0, as LoRA's second factor: before the first step the policy is exactly the base
    return SharedPolicy(logits_of(world.base_XY), problem_XD, np.zeros((width, world.answers)))


def tied(world: TheoryWorld) -> SharedPolicy:
    """The base of a world with one direction that is the same for all problems: the simplest sharing there is."""
    return SharedPolicy(logits_of(world.base_XY), np.ones((world.problems, 1)), np.zeros((1, world.answers)))


def logits_of(probability_XY: Float) -> Float:
    """Logarithms, -inf where the probability is exactly 0."""
    out_XY = np.full(probability_XY.shape, -np.inf)
    np.log(probability_XY, out=out_XY, where=probability_XY > 0)
    return out_XY


def softmax(logit_XY: Float) -> Float:
    """Probabilities of logits; exactly 0 where a logit is -inf."""
    # every problem has an answer of positive probability (TheoryWorld checks it), so the maximum is finite
    mass_XY = np.exp(logit_XY - logit_XY.max(axis=-1, keepdims=True))
    out: Float = mass_XY / mass_XY.sum(axis=-1, keepdims=True)
    return out


def nucleus(probability_XY: Float, top_p: float) -> Float:
    """The distribution of top-p sampling: the fewest most likely answers whose mass reaches `top_p`; others exactly 0.

    >>> nucleus(np.array([[0.5, 0.3, 0.2]]), 0.6).round(3).tolist()
    [[0.625, 0.375, 0.0]]
    """
    order_XY = np.argsort(-probability_XY, axis=1, kind="stable")
    sorted_XY = np.take_along_axis(probability_XY, order_XY, axis=1)
    before_XY = np.cumsum(sorted_XY, axis=1) - sorted_XY  # mass of all more likely answers: kept while below top_p
    kept_XY = np.full(probability_XY.shape, top_p >= 1)  # of all the mass nothing is cut, not even what rounding loses
    if top_p < 1:
        np.put_along_axis(kept_XY, order_XY, before_XY < top_p, axis=1)
    mass_XY = np.where(kept_XY, probability_XY, 0.0)
    out: Float = mass_XY / mass_XY.sum(axis=1, keepdims=True)
    return out


# Gradients: how an update moves the logits, from the shares of a group's rollouts; METHODS by name.


Advantage = Callable[[Flags, Float], Float]  # correct_XY, mean reward of the group (X by 1) -> advantage_XY

DELTA = 1e-4  # added to the standard deviation by GRPO, so that a group without a spread does not divide by 0


def reinforce(correct_XY: Flags, mean_X1: Float) -> Float:
    """Reward minus the group's mean (Williams 1992, with the mean as baseline)."""
    return correct_XY - mean_X1


def grpo(correct_XY: Flags, mean_X1: Float) -> Float:
    """The same divided by the group's standard deviation (arXiv:2402.03300)."""
    return (correct_XY - mean_X1) / (np.sqrt(mean_X1 * (1 - mean_X1)) + DELTA)


def nsr(correct_XY: Flags, mean_X1: Float) -> Float:
    """Only wrong rollouts count, each with -1 and no baseline (arXiv:2506.01347)."""
    return np.where(correct_XY, 0.0, -1.0) + 0.0 * mean_X1


METHODS: dict[str, Advantage] = {"reinforce": reinforce, "grpo": grpo, "nsr": nsr}


def slope(method: str, share_XY: Float, probability_XY: Float, correct_XY: Flags) -> Float:
    """Derivative by the logits of the mean over rollouts of advantage times log-probability.

    `share_XY` is which share of a group gave each answer; with the policy's own probabilities it is the limit of
    infinitely large groups. With a baseline that is the group's own mean the last term vanishes: the logit of an
    answer that nobody drew does not move, only its probability does, through the others.
    """
    # d/dlogit_y of sum_j w_j log pi_j is w_y - pi_y sum_j w_j, with w = share * advantage.
    mean_X1 = np.where(correct_XY, share_XY, 0.0).sum(axis=1, keepdims=True)
    push_XY = share_XY * METHODS[method](correct_XY, np.minimum(mean_X1, 1.0))
    out: Float = push_XY - probability_XY * push_XY.sum(axis=1, keepdims=True)
    return out


def kl_slope(probability_XY: Float, base_XY: Float) -> Float:
    """Derivative by the logits of -KL(pi || q): -pi (ln(pi/q) - KL); answers of probability 0 do not move."""
    ratio_XY = np.where(probability_XY > 0, _difference(probability_XY, base_XY), 0.0)
    return -probability_XY * (ratio_XY - divergence(probability_XY, base_XY)[:, None])


def entropy_slope(probability_XY: Float) -> Float:
    """Derivative by the logits of the entropy H of the answers: -pi (ln pi + H)."""
    log_XY = np.where(probability_XY > 0, logits_of(probability_XY), 0.0)
    return -probability_XY * (log_XY + entropy(probability_XY)[:, None])


def _difference(p_XY: Float, q_XY: Float) -> Float:
    overlap_XY = (p_XY > 0) & (q_XY > 0)
    return np.log(np.where(overlap_XY, p_XY, 1.0)) - np.log(np.where(overlap_XY, q_XY, 1.0))


# The tilt: the best policy under a KL leash, q exp(beta R)/Z, and its limit without one (C.4, C.5).


def tilt(world: TheoryWorld, beta: float) -> Float:
    """pi*(y|x) = q(y|x) exp(beta R(x,y)) / Z(x) (C.4); at beta = inf the base restricted to the correct answers (C.5).

    With R in {0, 1} and p the base's success rate, Z = 1 - p + p e^beta <= e^beta: every correct answer gains.
    A problem whose correct answers all have probability 0 has no such limit: its base stays as it is.
    """
    if beta < 0 or np.isnan(beta):
        raise OffleashError(f"beta is the weight of the reward and must be at least 0; found {beta}.")
    if np.isinf(beta):
        correct_mass_XY = np.where(world.correct_XY, world.base_XY, 0.0)
        rate_X = correct_mass_XY.sum(axis=1, keepdims=True)
        return np.where(rate_X > 0, correct_mass_XY / np.where(rate_X > 0, rate_X, 1.0), world.base_XY)
    return softmax(logits_of(world.base_XY) + beta * world.correct_XY)


def matched_beta(world: TheoryWorld, pass_at_1: float) -> float:
    """The beta at which the tilt's mean success rate is `pass_at_1`, by bisection.

    0 where the base is there already, inf where no beta reaches it: the limit solves what the base reaches at all.
    """
    rate_X = success_rates(world.base_XY, world.correct_XY)
    limit = float((rate_X > 0).mean())
    if pass_at_1 <= rate_X.mean():
        return 0.0
    if pass_at_1 >= limit:
        return float("inf")
    low, high = 0.0, 1.0
    while tilted_rates(rate_X, high).mean() < pass_at_1:
        low, high = high, 2 * high
        if high > 1e4:  # the target is within rounding of the limit
            return float("inf")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted_rates(rate_X, middle).mean() < pass_at_1 else (low, middle)
    return high


def tilted_rates(rate_X: Float, beta: float) -> Float:
    """Success rates under the tilt, from those of the base: the odds of a correct answer grow by exp(beta).

    >>> tilted_rates(np.array([0.0, 0.5]), np.log(3)).round(3).tolist()
    [0.0, 0.75]
    """
    denominator_X = rate_X + (1 - rate_X) * np.exp(-beta)  # in the form that does not overflow at large beta
    return np.asarray(np.divide(rate_X, denominator_X, out=np.zeros_like(denominator_X), where=rate_X > 0))
