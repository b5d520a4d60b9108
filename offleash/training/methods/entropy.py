"""Advantages shaped by entropy: where the policy hesitated, more is learnt (Cheng et al., arXiv:2506.14758)."""

from dataclasses import dataclass

import numpy as np

from offleash.training.method import Floats, Group, Method
from offleash.training.methods.grpo import clipped, normalised
from offleash.training.methods_options import above, at_least


@dataclass(frozen=True)
class EntropyShaped:
    """`A_t + min(alpha H_t, |A_t| / kappa)` per token; kappa > 1 keeps the sign of every advantage."""

    alpha: float = 0.4
    kappa: float = 2.0
    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        advantage_G1 = normalised(group.reward_G, self.delta)[:, None]
        bonus_GT = np.minimum(self.alpha * group.entropy_GT, np.abs(advantage_G1) / self.kappa)
        return np.asarray(advantage_G1 + bonus_GT, np.float64)


def entropy_advantage(
    alpha: float = 0.4, kappa: float = 2.0, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Grpo with a bonus on uncertain tokens; the entropy is that of the drawing policy and has no gradient."""
    shaped = EntropyShaped(at_least("alpha", alpha, 0), above("kappa", kappa, 1), above("delta", delta, 0))
    return Method(shaped, clipped(clip, kl))
