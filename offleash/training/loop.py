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
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import duration
from offleash.training.checkpoints import Checkpoint
from offleash.training.metrics import Metrics
from offleash.training.recipe import Recipe
from offleash.training.rollouts import StepRollouts
from offleash.training.trainer import Trainer, open_trainer
from offleash.training.update import UpdateStats, batch_of, batch_seed, supervise, update

MAX_IDLE_STEPS = 5  # steps in a row with nothing to learn, after which training is stopped: fewer happen by chance


@dataclass(frozen=True)
class Training:
    """A finished training run: its fields are the keys of `train --json`."""

    folder: Path
    model: Path  # in Hugging Face format
    steps: int
    resumed: int  # steps done before this call
    seconds: float
    metrics: Mapping[str, float]  # of the last step
    note: str = ""


def train(recipe: Recipe, folder: Path, progress: Progress = silent) -> Training:
    """Train from a recipe into a folder, or resume the training run in it.

    Args:
        recipe: what to train, on what, and how; on resume it must agree with the folder's.
        folder: gets recipe.yaml, metrics.jsonl, checkpoints and the model.
        progress: called with a line of text after every step.

    Returns:
        The folder of the model, the steps done, and the metrics of the last step ({} if no step was left to do).
    """
    started = time.monotonic()
    with open_trainer(recipe, folder, progress) as trainer, _gc_frozen():
        metrics = Metrics(folder, recipe.tensorboard)
        metrics.resume(trainer.step)
        first, last, idle = trainer.step, dict[str, float](), 0
        try:
            for step in range(first, recipe.steps):
                start_time = time.monotonic()
                rollouts = trainer.collector.step(trainer.policy, step)
                stats = _update_policy(trainer, rollouts, step)
                last = {**_step_metrics(rollouts, stats), **_supervised_update(trainer, rollouts, step)}
                idle = 0 if _had_signal(trainer, rollouts, stats, "sft/loss" in last) else idle + 1
                if idle >= MAX_IDLE_STEPS:
                    raise _no_signal_error(rollouts, idle)
                last |= _validation_metrics(trainer, step)
                trainer.step = step + 1
                # before the checkpoint: a step that has one is not done again
                metrics.write(step, last | {"seconds": time.monotonic() - start_time})
                checkpoint_due = trainer.step % recipe.checkpoint_every == 0 or trainer.step in recipe.keep_steps
                if checkpoint_due or trainer.step == recipe.steps:
                    trainer.save()
                progress(_progress_text(recipe, trainer.step, last))
        except OffleashError as error:
            raise _with_checkpoint(error, trainer.newest()) from None
        finally:
            metrics.close()
        model = trainer.export_model()
    return Training(folder, model, max(first, recipe.steps), first, time.monotonic() - started, last, metrics.note)


@contextmanager
def _gc_frozen() -> Iterator[None]:
    """Exempt existing objects from garbage collection, which would otherwise scan all modules and weights each time."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _update_policy(trainer: Trainer, rollouts: StepRollouts, step: int) -> UpdateStats:
    """One policy-gradient update on the groups of a step."""
    recipe = trainer.recipe
    trainer.set_learning_rate(step)
    if not rollouts.groups:
        return UpdateStats(0.0, 0.0)
    batch = batch_of(rollouts.groups, trainer.method, batch_seed(recipe.seed, step))
    temperature = trainer.collector.decoding.temperature
    return update(
        trainer.policy, trainer.optimizer, batch, trainer.method, recipe.optimizer, temperature, trainer.reference
    )


def _supervised_update(trainer: Trainer, rollouts: StepRollouts, step: int) -> dict[str, float]:
    """Every `sft_every` steps, supervised steps on traces of problems that no sample solved."""
    schedule = trainer.method.schedule
    if not schedule.sft_every:
        return {}
    trainer.remember_failed(rollouts)
    if (step + 1) % schedule.sft_every:
        return {}
    stats = None
    for pairs in trainer.failed_traces(step):
        stats = supervise(trainer.policy, trainer.optimizer, pairs, trainer.recipe.optimizer)
    trainer.failed.clear()
    return {"sft/loss": stats.loss, "sft/samples": float(stats.trained)} if stats else {}


def _validation_metrics(trainer: Trainer, step: int) -> dict[str, float]:
    """Every `validation.every` steps, pass@1 on validation problems; counts resets after it stalls."""
    every = trainer.recipe.validation.every
    if not every or (step + 1) % every or trainer.validation is None:
        return {}
    pass_1 = trainer.validate(step)
    return {"validation/pass@1": pass_1, "validation/resets": float(trainer.note_validation(pass_1))}


def _step_metrics(rollouts: StepRollouts, stats: UpdateStats) -> dict[str, float]:
    """The metrics of a step: rates over all samples drawn, entropy and length over the policy's own in kept groups."""
    groups = [rollout.group.own() for rollout in rollouts.groups]
    tokens = max(1, sum(int(group.length_G.sum()) for group in groups))
    mixed = sum(0 < group.reward_G.sum() < group.size for group in groups)
    return {
        "reward": rollouts.reward,
        "entropy/token": sum(float(group.entropy_GT.sum()) for group in groups) / tokens,
        "completions/length": tokens / max(1, sum(group.size for group in groups)),
        "completions/clipped_ratio": rollouts.truncated / max(1, rollouts.samples),
        "verify/unread_rate": rollouts.verdicts["unread"] / max(1, rollouts.samples),
        "verify/failed_rate": rollouts.verdicts["failed"] / max(1, rollouts.samples),
        "groups/kept": float(len(groups)),
        "groups/mixed": float(mixed),
        "groups/dropped": float(rollouts.dropped),
        "samples/drawn": float(rollouts.samples),
        "samples/trained": float(stats.trained),
        "loss": stats.loss,
        "gradient": stats.gradient,
        "kl": stats.kl,
        "clipped": stats.clipped,
    }


