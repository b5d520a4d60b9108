"""RL where the base reaches the problem, an anchor to the base elsewhere (arXiv:2607.20543)."""

from dataclasses import dataclass, replace

import numpy as np

from offleash.training.method import Floats, Group, Method, Schedule
from offleash.training.methods.grpo import clipped, normalised
from offleash.training.methods_options import above, count


@dataclass(frozen=True)
class WhereReached:
    """Those of grpo where the frozen base reaches the problem, zeros elsewhere."""

    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        return normalised(group.reward_G, self.delta) if group.reached else np.zeros(group.size)


def base_anchor(
    anchor: float = 0.1, base_samples: int = 64, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Problems that none of the base's samples solves are not learnt but held: KL to the base, weight `anchor`."""
    loss = replace(clipped(clip, kl), anchor=above("anchor", anchor, 0))
    schedule = Schedule(base_samples=count("base_samples", base_samples, 1))
    return Method(WhereReached(above("delta", delta, 0)), loss, schedule)
