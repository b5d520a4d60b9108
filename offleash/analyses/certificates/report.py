"""Certificates as tables, text and JSON: a comparison, a single certificate, and what top-p cuts off.

Documents are literals that are encoded once, where they leave: see render/json.py.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.certify import Certification, CertifyEstimate
from offleash.analyses.certificates.compare import SIDES, UNDETERMINED_CLASS, CertifiedComparison
from offleash.analyses.certificates.nucleus import NucleusCut, TopPCut
from offleash.comparing.json_sections import support_section
from offleash.data.certificates import Certificate
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, count, encode, number
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.intervals import Estimate
from offleash.stats.support_classes import IN, OUT, UNDETERMINED, Certified

MEANING = {
    Certified.COMPLETION: "problems by completion",  # a correct completion is above epsilon
    Certified.MASS: "problems by mass",  # all correct completions together are
}
CELLS = {"P": "kept", "E": "gained", "S": "lost", "O": "neither"}
# The parts that the probability of a problem's completions is divided into: they add up to 1.
MASSES = ("correct", "wrong", "unread", "failed", "truncated", "unexplored")
PROBLEMS_SHOWN = 8  # problems named in a line


def show_certified(console: Console, comparisons: Sequence[CertifiedComparison]) -> None:
    """Print every comparison in full."""
    for comparison in comparisons:
        console.print(_comparison_table(comparison))


def certified_finding(comparison: CertifiedComparison) -> str:
    """The answer in sentences: problems lost and gained, completions, and bounds on the chance of a correct sample."""
    question = comparison.settings.question
    change, base, rl = comparison.change[question], clean(comparison.before.name), clean(comparison.after.name)
    target = "completion" if question is Certified.COMPLETION else "mass"
    sentences = [
        f"{rl} loses {change.S:g} of the {change.P + change.S:g} problems with a correct {target} above epsilon in "
        f"{base}, and gains {change.E:g}."
    ]
    if change.undetermined:
        sentences.append(f"{change.undetermined:g} problems are undetermined.")
    if comparison.completions is not None:
        P, S, E = (getattr(comparison.completions.change, cell) for cell in "PSE")
        sentences.append(
            f"Of {P + S:g} correct completions above epsilon it keeps {P:g} and loses {S:g}; {E:g} are new."
        )
    (before_low, before_high), (after_low, after_high) = (comparison.bounds(side) for side in SIDES)
    sentences.append(
        f"The chance of a correct sample is between {before_low:.4f} and {before_high:.4f} before, and between "
        f"{after_low:.4f} and {after_high:.4f} after (exact: no sampling noise)."
    )
    return " ".join(sentences)


def certified_json(comparisons: Sequence[CertifiedComparison]) -> Json:
    """The document of one comparison, or of the last of several with all of them under `comparisons`."""
    documents = [_certified_json(comparison) for comparison in comparisons]
    return encode({"schema": SCHEMA, **documents[-1], **({"comparisons": documents} if len(documents) > 1 else {})})


def _certified_json(comparison: CertifiedComparison) -> Json:
    change = comparison.change
    return {
        "kind": "certified",
        "epsilon": comparison.epsilon,
        "question": comparison.settings.question,
        "support": support_section(change[comparison.settings.question]),
        "by_completion": support_section(change[Certified.COMPLETION]),
        "by_mass": support_section(change[Certified.MASS]),
        "completions": _completions(comparison),
        "p_correct": {side: comparison.bounds(side) for side in SIDES},
        "certificates": {side: _certificate(comparison, side) for side in SIDES},
        "benchmarks": {
            part.name or "all": {"problems": part.problems}
            | {f"by_{question.value}": support_section(part.change[question]) for question in Certified}
            for part in comparison.benchmarks
        },
        "problems": [_certified_problem(row) for row in comparison.table.iter_rows(named=True)],
        "notes": comparison.notes,
    }


def _completions(comparison: CertifiedComparison) -> Json:
    """The section per completion; a reason in its place where completions cannot be matched."""
    completions = comparison.completions
    if completions is None:
        return {"reason": comparison.unmatched}
    sides = {cell: dict(zip(SIDES, completions.mass[cell], strict=True)) for cell in "PES"}
    return support_section(completions.change) | {
        "per": "completion",
        "reasons": {name: why for name in METRICS if (why := completions.change.reason(name))}
        | {"O": "completions at or below epsilon in both are not listed"},
        "mass": sides,
        "mass_kept": _ratio(completions.mass["P"][0], completions.mass["S"][0]),
        "lost_known": {"completions": completions.known[0], "mass_after": completions.known[1]},
    }


def _certificate(comparison: CertifiedComparison, side: str) -> Json:
    certificate: Certificate = comparison.before if side == "before" else comparison.after
    return {
        "name": certificate.name,
        "model": certificate.terms.origin.model,
        "decoding": certificate.terms.origin.decoding,
        "epsilon": certificate.terms.epsilon,
        "verifier": certificate.verifier,
        "problems": certificate.problems.height,
        "mass": {name: comparison.mean(side, name) for name in MASSES},
        "correct_completions": comparison.table[f"correct_completions_{side}"].to_numpy().sum(),
        "forwarded": comparison.table[f"forwarded_{side}"].to_numpy().sum(),
    }


def _certified_problem(row: dict[str, object]) -> Json:
    columns = ("correct", "wrong", "unread", "failed", "unexplored", "largest", "correct_completions")
    return {
        "problem": row["problem"],
        "by_completion": row[Certified.COMPLETION.value],
        "by_mass": row[Certified.MASS.value],
        **{side: {name: row[f"{name}_{side}"] for name in columns} for side in SIDES},
    }


def _comparison_table(comparison: CertifiedComparison) -> RenderableType:
    change = comparison.change[comparison.settings.question]
    title = Text.assemble((f"{clean(change.before)} → {clean(change.after)}", "bold"))
    setting = (
        f"{comparison.table.height:,} problems, epsilon {comparison.epsilon:.4g} (for k = {change.k:,}), rule certified"
    )
    title.append(f"   {setting}", style="dim")
    parts: list[RenderableType] = [
        title,
        Text(certified_finding(comparison)),
        Text(""),
        _cells(comparison),
        _metrics(comparison),
    ]
    if comparison.completions is not None:
        parts.append(_masses(comparison))
    if len(comparison.benchmarks) > 1:
        parts.append(_benchmarks(comparison))
    for cell in ("S", "E", UNDETERMINED_CLASS):
        parts += _problem_list(comparison, cell)
    if comparison.completions is None:
        parts.append(Text(f"! completions are not compared: {comparison.unmatched}", style="yellow"))
    parts += [
        Text(f"· {clean(note.text)}{f' ({note.rows:,})' if note.rows else ''}", style="dim")
        for note in comparison.notes
    ]
    return Group(*parts)


def _cells(comparison: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(f"{cell} {word}" for cell, word in CELLS.items()), "undetermined"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for question, label in MEANING.items():
        table.add_row(label, *_row(comparison.change[question]), f"{comparison.change[question].undetermined:g}")
    if comparison.completions is not None:
        table.add_row("correct completions", *_row(comparison.completions.change), "")
    return table


def _metrics(comparison: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    columns: dict[str, SupportChange] = {f"by {question.value}": comparison.change[question] for question in MEANING}
    if comparison.completions is not None:
        columns["completions"] = comparison.completions.change
    for name in ("", *columns):
        table.add_column(name, justify="right" if name else "left")
    for metric in METRICS:
        table.add_row(metric, *(_metric(change, metric) for change in columns.values()))
    return table


def _masses(comparison: CertifiedComparison) -> Table:
    completions = comparison.completions
    assert completions is not None, "checked by the caller"
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("mass per problem", "before", "after"):
        table.add_column(name, justify="right" if name in SIDES else "left")
    for cell in "PSE":
        before, after = (f"{value:.4f}" for value in completions.mass[cell])
        below = f"at most {comparison.epsilon:.3g} each"
        table.add_row(CELLS[cell], below if cell == "E" else before, below if cell == "S" else after)
    return table


def _benchmarks(comparison: CertifiedComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("benchmark", "problems", *CELLS, "undetermined", "SRR", "NDR"):
        table.add_column(name, justify="left" if name == "benchmark" else "right")
    for part in comparison.benchmarks:
        change = part.change[comparison.settings.question]
        values = (f"{change.value[name]:.3f}" if np.isfinite(change.value[name]) else "-" for name in ("SRR", "NDR"))
        row = (*_row(change), f"{change.undetermined:g}", *values)
        table.add_row(clean(part.name) or "(unnamed)", str(part.problems), *row)
    return table


def _problem_list(comparison: CertifiedComparison, cell: str) -> list[RenderableType]:
    """The first few problems of a class by name; nothing where it is empty."""
    word = "undetermined" if cell == UNDETERMINED_CLASS else CELLS[cell]
    names = comparison.table.filter(comparison.table[comparison.settings.question.value] == cell)["problem"].to_list()
    if not names:
        return []
    listed = ", ".join(names[:PROBLEMS_SHOWN]) + (", ..." if len(names) > PROBLEMS_SHOWN else "")
    return [Text(f"Problems {word} by {comparison.settings.question.value} ({len(names)}): {clean(listed)}")]


def _row(change: SupportChange) -> list[str]:
    """P, E, S and O as cells; a class that cannot be known, such as O per completion, is a question mark."""
    values = (change.P, change.E, change.S, change.O)
    return ["?" if np.isnan(value) else f"{count(value):,}" for value in values]


def _metric(change: SupportChange, name: str) -> str:
    value, interval = change.value[name], change.interval[name]
    return "-" if np.isnan(value) else f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _ratio(part: float, complement: float) -> float:
    """A part's share of both; NaN where there is nothing."""
    return part / (part + complement) if part + complement > 0 else float("nan")


