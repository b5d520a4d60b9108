"""The state of a training run (policy, optimizer, problems, counters), and how it is started, saved and resumed.

loop.py runs the steps on it.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import polars as pl
import torch

from offleash.data.identity import refuse_differences
from offleash.errors import OffleashError
from offleash.loading.problem_set import load_problems
from offleash.progress import Progress
from offleash.samplers.registry import fingerprint
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training import checkpoints
from offleash.training.checkpoints import Checkpoint
from offleash.training.method import Method
from offleash.training.methods.registry import method as method_of
from offleash.training.policy import Policy, check_round_trip, frozen, open_policy
from offleash.training.recipe import ProblemSource, Recipe, read_recipe, recipe_differences, write_recipe
from offleash.training.rollouts import Rewards, RolloutCollector, StepRollouts, TrainingProblem, rewards_for
from offleash.training.traces import read_traces

RECIPE, MODEL = "recipe.yaml", "model"
LARGEST = 1e38  # rate that torch takes


class TrainerState(TypedDict):
    """What a checkpoint holds beside the weights."""

    optimizer: dict[str, object]
    asked: int
    seen: dict[str, dict[str, int]]
    best: float
    stalled: int
    resets: int
    failed: list[str]
    reference: dict[str, torch.Tensor] | None
    data: str  # a hash of what is trained on and of the first weights


@dataclass
class Trainer:
    """A policy in training."""

    recipe: Recipe
    folder: Path
    method: Method
    policy: Policy
    optimizer: torch.optim.Optimizer
    collecting: RolloutCollector
    reference: Policy | None
    validation: tuple[list[TrainingProblem], Rewards] | None
    data: str
    step: int = 0
    best: float = -1.0  # of the validations since the last reset
    stalled: int = 0  # validations since the best one
    resets: int = 0
    failed: dict[str, TrainingProblem] = field(
        default_factory=dict
    )  # problems that no sample solved, with their traces

    def set_rate(self, step: int) -> None:
        """The learning rate of a step: it rises over the warm-up, then stays."""
        options = self.recipe.optimizer
        share = min(1.0, (step + 1) / options.warmup) if options.warmup else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = options.rate * share

    def remember_failed(self, lesson: StepRollouts) -> None:
        """Problems of a lesson that no sample of their own solved, where there are traces for them."""
        for taught in lesson.groups:
            own = taught.group.reward_G[~taught.group.expert_G]
            if taught.pupil.traces and not own.any():
                self.failed[taught.pupil.problem] = taught.pupil

    def failed_traces(self, step: int) -> Iterator[list[tuple[list[int], str]]]:
        """Batches of traces of failed problems, as many as the schedule wants."""
        rng, pupils = np.random.default_rng(seed_of(self.recipe.seed, step, "sft")), list(self.failed.values())
        for _ in range(self.method.schedule.sft_steps if pupils else 0):
            chosen = rng.choice(len(pupils), min(len(pupils), self.recipe.sampling.problems), replace=False)
            pairs = [(pupils[one].prompt, pupils[one].traces) for one in chosen.tolist()]
            yield [(prompt, traces[int(rng.integers(len(traces)))]) for prompt, traces in pairs]

    def validate(self, step: int) -> float:
        """The share of correct samples on the validation problems."""
        assert self.validation is not None
        pupils, rewards = self.validation
        size = self.recipe.validation.samples
        seeds = [seed_of(self.recipe.seed, "validation", step, pupil.problem) for pupil in pupils]
        decoding = replace(self.collecting.decoding, temperature=self.recipe.sampling.temperature)
        samples = self.policy.draw([pupil.prompt for pupil in pupils], size, seeds, decoding)
        names = [pupil.problem for pupil in pupils for _ in range(size)]
        return float(np.mean(rewards.of(names, samples.texts, samples.truncated_N.tolist()).rewards))

    def heed(self, found: float) -> int:
        """Note a validation; where the schedule wants it and the policy stalls, reference and optimizer start anew."""
        self.stalled = 0 if found > self.best else self.stalled + 1
        self.best = max(self.best, found)
        after = self.method.schedule.reset_after
        if after and self.stalled >= after:
            self.reference = frozen(self.policy) if self.reference is not None else None
            self.optimizer = optimizer_of(self.policy, self.recipe)
            self.best, self.stalled, self.resets = -1.0, 0, self.resets + 1
        return self.resets

    def save(self) -> Checkpoint:
        """A checkpoint of everything that a step changes; refused where the policy gives no numbers any more."""
        if not self.policy.sound(self.collecting.pupils[0].prompt):
            raise OffleashError("The model gives NaN: the training went astray.")
        reset = self.reference is not None and self.resets > 0
        state: TrainerState = {
            "optimizer": self.optimizer.state_dict(),
            "asked": self.collecting.asked,
            "seen": self.collecting.seen,
            "best": self.best,
            "stalled": self.stalled,
            "resets": self.resets,
            "failed": list(self.failed),
            "data": self.data,
            "reference": self.reference.loaded.model.state_dict() if reset and self.reference else None,
        }
        found = self.policy.loaded
        return checkpoints.save(self.folder, self.step, found.model, found.tokenizer, {**state}, ends=found.ends)

    def newest(self) -> Checkpoint | None:
        return checkpoints.newest(self.folder)

    def finish(self) -> Path:
        """The policy as it is now, for every tool that opens a model."""
        last, place = self.newest(), self.folder / MODEL
        assert last is not None
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(last.folder, place, ignore=shutil.ignore_patterns(checkpoints.STATE))
        return place


@contextmanager
def opened(recipe: Recipe, folder: Path, progress: Progress) -> Iterator[Trainer]:
    """A student at its first step, or where its folder says that it was; its judge is closed at the end."""
    last = _going_on(recipe, folder)
    method = method_of(recipe.method, recipe.options)
    if method.schedule.reset_after and not (recipe.validation.every and recipe.validation.problems):
        raise OffleashError(
            f"The method {recipe.method} starts anew when validation stalls: give validation.every and "
            "validation.problems, or method.reset_after=0."
        )
    progress(f"reading {recipe.problems.name}")
    problems = _problems(recipe.problems)
    progress(f"loading {recipe.model}")
    start = open_policy(recipe.model)
    reference = frozen(start) if method.loss.kl or method.loss.anchor or method.schedule.base_samples else None
    policy = open_policy(f"hf:{last.folder}") if last else start
    with ExitStack() as stack:
        rewards = stack.enter_context(rewards_for(problems, recipe.problems.name, _opens(start, problems)))
        pupils = _pupils(policy, problems, _traces(recipe, method, rewards))
        check_round_trip(policy, [*problems["prompt"], *(text for one in pupils for text in one.traces)])
        student = Trainer(
            recipe=recipe,
            folder=folder,
            method=method,
            policy=policy,
            optimizer=optimizer_of(policy, recipe),
            collecting=_collecting(recipe, method, policy, pupils, rewards),
            reference=reference,
            validation=_validation(recipe, policy, stack),
            data=_data(recipe, pupils),
        )
        student.collecting.base = reference if method.schedule.base_samples else None
        if last:
            _resume(student, last)
        else:
            write_recipe(recipe, folder / RECIPE)
            student.save()
        yield student


def optimizer_of(policy: Policy, recipe: Recipe) -> torch.optim.Optimizer:
    options = recipe.optimizer
    if options.rate > LARGEST:
        raise OffleashError(f"optimizer.rate is a learning rate, such as 1e-6; found {options.rate:g}.")
    return torch.optim.AdamW(policy.loaded.model.parameters(), lr=options.rate, weight_decay=options.decay)


def _going_on(recipe: Recipe, folder: Path) -> Checkpoint | None:
    """The checkpoint to go on from; refused where the folder belongs to another training."""
    last = checkpoints.newest(folder)
    if last is None:
        return None
    differing = recipe_differences(read_recipe(folder / RECIPE), recipe)
    refuse_differences(folder, "a training", differing, "Choose another folder with -o, or delete that one.")
    return last


def _resume(student: Trainer, last: Checkpoint) -> None:
    state = cast(TrainerState, checkpoints.load_state(last))
    if state["data"] != student.data:
        raise OffleashError(
            f"{student.recipe.problems.name}, its traces or {student.recipe.model} changed since the training in "
            f"{student.folder} began. Choose another folder with -o."
        )
    student.step = last.step
    student.optimizer.load_state_dict(state["optimizer"])
    student.collecting.asked, student.collecting.seen = state["asked"], state["seen"]
    student.best, student.stalled, student.resets = state["best"], state["stalled"], state["resets"]
    by_name = {pupil.problem: pupil for pupil in student.collecting.pupils}
    student.failed = {name: by_name[name] for name in state["failed"]}
    if state["reference"] is not None and student.reference is not None:
        student.reference.loaded.model.load_state_dict(state["reference"])


def _data(recipe: Recipe, pupils: Sequence[TrainingProblem]) -> str:
    """A hash of problems, prompts, traces and the weights that a training begins with."""
    model = recipe.model.removeprefix("hf:")
    return f"{seed_of(*((pupil.problem, pupil.prompt, pupil.traces) for pupil in pupils)):016x} {fingerprint(model)}"


def _problems(asked: ProblemSource) -> pl.DataFrame:
    return load_problems(asked.name, size=asked.size, seed=asked.seed).frame


def _opens(policy: Policy, problems: pl.DataFrame) -> bool:
    """Whether prompts end inside a block of reasoning."""
    return policy.prompt_encoder.render(problems["prompt"][0]).thinking


def _traces(recipe: Recipe, method: Method, rewards: Rewards) -> Mapping[str, Sequence[str]]:
    """The traces that a method needs, all of them judged correct."""
    schedule = method.schedule
    if recipe.traces is None:
        if schedule.experts or schedule.sft_every:
            raise OffleashError(
                f"The method {recipe.method} learns from traces; name a JSONL of {{problem, text}}: traces=FILE."
            )
        return {}
    found = {name: texts for name, texts in read_traces(Path(recipe.traces)).items() if name in rewards.cases}
    if not found:
        raise OffleashError(f"No trace of {recipe.traces} is for a problem of {recipe.problems.name}.")
    pairs = [(name, text) for name, texts in found.items() for text in texts]
    judged = rewards.of([name for name, _ in pairs], [text for _, text in pairs], [False] * len(pairs))
    wrong = [pair for pair, reward in zip(pairs, judged.rewards, strict=True) if not reward]
    if wrong:
        raise OffleashError(
            f"{len(wrong)} of the {len(pairs)} traces of {recipe.traces} are not correct, such as "
            f"{wrong[0][1][:60]!r} for {wrong[0][0]}. Remove them: they would be learned as correct."
        )
    return found


def _pupils(policy: Policy, problems: pl.DataFrame, traces: Mapping[str, Sequence[str]]) -> list[TrainingProblem]:
    return [
        TrainingProblem(name, policy.tokens(prompt), tuple(traces.get(name, ())))
        for name, prompt in problems.select("problem", "prompt").iter_rows()
    ]


def _collecting(
    recipe: Recipe, method: Method, policy: Policy, pupils: list[TrainingProblem], rewards: Rewards
) -> RolloutCollector:
    sampling, schedule = recipe.sampling, method.schedule
    longest = max(len(pupil.prompt) for pupil in pupils)
    room = sampling.max_tokens if policy.loaded.context is None else policy.loaded.context - longest
    tokens = max(1, min(sampling.max_tokens, room))  # no more than the model can read
    decoding = SamplingParams(temperature=sampling.temperature * schedule.temperature, max_tokens=tokens)
    return RolloutCollector(
        pupils, rewards, schedule, decoding, sampling.problems, sampling.group, recipe.refill, recipe.seed
    )


def _validation(recipe: Recipe, policy: Policy, stack: ExitStack) -> tuple[list[TrainingProblem], Rewards] | None:
    asked = recipe.validation.problems
    if asked is None or not recipe.validation.every:
        return None
    problems = _problems(asked)
    return _pupils(policy, problems, {}), stack.enter_context(
        rewards_for(problems, asked.name, _opens(policy, problems))
    )
