"""Diversity times quality: a correct answer that others gave too earns less (Li et al., Darling, arXiv:2509.02534)."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from offleash.training.method import Floats, Group, Method
from offleash.training.methods.grpo import clipped
from offleash.training.methods_options import between


@dataclass(frozen=True)
class Diverse:
    """`R_i max(least, (n - |cluster_i|) / (n - 1))` less its mean; a cluster is the samples with equal answers."""

    least: float = 0.1

    def __call__(self, group: Group) -> Floats:
        alike = Counter(group.answer_G)
        cluster_G = np.array([alike[answer] for answer in group.answer_G])
        distinct_G = (group.size - cluster_G) / max(group.size - 1, 1)
        reward_G = group.reward_G * np.maximum(self.least, distinct_G)
        return np.asarray(reward_G - reward_G.mean(), np.float64)


def diversity(least: float = 0.1, clip: float = 0.2, kl: float = 0.0) -> Method:
    """Correct and unlike the rest of the group; the paper learns what is alike, here equal answers are."""
    return Method(Diverse(between("least", least, 0, 1)), clipped(clip, kl))
