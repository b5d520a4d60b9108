"""Rollouts: the groups that a step learns from, drawn, rewarded, dropped and refilled, joined by external traces."""

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
    """Rewards of samples, in order, and how many samples got each verdict."""

    rewards: tuple[float, ...]
    answers: tuple[str, ...]  # the canonical solution if the verifier gives one, else the extracted answer, else ""
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
        judged_samples = judge_texts(self.judge, pairs, texts, truncated, self.opened)
        return RewardBatch(
            tuple(float(judged.verdict is Verdict.CORRECT) for _, judged in judged_samples),
            tuple(judged.solution or extraction.answer or "" for extraction, judged in judged_samples),
            Counter(judged.verdict.value for _, judged in judged_samples),
        )


@contextmanager
def rewards_for(
    problems: pl.DataFrame, where: str, extraction: ExtractionOptions | None = None, verifier: str | None = None
) -> Iterator[Rewards]:
    """Rewards for a set of problems; refused if one of them cannot be judged.

    Args:
        problems: the table of problems.
        where: what they are, for the error.
        extraction: how samples are read.
        verifier: of all problems, a name or the user's own FILE.py:NAME; None: each problem's own.
    """
    extraction = extraction or ExtractionOptions()
    opened = extraction.opened
    with open_judge(VerifyOptions(cache=False)) as judge:  # samples of a policy that changes are hardly ever seen again
        cases = problem_cases(problems, verifier, extraction, where)
        refuse_unreadable(judge, cases, where)
        yield Rewards(judge, cases, opened)


# Groups: collected for a step, dropped and refilled where the method learns from mixed ones only.


Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class TrainingProblem:
    """A problem to train on."""

    name: str
    prompt: list[int]
    traces: tuple[str, ...] = ()  # correct external traces


@dataclass(frozen=True)
class TrainingGroup:
    """A problem with its group, and the tokens of the group's samples."""

    problem: TrainingProblem
    group: RolloutGroup
    token_GT: Ints


