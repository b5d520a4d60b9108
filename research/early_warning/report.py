"""Results of a study of early warning: what it measured, as JSON, as tables in the terminal, and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from offleash.render.json import Json, encode
from offleash.render.numbers import many
from offleash.stats.chance import mcnemar
from research.early_warning.rule import Rule

SIGNAL_NAMES = {
    "answer": "answer entropy",
    "value": "entropy of final values",
    "token": "token entropy",
    "reward": "reward (pass@1)",
}
KINDS = {
    "noise": "drop that 5% of redraws of the base exceed",
    "loss": "drop larger than in any training that lost nothing",
}


@dataclass(frozen=True)
class Trajectory:
    """One training, look by look. T looks; changes are relative to the base (-0.1: a tenth less)."""

    recipe: str
    seed: int
    steps_T: tuple[int, ...]
    change_T: Mapping[str, tuple[float, ...]]  # of each signal, relative to the base
    spread_T: Mapping[str, tuple[float, ...]]
    certain_T: tuple[int, ...]  # significant losses of problems, at least so many
    net_loss_T: tuple[float, ...]  # 1 - net ratio (risen rates offset lost problems), with the ends of its interval
    low_T: tuple[float, ...]
    high_T: tuple[float, ...]
    lost_at: int | None  # the first step with a significant loss


@dataclass(frozen=True)
class Alarm:
    """When a threshold that was chosen on other seeds raised an alarm in one training."""

    recipe: str
    seed: int
    drop: float
    step: int | None
    lost_at: int | None
    delay: float | None  # steps from the loss to the alarm, negative: before it; None without an alarm or a loss
    net_loss_then: float | None  # the net loss at the alarm


@dataclass(frozen=True)
class SignalResult:
    """One signal at one kind of threshold."""

    signal: str
    kind: str  # of KINDS
    alarms: tuple[Alarm, ...]
    misses: int
    losses: int  # trainings in which support was lost
    false_alarms: int
    quiet: int  # trainings in which none was lost
    delay: float  # mean, in steps
    null_rate_S: tuple[float, ...]  # share of each seed's null trajectories with an alarm

    @property
    def errors(self) -> int:
        return self.misses + self.false_alarms


@dataclass(frozen=True)
class SignalCorrelation:
    """How a signal's change follows the net loss: Spearman's rank correlation."""

    signal: str
    within_S: tuple[float, ...]  # over the looks of each grpo training
    pooled: float  # over all looks of all trainings
    same_step: float  # mean over looks of that across trainings at the same step


@dataclass(frozen=True)
class Published:
    """A published table of counts by step: when a monitor of counts alone would have raised an alarm."""

    name: str
    steps_T: tuple[int, ...]
    gained_T: tuple[int, ...]
    lost_T: tuple[int, ...]
    p_T: tuple[float, ...]
    seen: int | None  # first step with more problems lost than gained
    alone: int | None  # first step with McNemar's p below 5%, as if it were the only look
    resolved: int | None  # first step with p below 5% shared among all looks
    stays: bool  # and at every later look, too


@dataclass(frozen=True)
class WarningStudy:
    """Everything that a study measured."""

    plan: Mapping[str, object]
    trainings: tuple[Trajectory, ...]
    signals: tuple[SignalResult, ...]
    correlations: tuple[SignalCorrelation, ...]
    redraw_lost_S: tuple[int, ...]  # significant losses of a second draw of each base: all would be false
    bonferroni_null: Mapping[str, float]  # false alarms of null trajectories by the standard error alone, no threshold
    drops: Mapping[str, float]  # of every signal, at the threshold `loss` from all seeds
    rule: Rule | None  # that this study would ship
    published: tuple[Published, ...]
    seconds: float


SHORT = {"answer": "answers", "value": "values", "token": "tokens", "reward": "reward"}


def warning_document(study: WarningStudy) -> Json:
    """The study as JSON; unknown numbers are null."""
    document: Json = encode(
        {
            "schema": 1,
            "plan": study.plan,
            "trainings": study.trainings,
            "signals": study.signals,
            "rank_correlation": study.correlations,
            "base_again": study.redraw_lost_S,
            "null_alarms_by_standard_error": study.bonferroni_null,
            "drops": study.drops,
            "rule": study.rule,
            # `found_T` is the key of schema 1 for the problems gained.
            "table_4": [
                {
                    "found_T" if field.name == "gained_T" else field.name: getattr(row, field.name)
                    for field in fields(row)
                }
                for row in study.published
            ],
            "finding": finding(study),
            "seconds": study.seconds,
        }
    )
    return document


def show_warning(console: Console, study: WarningStudy) -> None:
    """Print the tables, and the conclusion in words."""
    console.print(
        "First significant loss, the net loss at the end (1 - net ratio: rates that rose hide losses), and the signals "
        "at the end"
    )
    console.print(_truth(study))
    for kind, what in KINDS.items():
        console.print(f"Alarms at the threshold `{kind}` ({what}), chosen on the other seeds")
        console.print(_alarms(study, kind))
    console.print("How a signal follows the net loss (Spearman's rank correlation)")
    console.print(_ties(study))
    console.print(
        "Table 4 of arXiv:2507.14843 (no entropies there): the first step with more problems lost (S) than gained (E), "
        "the same with p < .05 as if it were the only look, and with the 5% shared among ten looks"
    )
    console.print(_counts(study))
    console.print(finding(study))


def _truth(study: WarningStudy) -> Table:
    table = _table("training", "lost at", "losses >=", "net loss [95%]", *SHORT.values())
    for training in study.trainings:
        size = f"{training.net_loss_T[-1]:.2f} [{training.low_T[-1]:.2f}, {training.high_T[-1]:.2f}]"
        changes = [f"{training.change_T[signal][-1]:+.0%}" for signal in SHORT]
        table.add_row(
            f"{training.recipe} {training.seed}", _step(training.lost_at), str(training.certain_T[-1]), size, *changes
        )
    return table


def _alarms(study: WarningStudy, kind: str) -> Table:
    results = [result for result in study.signals if result.kind == kind]
    recipes = list(dict.fromkeys(alarm.recipe for alarm in results[0].alarms))
    table = _table("alarm at step", "drop", *recipes, "delay", "missed", "false", "null")
    table.add_row("(loss)", "", *(_each(results[0], recipe, "lost_at") for recipe in recipes))
    for result in results:
        drops = [100 * alarm.drop for alarm in result.alarms]
        table.add_row(
            SHORT[result.signal],
            f"{min(drops):.1f}-{max(drops):.1f}%",
            *(_each(result, recipe, "step") for recipe in recipes),
            "-" if np.isnan(result.delay) else f"{result.delay:+.0f}",
            f"{result.misses}/{result.losses}",
            f"{result.false_alarms}/{result.quiet}",
            f"{float(np.mean(result.null_rate_S)):.1%}",
        )
    return table


def _each(result: SignalResult, recipe: str, what: str) -> str:
    """A step for every seed of a recipe."""
    steps = [alarm.step if what == "step" else alarm.lost_at for alarm in result.alarms if alarm.recipe == recipe]
    return " ".join(_step(step) for step in steps)


def _ties(study: WarningStudy) -> Table:
    table = _table("signal", "within each GRPO training", "all looks", "same step")
    for correlation in study.correlations:
        within = " ".join(f"{value:+.2f}" for value in correlation.within_S)
        table.add_row(SHORT[correlation.signal], within, f"{correlation.pooled:+.2f}", f"{correlation.same_step:+.2f}")
    return table


def _counts(study: WarningStudy) -> Table:
    table = _table("data set", "S > E", "p < .05", "resolved", "S, E at the end")
    for table_row in study.published:
        resolved = _step(table_row.resolved) + ("" if table_row.stays else " (not later)")
        last = f"{table_row.lost_T[-1]}, {table_row.gained_T[-1]}  (p {table_row.p_T[-1]:.1g})"
        table.add_row(table_row.name, _step(table_row.seen), _step(table_row.alone), resolved, last)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    return table


def _step(step: int | None) -> str:
    return "-" if step is None else str(step)


# The conclusion in words.


SIGNIFICANT = 0.05  # of the sign test


def finding(study: WarningStudy) -> str:
    """The conclusion in words."""
    results = {(result.kind, result.signal): result for result in study.signals}
    lossy = [training for training in study.trainings if training.lost_at is not None]
    if not lossy:
        return "No training lost support significantly, so there was nothing to announce. Train longer (--steps)."
    free = sum(training.recipe == "grpo" for training in lossy)
    grpo = sum(training.recipe == "grpo" for training in study.trainings)
    steps = [training.lost_at for training in lossy if training.lost_at is not None]
    announced = "; ".join(_announced(results["loss", signal]) for signal in SIGNAL_NAMES)
    order = " ".join(_ahead(results["loss", "answer"], results["loss", other]) for other in ("token", "reward"))
    # At the threshold of noise any change of the model is an alarm, harmless ones included.
    noisy = [results["noise", signal].false_alarms for signal in SIGNAL_NAMES]
    rule = "" if study.rule is None else f" The rule this gives: {_rule(study.rule)}."
    return (
        f"Support was lost in {free} of {grpo} trainings with GRPO, significantly from step {_between(steps)} on, "
        f"and in {len(lossy) - free} of {len(study.trainings) - grpo} on a short leash. At the threshold of noise the "
        f"signals also raised alarms in {_between(noisy)} of the {results['noise', 'answer'].quiet} trainings that "
        f"lost nothing: a model can move without losing support. At the threshold `loss`: {announced}. "
        f"{order}{rule} This is one small world, {grpo} seeds and a look every {study.plan['every']} steps; the steps "
        "do not carry over to other trainings."
    )


def _announced(result: SignalResult) -> str:
    when = "" if np.isnan(result.delay) else f" {_steps(result.delay)} on average"
    return (
        f"{SIGNAL_NAMES[result.signal]} announced {result.losses - result.misses} of {result.losses} losses{when}, "
        f"{result.false_alarms} of {result.quiet} falsely"
    )


def _ahead(answer: SignalResult, other: SignalResult) -> str:
    """Whether answer entropy came before another signal, training by training, with the sign test."""
    pairs = [(a.step, b.step) for a, b in zip(answer.alarms, other.alarms, strict=True) if a.lost_at is not None]
    before = sum(_place(a) < _place(b) for a, b in pairs)
    after = sum(_place(a) > _place(b) for a, b in pairs)
    p = mcnemar(before, after)
    sure = "" if p < SIGNIFICANT else ", not significant"
    return (
        f"Answer entropy came before {SIGNAL_NAMES[other.signal]} in {before} and after it in {after} of {len(pairs)} "
        f"trainings (sign test p = {p:.2g}{sure})."
    )


def _place(step: int | None) -> float:
    return float("inf") if step is None else float(step)


def _steps(delay: float) -> str:
    if round(delay, 1) == 0:
        return "at the loss"
    steps = many(round(abs(delay)), "step")
    return f"{steps} {'before' if delay < 0 else 'after'} the loss"


def _between(numbers: Sequence[int]) -> str:
    lowest, highest = min(numbers), max(numbers)
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"


def _rule(rule: Rule) -> str:
    direction = "rose" if rule.rises else "fell"
    return (
        f"raise an alarm when {SIGNAL_NAMES[rule.signal]} {direction} by {rule.drop:.1%} of the base's or more, and by "
        f"{float(rule.errors()):.2f} standard errors ({rule.looks} looks)"
    )
