"""Slopes: how an update pushes the logits, from the shares of a group's rollouts; a literal dict of methods."""

from collections.abc import Callable

import numpy as np

from offleash.analyses.theory.exact import divergence, entropy
from offleash.analyses.theory.policy import logits_of
from offleash.analyses.theory.world import Flags, Float

Advantage = Callable[[Flags, Float], Float]  # correct_XY, mean reward of the group (X by 1) -> advantage_XY

DELTA = 1e-4  # added to the standard deviation by GRPO


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
    mean_X1 = np.where(correct_XY, share_XY, 0.0).sum(axis=1, keepdims=True)
    push_XY = share_XY * METHODS[method](correct_XY, np.minimum(mean_X1, 1.0))
    out: Float = push_XY - probability_XY * push_XY.sum(axis=1, keepdims=True)
    return out


def kl_slope(probability_XY: Float, base_XY: Float) -> Float:
    """Derivative by the logits of -KL(pi || q); answers of probability 0 do not move."""
    ratio_XY = np.where(probability_XY > 0, _difference(probability_XY, base_XY), 0.0)
    return -probability_XY * (ratio_XY - divergence(probability_XY, base_XY)[:, None])


def entropy_slope(probability_XY: Float) -> Float:
    """Derivative by the logits of the entropy of the answers."""
    log_XY = np.where(probability_XY > 0, logits_of(probability_XY), 0.0)
    return -probability_XY * (log_XY + entropy(probability_XY)[:, None])


def _difference(p_XY: Float, q_XY: Float) -> Float:
    both_XY = (p_XY > 0) & (q_XY > 0)
    return np.log(np.where(both_XY, p_XY, 1.0)) - np.log(np.where(both_XY, q_XY, 1.0))
