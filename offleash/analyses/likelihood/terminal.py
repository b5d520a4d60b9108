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
from offleash.analyses.likelihood.report import STYLE, amount, author, finding, notes
from offleash.render.escape import clean
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text
from offleash.stats.likelihood import ENOUGH

MOST = 20  # problems shown
COLUMNS = (
    "at least: the mass of the right completions that were seen, certain. estimate: importance sampling, carried by "
    f"eff. samples; * below {ENOUGH:g} it is the word of one or two. k more: at least this chance that k more samples "
    f"show it, by `at least`, or ~ by .05 x estimate where eff. is {ENOUGH:g} or more: 95% sure before problems were "
    "chosen by what came. No row says that a chance is small."
)
OWN = "own: right of all samples of the other, which are more than k."
MATCHED = "matched: traces weighed so that all classes of an author have the same lengths."
ALIKE = "At like lengths the differences are the same."
SEEN = 5e-4
MEANING = {"P": "P kept", "E": "E found", "S": "S lost", "O": "O neither"}


def show_likelihood(console: Console, one: Likelihood) -> None:
    """Print the report; it ends with what was found."""
    parts: list[RenderableType] = [_title(one), *_perplexity(one), *_styles(one), *_cross(one), *_leash(one)]
    parts += [Text(f"· {clean(note).rstrip('.')}", style="dim") for note in notes(one)]
    parts += [Text(""), Text(clean(finding(one)))]
    console.print(Group(*parts))


def _title(one: Likelihood) -> Text:
    change, (before, after) = one.comparison.change, one.laws
    title = Text.assemble((f"{clean(before.run)} → {clean(after.run)}", "bold"))
    cells = ", ".join(f"{cell} {count:,}" for cell, count in one.classes.items())
    title.append(f"   {many(round(change.problems), 'problem')}, k = {change.k:,} ({cells})", style="dim")
    for law in one.laws:
        how = decoding_text(law.decoding) if law.known else "decoding not known"
        title.append(f"\n  {clean(law.run)}: {clean(str(law.model))}, {how}", style="dim")
    if one.work.samples or one.work.traces:
        done = f"{many(one.work.samples, 'sample')} and {many(one.work.traces, 'external trace')}"
        title.append(f"\n  {done} scored now, in {duration(one.work.seconds)}", style="dim")
    return title


def _perplexity(one: Likelihood) -> list[RenderableType]:
    groups = [group for group in one.groups if group.benchmark == ALL_BENCHMARKS]
    before, after = (clean(law.run) for law in one.laws)
    tables: list[RenderableType] = []
    for name in dict.fromkeys(author(group) for group in groups):
        some = [group for group in groups if author(group) == name]
        table = _table()
        for column in ("class", "problems", "traces", "tokens", f"by {before}", f"by {after}"):
            table.add_column(column, justify="left" if column == "class" else "right")
        table.add_column(f"log {after} - log {before}, a token")
        for group in some:
            row = (f"{group.problems:,}", f"{group.traces:,}", f"{group.tokens:,.0f}")
            both = (f"{group.perplexity[side].value:.3f}" for side in ("before", "after"))
            table.add_row(MEANING[group.cell], *row, *both, amount(group.log_ratio))
            if group.matched is not None and _differs(some):
                table.add_row("matched", "", "", "", "", "", amount(group.matched), style="dim")
        tables += [Text(f"\nPerplexity a token of {_kind(some)}, written by {name}"), table]
        if not _differs(some) and any(group.matched is not None for group in some):
            tables.append(Text(ALIKE, style="dim"))
    said = [Text(MATCHED, style="dim")] if _differs(groups) else []
    return [*tables, *said, Text(STYLE, style="dim")] if tables else []


def _kind(groups: Sequence[TraceGroup]) -> str:
    """What traces these are: of external ones nobody may say whether they are correct."""
    unjudged = sum(group.unjudged for group in groups)
    return f"traces that are correct or not judged ({unjudged:,} not judged)" if unjudged else "correct traces"


def _differs(groups: Sequence[TraceGroup]) -> bool:
    """Whether lengths make a difference that is seen in the digits shown."""
    pairs = [(group.matched.value, group.log_ratio.value) for group in groups if group.matched is not None]
    return any(abs(matched - plain) >= SEEN for matched, plain in pairs)


