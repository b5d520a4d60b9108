"""Small groups for the tests of methods: everything that is not said is the plainest there is."""

from collections.abc import Mapping, Sequence

import numpy as np

from offleash.training.method import RolloutGroup


def a_group(
    rewards: Sequence[float],
    *,
    logprobs: Sequence[Sequence[float]] | None = None,
    entropies: Sequence[Sequence[float]] | None = None,
    lengths: Sequence[int] | None = None,
    answers: Sequence[str] | None = None,
    longest: int = 10,
    experts: Sequence[bool] | None = None,
    greedy: float = 0.0,
    seen: Mapping[str, int] | None = None,
    batch: tuple[float, float] = (0.0, 1.0),
    reached: bool = True,
) -> RolloutGroup:
    size = len(rewards)
    return RolloutGroup(
        reward_G=np.asarray(rewards, np.float64),
        length_G=np.asarray(lengths or [1] * size),
        logprob_GT=np.asarray(logprobs if logprobs is not None else [[-1.0]] * size, np.float64),
        entropy_GT=np.asarray(entropies if entropies is not None else [[0.5]] * size, np.float64),
        answer_G=tuple(answers) if answers is not None else tuple(str(reward) for reward in rewards),
        longest=longest,
        expert_G=np.asarray(experts if experts is not None else [False] * size, np.bool_),
        greedy=greedy,
        seen=seen or {},
        batch_mean=batch[0],
        batch_std=batch[1],
        reached=reached,
    )
