"""A likelihood report as tables in the terminal."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.likelihood.cross_support import ALL as EVERY
from offleash.analyses.likelihood.cross_support import BothRuns, CrossSupportRow
from offleash.analyses.likelihood.likelihood import Likelihood
from offleash.analyses.likelihood.perplexity_by_class import ALL_BENCHMARKS, TraceGroup
from offleash.analyses.likelihood.report import STYLE_NOTE, amount, author_text, finding, notes
from offleash.render.escape import clean
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text
from offleash.stats.likelihood import MIN_EFFECTIVE

PROBLEMS_SHOWN = 20  # problems shown
COLUMNS = (
    "at least: probability of the observed correct completions (certain). estimate: by importance sampling. eff.: "
    f"effective sample size; * below {MIN_EFFECTIVE:g}, where one or two samples dominate the estimate. k more: lower "
    "bound on the chance that k more samples solve it, from `at least`, or ~ from .05 x estimate where eff. is "
    f"{MIN_EFFECTIVE:g} or more (95%, before problems were selected by outcome). No row shows that a chance is small."
)
OWN_NOTE = "own: correct and drawn samples of the other run, which drew more than k."
MATCHED_NOTE = "matched: traces weighted so that all classes of an author have the same distribution of lengths."
ALIKE_NOTE = "Matching lengths does not change the differences."
SMALLEST_SHOWN = 5e-4  # half of the last digit shown: smaller differences would print as the same number
MEANING = {"P": "P kept", "E": "E gained", "S": "S lost", "O": "O neither"}


def show_likelihood(console: Console, report: Likelihood) -> None:
    """Print the report: tables, notes, and last the result in words."""
    parts: list[RenderableType] = [
        _title(report),
        *_perplexity(report),
        *_styles(report),
        *_cross_support_tables(report),
        *_divergence_table(report),
    ]
    parts += [Text(f"· {clean(note).rstrip('.')}", style="dim") for note in notes(report)]
    parts += [Text(""), Text(clean(finding(report)))]
    console.print(Group(*parts))


def _title(report: Likelihood) -> Text:
    """The runs, classes and k; the model and decoding of each run; what was scored now."""
    change, (before, after) = report.comparison.change, report.run_models
    title = Text.assemble((f"{clean(before.run)} → {clean(after.run)}", "bold"))
    cells = ", ".join(f"{cell} {count:,}" for cell, count in report.classes.items())
    title.append(f"   {many(round(change.problems), 'problem')}, k = {change.k:,} ({cells})", style="dim")
    for run_model in report.run_models:
        decoding_note = decoding_text(run_model.decoding) if run_model.known else "decoding not known"
        title.append(f"\n  {clean(run_model.run)}: {clean(str(run_model.model))}, {decoding_note}", style="dim")
    if report.work.samples or report.work.traces:
        done = f"{many(report.work.samples, 'sample')} and {many(report.work.traces, 'external trace')}"
        title.append(f"\n  {done} scored now, in {duration(report.work.seconds)}", style="dim")
    return title


def _perplexity(report: Likelihood) -> list[RenderableType]:
    """A table per author: perplexity under both models by class, and the log-ratio per token."""
    groups = [group for group in report.groups if group.benchmark == ALL_BENCHMARKS]
    before, after = (clean(run_model.run) for run_model in report.run_models)
    tables: list[RenderableType] = []
    for name in dict.fromkeys(author_text(group) for group in groups):
        author_groups = [group for group in groups if author_text(group) == name]
        table = _table()
        for column in ("class", "problems", "traces", "tokens", f"under {before}", f"under {after}"):
            table.add_column(column, justify="left" if column == "class" else "right")
        table.add_column(f"log {after} - log {before}, per token")
        for group in author_groups:
            row = (f"{group.problems:,}", f"{group.traces:,}", f"{group.tokens:,.0f}")
            both = (f"{group.perplexity[side].value:.3f}" for side in ("before", "after"))
            table.add_row(MEANING[group.cell], *row, *both, amount(group.log_ratio))
            if group.matched is not None and _matching_changes_result(author_groups):
                table.add_row("matched", "", "", "", "", "", amount(group.matched), style="dim")
        tables += [Text(f"\nPerplexity per token of {_kind(author_groups)}, written by {name}"), table]
        if not _matching_changes_result(author_groups) and any(group.matched is not None for group in author_groups):
            tables.append(Text(ALIKE_NOTE, style="dim"))
    legend = [Text(MATCHED_NOTE, style="dim")] if _matching_changes_result(groups) else []
    return [*tables, *legend, Text(STYLE_NOTE, style="dim")] if tables else []


def _kind(groups: Sequence[TraceGroup]) -> str:
    """What the traces are: a file of external ones need not say whether they are correct."""
    unjudged = sum(group.unjudged for group in groups)
    return f"traces that are correct or have no verdict ({unjudged:,} without)" if unjudged else "correct traces"


def _matching_changes_result(groups: Sequence[TraceGroup]) -> bool:
    """Whether matching lengths changes a difference by more than the digits shown."""
    pairs = [(group.matched.value, group.log_ratio.value) for group in groups if group.matched is not None]
    return any(abs(matched - plain) >= SMALLEST_SHOWN for matched, plain in pairs)


def _styles(report: Likelihood) -> list[RenderableType]:
    before, after = (clean(run_model.run) for run_model in report.run_models)
    tables: list[RenderableType] = []
    for name in dict.fromkeys(author_text(style) for style in report.styles):
        table = _table()
        for column in ("class", "problems", f"under {before}", f"under {after}", "change"):
            table.add_column(column, justify="left" if column in ("class", "change") else "right")
        for style in (style for style in report.styles if author_text(style) == name):
            kind, sides = MEANING.get(style.cell, style.cell), (style.before, style.after)
            cells = (f"{estimate.value:+.3f}" for estimate in sides)
            table.add_row(kind, f"{style.problems:,}", *cells, amount(style.change))
        tables += [
            Text(f"Log-probability per token, correct minus wrong traces of a problem, written by {name}"),
            table,
        ]
    return tables


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def _cross_support_tables(report: Likelihood) -> list[RenderableType]:
    """The other model's chance on each E and S problem, the closest first, and the estimate from both runs."""
    cross = report.cross
    if cross.reason:
        return [Text(f"No cross-support: {clean(cross.reason)}.", style="yellow")]
    parts: list[RenderableType] = []
    if cross.rows:
        setting = f"k = {cross.k:,}, epsilon {cross.epsilon:.3g}"
        head = f"Cross-support: the other model's chance of a correct sample ({setting})"
        table = _table()
        table.add_column("problem", overflow="fold", min_width=8)
        for column in ("", "solved", "at least", "estimate", "eff.", "k more"):
            table.add_column(column, justify="right", no_wrap=True)
        any_beyond_k = any(row.other_drawn > cross.k for row in cross.rows)
        if any_beyond_k:
            table.add_column("own", justify="right", no_wrap=True)
        table.add_column("reading", no_wrap=True)
        # The problems on which the other model was closest come first.
        shown = sorted(cross.rows, key=lambda row: (row.cell, -max(row.certain_bound, row.bound_95)))
        for row in shown[:PROBLEMS_SHOWN]:
            table.add_row(*_row(row, any_beyond_k))
        if len(shown) > PROBLEMS_SHOWN:
            table.add_row(f"and {len(shown) - PROBLEMS_SHOWN} more (--json)")
        parts += [Text(head), table, Text(f"{COLUMNS} {OWN_NOTE}" if any_beyond_k else COLUMNS, style="dim")]
    if cross.both is not None:
        return [*parts, _both_runs_text(report, cross.both)]
    return [*parts, Text(f"No estimate from both runs together: {clean(cross.both_reason)}.", style="yellow")]


