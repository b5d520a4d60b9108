"""Certificates as tables, text and JSON: a comparison, a single certificate, and what top-p cuts off."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.certify import CertifiedRun, CertifyEstimate
from offleash.analyses.certificates.compare import SIDES, UNSURE, CertifiedComparison
from offleash.analyses.certificates.nucleus import NucleusCut, TopPCut
from offleash.comparing.json_sections import support_section
from offleash.data.certificates import Certificate
from offleash.render.escape import clean
from offleash.render.json import Json, count, number
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.intervals import Estimate
from offleash.stats.support_classes import IN, OUT, UNDETERMINED, Certified

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


# A single certificate: what is about to be certified, and what was certified.


REASONS_SHOWN = 3  # reasons why problems have no certificate
MASSES = ("correct", "wrong", "unread", "failed", "truncated", "unexplored")


def planned_text(one: CertifyEstimate) -> str:
    """What is about to be done, before it begins."""
    lines = [
        f"Certifying {one.problems:,} problems with {one.model} into {one.folder}: every completion more probable than "
        f"{one.epsilon:.4g}, at most {int(1 / one.epsilon):,} prefixes at a time, judged by {one.verifier}.",
        f"  {decoding_text(one.decoding)}",
    ]
    if one.done:
        lines.append(f"  {one.done:,} problems are there.")
    return "\n".join(lines)


def certified_text(one: CertifiedRun) -> str:
    """A certificate in words."""
    many = f"{one.certified:,} of {one.problems:,} problems"
    lines = [f"{one.folder}: {many} certified at epsilon {one.epsilon:.4g}, judged by {one.verifier}"]
    for question, words in (
        (Certified.COMPLETION, "by completion (a correct one above epsilon)"),
        (Certified.MASS, "by mass (all correct ones together)"),
    ):
        reached, out, unsure = (one.count(question, state) for state in (IN, OUT, UNDETERMINED))
        lines.append(f"  reached {words}: {reached:,}; not: {out:,}; undetermined: {unsure:,}")
    low, high = one.mean("correct"), one.mean("correct") + one.mean("failed") + one.mean("unexplored")
    lines.append(f"  correct completions above epsilon: {one.total('correct_completions'):,}")
    lines.append(f"  chance of a correct sample, mean over problems: between {low:.4f} and {high:.4f}")
    lines.append("  mass, mean over problems: " + ", ".join(f"{name} {one.mean(name):.4f}" for name in MASSES))
    lines.append(
        f"  {one.total('forwarded'):,} tokens through the model for {one.total('prefixes'):,} prefixes, the longest of "
        f"{one.deepest:,} tokens"
    )
    if one.new:
        lines.append(
            f"  {one.new:,} problems certified now in {duration(one.seconds)}, {one.peak_memory_mb:,.0f} MB at the most"
        )
    if one.troubles:
        reasons = Counter(one.troubles.values()).most_common(REASONS_SHOWN)
        why = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
        lines.append(f"  {len(one.troubles):,} problems have no certificate: {why}.")
    lines.append(f"  next: offleash compare {one.folder} OTHER")
    return "\n".join(lines)


def certified_document(one: CertifiedRun) -> Json:
    """A certificate as JSON."""
    states = {IN: "in", OUT: "out", UNDETERMINED: "undetermined"}
    rows = one.table.iter_rows(named=True)
    return {
        "schema": 1,
        "folder": str(one.folder),
        "model": one.model,
        "epsilon": one.epsilon,
        "problems": one.problems,
        "certified": one.certified,
        "new": one.new,
        "reached": {
            question.value: {word: one.count(question, state) for state, word in states.items()}
            for question in Certified
        },
        "correct_completions": one.total("correct_completions"),
        "mass": {name: number(one.mean(name)) for name in MASSES},
        "forwarded": one.total("forwarded"),
        "prefixes": one.total("prefixes"),
        "deepest": one.deepest,
        "seconds": round(one.seconds, 3),
        "peak_memory_mb": round(one.peak_memory_mb, 1),
        "verifier": one.verifier,
        "certificates": [
            {
                "problem": row["problem"],
                "p_correct": [row["correct"], min(1.0, row["correct"] + row["unexplored"] + row["failed"])],
                **{name: row[name] for name in MASSES},
                "largest": row["largest"],
                "correct_completions": row["correct_completions"],
                "completions": row["completions"],
                "forwarded": row["forwarded"],
                **{question.value: states[int(one.states[question][place])] for question in Certified},
            }
            for place, row in enumerate(rows)
        ],
        "troubles": dict(one.troubles),
    }


# What top-p cuts off.


def cutoff_document(some: Sequence[NucleusCut]) -> Json:
    """Certificates under several top-p, as JSON."""
    return {"schema": SCHEMA, "certificates": [_nucleus_json(one) for one in some]}


def show_cutoff(console: Console, some: Sequence[NucleusCut]) -> None:
    """Print a table for every certificate, and what it says in words."""
    for one in some:
        title = Text.assemble((clean(one.name), "bold"))
        law = f"temperature {one.decoding.temperature:g}"
        law += f" (certified at {one.own:g})" if one.elsewhere else f", epsilon {one.epsilon:.3g}"
        title.append(f"   {clean(one.model)}, {law}, verdicts of {one.verifier}", "dim")
        console.print(title)
        console.print(_table(one))
        console.print(Text(nucleus_finding(one)))
        console.print()


def nucleus_finding(one: NucleusCut) -> str:
    """What is cut off at the smallest top-p and at the largest that cuts anything, and how sure that is."""
    if not one.reached:
        where = "is in the certificate" if one.elsewhere else "was found above epsilon"
        return f"No correct completion {where}, so there is nothing that top-p could cut."
    found = f"{many(int(one.completions_P.sum()), 'correct completion')} of {many(one.reached, 'problem')}"
    hardest, gentlest = min(one.cuts, key=lambda cut: cut.top_p), _gentlest(one)
    told = [_said(one, cut) for cut in ([hardest] if gentlest is hardest else [hardest, gentlest])]
    unknown = float(one.unexplored_P.mean())
    other = (
        f"one that is not among those certified at temperature {one.own:g}, and at {one.decoding.temperature:g} such a "
        "one may have any of that mass"
        if one.elsewhere
        else "one that is less probable than epsilon"
    )
    sure = (
        "Exact for the completions that were found: what is cut can never be drawn, however large k is. "
        f"A mean mass of {unknown:.3f} a problem was not found or not decided; it may hold correct completions, cut or "
        f"not, so a problem said to lose all may keep {other}."
    )
    return f"{found} were found. {' '.join(told)} {sure}"


def _gentlest(one: NucleusCut) -> TopPCut:
    some = [cut for cut in one.cuts if cut.removed_P.any()]
    return max(some or one.cuts, key=lambda cut: cut.top_p)


def _said(one: NucleusCut, cut: TopPCut) -> str:
    gone = int(one.completions_P.sum() - cut.left_P.sum())
    if not gone:
        return f"Top-p {cut.top_p:g} cuts none of them."
    lost = one.emptied(cut)
    problems = f"{lost} of the {one.reached} problems {'loses' if lost == 1 else 'lose'} every one"
    return (
        f"Top-p {cut.top_p:g} sets {gone:,} of them to exactly zero, {_share_text(cut.share)} of their mass; "
        f"{problems}. A sample is right with chance {float(one.correct_P.mean()):.3f} or more without it and "
        f"{float(cut.chance_P.mean()):.3f} or more with it."
    )


def _table(one: NucleusCut) -> Table:
    """Narrow enough for 80 columns: what is not sure stands below what is."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("top-p", "cut", "mass cut", "share of it", "problems emptied", "chance of a right sample"):
        table.add_column(name, justify="right")
    every = int(one.completions_P.sum())
    for cut in one.cuts:
        least, most = one.bounds(cut)
        table.add_row(
            f"{cut.top_p:g}",
            f"{every - int(cut.left_P.sum()):,} of {every:,}",
            f"{least:.4f}\nto {most:.4f}",
            _share_text(cut.share).replace(" [", "\n["),
            f"{one.emptied(cut)} of {one.reached}",
            f"≥ {float(cut.chance_P.mean()):.4f}",
        )
    return table


