"""A comparison of certificates, for people and programs."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.compare import SIDES, UNSURE, CertifiedComparison
from offleash.comparing.json_sections import support_section
from offleash.data.certificates import Certificate
from offleash.render.numbers import Json, count, number
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.rules import Certified

SCHEMA = 1
MEANING = {
    Certified.COMPLETION: "problems by completion",  # a correct completion is above epsilon
    Certified.MASS: "problems by mass",  # all correct completions together are
}
CELLS = {"P": "kept", "E": "found", "S": "lost", "O": "neither"}
PROBLEMS_SHOWN = 8  # problems named in a line


def show_certified(console: Console, comparisons: Sequence[CertifiedComparison]) -> None:
    """Print every comparison in full."""
    for one in comparisons:
        console.print(_comparison(one))


def certified_finding(one: CertifiedComparison) -> str:
    """The answer in words."""
    change, base, rl = one.change[one.sought.question], _plain(one.before.name), _plain(one.after.name)
    how = "with a correct completion" if one.sought.question is Certified.COMPLETION else "with a correct mass"
    reached = change.P + change.S
    lost = f"{rl} loses {change.S:g} of the {reached:g} problems {how} above epsilon in {base}"
    words = [f"{lost}, and gains {change.E:g}."]
    if change.undetermined:
        words.append(f"{change.undetermined:g} problems are undetermined.")
    if one.completions is not None:
        P, S, E = (getattr(one.completions.change, cell) for cell in "PSE")
        words.append(f"Of {P + S:g} correct completions above epsilon it keeps {P:g} and loses {S:g}; {E:g} are new.")
    (low, high), (low_after, high_after) = (one.bounds(side) for side in SIDES)
    words.append(
        f"The chance of a correct sample is between {low:.4f} and {high:.4f} before, and between {low_after:.4f} and "
        f"{high_after:.4f} after (exact: no sampling noise)."
    )
    return " ".join(words)


def certified_json(comparisons: Sequence[CertifiedComparison]) -> Json:
    """The document of one comparison, or of the last of several with all of them under `comparisons`."""
    every = [_certified_json(one) for one in comparisons]
    whole: Json = {"schema": SCHEMA} | every[-1]
    if len(every) > 1:
        whole["comparisons"] = every
    return whole


def _certified_json(one: CertifiedComparison) -> Json:
    change = one.change
    return {
        "kind": "certified",
        "epsilon": one.epsilon,
        "question": one.sought.question.value,
        "support": support_section(change[one.sought.question]),
        "by_completion": support_section(change[Certified.COMPLETION]),
        "by_mass": support_section(change[Certified.MASS]),
        "completions": _completions(one),
        "p_correct": {side: list(one.bounds(side)) for side in SIDES},
        "certificates": {side: _certificate(one, side) for side in SIDES},
        "benchmarks": {
            part.name or "all": {"problems": part.problems}
            | {f"by_{question.value}": support_section(part.change[question]) for question in Certified}
            for part in one.benchmarks
        },
        "problems": [_certified_problem(row) for row in one.table.iter_rows(named=True)],
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes],
    }


def _completions(one: CertifiedComparison) -> Json:
    found = one.completions
    if found is None:
        return {"reason": one.unmatched}
    sides = {cell: dict(zip(SIDES, found.mass[cell], strict=True)) for cell in "PES"}
    return support_section(found.change) | {
        "per": "completion",
        "reasons": {name: why for name in METRICS if (why := found.change.reason(name))}
        | {"O": "what neither reaches above epsilon has no name"},
        "mass": sides,
        "mass_kept": number(_ratio(found.mass["P"][0], found.mass["S"][0])),
        "lost_known": {"completions": found.known[0], "mass_after": found.known[1]},
    }


def _certificate(one: CertifiedComparison, side: str) -> Json:
    certificate: Certificate = one.before if side == "before" else one.after
    means = ("correct", "wrong", "unread", "failed", "truncated", "unexplored")
    return {
        "name": certificate.name,
        "model": certificate.terms.origin.model,
        "decoding": dict(certificate.terms.origin.decoding),
        "epsilon": certificate.terms.epsilon,
        "verifier": certificate.verifier,
        "problems": certificate.problems.height,
        "mass": {name: number(one.mean(side, name)) for name in means},
        "correct_completions": int(one.table[f"correct_completions_{side}"].to_numpy().sum()),
        "forwarded": int(one.table[f"forwarded_{side}"].to_numpy().sum()),
    }


def _certified_problem(row: dict[str, object]) -> Json:
    columns = ("correct", "wrong", "unread", "failed", "unexplored", "largest", "correct_completions")
    return {
        "problem": row["problem"],
        "by_completion": row[Certified.COMPLETION.value],
        "by_mass": row[Certified.MASS.value],
        **{side: {name: row[f"{name}_{side}"] for name in columns} for side in SIDES},
    }


def _comparison(one: CertifiedComparison) -> RenderableType:
    change = one.change[one.sought.question]
    title = Text.assemble((f"{_plain(change.before)} → {_plain(change.after)}", "bold"))
    many = f"{one.table.height:,} problems, epsilon {one.epsilon:.4g} (as k = {change.k:,}), rule certified"
    title.append(f"   {many}", style="dim")
    parts: list[RenderableType] = [title, Text(certified_finding(one)), Text(""), _cells(one), _metrics(one)]
    if one.completions is not None:
        parts.append(_masses(one))
    if len(one.benchmarks) > 1:
        parts.append(_benchmarks(one))
    for cell in ("S", "E", UNSURE):
        parts += _listed(one, cell)
    if one.completions is None:
        parts.append(Text(f"! completions are not compared: {one.unmatched}", style="yellow"))
    parts += [
        Text(f"· {_plain(note.text)}{f' ({note.rows:,})' if note.rows else ''}", style="dim") for note in one.notes
    ]
    return Group(*parts)


def _cells(one: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(f"{cell} {word}" for cell, word in CELLS.items()), "undetermined"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for question, words in MEANING.items():
        table.add_row(words, *_row(one.change[question]), f"{one.change[question].undetermined:g}")
    if one.completions is not None:
        table.add_row("correct completions", *_row(one.completions.change), "")
    return table


def _metrics(one: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    columns: dict[str, SupportChange] = {f"by {question.value}": one.change[question] for question in MEANING}
    if one.completions is not None:
        columns["completions"] = one.completions.change
    for name in ("", *columns):
        table.add_column(name, justify="right" if name else "left")
    for metric in METRICS:
        table.add_row(metric, *(_metric(change, metric) for change in columns.values()))
    return table


def _masses(one: CertifiedComparison) -> Table:
    found = one.completions
    assert found is not None, "checked by the caller"
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("their mass, a problem", "before", "after"):
        table.add_column(name, justify="right" if name in SIDES else "left")
    for cell in "PSE":
        before, after = (f"{value:.4f}" for value in found.mass[cell])
        below = f"at most {one.epsilon:.3g} each"
        table.add_row(CELLS[cell], below if cell == "E" else before, below if cell == "S" else after)
    return table


def _benchmarks(one: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("benchmark", "problems", *CELLS, "undetermined", "SRR", "NDR"):
        table.add_column(name, justify="left" if name == "benchmark" else "right")
    for part in one.benchmarks:
        change = part.change[one.sought.question]
        values = (f"{change.value[name]:.3f}" if np.isfinite(change.value[name]) else "-" for name in ("SRR", "NDR"))
        row = (*_row(change), f"{change.undetermined:g}", *values)
        table.add_row(_plain(part.name) or "(unnamed)", str(part.problems), *row)
    return table


def _listed(one: CertifiedComparison, cell: str) -> list[RenderableType]:
    word = {"S": "lost", "E": "found", UNSURE: "undetermined"}[cell]
    names = one.table.filter(one.table[one.sought.question.value] == cell)["problem"].to_list()
    if not names:
        return []
    shown = ", ".join(names[:PROBLEMS_SHOWN]) + (", ..." if len(names) > PROBLEMS_SHOWN else "")
    return [Text(f"Problems {word} by {one.sought.question.value}: {len(names)}: {_plain(shown)}")]


def _row(change: SupportChange) -> list[str]:
    values = (change.P, change.E, change.S, change.O)
    return ["?" if np.isnan(value) else f"{count(value):,}" for value in values]


def _metric(change: SupportChange, name: str) -> str:
    value, interval = change.value[name], change.interval[name]
    return "-" if np.isnan(value) else f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _ratio(part: float, rest: float) -> float:
    return part / (part + rest) if part + rest > 0 else float("nan")


def _plain(text: str) -> str:
    """A name without control characters: it may have been written to move the cursor."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