def _had_signal(trainer: Trainer, rollouts: StepRollouts, stats: UpdateStats, supervised: bool) -> bool:
    """Whether a step had anything to learn from: samples with different rewards, or external traces."""
    traces = supervised or bool(trainer.failed) or any(rollout.group.expert_G.any() for rollout in rollouts.groups)
    return traces or (stats.signal and rollouts.verdicts["correct"] > 0)


def _no_signal_error(rollouts: StepRollouts, steps: int) -> OffleashError:
    """The error for a training run without a learning signal, by its cause."""
    if rollouts.verdicts["correct"] == rollouts.samples:
        return OffleashError(
            f"Every sample of {steps} steps was correct, so there is nothing to learn. Use harder problems."
        )
    if rollouts.verdicts["correct"]:
        return OffleashError(
            f"For {steps} steps all samples of each problem had the same reward ({rollouts.reward:.0%} correct in the "
            "last step), so there is nothing to learn. Use problems that are solved sometimes, or larger groups."
        )
    unread = rollouts.verdicts["unread"] / max(1, rollouts.samples)
    truncated_share = rollouts.truncated / max(1, rollouts.samples)
    example = rollouts.examples[0][:80] if rollouts.examples else ""
    return OffleashError(
        f"The reward was 0 for every sample of {steps} steps, so there is nothing to learn. In the last step "
        f"{unread:.0%} were unread and {truncated_share:.0%} were truncated at sampling.max_tokens; one begins "
        f"{example!r}. Use easier problems or larger groups (sampling.group), or look at the "
        "samples: offleash draw, offleash verify."
    )


def _with_checkpoint(error: OffleashError, last: Checkpoint | None) -> OffleashError:
    if last is None:
        return error
    return OffleashError(
        f"{error} The last good checkpoint is {last.folder}. To continue from it with other settings, set "
        f"model=hf:{last.folder} and the settings (such as a lower optimizer.rate), with another -o."
    )


def _progress_text(recipe: Recipe, step: int, values: Mapping[str, float]) -> str:
    validation_text = f", pass@1 {values['validation/pass@1']:.3f}" if "validation/pass@1" in values else ""
    return (
        f"{recipe.method}: step {step:,} of {recipe.steps:,}, reward {values['reward']:.3f}, "
        f"token entropy {values['entropy/token']:.3f}{validation_text}"
    )


def training_text(training: Training) -> str:
    """A few lines: the steps done, the metrics of the last one, and what to do with the model."""
    resumed = f" ({training.resumed:,} in earlier calls)" if training.resumed else ""
    metric_names = ("reward", "entropy/token", "validation/pass@1")
    metrics_text = ", ".join(
        f"{name} {training.metrics[name]:.3f}" for name in metric_names if name in training.metrics
    )
    last_step = f"; last step: {metrics_text}" if metrics_text else ""
    lines = [
        f"{training.steps:,} steps{resumed}, {duration(training.seconds)}{last_step}.",
        f"  Model: {training.model}. Metrics for every step: {training.folder / 'metrics.jsonl'}.",
        f"  To see what it kept, lost and gained: offleash study PROBLEMS BASE hf:{training.model} -k 1024 -o DIR",
    ]
    return "\n".join(lines + ([f"  {training.note}"] if training.note else []))


def training_document(training: Training) -> Json:
    """A training run as JSON: its fields are the keys."""
    return {"schema": SCHEMA, **encode(replace(training, seconds=round(training.seconds, 3)))}
