"""Negative sample reinforcement: only wrong samples are pushed down (Zhu et al., arXiv:2506.01347)."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Group, Method
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class Signed:
    """`+weight` for a correct sample, `-1` for any other, without a baseline."""

    weight: float

    def __call__(self, group: Group) -> Floats:
        return np.where(group.reward_G > 0, self.weight * group.reward_G, -1.0)


def nsr(clip: float = 0.2) -> Method:
    """Correct samples are left alone: what is taken from wrong ones goes where the policy already leans."""
    return Method(Signed(0.0), clipped(clip, 0.0, Average.TOKEN))
