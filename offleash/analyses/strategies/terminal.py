"""Strategies of two runs compared, as tables in the terminal."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.strategies.report import finding, whole
from offleash.analyses.strategies.strategies import Example, StrategyComparison
from offleash.render.escape import clean
from offleash.stats.intervals import Estimate
from offleash.stats.strategies import Basis
from offleash.stats.support_classes import AFTER, BEFORE

BASES = {Basis.DRAWN: "drawn samples", Basis.CORRECT: "correct samples"}


def show_ways(console: Console, found: StrategyComparison) -> None:
    """Print what became of the ways of solving."""
    change, problems = found.comparison.change, len(found.counts.drawn_P2)
    title = Text.assemble((f"{clean(change.before)} → {clean(change.after)}", "bold"))
    title.append(f"   {problems:,} problems, k = {change.k:,}, ways by {clean(found.by.identity)}", style="dim")
    parts: list[RenderableType] = [title, _support(found), _richness(found), _novelty(found)]
    parts += [*_coverage(found), *_examples(found), *_notes(found), Text(""), Text(finding(found))]
    console.print(Group(*parts))


def _support(found: StrategyComparison) -> Table:
    change, again = found.comparison.change, found.comparison.evidence.retest
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("ways", "P kept", "E new", "S lost", "SRR", "95% interval", "NDR"):
        table.add_column(column, justify="left" if column in ("ways", "95% interval") else "right")
    ends = change.interval["SRR"]
    cells = [whole(value) for value in (change.P, change.E, change.S)]
    rates = [_value(change.value["SRR"]), f"[{_value(ends.low)}, {_value(ends.high)}]", _value(change.value["NDR"])]
    table.add_row(f"observed, k = {change.k:,}", *cells, *rates)
    if again is not None:
        base, k = clean(change.before), f"k = {again.k:,}"
        table.add_row(f"observed, {k}", "", "", "", _value(again.observed_SRR), "", "")
        lost = whole(again.redraw)
        table.add_row(f"{base} drawn twice, {k}", "", lost, lost, _value(again.redraw_SRR), "", "")
        ends = again.SRR_interval
        shown = f"[{_value(ends.low)}, {_value(ends.high)}]"
        table.add_row("retest: the ratio of the two", "", "", "", _value(again.SRR), shown, "")
    return table


def _richness(found: StrategyComparison) -> Table:
    change = found.comparison.change
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("ways a problem, at equal", "n", "problems", change.before, change.after, "difference", ""):
        table.add_column(clean(column), justify="left" if column.startswith("ways") or not column else "right")
    for basis, one in found.richness.items():
        if one is None:
            table.add_row(BASES[basis], "", "0", "-", "-", "-", "no problem has any in both runs")
            continue
        values = [_value(side.value, 2) for side in (one.before, one.after)]
        shown = f"{_signed(one.difference.value, 2)}"
        table.add_row(BASES[basis], _n(one.n), f"{one.problems:,}", *values, shown, _ends(one.difference, 2))
    return table


def _novelty(found: StrategyComparison) -> Table:
    base, rl = (clean(name) for name in (found.comparison.change.before, found.comparison.change.after))
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("new, at equal", "n", "problems", "of", rl, f"{base} redrawn", "excess", ""):
        table.add_column(column, justify="left" if column in ("new, at equal", "of", "") else "right")
    for basis, one in found.novelty.items():
        if one is None:
            table.add_row(BASES[basis], "", "0", "", "-", "-", "-", "too few to be drawn twice")
            continue
        rows = (
            ("ways", one.ways, one.ways_redraw, one.ways_excess),
            ("mass", one.mass, one.mass_redraw, one.mass_excess),
        )
        for number, (what, share, again, excess) in enumerate(rows):
            about = ("", "", "") if number else (BASES[basis], _n(one.n), f"{one.problems:,}")
            values = (_percent(share.value), _percent(again.value), _points(excess.value))
            table.add_row(*about, what, *values, f"[{_points(excess.interval.low)}, {_points(excess.interval.high)}]")
    return table


def _coverage(found: StrategyComparison) -> list[Text]:
    lines = []
    names = (found.comparison.change.before, found.comparison.change.after)
    for name, one in zip(names, found.coverage, strict=True):
        line = f"{clean(name)}: the way of {one.read:,} of {one.correct:,} correct samples is known"
        if one.unread:
            line += f", {one.unread:,} ({one.unread / max(one.correct, 1):.1%}) count as unread"
        if one.failed:
            line += f"; the fingerprint failed on {one.failed:,}: {clean(one.trouble)[:160]}"
        lines.append(Text(line + ".", style="yellow" if one.unread > 0.05 * one.correct else "dim"))
    return lines


def _examples(found: StrategyComparison) -> list[RenderableType]:
    """Lost and new ways side by side, the most frequent first."""
    base, rl = (clean(name) for name in (found.comparison.change.before, found.comparison.change.after))
    if not found.lost and not found.new:
        return []
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_lines=True)
    table.add_column(f"lost: {base} has it, {rl} never", ratio=1, overflow="fold")
    table.add_column(f"new: {rl} has it, {base} never", ratio=1, overflow="fold")
    for place in range(max(len(found.lost), len(found.new))):
        table.add_row(*(_example(side, place, r) for side, r in ((found.lost, BEFORE), (found.new, AFTER))))
    return [table]


def _example(side: Sequence[Example], place: int, r: int) -> Text:
    if place >= len(side):
        return Text("")
    one = side[place]
    out = Text.assemble((one.way, "bold"), f"\n{one.problem}: {one.seen[r]:,} of {one.drawn[r]:,}")
    out.append(f", p = {one.p:.2g}" if one.p >= 1e-4 else f", p = {one.p:.1e}")
    return out.append(f"\n{one.text}", style="dim")


def _notes(found: StrategyComparison) -> list[Text]:
    notes = dict.fromkeys(note.text for note in found.comparison.notes)
    return [Text(f"· {clean(text)}", style="dim") for text in notes]


def _n(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def _value(value: float, digits: int = 3) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def _signed(value: float, digits: int = 3) -> str:
    return "-" if np.isnan(value) else f"{value:+.{digits}f}"


def _ends(one: Estimate, digits: int) -> str:
    return f"[{_signed(one.interval.low, digits)}, {_signed(one.interval.high, digits)}]"


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}" if value >= 0.001 or value == 0 else "<0.1%"


def _points(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:+.1f}"