# A single certificate: what is about to be certified, and what was certified.


REASONS_SHOWN = 3  # reasons why problems have no certificate


def planned_text(plan: CertifyEstimate) -> str:
    """What is about to be done, before it begins."""
    lines = [
        f"Certifying {plan.problems:,} problems with {plan.model} into {plan.folder}: every completion with "
        f"probability above {plan.epsilon:.4g}, at most {int(1 / plan.epsilon):,} prefixes at a time, judged by "
        f"{plan.verifier}.",
        f"  {decoding_text(plan.decoding)}",
    ]
    if plan.done:
        lines.append(f"  {plan.done:,} problems are already certified.")
    return "\n".join(lines)


def certified_text(run: Certification) -> str:
    """A certificate in a few lines: problems reached, bounds on the chance of a correct sample, and what it took."""
    done = f"{run.certified:,} of {run.problems:,} problems"
    lines = [f"{run.folder}: {done} certified at epsilon {run.epsilon:.4g}, judged by {run.verifier}"]
    for question, label in (
        (Certified.COMPLETION, "by completion (a correct one above epsilon)"),
        (Certified.MASS, "by mass (all correct ones together)"),
    ):
        reached, not_reached, undetermined = (run.count(question, state) for state in (IN, OUT, UNDETERMINED))
        lines.append(f"  reached {label}: {reached:,}; not reached: {not_reached:,}; undetermined: {undetermined:,}")
    low, high = run.mean("correct"), run.mean("correct") + run.mean("failed") + run.mean("unexplored")
    lines.append(f"  correct completions above epsilon: {run.total('correct_completions'):,}")
    lines.append(f"  chance of a correct sample, mean over problems: between {low:.4f} and {high:.4f}")
    lines.append("  mass, mean over problems: " + ", ".join(f"{name} {run.mean(name):.4f}" for name in MASSES))
    lines.append(
        f"  {run.total('forwarded'):,} tokens through the model for {run.total('prefixes'):,} prefixes (longest: "
        f"{run.deepest:,} tokens)"
    )
    if run.new:
        lines.append(
            f"  {run.new:,} problems certified now in {duration(run.seconds)}, peak memory {run.peak_memory_mb:,.0f} MB"
        )
    if run.failure_reasons:
        reasons = Counter(run.failure_reasons.values()).most_common(REASONS_SHOWN)
        reasons_text = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
        lines.append(f"  {len(run.failure_reasons):,} problems could not be certified: {reasons_text}.")
    lines.append(f"  next: offleash compare {run.folder} OTHER")
    return "\n".join(lines)


