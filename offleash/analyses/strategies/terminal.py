"""Strategies of two runs compared, as tables in the terminal; the conclusion in words is in report.py."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.strategies.report import count_text, finding
from offleash.analyses.strategies.strategies import Example, StrategyComparison
from offleash.comparing.sentences import redraw_rates
from offleash.render.escape import clean
from offleash.stats.intervals import Estimate
from offleash.stats.strategies import Basis
from offleash.stats.support_classes import AFTER, BEFORE

BASIS_NAMES = {Basis.DRAWN: "drawn samples", Basis.CORRECT: "correct samples"}


def show_strategies(console: Console, strategies: StrategyComparison) -> None:
    """Print which strategies were kept, lost and gained."""
    change, problems = strategies.comparison.change, len(strategies.counts.drawn_P2)
    title = Text.assemble((f"{clean(change.before)} → {clean(change.after)}", "bold"))
    title.append(
        f"   {problems:,} problems, k = {change.k:,}, strategies by {clean(strategies.by.identity)}", style="dim"
    )
    parts: list[RenderableType] = [title, _support(strategies), _richness(strategies), _novelty(strategies)]
    parts += [*_coverage(strategies), *_examples(strategies), *_notes(strategies), Text(""), Text(finding(strategies))]
    console.print(Group(*parts))


def _support(strategies: StrategyComparison) -> Table:
    """Support per strategy, and what resampling the run before would show: rare strategies come and go by chance."""
    change, retest = strategies.comparison.change, strategies.comparison.evidence.retest
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("strategies", "P kept", "E new", "S lost", "SRR", "unchanged", "95% interval", "NDR"):
        left = column in ("strategies", "95% interval")
        table.add_column(column, justify="left" if left else "right", no_wrap=column == "strategies")
    ends = change.interval["SRR"]
    cells = [count_text(value) for value in (change.P, change.E, change.S)]
    same = redraw_rates(change).get("SRR", float("nan"))
    interval = f"[{_value(ends.low)}, {_value(ends.high)}]"
    rates = [_value(change.value["SRR"]), _value(same), interval, _value(change.value["NDR"])]
    table.add_row(f"observed, k = {change.k:,}", *cells, *rates)
    if retest is not None:
        base, k = clean(change.before), f"k = {retest.k:,}"
        observed = [_value(value) for value in (retest.observed_SRR, retest.redraw_SRR)]
        table.add_row(f"observed, {k}", "", "", "", *observed, "", "")
        lost = count_text(retest.redraw)
        table.add_row(f"{base} resampled, {k}", "", lost, lost, _value(retest.redraw_SRR), "", "", "")
        ends = retest.net_ratio_interval
        shown = "" if np.isnan(ends.low) else f"[{_value(ends.low)}, {_value(ends.high)}]"
        table.add_row("net ratio of the two", "", "", "", _value(retest.net_ratio), "1.000", shown, "")
    return table


def _richness(strategies: StrategyComparison) -> Table:
    """Strategies per problem at equal numbers of samples drawn, and of correct ones (accuracy is no diversity)."""
    change = strategies.comparison.change
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("per problem, at equal", "n", "problems", change.before, change.after, "difference", ""):
        table.add_column(clean(column), justify="left" if column.startswith("per problem") or not column else "right")
    for basis, richness in strategies.richness.items():
        if richness is None:
            table.add_row(BASIS_NAMES[basis], "", "0", "-", "-", "-", "no problem has any in both runs")
            continue
        values = [_value(side.value, 2) for side in (richness.before, richness.after)]
        shown = f"{_signed_text(richness.difference.value, 2)}"
        table.add_row(
            BASIS_NAMES[basis],
            _number_text(richness.n),
            f"{richness.problems:,}",
            *values,
            shown,
            _interval_text(richness.difference, 2),
        )
    return table


def _novelty(strategies: StrategyComparison) -> Table:
    """Share of new strategies (count), and of samples that use them (mass), against resampling the run before."""
    rl = clean(strategies.comparison.change.after)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("new, at equal", "n", "problems", "by", rl, "resampled", "excess", ""):
        table.add_column(column, justify="left" if column in ("new, at equal", "by", "") else "right")
    for basis, novelty in strategies.novelty.items():
        if novelty is None:
            table.add_row(BASIS_NAMES[basis], "", "0", "", "-", "-", "-", "too few samples to split in half")
            continue
        rows = (
            ("count", novelty.strategies, novelty.strategies_redraw, novelty.strategies_excess),
            ("mass", novelty.mass, novelty.mass_redraw, novelty.mass_excess),
        )
        for number, (what, share, redraw, excess) in enumerate(rows):
            about = ("", "", "") if number else (BASIS_NAMES[basis], _number_text(novelty.n), f"{novelty.problems:,}")
            values = (_percent(share.value), _percent(redraw.value), _points_text(excess.value))
            table.add_row(
                *about, what, *values, f"[{_points_text(excess.interval.low)}, {_points_text(excess.interval.high)}]"
            )
    return table


def _coverage(strategies: StrategyComparison) -> list[Text]:
    """How many correct samples were read; yellow from 5% unread on, where strategies may seem lost by reading."""
    lines = []
    names = (strategies.comparison.change.before, strategies.comparison.change.after)
    for name, coverage in zip(names, strategies.coverage, strict=True):
        line = f"{clean(name)}: strategies read from {coverage.read:,} of {coverage.correct:,} correct samples"
        if coverage.unread:
            line += f", {coverage.unread:,} ({coverage.unread / max(coverage.correct, 1):.1%}) count as unread"
        if coverage.failed:
            line += f"; the fingerprint failed on {coverage.failed:,}: {clean(coverage.trouble)[:160]}"
        lines.append(Text(line + ".", style="yellow" if coverage.unread > 0.05 * coverage.correct else "dim"))
    return lines


def _examples(strategies: StrategyComparison) -> list[RenderableType]:
    """Lost and new strategies side by side, the most frequent first."""
    base, rl = (clean(name) for name in (strategies.comparison.change.before, strategies.comparison.change.after))
    if not strategies.lost and not strategies.new:
        return []
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_lines=True)
    table.add_column(f"lost: in {base}, never in {rl}", ratio=1, overflow="fold")
    table.add_column(f"new: in {rl}, never in {base}", ratio=1, overflow="fold")
    for index in range(max(len(strategies.lost), len(strategies.new))):
        table.add_row(*(_example(side, index, r) for side, r in ((strategies.lost, BEFORE), (strategies.new, AFTER))))
    return [table]


def _example(side: Sequence[Example], index: int, r: int) -> Text:
    if index >= len(side):
        return Text("")
    example = side[index]
    out = Text.assemble((example.strategy, "bold"), f"\n{example.problem}: {example.seen[r]:,} of {example.drawn[r]:,}")
    # One-sided and of this strategy alone: the corrected counts are in the conclusion.
    out.append(f", p = {example.p:.2g}" if example.p >= 1e-4 else f", p = {example.p:.1e}")
    return out.append(f"\n{example.text}", style="dim")


def _notes(strategies: StrategyComparison) -> list[Text]:
    notes = dict.fromkeys(note.text for note in strategies.comparison.notes)
    return [Text(f"· {clean(text)}", style="dim") for text in notes]


def _number_text(value: float) -> str:
    """Samples per problem: a mean over problems, so with a decimal where it is small and not whole."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def _value(value: float, digits: int = 3) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def _signed_text(value: float, digits: int = 3) -> str:
    return "-" if np.isnan(value) else f"{value:+.{digits}f}"


def _interval_text(estimate: Estimate, digits: int) -> str:
    return f"[{_signed_text(estimate.interval.low, digits)}, {_signed_text(estimate.interval.high, digits)}]"


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}" if value >= 0.001 or value == 0 else "<0.1%"


def _points_text(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:+.1f}"
