"""Rewarding the unlikely: correct samples earn more the less likely they were (He et al., arXiv:2506.02355)."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Floats, Group, Method
from offleash.training.methods.grpo import clipped, normalised
from offleash.training.methods_options import above, between


@dataclass(frozen=True)
class Unlikely:
    """`r_i = R_i (1 - b (G - rank_i) / G)`, rank 0 the most likely of the group, then as grpo.

    Samples that are equally likely share the mean of their ranks, so that their order in the group is nothing.
    """

    b: float = 0.25
    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        likely_G = group.logprob_GT.sum(1)
        above_G = (likely_G[None] > likely_G[:, None]).sum(1)
        level_G = (likely_G[None] == likely_G[:, None]).sum(1) - 1
        rank_G = above_G + level_G / 2
        reward_G = group.reward_G * (1 - self.b * (group.size - rank_G) / group.size)
        return normalised(np.asarray(reward_G, np.float64), self.delta)


def unlikeliness(b: float = 0.25, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """A group that is all right still has a gradient: towards its less likely samples."""
    return Method(Unlikely(between("b", b, 0, 1), above("delta", delta, 0)), clipped(clip, kl))
