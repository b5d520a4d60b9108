"""Decoupled clip and dynamic sampling policy optimization (Yu et al., DAPO, arXiv:2503.14476)."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Average, Floats, Group, Ints, Loss, Method, Schedule
from offleash.training.methods.grpo import normalised
from offleash.training.methods_options import above, between, bound


@dataclass(frozen=True)
class Shortened:
    """Rewards less a penalty for samples in the last share of the room there is, then as grpo."""

    overlong: float = 0.2
    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        penalty_G = soft_overlong(group.length_G, group.longest, self.overlong * group.longest)
        return normalised(group.reward_G + penalty_G, self.delta)


def soft_overlong(length_G: Ints, longest: int, zone: float) -> Floats:
    """0 up to `longest - zone` tokens, from there falling on a line to -1 at `longest`; a zone of 0: none."""
    if not zone:
        return np.zeros(len(length_G))
    penalty_G: Floats = np.clip((longest - zone - length_G) / zone, -1.0, 0.0)
    return penalty_G


def dapo(low: float = 0.2, high: float = 0.28, overlong: float = 0.2, delta: float = 1e-4) -> Method:
    """Clip-higher, a loss over tokens, mixed groups only, a soft penalty on overlong samples, no KL.

    `overlong` is the share of the longest length that is the soft zone (the paper: 4,096 of 20,480); 0 turns it
    off, which is right where every good answer is about as long as it may be.
    """
    advantages = Shortened(between("overlong", overlong, 0, 1), above("delta", delta, 0))
    loss = Loss(low=bound("low", low), high=bound("high", high), average=Average.TOKEN)
    return Method(advantages, loss, Schedule(mixed_only=True))
