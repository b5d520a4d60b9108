"""REINFORCE++: rewards normalised over the whole batch (Hu et al., arXiv:2501.03262)."""

from dataclasses import dataclass

from offleash.training.method import Average, Floats, Group, Method
from offleash.training.methods.grpo import clipped
from offleash.training.methods_options import above


@dataclass(frozen=True)
class BatchNormalised:
    """`A_i = (R_i - batch mean) / (batch std + delta)`: how a sample compares with all samples of the step."""

    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        advantage_G: Floats = (group.reward_G - group.batch_mean) / (group.batch_std + self.delta)
        return advantage_G


def reinforce_pp(clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """A group that is all right or all wrong still counts; tokens of the step are averaged as one."""
    return Method(BatchNormalised(above("delta", delta, 0)), clipped(clip, kl, Average.TOKEN))
