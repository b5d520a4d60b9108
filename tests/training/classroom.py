"""A classroom: the shipped base or a tiny model as a policy, and Countdown problems as problems."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from offleash.lab.countdown import traces
from offleash.problems.countdown import generate
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training.method import MethodSchedule, RolloutGroup
from offleash.training.policy import Policy
from offleash.training.rollouts import (
    RewardBatch,
    Rewards,
    RolloutCollector,
    TrainingGroup,
    TrainingProblem,
    rewards_for,
)
from offleash.training.traces import write_traces
from tests.places import MODELS

BASE = MODELS / "countdown"
DECODING = SamplingParams(max_tokens=18)


def training_problems(policy: Policy, problems: pl.DataFrame, with_traces: bool = False) -> list[TrainingProblem]:
    texts_of: Sequence[Sequence[str]] = traces(problems) if with_traces else [()] * problems.height
    return [
        TrainingProblem(name, policy.tokens(prompt), tuple(texts))
        for name, prompt, texts in zip(problems["problem"], problems["prompt"], texts_of, strict=True)
    ]


def traces_file(path: Path, problems: pl.DataFrame, change: Callable[[str], str] = str) -> Path:
    """All correct answers to the problems, in a file."""
    write_traces(
        path,
        {
            name: [change(text) for text in texts]
            for name, texts in zip(problems["problem"], traces(problems), strict=True)
        },
    )
    return path


@dataclass(frozen=True)
class Classroom:
    """A policy, its problems, and how they are collected."""

    policy: Policy
    problems: pl.DataFrame
    rewards: Rewards

    def collector(self, schedule: MethodSchedule, groups: int = 4, size: int = 8, refill: int = 3) -> RolloutCollector:
        problems = training_problems(self.policy, self.problems, with_traces=schedule.experts > 0)
        return RolloutCollector(problems, self.rewards, schedule, DECODING, groups, size, refill, seed=5)

    def judged(self, problem: str, texts: Sequence[str]) -> RewardBatch:
        return self.rewards.of([problem] * len(texts), texts, [False] * len(texts))


def random_groups(policy: Policy, sizes: Sequence[int], temperature: float = 1.0) -> list[TrainingGroup]:
    """Groups of a tiny policy's own samples with rewards at random, the first all wrong, the second all right."""
    rng, groups = np.random.default_rng(11), list[TrainingGroup]()
    for place, size in enumerate(sizes):
        problem = TrainingProblem(f"p{place}", [0, 1, 2, 3, 1][: 1 + place])
        drawn = policy.draw(
            [problem.prompt], size, [seed_of("group", place)], SamplingParams(temperature, max_tokens=6)
        )
        reward_G = np.full(size, float(place)) if place < 2 else (np.arange(size) % 3 == 0).astype(np.float64)
        group = RolloutGroup(
            rng.permutation(reward_G),
            drawn.rows.length_N,
            drawn.logprob_NT,
            drawn.entropy_NT,
            drawn.texts,
            6,
            np.zeros(size, np.bool_),
        )
        groups.append(TrainingGroup(problem, group, drawn.rows.token_NT))
    return groups


__all__ = [
    "BASE",
    "DECODING",
    "Classroom",
    "generate",
    "random_groups",
    "rewards_for",
    "traces_file",
    "training_problems",
]
