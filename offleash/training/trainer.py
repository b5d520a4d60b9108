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
from offleash.samplers.huggingface.loading import check_folder
from offleash.samplers.registry import fingerprint, split_label
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training import checkpoints
from offleash.training.checkpoints import Checkpoint
from offleash.training.method import Method
from offleash.training.methods.registry import method as method_of
from offleash.training.policy import Policy, check_round_trip, frozen_copy, open_policy, policy_model
from offleash.training.recipe import ProblemSource, Recipe, read_recipe, recipe_differences, write_recipe
from offleash.training.rollouts import Rewards, RolloutCollector, StepRollouts, TrainingProblem, rewards_for
from offleash.training.traces import read_traces
from offleash.verifiers.own.bind import CallOptions
from offleash.verifiers.registry import chosen_verifier
from offleash.verifying.cases import ExtractionOptions

RECIPE, MODEL = "recipe.yaml", "model"
MAX_LEARNING_RATE = 1e38  # learning rate that still fits a float32


class TrainerState(TypedDict):
    """What a checkpoint stores beside the weights: everything that a step reads and an earlier step changed.

    No random state is stored: every draw is seeded by a hash of the recipe's seed, the step and the problem. So a
    resumed training run takes the same steps as an uninterrupted one, and ends with the same weights.
    """

    optimizer: dict[str, object]  # moments of AdamW
    asked: int  # RolloutCollector.cursor: which problems come next
    seen: dict[str, dict[str, int]]  # RolloutCollector.seen: answers so far, for methods with a memory
    best: float  # best, stalled, resets: Trainer.note_validation
    stalled: int
    resets: int
    failed: list[str]  # names of Trainer.failed: problems waiting for a supervised step
    reference: dict[str, torch.Tensor] | None  # weights of the reference once it was reset; until then it is the base
    data: str  # a hash of what is trained on and of the first weights


@dataclass
class Trainer:
    """The state of a training run: the policy, what updates it, and what steps remember."""

    recipe: Recipe
    folder: Path
    method: Method
    policy: Policy
    optimizer: torch.optim.Optimizer
    collector: RolloutCollector
    reference: Policy | None
    validation: tuple[list[TrainingProblem], Rewards] | None
    data: str
    step: int = 0
    best: float = -1.0  # of the validations since the last reset
    stalled: int = 0  # validations since the best one
    resets: int = 0
    # problems that no sample solved since the last supervised step, and that have traces
    failed: dict[str, TrainingProblem] = field(default_factory=dict)

    def set_learning_rate(self, step: int) -> None:
        """Set the learning rate of a step: linear warm-up, then constant."""
        options = self.recipe.optimizer
        share = min(1.0, (step + 1) / options.warmup) if options.warmup else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = options.rate * share

    def remember_failed(self, rollouts: StepRollouts) -> None:
        """Remember the problems of a step that no sample of the policy solved, where there are traces for them."""
        for rollout in rollouts.groups:
            own = rollout.group.reward_G[~rollout.group.expert_G]
            if rollout.problem.traces and not own.any():
                self.failed[rollout.problem.name] = rollout.problem

    def failed_traces(self, step: int) -> Iterator[list[tuple[list[int], str]]]:
        """`sft_steps` batches of failed problems, one trace each: (prompt, text) pairs."""
        rng, problems = np.random.default_rng(seed_of(self.recipe.seed, step, "sft")), list(self.failed.values())
        for _ in range(self.method.schedule.sft_steps if problems else 0):
            chosen = rng.choice(len(problems), min(len(problems), self.recipe.sampling.problems), replace=False)
            pairs = [(problems[row].prompt, problems[row].traces) for row in chosen.tolist()]
            yield [(prompt, traces[int(rng.integers(len(traces)))]) for prompt, traces in pairs]

    def validate(self, step: int) -> float:
        """pass@1 on the validation problems, at the recipe's temperature whatever the method samples at."""
        assert self.validation is not None
        problems, rewards = self.validation
        size = self.recipe.validation.samples
        seeds = [seed_of(self.recipe.seed, "validation", step, problem.name) for problem in problems]
        decoding = replace(self.collector.decoding, temperature=self.recipe.sampling.temperature)
        samples = self.policy.draw([problem.prompt for problem in problems], size, seeds, decoding)
        names = [problem.name for problem in problems for _ in range(size)]
        return float(np.mean(rewards.of(names, samples.texts, samples.truncated_N.tolist()).rewards))

    def note_validation(self, pass_1: float) -> int:
        """Record a validation and return the resets so far.

        After `reset_after` validations without a new best the policy becomes its own reference and the optimizer loses
        its moments (ProRL, arXiv:2505.24864): the KL term no longer pulls back to a policy that is far away.
        """
        self.stalled = 0 if pass_1 > self.best else self.stalled + 1
        self.best = max(self.best, pass_1)
        after = self.method.schedule.reset_after
        if after and self.stalled >= after:
            self.reference = frozen_copy(self.policy) if self.reference is not None else None
            self.optimizer = optimizer_of(self.policy, self.recipe)
            self.best, self.stalled, self.resets = -1.0, 0, self.resets + 1
        return self.resets

    def save(self) -> Checkpoint:
        """Write a checkpoint; a policy that has diverged is refused, so that the last checkpoint is always usable."""
        if not self.policy.is_finite(self.collector.problems[0].prompt):
            raise OffleashError("The model's weights or logits are NaN or infinite: training diverged.")
        reset = self.reference is not None and self.resets > 0
        state: TrainerState = {
            "optimizer": self.optimizer.state_dict(),
            "asked": self.collector.cursor,
            "seen": self.collector.seen,
            "best": self.best,
            "stalled": self.stalled,
            "resets": self.resets,
            "failed": list(self.failed),
            "data": self.data,
            "reference": self.reference.loaded.model.state_dict() if reset and self.reference else None,
        }
        loaded = self.policy.loaded
        return checkpoints.save(
            self.folder,
            self.step,
            loaded.model,
            loaded.tokenizer,
            {**state},
            keep=self.recipe.keep_last,
            keep_steps=self.recipe.keep_steps,
            ends=loaded.ends,
        )

    def newest(self) -> Checkpoint | None:
        return checkpoints.newest(self.folder)

    def export_model(self) -> Path:
        """Copy the last checkpoint's model, without the training state, to the folder that users open."""
        last, target = self.newest(), self.folder / MODEL
        assert last is not None
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(last.folder, target, ignore=shutil.ignore_patterns(checkpoints.STATE))
        return target


