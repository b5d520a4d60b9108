"""ReMax: the reward of the greedy sample is the baseline (Li et al., arXiv:2310.10505)."""

from dataclasses import dataclass

from offleash.training.method import Average, Floats, Group, Method, Schedule
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class OverGreedy:
    """`A_i = R_i - R(greedy)`: what sampling brought over the most likely token at every place."""

    def __call__(self, group: Group) -> Floats:
        return group.reward_G - group.greedy


def remax(clip: float = 0.2, kl: float = 0.0) -> Method:
    """The gradient of the mean reward without bias; the baseline costs one more sample a problem."""
    return Method(OverGreedy(), clipped(clip, kl, Average.CONSTANT), Schedule(greedy=True))
