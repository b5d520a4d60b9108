"""The training loop, readable from top to bottom: draw groups, judge them, update, validate, save, repeat.

On-policy, for any causal language model of transformers that the shared-prefix engine runs. Everything random is a hash
of the seed and the step, so a training run that is interrupted and resumed ends with the weights it would have had. At
the end, the result as text and JSON.
"""

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.render.json import Json, encode
from offleash.render.numbers import duration
from offleash.training.checkpoints import Checkpoint
from offleash.training.metrics import Metrics
from offleash.training.recipe import Recipe
from offleash.training.rollouts import StepRollouts
from offleash.training.trainer import Trainer, opened
from offleash.training.update import UpdateStats, batch_of, batch_seed, supervise, update

QUIET = 5  # steps in a row with nothing to learn, after which a training is stopped


@dataclass(frozen=True)
class Training:
    """What a training came to."""

    folder: Path
    model: Path  # in Hugging Face format
    steps: int
    resumed: int  # steps that had been done before
    seconds: float
    metrics: Mapping[str, float]  # of the last step
    note: str = ""


def train(recipe: Recipe, folder: Path, progress: Progress = silent) -> Training:
    """Train by a recipe into a folder; what stands there already is gone on with."""
    started = time.monotonic()
    with opened(recipe, folder, progress) as student, _still():
        metrics = Metrics(folder, recipe.tensorboard)
        metrics.resume(student.step)
        first, last, quiet = student.step, dict[str, float](), 0
        try:
            for step in range(first, recipe.steps):
                began = time.monotonic()
                lesson = student.collecting.step(student.policy, step)
                moved = _learn(student, lesson, step)
                last = {**_measured(lesson, moved), **_supervised(student, lesson, step)}
                quiet = 0 if _taught(student, lesson, moved, "sft/loss" in last) else quiet + 1
                if quiet >= QUIET:
                    raise _constant(lesson, quiet)
                last |= _validated(student, step)
                student.step = step + 1
                # before the checkpoint: a step that has one is not done again
                metrics.write(step, last | {"seconds": time.monotonic() - began})
                if student.step % recipe.checkpoint_every == 0 or student.step == recipe.steps:
                    student.save()
                progress(_told(recipe, student.step, last))
        except OffleashError as error:
            raise _with_checkpoint(error, student.newest()) from None
        finally:
            metrics.close()
        model = student.finish()
    return Training(folder, model, max(first, recipe.steps), first, time.monotonic() - started, last, metrics.note)