def certified_document(run: Certification) -> Json:
    """A certificate as JSON."""
    states = {IN: "in", OUT: "out", UNDETERMINED: "undetermined"}
    rows = run.table.iter_rows(named=True)
    document: Json = {
        "schema": SCHEMA,
        "folder": run.folder,
        "model": run.model,
        "epsilon": run.epsilon,
        "problems": run.problems,
        "certified": run.certified,
        "new": run.new,
        "reached": {
            question: {word: run.count(question, state) for state, word in states.items()} for question in Certified
        },
        "correct_completions": run.total("correct_completions"),
        "mass": {name: run.mean(name) for name in MASSES},
        "forwarded": run.total("forwarded"),
        "prefixes": run.total("prefixes"),
        "deepest": run.deepest,
        "seconds": round(run.seconds, 3),
        "peak_memory_mb": round(run.peak_memory_mb, 1),
        "verifier": run.verifier,
        "certificates": [
            {
                "problem": row["problem"],
                "p_correct": [row["correct"], min(1.0, row["correct"] + row["unexplored"] + row["failed"])],
                **{name: row[name] for name in MASSES},
                "largest": row["largest"],
                "correct_completions": row["correct_completions"],
                "completions": row["completions"],
                "forwarded": row["forwarded"],
                **{question.value: states[int(run.states[question][index])] for question in Certified},
            }
            for index, row in enumerate(rows)
        ],
        "troubles": run.failure_reasons,
    }
    return encode(document)