def _share_text(one: Estimate) -> str:
    if number(one.value) is None:
        return "-"
    low, high = one.interval.low, one.interval.high
    ends = "" if number(low) is None else f" [{low:.1%}, {high:.1%}]"
    return f"{one.value:.1%}{ends}"


def _nucleus_json(one: NucleusCut) -> Json:
    return {
        "name": one.name,
        "folder": str(one.folder),
        "model": one.model,
        "temperature": one.decoding.temperature,
        "certified_at": one.own,
        "epsilon": one.epsilon,
        "verifier": one.verifier,
        "problems": len(one.problem_P),
        "reached": one.reached,
        "correct": float(one.correct_P.mean()),
        "correct_completions": int(one.completions_P.sum()),
        "unknown": float(one.unexplored_P.mean()),
        "cuts": [_cut(one, cut) for cut in one.cuts],
        "by_problem": [_nucleus_problem(one, place) for place in range(len(one.problem_P))],
        "finding": nucleus_finding(one),
    }


def _cut(one: NucleusCut, cut: TopPCut) -> Json:
    return {
        "top_p": cut.top_p,
        "removed": estimate(cut.removed),
        "removed_bounds": list(one.bounds(cut)),
        "share": estimate(cut.share),
        "removed_completions": int(one.completions_P.sum() - cut.left_P.sum()),
        "emptied": one.emptied(cut),
        "emptied_share": estimate(cut.emptied),
        "emptied_unknown": number(one.rest(cut)),
        "chance_at_least": float(cut.chance_P.mean()),
    }


def _nucleus_problem(one: NucleusCut, place: int) -> Json:
    return {
        "problem": one.problem_P[place],
        "correct": float(one.correct_P[place]),
        "correct_completions": int(one.completions_P[place]),
        "unknown": float(one.unexplored_P[place]),
        "removed": {f"{cut.top_p:g}": float(cut.removed_P[place]) for cut in one.cuts},
        "left": {f"{cut.top_p:g}": int(cut.left_P[place]) for cut in one.cuts},
    }


def estimate(one: Estimate | None) -> Json | None:
    """A mean over problems with its interval."""
    return None if one is None else {"value": number(one.value), "interval": one.interval.to_json()}
