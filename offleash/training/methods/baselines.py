"""REINFORCE with a baseline that is not a learned critic: leave-one-out, the whole batch, the greedy sample."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Method, MethodSchedule, RolloutGroup, above
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class LeaveOneOut:
    """`A_i = R_i - mean of the others' R`: the baseline of a sample does not depend on the sample."""

    def __call__(self, group: RolloutGroup) -> Floats:
        if group.size == 1:
            return np.zeros(1)  # nothing to compare with
        mean_of_others_G: Floats = (group.reward_G.sum() - group.reward_G) / (group.size - 1)
        return group.reward_G - mean_of_others_G


def rloo(clip: float = 0.2, kl: float = 0.0) -> Method:
    """REINFORCE with a leave-one-out baseline (Ahmadian et al., Back to Basics, arXiv:2402.14740).

    An unbiased gradient of the mean reward: per-token terms are summed and divided only by a constant.
    """
    return Method(LeaveOneOut(), clipped(clip, kl, Average.CONSTANT))


@dataclass(frozen=True)
class BatchNormalised:
    """`A_i = (R_i - batch mean) / (batch std + delta)`: how a sample compares with all samples of the step."""

    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        advantage_G: Floats = (group.reward_G - group.batch_mean) / (group.batch_std + self.delta)
        return advantage_G


def reinforce_pp(clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """REINFORCE++: rewards normalised over the whole batch (Hu et al., arXiv:2501.03262).

    A group that is all correct or all wrong still has a gradient; the loss averages over all tokens of the step.
    """
    return Method(BatchNormalised(above("delta", delta, 0)), clipped(clip, kl, Average.TOKEN))


@dataclass(frozen=True)
class GreedyBaseline:
    """`A_i = R_i - R(greedy)`: the gain of a sample over greedy decoding."""

    def __call__(self, group: RolloutGroup) -> Floats:
        return group.reward_G - group.greedy


def remax(clip: float = 0.2, kl: float = 0.0) -> Method:
    """ReMax: the reward of the greedy sample is the baseline (Li et al., arXiv:2310.10505).

    An unbiased gradient of the mean reward; the baseline costs one more sample per problem.
    """
    return Method(GreedyBaseline(), clipped(clip, kl, Average.CONSTANT), MethodSchedule(greedy=True))