# What top-p cuts off.


def cutoff_document(cuts: Sequence[NucleusCut]) -> Json:
    """Certificates under several top-p, as JSON."""
    return encode({"schema": SCHEMA, "certificates": [_nucleus_json(nucleus) for nucleus in cuts]})


def show_cutoff(console: Console, cuts: Sequence[NucleusCut]) -> None:
    """Print a table for every certificate, and what it says in words."""
    for nucleus in cuts:
        title = Text.assemble((clean(nucleus.name), "bold"))
        law = f"temperature {nucleus.decoding.temperature:g}"
        law += f" (certified at {nucleus.own:g})" if nucleus.other_temperature else f", epsilon {nucleus.epsilon:.3g}"
        title.append(f"   {clean(nucleus.model)}, {law}, verdicts of {nucleus.verifier}", "dim")
        console.print(title)
        console.print(_table(nucleus))
        console.print(Text(nucleus_finding(nucleus)))
        console.print()


def nucleus_finding(nucleus: NucleusCut) -> str:
    """What is cut off at the smallest top-p and at the largest that cuts anything, and what remains unknown."""
    if not nucleus.reached:
        place_text = "is in the certificate" if nucleus.other_temperature else "was found above epsilon"
        return f"No correct completion {place_text}, so there is nothing that top-p could cut."
    completions = (
        f"{many(int(nucleus.completions_P.sum()), 'correct completion')} on {many(nucleus.reached, 'problem')}"
    )
    strictest_cut, mildest_cut = min(nucleus.cuts, key=lambda cut: cut.top_p), _mildest_cut(nucleus)
    effects = [
        _cut_text(nucleus, cut)
        for cut in ([strictest_cut] if mildest_cut is strictest_cut else [strictest_cut, mildest_cut])
    ]
    unknown = float(nucleus.unexplored_P.mean())
    # At the certificate's own temperature nothing outside of it exceeds epsilon; at another temperature it may.
    remaining_completion = (
        f"one that was not listed at temperature {nucleus.own:g}, and at {nucleus.decoding.temperature:g} it may "
        "have any share of that mass"
        if nucleus.other_temperature
        else "one that is less probable than epsilon"
    )
    caveat = (
        "This is exact for the completions found: what is cut can never be drawn, however large k is. On average a "
        f"mass of {unknown:.3f} per problem was not enumerated or has no verdict. It may contain correct completions, "
        f"cut or not, so a problem that loses all those found may still have {remaining_completion}."
    )
    return f"Found {completions}. {' '.join(effects)} {caveat}"