@contextmanager
def open_trainer(recipe: Recipe, folder: Path, progress: Progress) -> Iterator[Trainer]:
    """A trainer at its first step, or at the folder's last checkpoint; its judge is closed at the end."""
    last = _last_checkpoint(recipe, folder)
    method = method_of(recipe.method, recipe.options)
    if method.schedule.reset_after and not (recipe.validation.every and recipe.validation.problems):
        raise OffleashError(
            f"The method {recipe.method} resets when validation stalls, but the recipe has no validation. Set "
            "validation.every and validation.problems, or method.reset_after=0."
        )
    _refuse_early(recipe, method)
    if recipe.verifier is not None:
        chosen_verifier(recipe.verifier)  # a function that does not load is refused before the model is
    progress(f"reading {recipe.problems.name}")
    frame = _load(recipe.problems)
    progress(f"loading {recipe.model}")
    start = open_policy(recipe.model)  # also when resumed: the reference is the model that training began with
    reference = frozen_copy(start) if method.loss.kl or method.loss.anchor or method.schedule.base_samples else None
    policy = open_policy(f"hf:{last.folder}") if last else start
    with ExitStack() as stack:
        rewards = stack.enter_context(
            rewards_for(frame, recipe.problems.name, _extraction(recipe, start, frame), recipe.verifier)
        )
        problems = _training_problems(policy, frame, _traces(recipe, rewards))
        check_round_trip(policy, [*frame["prompt"], *(text for problem in problems for text in problem.traces)])
        trainer = Trainer(
            recipe=recipe,
            folder=folder,
            method=method,
            policy=policy,
            optimizer=optimizer_of(policy, recipe),
            collector=_collector(recipe, method, policy, problems, rewards),
            reference=reference,
            validation=_validation(recipe, policy, stack),
            data=_data(recipe, problems),
        )
        trainer.collector.base = reference if method.schedule.base_samples else None
        if last:
            _resume(trainer, last)
        else:
            write_recipe(recipe, folder / RECIPE)
            trainer.save()  # step 0: a kill before the first regular checkpoint is resumed too
        yield trainer


def optimizer_of(policy: Policy, recipe: Recipe) -> torch.optim.Optimizer:
    options = recipe.optimizer
    return torch.optim.AdamW(policy.loaded.model.parameters(), lr=options.rate, weight_decay=options.decay)


def _refuse_early(recipe: Recipe, method: Method) -> None:
    """Refuse before problems are read and the model is loaded what the recipe alone shows to be wrong."""
    if recipe.optimizer.rate > MAX_LEARNING_RATE:
        raise OffleashError(f"optimizer.rate must be a learning rate, such as 1e-6; found {recipe.optimizer.rate:g}.")
    if recipe.traces is None and (method.schedule.experts or method.schedule.sft_every):
        raise OffleashError(
            f"The method {recipe.method} needs traces. Give a JSONL file of {{problem, text}}: traces=FILE."
        )
    if recipe.traces is not None and not Path(recipe.traces).is_file():
        raise OffleashError(f"There is no trace file {recipe.traces}. Write one with: offleash lab traces.")
    check_folder(policy_model(recipe.model).name)


