"""An RLVR method in three parts: advantages of a group's samples, a loss, a schedule.

Also what methods/ and update.py share: range checks for options, and batches of tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RolloutGroup:
    """G judged samples of one problem: everything an advantage may depend on. T is the longest sample's length."""

    reward_G: Floats  # as judged: 1 correct, 0 not
    length_G: Ints  # tokens, including the end-of-sequence token
    logprob_GT: Floats  # of every token under the policy that drew it; 0 after the end
    entropy_GT: Floats  # of that policy's next-token distribution; 0 after the end
    answer_G: tuple[str, ...]  # the canonical answer of each sample; "" if none was read
    longest: int  # maximum number of tokens of a sample
    expert_G: Flags  # external traces: their log-probabilities are those of the policy
    greedy: float = 0.0  # reward of the greedy sample; drawn only if MethodSchedule.greedy is set
    seen: Mapping[str, int] = field(default_factory=dict)  # how often each answer was given to the problem before
    batch_mean: float = 0.0  # reward over all samples of the step
    batch_std: float = 1.0
    reached: bool = True  # by the frozen base; determined only if MethodSchedule.base_samples is set

    @property
    def size(self) -> int:
        return len(self.reward_G)

    def own(self) -> "RolloutGroup":
        """The group without external traces."""
        on_policy_G = ~self.expert_G
        return (
            self
            if on_policy_G.all()
            else replace(
                self,
                reward_G=self.reward_G[on_policy_G],
                length_G=self.length_G[on_policy_G],
                logprob_GT=self.logprob_GT[on_policy_G],
                entropy_GT=self.entropy_GT[on_policy_G],
                answer_G=tuple(
                    answer for answer, on_policy in zip(self.answer_G, on_policy_G, strict=True) if on_policy
                ),
                expert_G=self.expert_G[on_policy_G],
            )
        )


class Ratio(StrEnum):
    """The level at which the importance ratio is computed."""

    TOKEN = "token"
    SEQUENCE = "sequence"  # the geometric mean over a sample's tokens (GSPO)


class Average(StrEnum):
    """How per-token terms are averaged into one loss."""

    SAMPLE = "sample"  # the mean over a sample's tokens, then over samples
    TOKEN = "token"  # the mean over all tokens of the step
    CONSTANT = "constant"  # the sum over tokens divided by the maximum number of tokens: samples x longest


class TokenSelection(StrEnum):
    """Which tokens are treated separately."""

    NONE = "none"
    TOP_ENTROPY = "top_entropy"  # only the share with the highest entropy has a gradient
    CLIP_COV = "clip_cov"  # a random share of the tokens whose covariance lies in the band loses its gradient
    KL_COV = "kl_cov"  # the share with the highest covariance has a KL penalty to the policy that drew it


@dataclass(frozen=True)
class Loss:
    """The loss, as `offleash.training.update` computes it."""

    low: float = 0.2  # ratios are clipped to [1 - low, 1 + high]; infinity: no clip
    high: float = 0.2
    ratio: Ratio = Ratio.TOKEN
    average: Average = Average.SAMPLE
    kl: float = 0.0  # weight of the KL to the reference (its k3 estimator, per token)
    chosen: TokenSelection = TokenSelection.NONE
    share: float = 1.0  # of tokens that are treated separately
    band: tuple[float, float] = (0.0, float("inf"))  # of the covariance, for CLIP_COV
    penalty: float = 0.0  # weight of the KL of KL_COV
    shaping: float = 0.0  # gamma of pi / (pi + gamma), which replaces the ratio on tokens of external traces; 0: none
    anchor: float = 0.0  # weight of the KL to the base on problems that the base does not reach


