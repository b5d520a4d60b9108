"""Outcome-based exploration: a bonus for answers rarely given to the problem (Song et al., arXiv:2509.06941)."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from offleash.training.method import Floats, Group, Method, Schedule
from offleash.training.methods.grpo import clipped, normalised
from offleash.training.methods_options import above, at_least


@dataclass(frozen=True)
class Novelty:
    """`A_i + b (bonus_i - mean bonus)`, A_i those of grpo.

    The bonus is `min(1, 1/sqrt(count))`, the count being how often the answer was given before this group: an
    answer seen for the first time has the whole bonus, however many of the group give it. Where `batch`, it is the
    share of the group that answered otherwise. A sample in which no answer was read has no bonus: silence is not
    novel.
    """

    b: float = 0.2
    batch: bool = False
    delta: float = 1e-4

    def __call__(self, group: Group) -> Floats:
        counts = Counter(group.answer_G) if self.batch else group.seen
        rare = _otherwise if self.batch else _rarity
        bonus_G = np.array([rare(counts.get(a, 0), group.size) if a else 0.0 for a in group.answer_G])
        advantage_G: Floats = normalised(group.reward_G, self.delta) + self.b * (bonus_G - bonus_G.mean())
        return advantage_G


def _rarity(seen: int, _: int) -> float:
    return float(1 / np.sqrt(max(seen, 1)))


def _otherwise(alike: int, size: int) -> float:
    return 1 - alike / size


def outcome_novelty(
    b: float = 0.2, batch: bool = False, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Grpo that also pays for answers the problem has rarely had, right or wrong."""
    return Method(
        Novelty(at_least("b", b, 0), batch, above("delta", delta, 0)), clipped(clip, kl), Schedule(memory=True)
    )
