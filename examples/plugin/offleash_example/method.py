"""Learning from correct samples alone."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Method, RolloutGroup
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class OnlyCorrect:
    """`1` for a correct sample, `0` for any other."""

    def __call__(self, group: RolloutGroup) -> Floats:
        return np.where(group.reward_G > 0, 1.0, 0.0)


def raft(clip: float = 0.2) -> Method:
    """Reward-ranked fine-tuning: supervised learning on one's own correct samples (Dong et al., arXiv:2304.06767)."""
    return Method(OnlyCorrect(), clipped(clip, 0.0, Average.SAMPLE))  # refuses a clip that is out of range
