"""F-GRPO: problems that are mostly solved weigh less (Plyusov et al., arXiv:2602.06717)."""

from dataclasses import dataclass

from offleash.training.method import Floats, Group, Method
from offleash.training.methods.grpo import clipped, normalised
from offleash.training.methods_options import above, at_least


@dataclass(frozen=True)
class Focused:
    """`A_i (1 - c/N)^gamma`, A_i those of grpo and c of N samples correct."""

    gamma: float = 1.0
    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        missing = 1 - float((group.reward_G > 0).mean())
        weighted_G: Floats = normalised(group.reward_G, self.delta) * missing**self.gamma
        return weighted_G


def focal(gamma: float = 1.0, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Less is learnt from what is nearly known, where rare ways to be right are lost; gamma = 0 is grpo."""
    return Method(Focused(at_least("gamma", gamma, 0), above("delta", delta, 0)), clipped(clip, kl))
