"""Rollouts: the groups a step learns from; drawn, rewarded, dropped and refilled, joined by external traces."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from offleash.data.verdict import Verdict
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training.method import Ints, MethodSchedule, RolloutGroup, TokenBatch
from offleash.training.policy import Policy, Samples
from offleash.verifying.cases import CasesByProblem, ExtractionOptions, judge_texts, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, open_judge

# Rewards: 1 for a sample that its verifier calls correct, 0 for any other, judged as every run is.


@dataclass(frozen=True)
class RewardBatch:
    """What became of samples, in their order."""

    rewards: tuple[float, ...]
    answers: tuple[str, ...]  # the solution's one form where the verifier knows it, else what was read, else ""
    verdicts: Mapping[str, int]


@dataclass(frozen=True)
class Rewards:
    """A judge, and the problems it judges."""

    judge: Judge
    cases: CasesByProblem
    opened: bool

    def of(self, problems: Sequence[str], texts: Sequence[str], truncated: Sequence[bool]) -> RewardBatch:
        """The rewards of samples, each with the problem it answers."""
        pairs = [self.cases[problem] for problem in problems]
        found = judge_texts(self.judge, pairs, texts, truncated, self.opened)
        return RewardBatch(
            tuple(float(judged.verdict is Verdict.CORRECT) for _, judged in found),
            tuple(judged.solution or extraction.answer or "" for extraction, judged in found),
            Counter(judged.verdict.value for _, judged in found),
        )


@contextmanager
def rewards_for(problems: pl.DataFrame, where: str, opened: bool = False) -> Iterator[Rewards]:
    """The rewards of a set of problems; refused where one of them cannot be judged."""
    with open_judge(VerifyOptions(cache=False)) as judge:  # samples of a policy that changes are hardly ever seen again
        cases = problem_cases(problems, None, ExtractionOptions(opened=opened), where)
        refuse_unreadable(judge, cases, where)
        yield Rewards(judge, cases, opened)


# Groups: collected for a step, dropped and refilled where the method learns from mixed ones only.


Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True)
class TrainingProblem:
    """A problem that is trained on."""

    problem: str
    prompt: list[int]
    traces: tuple[str, ...] = ()  # correct answers from outside


@dataclass(frozen=True)
class TrainingGroup:
    """A problem with its group, and the tokens of the group's samples."""

    pupil: TrainingProblem
    group: RolloutGroup
    token_GT: Ints