def _mildest_cut(nucleus: NucleusCut) -> TopPCut:
    """The largest top-p that cuts a correct completion; the largest of all where none does."""
    removing_cuts = [cut for cut in nucleus.cuts if cut.removed_P.any()]
    return max(removing_cuts or nucleus.cuts, key=lambda cut: cut.top_p)


def _cut_text(nucleus: NucleusCut, cut: TopPCut) -> str:
    removed_count = int(nucleus.completions_P.sum() - cut.kept_P.sum())
    if not removed_count:
        return f"Top-p {cut.top_p:g} cuts none of them."
    lost = nucleus.lost_all(cut)
    problems = f"{lost} of the {nucleus.reached} problems {'loses' if lost == 1 else 'lose'} all of them"
    return (
        f"Top-p {cut.top_p:g} gives {removed_count:,} of them a probability of exactly zero, "
        f"{_share_text(cut.share)} of the "
        f"correct mass; {problems}. The chance of a correct sample is at least {float(nucleus.correct_P.mean()):.3f} "
        f"without it and at least {float(cut.chance_P.mean()):.3f} with it."
    )


def _table(nucleus: NucleusCut) -> Table:
    """Narrow enough for 80 columns: the upper bound is printed below the lower one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("top-p", "cut", "mass cut", "share", "problems losing all", "chance of a correct sample"):
        table.add_column(name, justify="right")
    completions = int(nucleus.completions_P.sum())
    for cut in nucleus.cuts:
        low, high = nucleus.bounds(cut)
        table.add_row(
            f"{cut.top_p:g}",
            f"{completions - int(cut.kept_P.sum()):,} of {completions:,}",
            f"{low:.4f}\nto {high:.4f}",
            _share_text(cut.share).replace(" [", "\n["),
            f"{nucleus.lost_all(cut)} of {nucleus.reached}",
            f"≥ {float(cut.chance_P.mean()):.4f}",
        )
    return table


def _share_text(share: Estimate) -> str:
    if number(share.value) is None:
        return "-"
    low, high = share.interval.low, share.interval.high
    ends = "" if number(low) is None else f" [{low:.1%}, {high:.1%}]"
    return f"{share.value:.1%}{ends}"


def _nucleus_json(nucleus: NucleusCut) -> Json:
    return {
        "name": nucleus.name,
        "folder": nucleus.folder,
        "model": nucleus.model,
        "temperature": nucleus.decoding.temperature,
        "certified_at": nucleus.own,
        "epsilon": nucleus.epsilon,
        "verifier": nucleus.verifier,
        "problems": len(nucleus.problem_P),
        "reached": nucleus.reached,
        "correct": nucleus.correct_P.mean(),
        "correct_completions": nucleus.completions_P.sum(),
        "unknown": nucleus.unexplored_P.mean(),
        "cuts": [_cut_document(nucleus, cut) for cut in nucleus.cuts],
        "by_problem": [_nucleus_problem(nucleus, index) for index in range(len(nucleus.problem_P))],
        "finding": nucleus_finding(nucleus),
    }


def _cut_document(nucleus: NucleusCut, cut: TopPCut) -> Json:
    return {
        "top_p": cut.top_p,
        "removed": cut.removed,
        "removed_bounds": nucleus.bounds(cut),
        "share": cut.share,
        "removed_completions": nucleus.completions_P.sum() - cut.kept_P.sum(),
        "emptied": nucleus.lost_all(cut),
        "emptied_share": cut.lost_all,
        "emptied_unknown": nucleus.rest(cut),
        "chance_at_least": cut.chance_P.mean(),
    }


def _nucleus_problem(nucleus: NucleusCut, row: int) -> Json:
    return {
        "problem": nucleus.problem_P[row],
        "correct": nucleus.correct_P[row],
        "correct_completions": nucleus.completions_P[row],
        "unknown": nucleus.unexplored_P[row],
        "removed": {f"{cut.top_p:g}": cut.removed_P[row] for cut in nucleus.cuts},
        "left": {f"{cut.top_p:g}": cut.kept_P[row] for cut in nucleus.cuts},
    }
