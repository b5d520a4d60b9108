"""Reweighting: wrong samples, unlikely samples, problems that are mostly solved."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Method, RolloutGroup, above, at_least, between
from offleash.training.methods.grpo import clipped, normalised


@dataclass(frozen=True)
class SignWeighted:
    """`+weight` for a correct sample, `-1` for any other, without a baseline."""

    weight: float

    def __call__(self, group: RolloutGroup) -> Floats:
        return np.where(group.reward_G > 0, self.weight * group.reward_G, -1.0)


def nsr(clip: float = 0.2) -> Method:
    """Negative sample reinforcement: only wrong samples are pushed down (Zhu et al., arXiv:2506.01347).

    Correct samples have no gradient: probability taken from wrong ones goes where the policy already puts it.
    """
    return Method(SignWeighted(0.0), clipped(clip, 0.0, Average.TOKEN))


@dataclass(frozen=True)
class FocalWeighted:
    """`A_i (1 - c/N)^gamma`, with grpo's A_i and c of N samples correct."""

    gamma: float = 1.0
    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        failure_rate = 1 - float((group.reward_G > 0).mean())
        weighted_G: Floats = normalised(group.reward_G, self.delta) * failure_rate**self.gamma
        return weighted_G


def focal(gamma: float = 1.0, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """F-GRPO: problems that are mostly solved weigh less (Plyusov et al., arXiv:2602.06717).

    Learns less from problems that are nearly solved, where rare solutions get lost; gamma = 0 is grpo.
    """
    return Method(FocalWeighted(at_least("gamma", gamma, 0), above("delta", delta, 0)), clipped(clip, kl))


@dataclass(frozen=True)
class UnlikelinessRanked:
    """`r_i = R_i (1 - b (G - rank_i) / G)`, rank 0 the most likely of the group, then as grpo.

    Equally likely samples share the mean of their ranks, so that their order in the group does not matter.
    """

    b: float = 0.25
    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        logprob_G = group.logprob_GT.sum(1)
        likelier_G = (logprob_G[None] > logprob_G[:, None]).sum(1)
        ties_G = (logprob_G[None] == logprob_G[:, None]).sum(1) - 1
        rank_G = likelier_G + ties_G / 2
        reward_G = group.reward_G * (1 - self.b * (group.size - rank_G) / group.size)
        return normalised(np.asarray(reward_G, np.float64), self.delta)


def unlikeliness(b: float = 0.25, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Rewarding the unlikely: correct samples earn more the less likely they were (He et al., arXiv:2506.02355).

    A group that is all correct still has a gradient: towards its less likely samples.
    """
    return Method(UnlikelinessRanked(between("b", b, 0, 1), above("delta", delta, 0)), clipped(clip, kl))


def w_reinforce(weight: float = 0.1, clip: float = 0.2) -> Method:
    """Weighted REINFORCE: wrong samples pushed down, correct ones up a little (Zhu et al., arXiv:2506.01347).

    Rewards of `+weight` (the paper's lambda) and -1; with 0 it is nsr, with 1 plain REINFORCE on +1 and -1.
    """
    return Method(SignWeighted(at_least("weight", weight, 0)), clipped(clip, 0.0, Average.TOKEN))