def _row(row: CrossSupportRow, any_beyond_k: bool) -> tuple[str, ...]:
    few_samples_mark = "*" if row.effective_samples < MIN_EFFECTIVE else ""
    known = np.isfinite(row.estimate)
    return (
        clean(row.problem),
        row.cell,
        f"{row.successes:,}/{row.drawn:,}",
        f"{row.certain_bound:.2e}",
        f"{row.estimate:.2e}{few_samples_mark}" if known else "-",
        f"{row.effective_samples:.1f}" if known else "-",
        f"{row.chance_within_k:.1%}{'~' if row.estimated else ''}",
        *([f"{row.other_successes:,}/{row.other_drawn:,}"] if any_beyond_k else []),
        row.reading.value,
    )


def _both_runs_text(report: Likelihood, both: BothRuns) -> Text:
    """The chance of a correct sample per run, from own samples and from both runs."""
    lines = []
    for run_model in report.run_models:
        own_estimate, joint_estimate = both.own[run_model.side], both.together[run_model.side]
        values = [
            f"{value:.4f}" + ("" if np.isnan(interval.low) else f" [{interval.low:.4f}, {interval.high:.4f}]")
            for value, interval in (
                (own_estimate.value, own_estimate.interval),
                (joint_estimate.value, joint_estimate.interval),
            )
        ]
        lines.append(f"  {clean(run_model.run)}: {values[0]} from its own samples, {values[1]} from both runs")
    title = (
        f"Chance of a correct sample, mean over {many(both.problems, 'problem')}, first {both.samples:,} samples each:"
    )
    unusable, unjudged = sum(both.unusable.values()), sum(both.unjudged.values())
    if unusable:
        lines.append(f"  {many(unusable, 'correct sample')} scored in windows or retokenised: in neither estimate")
    if unjudged:
        lines.append(f"  {many(unjudged, 'sample')} without a verdict: left out")
    return Text("\n".join([title, *lines]))


def _divergence_table(report: Likelihood) -> list[RenderableType]:
    if report.leash.reason:
        return [Text(f"No KL divergence: {clean(report.leash.reason)}.", style="yellow")]
    names = {run_model.side: clean(run_model.run) for run_model in report.run_models}
    divergences = report.leash.divergences
    kinds = [kind for kind in (EVERY, *"PESO") if any(kind in divergence.sequence for divergence in divergences)]
    if not kinds:
        return []
    table = _table()
    table.add_column("class")
    for divergence in divergences:
        other = names["after" if divergence.of == "before" else "before"]
        table.add_column(f"KL({names[divergence.of]} || {other})")
    for kind in kinds:
        cells = [
            amount(divergence.sequence[kind], ".2f") if kind in divergence.sequence else "-"
            for divergence in divergences
        ]
        table.add_row(MEANING.get(kind, kind), *cells)
    table.add_row("per token", *(amount(divergence.token, ".3f") for divergence in divergences))
    return [Text("\nLength of the leash: KL divergence per sample in nats, mean over problems"), table]
