"""GRPO and its variants: how a group's rewards become advantages, and how ratios are clipped and averaged."""

from dataclasses import dataclass, replace

import numpy as np

from offleash.training.method import (
    Average,
    Floats,
    Ints,
    Loss,
    Method,
    MethodSchedule,
    Ratio,
    RolloutGroup,
    above,
    at_least,
    between,
    clip_range,
    count,
)


@dataclass(frozen=True)
class GroupNormalised:
    """`A_i = (R_i - mean R) / (std R + delta)`: how a sample compares with the others of its group."""

    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        return normalised(group.reward_G, self.delta)


def normalised(reward_G: Floats, delta: float) -> Floats:
    """Rewards with mean 0 and standard deviation 1; zeros if all are equal."""
    advantage_G: Floats = (reward_G - reward_G.mean()) / (reward_G.std() + delta)
    return advantage_G


def grpo(clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Group relative policy optimization (Shao et al., DeepSeekMath, arXiv:2402.03300).

    Advantages normalised by the group's mean and standard deviation, ratios clipped, an optional KL to the reference.
    """
    return Method(group_normalised(delta), clipped(clip, kl))


def group_normalised(delta: float) -> GroupNormalised:
    """The advantages of grpo."""
    return GroupNormalised(above("delta", delta, 0))


def clipped(clip: float, kl: float, average: Average = Average.SAMPLE) -> Loss:
    """The loss of grpo, or with another average."""
    return Loss(low=clip_range("clip", clip), high=clip, kl=at_least("kl", kl, 0), average=average)


@dataclass(frozen=True)
class OverlongPenalised:
    """Rewards minus a penalty for samples close to the maximum length, then as grpo."""

    overlong: float = 0.2
    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        penalty_G = soft_overlong(group.length_G, group.longest, self.overlong * group.longest)
        return normalised(group.reward_G + penalty_G, self.delta)


def soft_overlong(length_G: Ints, longest: int, zone: float) -> Floats:
    """0 up to `longest - zone` tokens, then falling linearly to -1 at `longest`; a zone of 0: no penalty."""
    if not zone:
        return np.zeros(len(length_G))
    penalty_G: Floats = np.clip((longest - zone - length_G) / zone, -1.0, 0.0)
    return penalty_G


def dapo(low: float = 0.2, high: float = 0.28, overlong: float = 0.2, delta: float = 1e-4) -> Method:
    """Decoupled clip and dynamic sampling policy optimization (Yu et al., DAPO, arXiv:2503.14476).

    Clip-higher, a token-level loss, mixed groups only, a soft penalty on overlong samples, no KL.

    `overlong` is the soft zone as a share of the maximum length (the paper: 4,096 of 20,480); 0 turns it off, which
    is right if good answers are about as long as the maximum.
    """
    advantages = OverlongPenalised(between("overlong", overlong, 0, 1), above("delta", delta, 0))
    loss = Loss(low=clip_range("low", low), high=clip_range("high", high), average=Average.TOKEN)
    return Method(advantages, loss, MethodSchedule(mixed_only=True))


@dataclass(frozen=True)
class MeanCentred:
    """`A_i = R_i - mean R`: problems that are nearly always or nearly never solved weigh no more than others."""

    def __call__(self, group: RolloutGroup) -> Floats:
        centred_G: Floats = group.reward_G - group.reward_G.mean()
        return centred_G


def dr_grpo(clip: float = 0.2, kl: float = 0.0) -> Method:
    """GRPO done right: no division by the standard deviation or by the length (Liu et al., arXiv:2503.20783).

    Per-token terms are summed and divided by one constant: long wrong samples are not penalised less per token.
    """
    return Method(MeanCentred(), clipped(clip, kl, Average.CONSTANT))


def gspo(low: float = 3e-4, high: float = 4e-4, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Group sequence policy optimization (Zheng et al., arXiv:2507.18071).

    One clipped ratio per sample, `(pi(o) / pi_old(o))^(1 / length)`.

    The clips are the paper's: the geometric mean over many tokens moves little. On short samples it moves more, so
    that after the first update on the same samples most are clipped; widen the clips there.
    """
    loss = Loss(
        low=clip_range("low", low),
        high=clip_range("high", high),
        ratio=Ratio.SEQUENCE,
        average=Average.SAMPLE,
        kl=at_least("kl", kl, 0),
    )
    return Method(group_normalised(delta), loss)


def prorl(
    high: float = 0.4,
    temperature: float = 1.2,
    kl: float = 0.001,
    reset_after: int = 3,
    overlong: float = 0.0,
    delta: float = 1e-4,
) -> Method:
    """Prolonged reinforcement learning (Liu et al., ProRL, arXiv:2505.24864).

    Dapo with a wider upper clip, a higher temperature, and a KL to a reference that is reset when validation stalls.

    Clips (0.2 and 0.4) and temperature are the paper's, section 3.2; it takes groups of 16, which the recipe sets,
    and no soft overlong penalty. It does not report the KL weight: 0.001 is the default of verl, with which it was
    trained (NVIDIA's later configuration of ProRL v2 has 0.0001). It resets by hand; here after `reset_after`
    validations without improvement.
    """
    method = dapo(high=high, overlong=overlong, delta=delta)
    return Method(
        method.advantages,
        replace(method.loss, kl=at_least("kl", kl, 0)),
        replace(
            method.schedule,
            temperature=above("temperature", temperature, 0),
            reset_after=count("reset_after", reset_after, 0),
        ),
    )
