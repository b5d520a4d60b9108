"""Rewards for answers that differ: rare answers and rarely seen outcomes earn more."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from offleash.training.method import Floats, Method, MethodSchedule, RolloutGroup, above, at_least, between
from offleash.training.methods.grpo import clipped, normalised


@dataclass(frozen=True)
class DiversityAdvantage:
    """`R_i max(least, (n - |cluster_i|) / (n - 1))` minus its mean; a cluster is the samples with equal answers."""

    least: float = 0.1

    def __call__(self, group: RolloutGroup) -> Floats:
        answer_counts = Counter(group.answer_G)
        cluster_G = np.array([answer_counts[answer] for answer in group.answer_G])
        distinct_G = (group.size - cluster_G) / max(group.size - 1, 1)
        reward_G = group.reward_G * np.maximum(self.least, distinct_G)
        return np.asarray(reward_G - reward_G.mean(), np.float64)


def diversity(least: float = 0.1, clip: float = 0.2, kl: float = 0.0) -> Method:
    """Diversity times quality: a correct answer that others gave too earns less (Li et al., Darling, arXiv:2509.02534).

    Rewards correct answers that differ from the group's; the paper learns a similarity, here it is equality.
    """
    return Method(DiversityAdvantage(between("least", least, 0, 1)), clipped(clip, kl))


@dataclass(frozen=True)
class OutcomeNovelty:
    """`A_i + b (bonus_i - mean bonus)`, A_i those of grpo.

    The bonus is `min(1, 1/sqrt(count))`, the count being how often the answer was given before this group: a new
    answer gets the full bonus, however many samples of the group give it. With `batch`, the bonus is the share of
    the group with another answer. A sample without a readable answer gets no bonus.
    """

    b: float = 0.2
    batch: bool = False
    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        counts = Counter(group.answer_G) if self.batch else group.seen
        bonus = _other_share if self.batch else _rarity
        bonus_G = np.array([bonus(counts.get(a, 0), group.size) if a else 0.0 for a in group.answer_G])
        advantage_G: Floats = normalised(group.reward_G, self.delta) + self.b * (bonus_G - bonus_G.mean())
        return advantage_G


def _rarity(seen: int, _: int) -> float:
    return float(1 / np.sqrt(max(seen, 1)))


def _other_share(same_answer: int, size: int) -> float:
    return 1 - same_answer / size


def outcome_novelty(
    b: float = 0.2, batch: bool = False, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Outcome-based exploration: a bonus for answers rarely given to the problem (Song et al., arXiv:2509.06941).

    Grpo with a bonus for answers that were rarely given to the problem, correct or wrong.
    """
    return Method(
        OutcomeNovelty(at_least("b", b, 0), batch, above("delta", delta, 0)),
        clipped(clip, kl),
        MethodSchedule(memory=True),
    )
