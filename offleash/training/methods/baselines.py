"""REINFORCE with a leave-one-out baseline (Ahmadian et al., Back to Basics, arXiv:2402.14740)."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Group, Method
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class LeaveOneOut:
    """`A_i = R_i - mean of the others' R`: the baseline of a sample does not know the sample."""

    def __call__(self, group: Group) -> Floats:
        if group.size == 1:
            return np.zeros(1)  # nobody to compare with
        others_G: Floats = (group.reward_G.sum() - group.reward_G) / (group.size - 1)
        return group.reward_G - others_G


def rloo(clip: float = 0.2, kl: float = 0.0) -> Method:
    """The gradient of the mean reward without bias: terms of tokens are summed, divided by a constant only."""
    return Method(LeaveOneOut(), clipped(clip, kl, Average.CONSTANT))
