"""What a study of early warning showed, as tables in the terminal and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from offleash.render.json import Json, number
from offleash.render.numbers import many
from offleash.stats.chance import mcnemar
from research.early_warning.rule import Rule

# What a study of early warning showed.


SAID = {
    "answer": "answer entropy",
    "value": "entropy of final values",
    "token": "token entropy",
    "reward": "reward (pass@1)",
}
KINDS = {
    "noise": "drop that 5% of redraws of the base pass",
    "loss": "drop beyond all trainings that lost nothing",
}


@dataclass(frozen=True)
class Course:
    """One training, look by look."""

    recipe: str
    seed: int
    steps_T: tuple[int, ...]
    change_T: Mapping[str, tuple[float, ...]]  # of each signal, relative to the base
    spread_T: Mapping[str, tuple[float, ...]]
    certain_T: tuple[int, ...]  # real losses, at least
    loss_T: tuple[float, ...]  # 1 - SRR_retest
    low_T: tuple[float, ...]
    high_T: tuple[float, ...]
    lost_at: int | None  # the step at which a loss was first certain


@dataclass(frozen=True)
class Alarm:
    """What a threshold that was chosen on other seeds did with one training."""

    recipe: str
    seed: int
    drop: float
    step: int | None
    lost_at: int | None
    delay: float | None  # steps after the loss; negative: before it; None where either did not come
    loss_then: float | None  # the size of the loss when the alarm came


@dataclass(frozen=True)
class SignalFound:
    """One signal at one kind of threshold."""

    signal: str
    kind: str  # of KINDS
    alarms: tuple[Alarm, ...]
    misses: int
    losses: int  # trainings in which support was lost
    false_alarms: int
    quiet: int  # trainings in which it was not
    delay: float  # mean, in steps
    null_rate_S: tuple[float, ...]  # share of each seed's null trajectories with an alarm

    @property
    def errors(self) -> int:
        return self.misses + self.false_alarms


@dataclass(frozen=True)
class Tied:
    """How a signal's change follows the size of the loss: Spearman's rank correlation."""

    signal: str
    within_S: tuple[float, ...]  # over the looks of each grpo training
    pooled: float  # over all looks of all trainings
    same_step: float  # mean over looks of that across trainings at the same step


@dataclass(frozen=True)
class Published:
    """A published table of counts by step: when a monitor of counts alone would have spoken."""

    name: str
    steps_T: tuple[int, ...]
    found_T: tuple[int, ...]
    lost_T: tuple[int, ...]
    p_T: tuple[float, ...]
    seen: int | None  # first step with more lost than found
    alone: int | None  # at which McNemar's p is below 5%, as if it were the only look
    resolved: int | None  # at which it is below 5% shared among all looks
    stays: bool  # at every later look too


@dataclass(frozen=True)
class Warned:
    """What a study showed."""

    plan: Mapping[str, object]
    courses: tuple[Course, ...]
    found: tuple[SignalFound, ...]
    tied: tuple[Tied, ...]
    again_S: tuple[int, ...]  # real losses, at least, of a second draw of each base: none are real
    bonferroni_null: Mapping[str, float]  # false alarms of null trajectories by the standard error alone, no threshold
    drops: Mapping[str, float]  # of every signal, at the threshold `loss` from all seeds
    rule: Rule | None  # that this study would ship
    published: tuple[Published, ...]
    seconds: float


SHORT = {"answer": "answers", "value": "values", "token": "tokens", "reward": "reward"}


def warning_document(done: Warned) -> Json:
    """The study as JSON."""
    return {
        "schema": 1,
        "plan": dict(done.plan),
        "trainings": [_plain(asdict(course)) for course in done.courses],
        "signals": [_plain(asdict(one)) for one in done.found],
        "rank_correlation": [_plain(asdict(one)) for one in done.tied],
        "base_again": list(done.again_S),
        "null_alarms_by_standard_error": {name: number(rate) for name, rate in done.bonferroni_null.items()},
        "drops": {name: number(drop) for name, drop in done.drops.items()},
        "rule": None if done.rule is None else asdict(done.rule),
        "table_4": [_plain(asdict(one)) for one in done.published],
        "finding": finding(done),
        "seconds": number(done.seconds),
    }


def show_warning(console: Console, done: Warned) -> None:
    """Print the tables, and what they show in words."""
    console.print("When a loss of support was certain, the share lost at the end (1 - SRR_retest), the signals then")
    console.print(_truth(done))
    for kind, what in KINDS.items():
        console.print(f"Alarms at the threshold `{kind}` ({what}), chosen on the other seeds")
        console.print(_alarms(done, kind))
    console.print("How a signal follows the size of the loss (Spearman's rank correlation)")
    console.print(_ties(done))
    console.print(
        "Table 4 of arXiv:2507.14843 (no entropies there): the first step with more problems lost (S) than found (E), "
        "the same with p < .05 as if it were the only look, and with the 5% shared among ten looks"
    )
    console.print(_counts(done))
    console.print(finding(done))


def _truth(done: Warned) -> Table:
    table = _table("training", "certain at", "losses >=", "lost [95%]", *SHORT.values())
    for one in done.courses:
        size = f"{one.loss_T[-1]:.2f} [{one.low_T[-1]:.2f}, {one.high_T[-1]:.2f}]"
        changes = [f"{one.change_T[signal][-1]:+.0%}" for signal in SHORT]
        table.add_row(f"{one.recipe} {one.seed}", _step(one.lost_at), str(one.certain_T[-1]), size, *changes)
    return table


def _alarms(done: Warned, kind: str) -> Table:
    found = [one for one in done.found if one.kind == kind]
    recipes = list(dict.fromkeys(alarm.recipe for alarm in found[0].alarms))
    table = _table("alarm at step", "drop", *recipes, "delay", "missed", "false", "null")
    table.add_row("(loss certain)", "", *(_each(found[0], recipe, "lost_at") for recipe in recipes))
    for one in found:
        drops = [100 * alarm.drop for alarm in one.alarms]
        table.add_row(
            SHORT[one.signal],
            f"{min(drops):.1f}-{max(drops):.1f}%",
            *(_each(one, recipe, "step") for recipe in recipes),
            "-" if np.isnan(one.delay) else f"{one.delay:+.0f}",
            f"{one.misses}/{one.losses}",
            f"{one.false_alarms}/{one.quiet}",
            f"{float(np.mean(one.null_rate_S)):.1%}",
        )
    return table


def _each(one: SignalFound, recipe: str, what: str) -> str:
    """A step for every seed of a recipe."""
    steps = [alarm.step if what == "step" else alarm.lost_at for alarm in one.alarms if alarm.recipe == recipe]
    return " ".join(_step(step) for step in steps)


def _ties(done: Warned) -> Table:
    table = _table("signal", "within each GRPO training", "all looks", "same step")
    for one in done.tied:
        within = " ".join(f"{value:+.2f}" for value in one.within_S)
        table.add_row(SHORT[one.signal], within, f"{one.pooled:+.2f}", f"{one.same_step:+.2f}")
    return table


def _counts(done: Warned) -> Table:
    table = _table("data set", "S > E", "p < .05", "resolved", "S, E at the end")
    for one in done.published:
        resolved = _step(one.resolved) + ("" if one.stays else " (not later)")
        last = f"{one.lost_T[-1]}, {one.found_T[-1]}  (p {one.p_T[-1]:.1g})"
        table.add_row(one.name, _step(one.seen), _step(one.alone), resolved, last)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    return table


def _step(step: int | None) -> str:
    return "-" if step is None else str(step)


def _plain(found: Mapping[str, object]) -> Json:
    """Values as JSON has them: no NaN, lists for tuples."""
    return {name: _value(value) for name, value in found.items()}


def _value(value: object) -> object:
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return number(value)
        case dict():
            return _plain(value)
        case tuple() | list():
            return [_value(one) for one in value]
        case _:
            return str(value)


# What a study of early warning showed, in words.


SURE = 0.05


def finding(done: Warned) -> str:
    """What was found, in words."""
    by = {(one.kind, one.signal): one for one in done.found}
    lossy = [course for course in done.courses if course.lost_at is not None]
    if not lossy:
        return "No training lost support beyond chance, so there was nothing to announce: train longer (--steps)."
    free = sum(course.recipe == "grpo" for course in lossy)
    grpo = sum(course.recipe == "grpo" for course in done.courses)
    steps = [course.lost_at for course in lossy if course.lost_at is not None]
    told = "; ".join(_told(by["loss", signal]) for signal in SAID)
    ahead = " ".join(_ahead(by["loss", "answer"], by["loss", other]) for other in ("token", "reward"))
    noisy = [by["noise", signal].false_alarms for signal in SAID]
    rule = "" if done.rule is None else f" The rule this gives: {_rule(done.rule)}."
    return (
        f"Support was lost in {free} of {grpo} trainings with GRPO, certain from step {_between(steps)} on, "
        f"and in {len(lossy) - free} of {len(done.courses) - grpo} on a short leash. At the threshold of noise, the "
        f"signals also spoke in {_between(noisy)} of the {by['noise', 'answer'].quiet} trainings that lost "
        f"nothing: that the model moves does not say that support is lost. At the threshold `loss`: {told}. "
        f"{ahead}{rule} This is one small world, {grpo} seeds and a look every {done.plan['every']} steps; the steps "
        "are not to be carried over."
    )


def _told(one: SignalFound) -> str:
    when = "" if np.isnan(one.delay) else f" {_steps(one.delay)} on average"
    return (
        f"{SAID[one.signal]} announced {one.losses - one.misses} of {one.losses} losses{when}, "
        f"{one.false_alarms} of {one.quiet} falsely"
    )


def _ahead(answer: SignalFound, other: SignalFound) -> str:
    """Whether answer entropy came before another signal, training by training, with the sign test."""
    pairs = [(a.step, b.step) for a, b in zip(answer.alarms, other.alarms, strict=True) if a.lost_at is not None]
    before = sum(_place(a) < _place(b) for a, b in pairs)
    after = sum(_place(a) > _place(b) for a, b in pairs)
    p = mcnemar(before, after)
    sure = "" if p < SURE else ", which is not beyond chance"
    return (
        f"Answer entropy came before {SAID[other.signal]} in {before} and after it in {after} of {len(pairs)} "
        f"trainings (sign test p = {p:.2g}{sure})."
    )


def _place(step: int | None) -> float:
    return float("inf") if step is None else float(step)


def _steps(delay: float) -> str:
    if round(delay, 1) == 0:
        return "when it was certain"
    steps = many(round(abs(delay)), "step")
    return f"{steps} {'before' if delay < 0 else 'after'} it was certain"


def _between(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least} to {most}"


def _rule(rule: Rule) -> str:
    way = "rose" if rule.rises else "fell"
    return (
        f"announce when {SAID[rule.signal]} {way} by {rule.drop:.1%} of the base's or more, and by "
        f"{float(rule.errors()):.2f} standard errors ({rule.looks} looks)"
    )