@dataclass(frozen=True)
class MethodSchedule:
    """What happens around the policy-gradient steps."""

    mixed_only: bool = False  # drop groups that are all correct or all wrong, and draw others instead
    temperature: float = 1.0  # multiplies the recipe's sampling temperature
    greedy: bool = False  # also draw the greedy sample of every problem
    experts: int = 0  # external traces that join each group
    memory: bool = False  # count the answers given to a problem in earlier steps
    base_samples: int = 0  # drawn from the frozen base, to see whether it reaches the problem
    reset_after: int = 0  # validations without improvement after which reference and optimizer are reset; 0: never
    sft_every: int = 0  # steps between supervised steps on traces of problems whose group was all wrong; 0: never
    sft_steps: int = 0


Advantages = Callable[[RolloutGroup], Floats]  # (G,) per sample, or (G, T) per token


@dataclass(frozen=True)
class Method:
    """How samples and their rewards change a policy. Two methods differ in at least one part."""

    advantages: Advantages
    loss: Loss = Loss()
    schedule: MethodSchedule = MethodSchedule()


# Range checks of options: each returns the value, or refuses it with the range and the value found.


def clip_range(option: str, value: float) -> float:
    """How far a ratio may move from 1 before it is clipped: greater than 0, infinity for no clip."""
    if not value > 0:
        raise OffleashError(f"{option} must be greater than 0; found {value}. Use a wider clip, such as 0.2.")
    return value


def above(option: str, value: float, low: float) -> float:
    """The value, which must be finite and greater than `low`."""
    if not (value > low and isfinite(value)):
        raise OffleashError(f"{option} must be greater than {low:g}; found {value}. Use a larger value.")
    return value


def at_least(option: str, value: float, low: float) -> float:
    """The value, which must be finite and not below `low`."""
    if not (value >= low and isfinite(value)):
        raise OffleashError(f"{option} must be at least {low:g}; found {value}. Use a larger value.")
    return value


def between(option: str, value: float, low: float, high: float) -> float:
    """The value, which must be in the range, bounds included."""
    if not low <= value <= high:
        raise OffleashError(f"{option} must be between {low:g} and {high:g}; found {value}. Use a value in this range.")
    return value


def fraction(option: str, value: float) -> float:
    """The value, which must be a share above 0 and at most 1."""
    if not 0 < value <= 1:
        raise OffleashError(
            f"{option} must be a share above 0 and at most 1; found {value}. Use a value in this range."
        )
    return value


def count(option: str, value: int, minimum: int) -> int:
    """The value, which must be a whole number not below `minimum`."""
    if value < minimum:
        raise OffleashError(f"{option} must be at least {minimum}; found {value}.")
    return value


def check_set_size(k: int, size: int) -> None:
    """Refuse sets of k samples if a group has fewer."""
    if k > size:
        raise OffleashError(
            f"k = {k} samples are rewarded together, but a group has only {size}. "
            f"Choose k up to {size}, or draw larger groups."
        )


# Token batches: samples as the tokens that follow their prompts, ready for a model.


@dataclass(frozen=True)
class TokenBatch:
    """N samples of several prompts, tokens padded on the right; samples of one prompt are adjacent."""

    prompts: Sequence[Sequence[int]]
    prompt_N: Ints  # ascending
    token_NT: Ints
    length_N: Ints

    @property
    def token_mask_NT(self) -> Flags:
        flags: Flags = np.arange(self.token_NT.shape[1]) < self.length_N[:, None]
        return flags

    def part(self, samples: Ints) -> "TokenBatch":
        """Some of the samples, which must be in order."""
        used, prompt_N = np.unique(self.prompt_N[samples], return_inverse=True)
        prompts = [self.prompts[index] for index in used]
        return TokenBatch(prompts, prompt_N, self.token_NT[samples], self.length_N[samples])

    def parts(self, tokens: int) -> Iterator[Ints]:
        """Consecutive samples in parts of at most `tokens` tokens, prompts included."""
        total_length_N = self.length_N + np.array([len(self.prompts[index]) for index in self.prompt_N], np.int64)
        start, part_tokens = 0, 0
        for index, size in enumerate(total_length_N.tolist()):
            if index > start and part_tokens + size > tokens:
                yield np.arange(start, index)
                start, part_tokens = index, 0
            part_tokens += size
        yield np.arange(start, len(total_length_N))
