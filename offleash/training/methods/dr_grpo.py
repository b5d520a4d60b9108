"""GRPO done right: no division by the spread or by the length (Liu et al., arXiv:2503.20783)."""

from dataclasses import dataclass

from offleash.training.method import Average, Floats, Group, Method
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class Centred:
    """`A_i = R_i - mean R`: problems that are nearly always or nearly never solved weigh no more than others."""

    def __call__(self, group: Group) -> Floats:
        centred_G: Floats = group.reward_G - group.reward_G.mean()
        return centred_G


def dr_grpo(clip: float = 0.2, kl: float = 0.0) -> Method:
    """Terms of tokens are summed and divided by one constant: long wrong samples are not let off lightly."""
    return Method(Centred(), clipped(clip, kl, Average.CONSTANT))