@contextmanager
def _still() -> Iterator[None]:
    """Python's collector leaves alone what stands now: it would look through all modules and weights every time."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _learn(student: Trainer, lesson: StepRollouts, step: int) -> UpdateStats:
    """The policy gradient on the groups of a step."""
    recipe = student.recipe
    student.set_rate(step)
    if not lesson.groups:
        return UpdateStats(0.0, 0.0)
    batch = batch_of(lesson.groups, student.method, batch_seed(recipe.seed, step))
    temperature = student.collecting.decoding.temperature
    return update(
        student.policy, student.optimizer, batch, student.method, recipe.optimizer, temperature, student.reference
    )


def _supervised(student: Trainer, lesson: StepRollouts, step: int) -> dict[str, float]:
    """Every few steps, supervised ones on traces of problems that no sample solved."""
    schedule = student.method.schedule
    if not schedule.sft_every:
        return {}
    student.remember_failed(lesson)
    if (step + 1) % schedule.sft_every:
        return {}
    moved = None
    for pairs in student.failed_traces(step):
        moved = supervise(student.policy, student.optimizer, pairs, student.recipe.optimizer)
    student.failed.clear()
    return {"sft/loss": moved.loss, "sft/samples": float(moved.trained)} if moved else {}


def _validated(student: Trainer, step: int) -> dict[str, float]:
    """Now and then, the share of correct samples on problems that are not trained on; resets where it stalls."""
    every = student.recipe.validation.every
    if not every or (step + 1) % every or student.validation is None:
        return {}
    found = student.validate(step)
    return {"validation/pass@1": found, "validation/resets": float(student.heed(found))}


def _measured(lesson: StepRollouts, moved: UpdateStats) -> dict[str, float]:
    groups = [taught.group.own() for taught in lesson.groups]
    tokens = max(1, sum(int(group.length_G.sum()) for group in groups))
    mixed = sum(0 < group.reward_G.sum() < group.size for group in groups)
    return {
        "reward": lesson.reward,
        "entropy/token": sum(float(group.entropy_GT.sum()) for group in groups) / tokens,
        "completions/length": tokens / max(1, sum(group.size for group in groups)),
        "completions/clipped_ratio": lesson.truncated / max(1, lesson.samples),
        "verify/unread_rate": lesson.verdicts["unread"] / max(1, lesson.samples),
        "verify/failed_rate": lesson.verdicts["failed"] / max(1, lesson.samples),
        "groups/kept": float(len(groups)),
        "groups/mixed": float(mixed),
        "groups/dropped": float(lesson.dropped),
        "samples/drawn": float(lesson.samples),
        "samples/trained": float(moved.trained),
        "loss": moved.loss,
        "gradient": moved.gradient,
        "kl": moved.kl,
        "clipped": moved.clipped,
    }


def _taught(student: Trainer, lesson: StepRollouts, moved: UpdateStats, supervised: bool) -> bool:
    """Whether a step had anything to learn from: samples of different reward, or traces from outside."""
    outside = supervised or bool(student.failed) or any(taught.group.expert_G.any() for taught in lesson.groups)
    return outside or (moved.signal and lesson.verdicts["correct"] > 0)


def _constant(lesson: StepRollouts, steps: int) -> OffleashError:
    """Nothing can be learned where every sample has the same reward."""
    if lesson.verdicts["correct"] == lesson.samples:
        return OffleashError(
            f"Every sample of {steps} steps was correct: there is nothing to learn. Take harder problems."
        )
    if lesson.verdicts["correct"]:
        return OffleashError(
            f"In {steps} steps all samples of a problem had the same reward, correct ({lesson.reward:.0%} in the last "
            "step) or not: there is nothing to learn. Take problems that are solved now and then, or larger groups."
        )
    unread = lesson.verdicts["unread"] / max(1, lesson.samples)
    cut = lesson.truncated / max(1, lesson.samples)
    example = lesson.examples[0][:80] if lesson.examples else ""
    return OffleashError(
        f"The reward was 0 for every sample of {steps} steps: there is nothing to learn. In the last one {unread:.0%} "
        f"had no answer that could be read and {cut:.0%} were cut off at sampling.max_tokens; one began {example!r}. "
        "Take easier problems, larger groups (sampling.group), or look at the samples: offleash draw, offleash verify."
    )


def _with_checkpoint(error: OffleashError, last: Checkpoint | None) -> OffleashError:
    if last is None:
        return error
    return OffleashError(
        f"{error} The last good checkpoint is {last.folder}; to go on from it in another way, give "
        f"model=hf:{last.folder}, what is to change (a lower optimizer.rate, say) and another -o."
    )


def _told(recipe: Recipe, step: int, values: Mapping[str, float]) -> str:
    seen = f", pass@1 {values['validation/pass@1']:.3f}" if "validation/pass@1" in values else ""
    return (
        f"{recipe.method}: step {step:,} of {recipe.steps:,}, reward {values['reward']:.3f}, "
        f"token entropy {values['entropy/token']:.3f}{seen}"
    )


def training_text(training: Training) -> str:
    """A few lines: how far it got, its last step, and what to do with the model."""
    resumed = f", {training.resumed:,} of them before" if training.resumed else ""
    shown = ("reward", "entropy/token", "validation/pass@1")
    last = ", ".join(f"{name} {training.metrics[name]:.3f}" for name in shown if name in training.metrics)
    lines = [
        f"{training.steps:,} steps{resumed}, {duration(training.seconds)}{f'; the last one: {last}' if last else ''}.",
        f"  The model is {training.model}, the metrics of every step are in {training.folder / 'metrics.jsonl'}.",
        f"  What it kept, lost and found: offleash study PROBLEMS BASE hf:{training.model} -k 1024 -o DIR",
    ]
    return "\n".join(lines + ([f"  {training.note}"] if training.note else []))


def training_document(training: Training) -> Json:
    """A training as JSON: its fields are the keys."""
    return {"schema": 1, **encode(replace(training, seconds=round(training.seconds, 3)))}