def _styles(one: Likelihood) -> list[RenderableType]:
    before, after = (clean(law.run) for law in one.laws)
    tables: list[RenderableType] = []
    for name in dict.fromkeys(author(style) for style in one.styles):
        table = _table()
        for column in ("class", "problems", f"by {before}", f"by {after}", "change"):
            table.add_column(column, justify="left" if column in ("class", "change") else "right")
        for style in (style for style in one.styles if author(style) == name):
            kind, sides = MEANING.get(style.cell, style.cell), (style.before, style.after)
            cells = (f"{found.value:+.3f}" for found in sides)
            table.add_row(kind, f"{style.problems:,}", *cells, amount(style.change))
        tables += [Text(f"Correct minus wrong traces of one problem, log-probability a token, by {name}"), table]
    return tables


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def _cross(one: Likelihood) -> list[RenderableType]:
    cross = one.cross
    if cross.reason:
        return [Text(f"No cross-support: {clean(cross.reason)}.", style="yellow")]
    parts: list[RenderableType] = []
    if cross.rows:
        head = f"Cross-support: the other model's chance (k = {cross.k:,}, epsilon {cross.epsilon:.3g})"
        table = _table()
        table.add_column("problem", overflow="fold", min_width=8)
        for column in ("", "found", "at least", "estimate", "eff.", "k more"):
            table.add_column(column, justify="right", no_wrap=True)
        longer = any(row.other_drawn > cross.k for row in cross.rows)
        if longer:
            table.add_column("own", justify="right", no_wrap=True)
        table.add_column("reading", no_wrap=True)
        shown = sorted(cross.rows, key=lambda row: (row.cell, -max(row.bound, row.low)))
        for row in shown[:MOST]:
            table.add_row(*_row(row, longer))
        if len(shown) > MOST:
            table.add_row(f"and {len(shown) - MOST} more (--json)")
        parts += [Text(head), table, Text(f"{COLUMNS} {OWN}" if longer else COLUMNS, style="dim")]
    if cross.both is not None:
        return [*parts, _both(one, cross.both)]
    return [*parts, Text(f"No chance by both runs together: {clean(cross.both_reason)}.", style="yellow")]


def _row(row: CrossSupportRow, longer: bool) -> tuple[str, ...]:
    few = "*" if row.effective < ENOUGH else ""
    known = np.isfinite(row.estimate)
    return (
        clean(row.problem),
        row.cell,
        f"{row.successes:,}/{row.drawn:,}",
        f"{row.bound:.2e}",
        f"{row.estimate:.2e}{few}" if known else "-",
        f"{row.effective:.1f}" if known else "-",
        f"{row.again:.1%}{'~' if row.estimated else ''}",
        *([f"{row.other_successes:,}/{row.other_drawn:,}"] if longer else []),
        row.reading.value,
    )


def _both(one: Likelihood, both: BothRuns) -> Text:
    lines = []
    for law in one.laws:
        own, together = both.own[law.side], both.together[law.side]
        told = [
            f"{value:.4f}" + ("" if np.isnan(interval.low) else f" [{interval.low:.4f}, {interval.high:.4f}]")
            for value, interval in (own, together)
        ]
        lines.append(f"  {clean(law.run)}: {told[0]} by its own samples, {told[1]} by both runs'")
    head = (
        f"Chance of a correct sample, mean over {many(both.problems, 'problem')}, first {both.samples:,} samples each:"
    )
    unusable, unjudged = sum(both.unusable.values()), sum(both.unjudged.values())
    if unusable:
        lines.append(f"  {many(unusable, 'correct sample')} read in windows or as other tokens: in neither number")
    if unjudged:
        lines.append(f"  {many(unjudged, 'sample')} without a verdict: not counted as drawn")
    return Text("\n".join([head, *lines]))


def _leash(one: Likelihood) -> list[RenderableType]:
    if one.leash.reason:
        return [Text(f"No divergence: {clean(one.leash.reason)}.", style="yellow")]
    names = {law.side: clean(law.run) for law in one.laws}
    found = one.leash.divergences
    kinds = [kind for kind in (EVERY, *"PESO") if any(kind in some.sequence for some in found)]
    if not kinds:
        return []
    table = _table()
    table.add_column("class")
    for some in found:
        other = names["after" if some.of == "before" else "before"]
        table.add_column(f"KL({names[some.of]} || {other})")
    for kind in kinds:
        cells = [amount(some.sequence[kind], ".2f") if kind in some.sequence else "-" for some in found]
        table.add_row(MEANING.get(kind, kind), *cells)
    table.add_row("a token", *(amount(some.token, ".3f") for some in found))
    return [Text("\nThe length of the leash: KL of a whole sample in nats, mean over problems"), table]