@dataclass
class RolloutCollector:
    """How groups are collected, and what is remembered from step to step."""

    pupils: Sequence[TrainingProblem]
    rewards: Rewards
    schedule: MethodSchedule
    decoding: SamplingParams
    problems: int  # groups a step
    size: int  # samples a group
    refill: int  # times the groups of a step that are drawn at most
    seed: int
    base: Policy | None = None  # who is asked whether a problem can be reached
    asked: int = 0  # problems so far
    seen: dict[str, dict[str, int]] = field(default_factory=dict)  # answers so far, by problem

    def step(self, policy: Policy, step: int) -> "StepRollouts":
        """The groups of one step. Every sample depends on the seed, the step and its problem alone."""
        lesson = StepRollouts([], Counter(), 0, 0)
        for round_ in range(self.refill if self.schedule.mixed_only else 1):
            for taught in self._drawn(policy, self._next(self.problems), (step, round_), lesson):
                mixed = 0 < taught.group.reward_G.sum() < taught.group.size
                if self.schedule.mixed_only and not mixed:
                    lesson.dropped += 1
                elif len(lesson.groups) < self.problems:
                    lesson.groups.append(taught)
            if len(lesson.groups) >= self.problems:
                break
        return lesson

    def _next(self, count: int) -> list[TrainingProblem]:
        """The next problems: each once in every pass over them, in an order of its own a pass."""
        chosen, P = list[TrainingProblem](), len(self.pupils)
        while len(chosen) < count:
            turn, place = divmod(self.asked, P)
            order = np.random.default_rng([self.seed, turn]).permutation(P)[place : place + count - len(chosen)]
            chosen += [self.pupils[which] for which in order.tolist()]
            self.asked += len(order)
        return chosen

    def _drawn(
        self, policy: Policy, pupils: list[TrainingProblem], when: tuple[int, int], lesson: "StepRollouts"
    ) -> Iterator[TrainingGroup]:
        prompts = [pupil.prompt for pupil in pupils]
        seeds = [seed_of(self.seed, *when, place, pupil.problem) for place, pupil in enumerate(pupils)]
        samples = policy.draw(prompts, self.size, seeds, self.decoding)
        names = [pupil.problem for pupil in pupils for _ in range(self.size)]
        judged = self.rewards.of(names, samples.texts, samples.truncated_N.tolist())
        lesson.verdicts.update(judged.verdicts)
        lesson.truncated += int(samples.truncated_N.sum())
        lesson.examples = tuple(samples.texts[:: self.size][:3])
        greedy = self._greedy(policy, pupils)
        reached = self._reached(pupils, seeds)
        for place, pupil in enumerate(pupils):
            taught = _taught(pupil, samples, judged, slice(place * self.size, (place + 1) * self.size), self.decoding)
            seen = self.seen.setdefault(pupil.problem, {}) if self.schedule.memory else {}
            group = replace(taught.group, greedy=greedy[place], reached=reached[place], seen=dict(seen))
            for answer in filter(None, group.answer_G if self.schedule.memory else ()):
                seen[answer] = seen.get(answer, 0) + 1
            taught = replace(taught, group=group)
            yield self._joined(policy, taught, seeds[place])

    def _joined(self, policy: Policy, taught: TrainingGroup, seed: int) -> TrainingGroup:
        """The group with traces from outside, where the method asks for them and there are any."""
        pupil, group = taught.pupil, taught.group
        count = min(self.schedule.experts, len(pupil.traces))
        if not count:
            return taught
        chosen = np.random.default_rng(seed).choice(len(pupil.traces), count, replace=False)
        texts = [pupil.traces[which] for which in chosen.tolist()]
        answers = self.rewards.of([pupil.problem] * count, texts, [False] * count).answers
        rows = trace_rows(policy, [(pupil.prompt, text) for text in texts])
        with torch.no_grad():
            logprob_ET = np.where(
                rows.real_NT, policy.logprobs(rows, self.decoding.temperature).double().cpu().numpy(), 0.0
            )
        T = max(group.logprob_GT.shape[1], rows.token_NT.shape[1])
        joined = replace(
            group,
            reward_G=np.concatenate([group.reward_G, np.ones(count)]),
            length_G=np.concatenate([group.length_G, rows.length_N]),
            logprob_GT=np.concatenate([wide(group.logprob_GT, T), wide(logprob_ET, T)]),
            entropy_GT=np.concatenate([wide(group.entropy_GT, T), np.zeros((count, T))]),
            answer_G=(*group.answer_G, *answers),
            expert_G=np.concatenate([group.expert_G, np.ones(count, np.bool_)]),
        )
        return TrainingGroup(pupil, joined, np.concatenate([wide(taught.token_GT, T), wide(rows.token_NT, T)]))

    def _greedy(self, policy: Policy, pupils: list[TrainingProblem]) -> Sequence[float]:
        """The reward of the most likely sample of each problem, where the method asks for it."""
        if not self.schedule.greedy:
            return [0.0] * len(pupils)
        greedy = replace(self.decoding, temperature=0.0)
        one = policy.draw([pupil.prompt for pupil in pupils], 1, [0] * len(pupils), greedy)
        return self.rewards.of([pupil.problem for pupil in pupils], one.texts, one.truncated_N.tolist()).rewards

    def _reached(self, pupils: list[TrainingProblem], seeds: Sequence[int]) -> Sequence[bool]:
        """Whether the frozen base solves each problem in so many samples, where the method asks for it."""
        size = self.schedule.base_samples
        if not size or self.base is None:
            return [True] * len(pupils)
        own = [seed_of(seed, "base") for seed in seeds]
        samples = self.base.draw([pupil.prompt for pupil in pupils], size, own, self.decoding)
        names = [pupil.problem for pupil in pupils for _ in range(size)]
        rewards = self.rewards.of(names, samples.texts, samples.truncated_N.tolist()).rewards
        return [any(rewards[place * size : (place + 1) * size]) for place in range(len(pupils))]


@dataclass
class StepRollouts:
    """What a step learns from, and what was seen on the way to it."""

    groups: list[TrainingGroup]
    verdicts: Counter[str]
    truncated: int
    dropped: int
    examples: tuple[str, ...] = ()  # a few samples, for messages

    @property
    def samples(self) -> int:
        return self.verdicts.total()

    @property
    def reward(self) -> float:
        return self.verdicts["correct"] / max(1, self.samples)


def _taught(
    pupil: TrainingProblem, samples: Samples, judged: RewardBatch, mine: slice, decoding: SamplingParams
) -> TrainingGroup:
    """One problem's part of what was drawn."""
    length_G = samples.rows.length_N[mine]
    T = int(length_G.max())
    group = RolloutGroup(
        reward_G=np.array(judged.rewards[mine]),
        length_G=length_G,
        logprob_GT=samples.logprob_NT[mine, :T],
        entropy_GT=samples.entropy_NT[mine, :T],
        answer_G=judged.answers[mine],
        longest=decoding.max_tokens,
        expert_G=np.zeros(len(length_G), np.bool_),
    )
    return TrainingGroup(pupil, group, samples.rows.token_NT[mine, :T])


def trace_rows(policy: Policy, pairs: Sequence[tuple[list[int], str]]) -> TokenBatch:
    """Traces behind their prompts, as rows that a model reads."""
    answers = [policy.answer(text) for _, text in pairs]
    length_N = np.array([len(answer) for answer in answers])
    token_NT = np.zeros((len(pairs), int(length_N.max())), np.int64)
    for row, answer in enumerate(answers):
        token_NT[row, : len(answer)] = answer
    return TokenBatch([prompt for prompt, _ in pairs], np.arange(len(pairs)), token_NT, length_N)


def wide(array_GT: NDArray[Kind], T: int) -> NDArray[Kind]:
    """The same, with zeros behind up to T tokens."""
    lacking = T - array_GT.shape[1]
    return np.pad(array_GT, ((0, 0), (0, lacking))) if lacking else array_GT
