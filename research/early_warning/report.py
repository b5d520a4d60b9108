"""What a study of early warning showed, as tables in the terminal and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from offleash.render.numbers import Json, number
from research.early_warning.warned import KINDS, SignalFound, Warned
from research.early_warning.words import finding

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
