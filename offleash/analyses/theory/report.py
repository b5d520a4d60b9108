"""What `offleash theory` found, as tables, text and JSON."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.theory.exact import Level, Support
from offleash.analyses.theory.mechanisms import (
    BUDGETS,
    EPSILON,
    GROUP,
    LARGE,
    SEEDS,
    TARGET,
    Effect,
    LeashWorld,
    Mean,
    Mechanism,
    TheoryReport,
)
from offleash.analyses.theory.statements.statement import (
    Counterexample,
    CounterexampleSearch,
    Ruling,
    Statement,
    StatementResult,
)
from offleash.analyses.theory.world import TheoryWorld
from offleash.render.json import Json, number

UNRESOLVED = "not resolved"  # the interval over worlds holds 0
TINY = 1e-9  # a smaller fall is rounding
MOST = f"pass@{BUDGETS[-1]}"
STYLES = {Ruling.HOLDS: "green", Ruling.ONLY_IF: "yellow", Ruling.FAILS: "red"}
METHOD_NAMES = {"reinforce": "REINFORCE", "grpo": "GRPO"}


def show_theory(console: Console, found: TheoryReport) -> None:
    """Print the statements, the mechanisms, the world and what they come to."""
    console.print(_statements(found.statements))
    console.print(_mechanisms(found.mechanisms))
    console.print(_effects(found.effects))
    console.print(Text(leash_words(found.leash)))
    console.print(Text(""))
    console.print(Text(finding(found), style="bold"))


def finding(found: TheoryReport) -> str:
    """The answer in words, and how sure it is."""
    fell = [cell for cell in found.mechanisms if cell.change[MOST].high < 0]
    later = [cell for cell in found.mechanisms if cell.matched_change.high < 0 and cell not in fell]
    stayed = [cell for cell in found.mechanisms if cell not in fell and cell not in later]
    words = [f"{_rulings(found)} (random worlds, seed {found.seed})."]
    if fell:
        words.append(f"{MOST} ended below the base's with {_named(fell)}, surely: 95% intervals over {SEEDS} worlds.")
    else:
        words.append(f"{MOST} surely ended below the base's in no cell of the table.")
    if later:
        words.append(f"It was below on the way, when pass@1 had reached {TARGET}, also with {_named(later)}.")
    if stayed:
        words.append(f"It never surely fell with {_named(stayed)}.")
    return " ".join([*words, *_answers_lost(found)])


def _answers_lost(found: TheoryReport) -> list[str]:
    """What the tilt does to pass@k, and what training does to single answers, also without either mechanism."""
    words = ["The tilt lowers it nowhere."] if found.leash.best_fall < TINY else []
    kept = [cell.after["answers kept"].value for cell in found.mechanisms]
    lost = f"Of the correct answers above epsilon training lost {1 - max(kept):.0%} to {1 - min(kept):.0%}"
    if all(cell.after["answers kept"].high < 1 for cell in found.mechanisms if not (cell.finite or cell.shared)):
        lost += (
            ", also with infinite groups and a table: the gradient of a softmax favours what is already likely, and "
            "the tilt does not"
        )
    return [*words, f"{lost}."]


def _rulings(found: TheoryReport) -> str:
    count = {ruling: sum(one.ruling is ruling for _, one in found.statements) for ruling in Ruling}
    holds, only, fails = (count[ruling] for ruling in Ruling)
    told = (
        f"{holds} hold{'s' if holds == 1 else ''}",
        f"{only} hold{'s' if only == 1 else ''} only under a condition",
        f"{fails} fail{'s' if fails == 1 else ''}",
    )
    return f"Of {len(found.statements)} statements {told[0]}, {told[1]} and {told[2]}"


def theory_document(found: TheoryReport) -> list[Json]:
    """All of it as JSON: statements with verdict and evidence; the mechanisms and the world come last."""
    claims = [
        *(_statement_document(*one) for one in found.statements),
        *(_mechanism_document(cell, found.effects) for cell in found.mechanisms),
        _leash_document(found.leash),
    ]
    return [{**claim, "seed": found.seed} for claim in claims]


def leash_words(one: LeashWorld) -> str:
    """The world in which pass@1 rises and pass@k falls, in words."""
    place = one.k_K.index(LARGE)
    base, trained, tilt = (one.curves[name] for name in ("base", "trained", "tilt"))
    answers = one.trained[Level.ANSWER]
    rise, fall = trained[0] - base[0], base[place] - trained[place]
    happened = "pass@1 rises and pass@k falls" if rise > 0 and fall > 0 else "no world of the table shows the crossing"
    words = [
        f"A world where {happened} (world {one.seed[2]} of the table, GRPO, both): pass@1 {base[0]:.3f} -> "
        f"{trained[0]:.3f}, pass@{LARGE} {base[place]:.3f} -> {trained[place]:.3f}. The tilt of the same pass@1 (beta "
        f"= {one.beta:.2f}) has pass@{LARGE} = {tilt[place]:.3f}, and no beta from 0 to infinity lowers pass@k at any "
        f"k (largest fall {max(one.best_fall, 0):.1g}). Of {answers.P + answers.S:g} correct answers above epsilon = "
        f"{EPSILON:.3g} training keeps {answers.P:g} and loses {answers.S:g}; {answers.E:g} are new."
    ]
    if one.smallest.smallest is not None:
        words.append(
            f"The smallest such world that a search found ({one.smallest.refuting} of {one.smallest.tried} random "
            f"worlds; shared parameters, infinite groups): {one.smallest.smallest}."
        )
    return " ".join(words)


def _statements(checked: Sequence[tuple[Statement, StatementResult]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("statement", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("evidence", ratio=1)
    for statement, found in checked:
        seen = Text(f"{statement.says[0].upper()}{statement.says[1:]}.\n", style="italic")
        if found.condition:
            seen.append(f"Only if {found.condition}.\n", style=f"not italic {STYLES[found.ruling]}")
        words = (
            f"{found.evidence.words[0].upper()}{found.evidence.words[1:]}.",
            *(_example_words(one) for one in found.evidence.counterexamples),
            "",
        )
        seen.append("\n".join(words), style="not italic")
        table.add_row(Text(statement.name, style="bold"), Text(found.ruling.value, style=STYLES[found.ruling]), seen)
    return Group(Text("Appendix C of arXiv:2507.14843, checked in random exact worlds", style="bold"), table)


def _example_words(one: Counterexample) -> str:
    return f"Counterexample ({one.world}): {one.words} (seed {list(one.seed)})."


def _mechanisms(cells: Sequence[Mechanism]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    heads = ("", "pass@1", MOST, "fell", f"at {TARGET}", "problems kept", "answers kept")
    for head in heads:
        least = max(map(len, head.split()), default=0)  # of 80 columns each gets room for its longest word
        table.add_column(head, justify="left" if not head else "right", no_wrap=not head, min_width=least)
    for method in dict.fromkeys(cell.method for cell in cells):
        table.add_row(Text(METHOD_NAMES[method], style="bold"))
        for cell in (one for one in cells if one.method == method):
            table.add_row(
                f" {cell.name}",
                f"{cell.after['pass@1'].value:.2f}",
                _plus_minus(cell.change[MOST], sign=True),
                f"{cell.fell}/{SEEDS}",
                _plus_minus(cell.matched_change, sign=True),
                _plus_minus(cell.after["problems kept"]),
                _plus_minus(cell.after["answers kept"]),
            )
    base = cells[0].before
    title = (
        f"What shrinks support: {SEEDS} worlds a row, groups of {GROUP} or infinitely many rollouts, a table or shared "
        f"parameters. The base has pass@1 {base['pass@1'].value:.3f} and {MOST} {base[MOST].value:.3f}: shown is the "
        f"change of {MOST} at the end, in how many worlds it fell, and its change when pass@1 was at {TARGET}. "
        f"Kept: the share still above epsilon = {EPSILON:.3g}. ± is a 95% interval over worlds."
    )
    return Group(Text(title, style="bold"), table)


def _effects(found: Sequence[Effect]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("what is added by", MOST, "problems kept", "answers kept"):
        table.add_column(head, justify="left" if head.startswith("what") else "right", no_wrap=True)
    for method in dict.fromkeys(one.method for one in found):
        table.add_row(Text(METHOD_NAMES[method], style="bold"))
        for one in (effect for effect in found if effect.method == method):
            values = (_plus_minus(one.on[what], sign=True) for what in (MOST, "problems kept", "answers kept"))
            table.add_row(f" {one.name}", *values)
    return table


def _statement_document(statement: Statement, found: StatementResult) -> Json:
    seen = found.evidence
    return {
        "statement": statement.name,
        "verdict": found.ruling.value,
        "evidence": seen.words,
        "says": statement.says,
        "assumes": list(statement.assumes),
        "condition": found.condition or None,
        "worlds": seen.worlds,
        "worst": number(seen.worst),
        "numbers": {name: number(value) for name, value in seen.numbers.items()},
        "counterexamples": [
            {"world": _world(one.world), "words": one.words, "seed": list(one.seed), "value": number(one.value)}
            for one in seen.counterexamples
        ],
    }


def _mechanism_document(cell: Mechanism, effects: Sequence[Effect]) -> Json:
    change = cell.change[MOST]
    added = {one.name: _means(one.on) for one in effects if one.method == cell.method}
    return {
        "statement": f"{MOST} ends below the base's with {METHOD_NAMES[cell.method]}, {cell.name}",
        "verdict": Ruling.HOLDS.value if change.high < 0 else Ruling.FAILS.value if change.low >= 0 else UNRESOLVED,
        "evidence": f"change {change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}] over {SEEDS} worlds, of which "
        f"it fell in {cell.fell}",
        "method": cell.method,
        "mechanism": cell.name,
        "finite_groups": cell.finite,
        "shared_parameters": cell.shared,
        "worlds": SEEDS,
        "before": _means(cell.before),
        "after": _means(cell.after),
        "change": _means(cell.change),
        "tilt": _means(cell.tilt),
        "at_matched_pass_at_1": {
            **_means(cell.matched | {f"change of {MOST}": cell.matched_change}),
            "worlds": cell.matched_seeds,
        },
        "fell": cell.fell,
        "added_by": added.get(cell.name) or added.get("only together" if cell.finite and cell.shared else ""),
    }


def _leash_document(one: LeashWorld) -> Json:
    place = one.k_K.index(LARGE)
    base, trained = one.curves["base"], one.curves["trained"]
    crossed = trained[0] > base[0] and trained[place] < base[place] and one.best_fall < TINY
    return {
        "statement": "pass@1 can rise while pass@k falls, in a world where the tilt alone could not have done it",
        "verdict": (Ruling.HOLDS if crossed else Ruling.FAILS).value,
        "evidence": leash_words(one),
        "world": list(one.seed),
        "beta": number(one.beta),
        "epsilon": EPSILON,
        "pass_at_k": {
            name: {str(k): number(float(value)) for k, value in zip(one.k_K, curve, strict=True)}
            for name, curve in one.curves.items()
        },
        "largest_fall_of_any_tilt": number(one.best_fall),
        "support": {level.value: _support(table) for level, table in one.trained.items()},
        "smallest": _search(one.smallest),
    }


def _support(table: Support) -> Json:
    return {name: number(getattr(table, name)) for name in ("P", "E", "S", "O", "SRR", "NDR", "NSCR")}


def _search(found: CounterexampleSearch) -> Json:
    world = None if found.smallest is None else _world(found.smallest)
    seed = None if found.seed is None else list(found.seed)
    return {"world": world, "seed": seed, "tried": found.tried, "refuting": found.refuting}


def _world(world: TheoryWorld) -> Json:
    return {"base": world.base_XY.tolist(), "correct": world.correct_XY.tolist()}


def _means(values: dict[str, Mean]) -> Json:
    return {
        name: {"value": number(one.value), "interval": [number(one.low), number(one.high)]}
        for name, one in values.items()
    }


def _plus_minus(one: Mean, sign: bool = False) -> str:
    if not np.isfinite(one.value):
        return "-"
    half = f" ±{(one.high - one.low) / 2:.3f}" if np.isfinite(one.high) else ""
    return f"{one.value:{'+' if sign else ''}.3f}{half}"


def _named(cells: Sequence[Mechanism]) -> str:
    """Cells by method: GRPO (both), REINFORCE (shared parameters, both)."""
    methods = dict.fromkeys(cell.method for cell in cells)
    return " and ".join(
        f"{METHOD_NAMES[method]} ({', '.join(cell.name for cell in cells if cell.method == method)})"
        for method in methods
    )