@dataclass
class RolloutCollector:
    """How groups are collected, and the state kept from step to step."""

    problems: Sequence[TrainingProblem]
    rewards: Rewards
    schedule: MethodSchedule
    decoding: SamplingParams
    groups: int  # per step
    size: int  # samples per group
    refill: int  # at most this many times the groups of a step are drawn
    seed: int
    base: Policy | None = None  # the frozen base, which decides whether a problem is reached (base_anchor)
    cursor: int = 0  # problems drawn so far: the position in the passes over them
    seen: dict[str, dict[str, int]] = field(default_factory=dict)  # answers so far, by problem

    def step(self, policy: Policy, step: int) -> "StepRollouts":
        """The groups of one step. Every sample depends only on the seed, the step and its problem."""
        rollouts = StepRollouts([], Counter(), 0, 0)
        for round_number in range(self.refill if self.schedule.mixed_only else 1):
            for rollout in self._draw(policy, self._next_problems(self.groups), (step, round_number), rollouts):
                mixed = 0 < rollout.group.reward_G.sum() < rollout.group.size
                if self.schedule.mixed_only and not mixed:
                    rollouts.dropped += 1
                elif len(rollouts.groups) < self.groups:
                    rollouts.groups.append(rollout)
            if len(rollouts.groups) >= self.groups:
                break
        return rollouts

    def _next_problems(self, count: int) -> list[TrainingProblem]:
        """The next problems: each once per pass over them, in a new order every pass."""
        chosen, P = list[TrainingProblem](), len(self.problems)
        while len(chosen) < count:
            epoch, position = divmod(self.cursor, P)
            order = np.random.default_rng([self.seed, epoch]).permutation(P)[position : position + count - len(chosen)]
            chosen += [self.problems[row] for row in order.tolist()]
            self.cursor += len(order)
        return chosen

    def _draw(
        self, policy: Policy, problems: list[TrainingProblem], step_round: tuple[int, int], rollouts: "StepRollouts"
    ) -> Iterator[TrainingGroup]:
        prompts = [problem.prompt for problem in problems]
        seeds = [seed_of(self.seed, *step_round, index, problem.name) for index, problem in enumerate(problems)]
        samples = policy.draw(prompts, self.size, seeds, self.decoding)
        names = [problem.name for problem in problems for _ in range(self.size)]
        judged = self.rewards.of(names, samples.texts, samples.truncated_N.tolist())
        rollouts.verdicts.update(judged.verdicts)
        rollouts.truncated += int(samples.truncated_N.sum())
        rollouts.examples = tuple(samples.texts[:: self.size][:3])
        greedy = self._greedy_rewards(policy, problems)
        reached = self._base_reaches(problems, seeds)
        for index, problem in enumerate(problems):
            rollout = _group_of(
                problem, samples, judged, slice(index * self.size, (index + 1) * self.size), self.decoding
            )
            seen = self.seen.setdefault(problem.name, {}) if self.schedule.memory else {}
            group = replace(rollout.group, greedy=greedy[index], reached=reached[index], seen=dict(seen))
            for answer in filter(None, group.answer_G if self.schedule.memory else ()):
                seen[answer] = seen.get(answer, 0) + 1
            rollout = replace(rollout, group=group)
            yield self._with_traces(policy, rollout, seeds[index])

    def _with_traces(self, policy: Policy, rollout: TrainingGroup, seed: int) -> TrainingGroup:
        """The group with external traces, where the method uses them and the problem has any.

        Who wrote them is unknown, so their `logprob_GT` is the policy's own: the importance ratio starts at 1, as for
        samples of the policy. A loss with `shaping` (LUFFY, arXiv:2504.14945) uses no ratio for them at all.
        """
        problem, group = rollout.problem, rollout.group
        count = min(self.schedule.experts, len(problem.traces))
        if not count:
            return rollout
        chosen = np.random.default_rng(seed).choice(len(problem.traces), count, replace=False)
        texts = [problem.traces[row] for row in chosen.tolist()]
        answers = self.rewards.of([problem.name] * count, texts, [False] * count).answers
        rows = trace_rows(policy, [(problem.prompt, text) for text in texts])
        with torch.no_grad():
            logprob_ET = np.where(
                rows.token_mask_NT, policy.logprobs(rows, self.decoding.temperature).double().cpu().numpy(), 0.0
            )
        T = max(group.logprob_GT.shape[1], rows.token_NT.shape[1])
        joined = replace(
            group,
            reward_G=np.concatenate([group.reward_G, np.ones(count)]),
            length_G=np.concatenate([group.length_G, rows.length_N]),
            logprob_GT=np.concatenate([pad_tokens(group.logprob_GT, T), pad_tokens(logprob_ET, T)]),
            entropy_GT=np.concatenate([pad_tokens(group.entropy_GT, T), np.zeros((count, T))]),
            answer_G=(*group.answer_G, *answers),
            expert_G=np.concatenate([group.expert_G, np.ones(count, np.bool_)]),
        )
        return TrainingGroup(
            problem, joined, np.concatenate([pad_tokens(rollout.token_GT, T), pad_tokens(rows.token_NT, T)])
        )

    def _greedy_rewards(self, policy: Policy, problems: list[TrainingProblem]) -> Sequence[float]:
        """The reward of the greedy sample of each problem, where the method uses it (ReMax)."""
        if not self.schedule.greedy:
            return [0.0] * len(problems)
        greedy = replace(self.decoding, temperature=0.0)
        samples = policy.draw([problem.prompt for problem in problems], 1, [0] * len(problems), greedy)
        return self.rewards.of(
            [problem.name for problem in problems], samples.texts, samples.truncated_N.tolist()
        ).rewards

    def _base_reaches(self, problems: list[TrainingProblem], seeds: Sequence[int]) -> Sequence[bool]:
        """Whether the frozen base solves each problem in `base_samples` samples, where the method uses that."""
        size = self.schedule.base_samples
        if not size or self.base is None:
            return [True] * len(problems)
        own = [seed_of(seed, "base") for seed in seeds]
        samples = self.base.draw([problem.prompt for problem in problems], size, own, self.decoding)
        names = [problem.name for problem in problems for _ in range(size)]
        rewards = self.rewards.of(names, samples.texts, samples.truncated_N.tolist()).rewards
        return [any(rewards[index * size : (index + 1) * size]) for index in range(len(problems))]


@dataclass
class StepRollouts:
    """The groups that a step learns from, and counts of everything drawn for it, dropped groups included."""

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


def _group_of(
    problem: TrainingProblem, samples: Samples, judged: RewardBatch, rows: slice, decoding: SamplingParams
) -> TrainingGroup:
    """The group of one problem: its rows of the drawn samples, cut to its longest sample."""
    length_G = samples.rows.length_N[rows]
    T = int(length_G.max())
    group = RolloutGroup(
        reward_G=np.array(judged.rewards[rows]),
        length_G=length_G,
        logprob_GT=samples.logprob_NT[rows, :T],
        entropy_GT=samples.entropy_NT[rows, :T],
        answer_G=judged.answers[rows],
        longest=decoding.max_tokens,
        expert_G=np.zeros(len(length_G), np.bool_),
    )
    return TrainingGroup(problem, group, samples.rows.token_NT[rows, :T])


def trace_rows(policy: Policy, pairs: Sequence[tuple[list[int], str]]) -> TokenBatch:
    """Traces after their prompts, as a batch of tokens."""
    answers = [policy.answer(text) for _, text in pairs]
    length_N = np.array([len(answer) for answer in answers])
    token_NT = np.zeros((len(pairs), int(length_N.max())), np.int64)
    for row, answer in enumerate(answers):
        token_NT[row, : len(answer)] = answer
    return TokenBatch([prompt for prompt, _ in pairs], np.arange(len(pairs)), token_NT, length_N)


def pad_tokens(array_GT: NDArray[Scalar], T: int) -> NDArray[Scalar]:
    """The array padded with zeros to T tokens."""
    missing = T - array_GT.shape[1]
    return np.pad(array_GT, ((0, 0), (0, missing))) if missing else array_GT
