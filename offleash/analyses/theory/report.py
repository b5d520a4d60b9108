"""The results of `offleash theory` as tables, text and JSON."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.theory.exact import Level
from offleash.analyses.theory.mechanisms import (
    BUDGETS,
    EPSILON,
    GROUP,
    REPORTED_K,
    SEEDS,
    TARGET_PASS_AT_1,
    Effect,
    LeashWorld,
    Mean,
    Mechanism,
    TheoryReport,
)
from offleash.analyses.theory.statements.statement import (
    Counterexample,
    Ruling,
    Statement,
    StatementResult,
)
from offleash.render.json import Json, encode

UNRESOLVED_TEXT = "not resolved"  # the interval over worlds holds 0
TINY = 1e-9  # a smaller fall is rounding
PASS_K = f"pass@{BUDGETS[-1]}"
STYLES = {Ruling.HOLDS: "green", Ruling.ONLY_IF: "yellow", Ruling.FAILS: "red"}
METHOD_NAMES = {"reinforce": "REINFORCE", "grpo": "GRPO"}


def show_theory(console: Console, report: TheoryReport) -> None:
    """Print the statements, the mechanisms, the world and what they come to."""
    console.print(_statements(report.statements))
    console.print(_mechanisms(report.mechanisms))
    console.print(_effects(report.effects))
    console.print(Text(leash_text(report.leash)))
    console.print(Text(""))
    console.print(Text(finding(report), style="bold"))


def finding(report: TheoryReport) -> str:
    """The answer in words, with its uncertainty."""
    falling_cells = [cell for cell in report.mechanisms if cell.change[PASS_K].high < 0]
    later_falling_cells = [
        cell for cell in report.mechanisms if cell.matched_change.high < 0 and cell not in falling_cells
    ]
    unchanged = [cell for cell in report.mechanisms if cell not in falling_cells and cell not in later_falling_cells]
    sentences = [f"{_ruling_counts_text(report)} (random worlds, seed {report.seed})."]
    if falling_cells:
        sentences.append(
            f"{PASS_K} ended significantly below the base with {_cell_names(falling_cells)} (95% intervals over "
            f"{SEEDS} worlds)."
        )
    else:
        sentences.append(f"{PASS_K} did not end significantly below the base in any cell of the table.")
    if later_falling_cells:
        sentences.append(
            f"It was below during training, when pass@1 reached {TARGET_PASS_AT_1}, "
            f"also with {_cell_names(later_falling_cells)}."
        )
    if unchanged:
        sentences.append(f"It never fell significantly with {_cell_names(unchanged)}.")
    return " ".join([*sentences, *_answers_lost(report)])


def _answers_lost(report: TheoryReport) -> list[str]:
    """What the tilt does to pass@k, and what training does to single answers, even without either mechanism."""
    sentences = ["The tilt never lowers it."] if report.leash.best_fall < TINY else []
    kept_shares = [cell.after["answers kept"].value for cell in report.mechanisms]
    lost = (
        f"Of the correct answers above epsilon, training lost {1 - max(kept_shares):.0%} to {1 - min(kept_shares):.0%}"
    )
    if all(cell.after["answers kept"].high < 1 for cell in report.mechanisms if not (cell.finite or cell.shared)):
        lost += (
            ", even with infinite groups and a tabular policy: the gradient of a softmax favours what is already "
            "likely, but the tilt does not"
        )
    return [*sentences, f"{lost}."]


def _ruling_counts_text(report: TheoryReport) -> str:
    count = {ruling: sum(result.ruling is ruling for _, result in report.statements) for ruling in Ruling}
    holding_count, conditional_count, failing_count = (count[ruling] for ruling in Ruling)
    parts = (
        f"{holding_count} hold{'s' if holding_count == 1 else ''}",
        f"{conditional_count} hold{'s' if conditional_count == 1 else ''} only under a condition",
        f"{failing_count} fail{'s' if failing_count == 1 else ''}",
    )
    return f"Of {len(report.statements)} statements, {parts[0]}, {parts[1]} and {parts[2]}"


def theory_document(report: TheoryReport) -> list[Json]:
    """All of it as JSON: statements with verdict and evidence; the mechanisms and the world come last."""
    sentences = [
        *(_statement_document(*checked) for checked in report.statements),
        *(_mechanism_document(cell, report.effects) for cell in report.mechanisms),
        _leash_document(report.leash),
    ]
    return [encode({**claim, "seed": report.seed}) for claim in sentences]


def leash_text(leash: LeashWorld) -> str:
    """The world in which pass@1 rises and pass@k falls, in words."""
    k_index = leash.k_K.index(REPORTED_K)
    base, trained, tilted = (leash.curves[name] for name in ("base", "trained", "tilt"))
    answers = leash.trained[Level.ANSWER]
    rise, fall = trained[0] - base[0], base[k_index] - trained[k_index]
    curves_cross = rise > 0 and fall > 0
    head = (
        "A world where pass@1 rises and pass@k falls"
        if curves_cross
        else "No world in the table shows the crossing; the last one"
    )
    sentences = [
        f"{head} (world {leash.seed[2]} of the table, GRPO, both): pass@1 {base[0]:.3f} -> "
        f"{trained[0]:.3f}, pass@{REPORTED_K} {base[k_index]:.3f} -> {trained[k_index]:.3f}. The tilt with the same "
        "pass@1 "
        f"(beta = {leash.beta:.2f}) has pass@{REPORTED_K} = {tilted[k_index]:.3f}, and no beta from 0 to infinity "
        "lowers "
        f"pass@k at any k (largest fall {max(leash.best_fall, 0):.1g}). Of {answers.P + answers.S:g} correct answers "
        f"above epsilon = {EPSILON:.3g}, training keeps {answers.P:g} and loses {answers.S:g}; {answers.E:g} are new."
    ]
    if leash.smallest.smallest is not None:
        sentences.append(
            f"The smallest such world found by search ({leash.smallest.refuting} of {leash.smallest.tried} random "
            f"worlds; shared parameters, infinite groups): {leash.smallest.smallest}."
        )
    return " ".join(sentences)


def _statements(checked: Sequence[tuple[Statement, StatementResult]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("statement", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("evidence", ratio=1)
    for statement, result in checked:
        cell = Text(f"{statement.says[0].upper()}{statement.says[1:]}.\n", style="italic")
        if result.condition:
            cell.append(f"Only if {result.condition}.\n", style=f"not italic {STYLES[result.ruling]}")
        lines = (
            f"{result.evidence.words[0].upper()}{result.evidence.words[1:]}.",
            *(_example_words(example) for example in result.evidence.counterexamples),
            "",
        )
        cell.append("\n".join(lines), style="not italic")
        table.add_row(Text(statement.name, style="bold"), Text(result.ruling.value, style=STYLES[result.ruling]), cell)
    return Group(Text("Appendix C of arXiv:2507.14843, checked in random exact worlds", style="bold"), table)


def _example_words(example: Counterexample) -> str:
    return f"Counterexample ({example.world}): {example.words} (seed {list(example.seed)})."


def _mechanisms(cells: Sequence[Mechanism]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    heads = ("", "pass@1", PASS_K, "fell", f"at {TARGET_PASS_AT_1}", "problems kept", "answers kept")
    for head in heads:
        least = max(map(len, head.split()), default=0)  # of 80 columns each gets room for its longest word
        table.add_column(head, justify="left" if not head else "right", no_wrap=not head, min_width=least)
    for method in dict.fromkeys(cell.method for cell in cells):
        table.add_row(Text(METHOD_NAMES[method], style="bold"))
        for cell in (row for row in cells if row.method == method):
            table.add_row(
                f" {cell.name}",
                f"{cell.after['pass@1'].value:.2f}",
                _plus_minus(cell.change[PASS_K], sign=True),
                f"{cell.fell}/{SEEDS}",
                _plus_minus(cell.matched_change, sign=True),
                _plus_minus(cell.after["problems kept"]),
                _plus_minus(cell.after["answers kept"]),
            )
    base = cells[0].before
    title = (
        f"What shrinks support: {SEEDS} worlds per row, groups of {GROUP} or infinitely many rollouts, tabular or "
        f"shared parameters. The base has pass@1 {base['pass@1'].value:.3f} and {PASS_K} {base[PASS_K].value:.3f}. "
        f"Shown: the change in {PASS_K} at the end, in how many worlds it fell, and its change when pass@1 reached "
        f"{TARGET_PASS_AT_1}. Kept: the share still above epsilon = {EPSILON:.3g}. ± is a 95% interval over worlds."
    )
    return Group(Text(title, style="bold"), table)


def _effects(effects: Sequence[Effect]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("effect of", PASS_K, "problems kept", "answers kept"):
        table.add_column(head, justify="left" if head == "effect of" else "right", no_wrap=True)
    for method in dict.fromkeys(effect.method for effect in effects):
        table.add_row(Text(METHOD_NAMES[method], style="bold"))
        for effect in (each for each in effects if each.method == method):
            values = (_plus_minus(effect.on[what], sign=True) for what in (PASS_K, "problems kept", "answers kept"))
            table.add_row(f" {effect.name}", *values)
    return table


def _statement_document(statement: Statement, result: StatementResult) -> Json:
    evidence = result.evidence
    return {
        "statement": statement.name,
        "verdict": result.ruling,
        "evidence": evidence.words,
        "says": statement.says,
        "assumes": statement.assumes,
        "condition": result.condition or None,
        "worlds": evidence.worlds,
        "worst": evidence.worst,
        "numbers": evidence.numbers,
        "counterexamples": evidence.counterexamples,
    }


def _mechanism_document(cell: Mechanism, effects: Sequence[Effect]) -> Json:
    change = cell.change[PASS_K]
    added = {effect.name: effect.on for effect in effects if effect.method == cell.method}
    return {
        "statement": f"{PASS_K} ends below the base with {METHOD_NAMES[cell.method]}, {cell.name}",
        "verdict": Ruling.HOLDS if change.high < 0 else Ruling.FAILS if change.low >= 0 else UNRESOLVED_TEXT,
        "evidence": f"change {change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}] over {SEEDS} worlds; it "
        f"fell in {cell.fell} of them",
        "method": cell.method,
        "mechanism": cell.name,
        "finite_groups": cell.finite,
        "shared_parameters": cell.shared,
        "worlds": SEEDS,
        "before": cell.before,
        "after": cell.after,
        "change": cell.change,
        "tilt": cell.tilt,
        "at_matched_pass_at_1": {
            **cell.matched,
            f"change of {PASS_K}": cell.matched_change,
            "worlds": cell.matched_seeds,
        },
        "fell": cell.fell,
        "added_by": added.get(cell.name) or added.get("interaction" if cell.finite and cell.shared else ""),
    }


def _leash_document(leash: LeashWorld) -> Json:
    k_index, smallest = leash.k_K.index(REPORTED_K), leash.smallest
    base, trained = leash.curves["base"], leash.curves["trained"]
    curves_cross = trained[0] > base[0] and trained[k_index] < base[k_index] and leash.best_fall < TINY
    return {
        "statement": "pass@1 can rise while pass@k falls, in a world where the tilt alone could not have done it",
        "verdict": Ruling.HOLDS if curves_cross else Ruling.FAILS,
        "evidence": leash_text(leash),
        "world": leash.seed,
        "beta": leash.beta,
        "epsilon": EPSILON,
        "pass_at_k": {name: dict(zip(leash.k_K, curve, strict=True)) for name, curve in leash.curves.items()},
        "largest_fall_of_any_tilt": leash.best_fall,
        "support": {
            level: {name: getattr(table, name) for name in ("P", "E", "S", "O", "SRR", "NDR", "NSCR")}
            for level, table in leash.trained.items()
        },
        "smallest": {
            "world": smallest.smallest,
            "seed": smallest.seed,
            "tried": smallest.tried,
            "refuting": smallest.refuting,
        },
    }


def _plus_minus(mean: Mean, sign: bool = False) -> str:
    if not np.isfinite(mean.value):
        return "-"
    half = f" ±{(mean.high - mean.low) / 2:.3f}" if np.isfinite(mean.high) else ""
    return f"{mean.value:{'+' if sign else ''}.3f}{half}"


def _cell_names(cells: Sequence[Mechanism]) -> str:
    """Cells by method: GRPO (both), REINFORCE (shared parameters, both)."""
    methods = dict.fromkeys(cell.method for cell in cells)
    return " and ".join(
        f"{METHOD_NAMES[method]} ({', '.join(cell.name for cell in cells if cell.method == method)})"
        for method in methods
    )
