"""Group relative policy optimization (Shao et al., DeepSeekMath, arXiv:2402.03300)."""

from dataclasses import dataclass

from offleash.training.method import Average, Floats, Group, Loss, Method
from offleash.training.methods_options import above, at_least, bound


@dataclass(frozen=True)
class Normalised:
    """`A_i = (R_i - mean R) / (std R + delta)`: how a sample compares with the others of its group."""

    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        return normalised(group.reward_G, self.delta)


def normalised(reward_G: Floats, delta: float) -> Floats:
    """Rewards with mean 0 and spread 1; zeros where all are equal."""
    advantage_G: Floats = (reward_G - reward_G.mean()) / (reward_G.std() + delta)
    return advantage_G


def grpo(clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Advantages by the group's mean and spread, ratios clipped, KL to the reference if wanted."""
    return Method(spread(delta), clipped(clip, kl))


def spread(delta: float) -> Normalised:
    """The advantages of grpo."""
    return Normalised(above("delta", delta, 0))


def clipped(clip: float, kl: float, average: Average = Average.SAMPLE) -> Loss:
    """The loss of grpo, or of one that averages otherwise."""
    return Loss(low=bound("clip", clip), high=clip, kl=at_least("kl", kl, 0), average=average)
