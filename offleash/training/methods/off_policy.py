"""Learning from more than the policy's own samples: expert traces, supervised steps, an anchor to the base."""

from dataclasses import dataclass, replace

import numpy as np

from offleash.training.method import Floats, Method, MethodSchedule, RolloutGroup, above, count
from offleash.training.methods.grpo import clipped, group_normalised, normalised


def mixed_policy(
    experts: int = 1, shaping: float = 0.1, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Off-policy guidance: expert traces join the group (Yan et al., LUFFY, arXiv:2504.14945).

    Experts are normalised with the group; their tokens use `pi / (pi + shaping)` in place of the ratio, unclipped.

    A group whose own samples are all wrong still has a gradient, towards the trace; unlikely tokens of the trace
    are not lost, because the shaped weight is steepest there.
    """
    loss = replace(clipped(clip, kl), shaping=above("shaping", shaping, 0))
    return Method(group_normalised(delta), loss, MethodSchedule(experts=count("experts", experts, 1)))


@dataclass(frozen=True)
class WhereBaseReaches:
    """The advantages of grpo if the frozen base reaches the problem, else zeros."""

    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        return normalised(group.reward_G, self.delta) if group.reached else np.zeros(group.size)


def base_anchor(
    anchor: float = 0.1, base_samples: int = 64, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """RL where the base reaches the problem, an anchor to the base elsewhere (arXiv:2607.20543).

    Problems that no base sample solves have no policy gradient, only a KL to the base with weight `anchor`.
    """
    loss = replace(clipped(clip, kl), anchor=above("anchor", anchor, 0))
    schedule = MethodSchedule(base_samples=count("base_samples", base_samples, 1))
    return Method(WhereBaseReaches(above("delta", delta, 0)), loss, schedule)


def interleaved_sft(
    sft_every: int = 4, sft_steps: int = 1, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """RL interleaved with supervised steps on what it cannot solve (Ma et al., ReLIFT, arXiv:2506.07527).

    Grpo, and every few steps supervised steps on traces of problems whose group was all wrong.

    The paper waits for a full batch of such problems; here the interval is fixed.
    """
    schedule = MethodSchedule(sft_every=count("sft_every", sft_every, 1), sft_steps=count("sft_steps", sft_steps, 1))
    return Method(group_normalised(delta), clipped(clip, kl), schedule)
