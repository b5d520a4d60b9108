"""Pass@k training with analytic advantages (Chen et al., arXiv:2508.10751)."""

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np

from offleash.training.method import Floats, Group, Method
from offleash.training.methods.grpo import clipped
from offleash.training.methods_options import count, fits


@dataclass(frozen=True)
class SetAdvantage:
    """The mean advantage of all sets of k samples of the group that a sample is in; a set's reward is its best."""

    k: int

    def __call__(self, group: Group) -> Floats:
        fits(self.k, group.size)
        right_G = group.reward_G > 0
        wrong = group.size - int(right_G.sum())
        failing = comb(wrong, self.k) / comb(group.size, self.k)  # share of sets without a correct sample
        sigma = sqrt(failing * (1 - failing))
        if not sigma:  # every set passes or none does: nothing to compare
            return np.zeros(group.size)
        failing_with = comb(wrong - 1, self.k - 1) / comb(group.size - 1, self.k - 1)  # of a wrong sample's sets
        return np.where(right_G, failing, failing - failing_with) / sigma


def pass_at_k(k: int = 4, clip: float = 0.2, kl: float = 0.0) -> Method:
    """Rewards sets of k samples for their best: a problem that is solved often enough has no gradient left.

    With k = 1 it is grpo with delta = 0.
    """
    return Method(SetAdvantage(count("k", k, 1)), clipped(clip, kl))