def _last_checkpoint(recipe: Recipe, folder: Path) -> Checkpoint | None:
    """The checkpoint to resume from, if any; refused if the folder belongs to another training run."""
    last = checkpoints.newest(folder)
    if last is None:
        return None
    differing = recipe_differences(read_recipe(folder / RECIPE), recipe)
    refuse_differences(folder, "a training run", differing, "Choose another folder with -o, or delete that one.")
    return last


def _resume(trainer: Trainer, last: Checkpoint) -> None:
    state = cast(TrainerState, checkpoints.load_state(last))
    if state["data"] != trainer.data:
        raise OffleashError(
            f"{trainer.recipe.problems.name}, its traces or {trainer.recipe.model} changed since the training run in "
            f"{trainer.folder} started. Choose another folder with -o."
        )
    trainer.step = last.step
    trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.collector.cursor, trainer.collector.seen = state["asked"], state["seen"]
    trainer.best, trainer.stalled, trainer.resets = state["best"], state["stalled"], state["resets"]
    by_name = {problem.name: problem for problem in trainer.collector.problems}
    trainer.failed = {name: by_name[name] for name in state["failed"]}
    if state["reference"] is not None and trainer.reference is not None:
        trainer.reference.loaded.model.load_state_dict(state["reference"])


def _data(recipe: Recipe, problems: Sequence[TrainingProblem]) -> str:
    """A hash of problems, prompts, traces and the initial weights."""
    model = split_label(recipe.model)[1].removeprefix("hf:")
    content = seed_of(*((problem.name, problem.prompt, problem.traces) for problem in problems))
    return f"{content:016x} {fingerprint(model)}"


def _load(source: ProblemSource) -> pl.DataFrame:
    return load_problems(source.name, size=source.size, seed=source.seed).frame


def _extraction(recipe: Recipe, policy: Policy, problems: pl.DataFrame) -> ExtractionOptions:
    """How samples are read: whether prompts end inside a reasoning block, and how a user's own function is called."""
    prompt = policy.prompt_encoder.render(problems["prompt"][0])
    tokenizer = str(getattr(policy.prompt_encoder.tokenizer, "name_or_path", ""))
    call = CallOptions(recipe.threshold, chat=prompt.has_template, tokenizer=tokenizer)
    return ExtractionOptions(opened=prompt.thinking, call=call)


def _traces(recipe: Recipe, rewards: Rewards) -> Mapping[str, Sequence[str]]:
    """The traces that a method needs, all of them judged correct."""
    if recipe.traces is None:
        return {}
    traces = {name: texts for name, texts in read_traces(Path(recipe.traces)).items() if name in rewards.cases}
    if not traces:
        raise OffleashError(
            f"No trace in {recipe.traces} belongs to a problem of {recipe.problems.name}. Check the values of "
            "`problem`."
        )
    pairs = [(name, text) for name, texts in traces.items() for text in texts]
    judged = rewards.of([name for name, _ in pairs], [text for _, text in pairs], [False] * len(pairs))
    wrong = [pair for pair, reward in zip(pairs, judged.rewards, strict=True) if not reward]
    if wrong:
        raise OffleashError(
            f"{len(wrong)} of the {len(pairs)} traces in {recipe.traces} are not correct, such as "
            f"{wrong[0][1][:60]!r} for {wrong[0][0]}. Remove them: training would treat them as correct."
        )
    return traces


def _training_problems(
    policy: Policy, problems: pl.DataFrame, traces: Mapping[str, Sequence[str]]
) -> list[TrainingProblem]:
    return [
        TrainingProblem(name, policy.tokens(prompt), tuple(traces.get(name, ())))
        for name, prompt in problems.select("problem", "prompt").iter_rows()
    ]


def _collector(
    recipe: Recipe, method: Method, policy: Policy, problems: list[TrainingProblem], rewards: Rewards
) -> RolloutCollector:
    sampling, schedule = recipe.sampling, method.schedule
    longest = max(len(problem.prompt) for problem in problems)
    available = sampling.max_tokens if policy.loaded.context is None else policy.loaded.context - longest
    tokens = max(1, min(sampling.max_tokens, available))  # no more than the model can read
    decoding = SamplingParams(temperature=sampling.temperature * schedule.temperature, max_tokens=tokens)
    return RolloutCollector(
        problems, rewards, schedule, decoding, sampling.problems, sampling.group, recipe.refill, recipe.seed
    )


def _validation(recipe: Recipe, policy: Policy, stack: ExitStack) -> tuple[list[TrainingProblem], Rewards] | None:
    source = recipe.validation.problems
    if source is None or not recipe.validation.every:
        return None
    frame = _load(source)
    return _training_problems(policy, frame, {}), stack.enter_context(
        rewards_for(frame, source.name, _extraction(recipe, policy, frame), recipe.verifier)
    )
