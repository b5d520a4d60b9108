"""A comparison as one JSON document, and as tables in the terminal.

Analyses, flips and judges are imported where they are used: comparing two files of counts loads none of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.comparing.captions import MEANING, NET_RATIO
from offleash.comparing.checkpoints import CheckpointUnion, several_runs_of
from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import ALL_SAMPLES
from offleash.comparing.headline import Finding, headline
from offleash.comparing.next_steps import NextStep
from offleash.comparing.sentences import (
    details,
    evidence_lines,
    input_warnings,
    redraw_rates,
    result_warnings,
    runs_are_text,
    single_training_caveat,
)
from offleash.data.tables import Note
from offleash.data.tally import Per
from offleash.render.json import SCHEMA, Json, encode
from offleash.stats.change import METRICS, SupportChange

if TYPE_CHECKING:
    from offleash.comparing.conditions import CheckedCondition
    from offleash.comparing.flips import Flips
    from offleash.stats.intervals import Estimate
    from offleash.verifying.logs import Disagreement


def document(
    comparisons: Sequence[Comparison],
    union: CheckpointUnion | None = None,
    flips: "Sequence[Flips]" = (),
    verified: "Sequence[Disagreement]" = (),
    conditions: "Sequence[CheckedCondition]" = (),
) -> Json:
    """The JSON of `compare`: one comparison, or the last of several with all of them under `comparisons`.

    Args:
        comparisons: each against the same first run.
        union: what several checkpoints reach together.
        flips: those of each comparison, where they were computed; else empty.
        verified: the runs whose samples were judged first, with `--verifier`.
        conditions: those of `--fail-if`, checked.
    """
    from offleash.analyses.entropy.entropy import entropies_of
    from offleash.analyses.entropy.report import entropy_section
    from offleash.comparing.json_sections import comparison_json, union_section

    sections = [comparison_json(comparison, entropy_section(entropies_of(comparison))) for comparison in comparisons]
    for section, comparison in zip(sections, comparisons, strict=True):
        section["headline"] = encode(headline(comparison))
        section["warnings"] = encode(input_warnings(comparison))
    # flips and disagreements are computed on request only, so their keys are absent otherwise, not null
    if flips:
        from offleash.comparing.flips_report import flips_json

        for section, flips_of_run in zip(sections, flips, strict=True):
            section["flips"] = flips_json(flips_of_run)
    # the last comparison is the end of training; a reader of one comparison need not know that there can be several
    whole: Json = {"schema": SCHEMA, "headline": sections[-1]["headline"]} | sections[-1]
    if len(comparisons) > 1:
        whole["comparisons"] = sections
        from offleash.comparing.leaderboard import leaderboard

        whole["leaderboard"] = encode(leaderboard(comparisons))
        # several comparisons repeat the notes on their first run
        whole["notes"] = encode(dict.fromkeys(note for comparison in comparisons for note in comparison.notes).keys())
        whole["warnings"] = encode(input_warnings(*comparisons))
    several = several_runs_of(comparisons)
    whole["runs_are"] = None if several is None else {"value": several.value.value, "guessed": several.guessed}
    whole["single_training"] = single_training_caveat(several)
    if union is not None:
        whole["union"] = union_section(union)
    if verified:
        from offleash.verifying.logs import disagreements_json

        whole["verified"] = disagreements_json(verified)
    if conditions:
        whole["conditions"] = encode(conditions)
    return whole


MAX_BENCHMARKS = 20  # benchmarks shown in a terminal, those with most problems


COLOURS = {
    Finding.SHRANK: "bold red",
    Finding.GREW: "bold green",
    Finding.MOVED: "bold magenta",
    Finding.SHARPENED: "bold cyan",
    Finding.NO_CHANGE: "bold",
    Finding.TOO_FEW_SAMPLES: "bold yellow",
}


def show(console: Console, comparisons: Sequence[Comparison], together: CheckpointUnion | None = None) -> None:
    """Print comparisons for people: one in full; of several a leaderboard, and the last in full."""
    if len(comparisons) > 1:
        console.print(_leaderboard(comparisons))
        console.print(_class_table(comparisons, together))
        several = several_runs_of(comparisons)
        assert several is not None, "there are several"
        console.print(Text(runs_are_text(several), style="dim"))
    console.print(_comparison_table(comparisons))


def show_headline(console: Console, comparison: Comparison, steps: Sequence[NextStep] = ()) -> None:
    """Print the headline, in colour and last, where it is still on the screen; and what to do next."""
    line = headline(comparison)
    console.print(Text(f"\n{_plain(line.text)}", style=COLOURS[line.finding]))
    for step in steps:
        console.print(Text.assemble((f"  {step.text}  ", "dim"), _plain(step.command)), soft_wrap=True)


OUTCOME_COLOURS = {"fails": "bold red", "passes": "green", "not decided": "yellow"}


def condition_lines(conditions: "Sequence[CheckedCondition]") -> list[Text]:
    """A line per condition and run: value, interval and outcome, in colour."""
    return [
        Text(f"  {'!' if checked.outcome == 'fails' else '·'} {_plain(str(checked))}", OUTCOME_COLOURS[checked.outcome])
        for checked in conditions
    ]


def _comparison_table(comparisons: Sequence[Comparison]) -> RenderableType:
    """The last comparison for the terminal: finding, tables, evidence; warnings and notes are those of all."""
    comparison = comparisons[-1]
    notes = [note for compared in comparisons for note in compared.notes]
    change = comparison.change
    title = Text.assemble((f"{change.before} → {change.after}", "bold"))
    problems = len(set(comparison.tally.problem_P))
    problem_count = f"{problems:,} problems" if problems != 1 else "1 problem"
    settings_text = f"   {problem_count}, k = {change.k}, rule {change.rule.value}, per {change.per.value}"
    title.append(settings_text, style="dim")
    parts: list[RenderableType] = [
        title,
        *(Text(_plain(line)) for line in [details(comparison)] if line),
        *(Text(f"! {_plain(warning.text)}", style="yellow") for warning in input_warnings(*comparisons)),
        Text(""),
        _cells(comparison),
        _metrics(comparison),
        _pass_table(comparison),
    ]
    if len(comparison.benchmarks) > 1:
        parts.append(_benchmarks(comparison))
    parts.append(Text("\n".join(_plain(line) for line in evidence_lines(comparison))))
    if (
        comparison.before.samples is not None and comparison.after.samples is not None
    ):  # without samples there are no entropies
        from offleash.analyses.entropy.entropy import entropies_of
        from offleash.analyses.entropy.report import directions_text

        if words := directions_text(entropies_of(comparison), 1):
            parts.append(Text(_plain(words)))
    # warnings stand near the end, where they are still on the screen when the command returns
    parts += [Text(f"! {warning}", style="yellow") for warning in result_warnings(comparison)]
    parts += [Text(f"· {note}", style="dim") for note in _notes([note for note in notes if not note.warning])]
    return Group(*parts)


def _cells(comparison: Comparison) -> Table:
    """P, E, S, O as observed, as tested, for an unchanged model, and without guess-support.

    A row with all cells of a table has its SRR, and beside it the SRR that an unchanged model drawn twice would have.
    """
    change, null, at_k = comparison.change, comparison.evidence.null, comparison.evidence.at_k
    table = Table(box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, collapse_padding=True)
    table.add_column("", no_wrap=True)
    # two lines per head: the table fits into 80 columns with p-values and all
    for name in ("P\nboth", "E\ngained", "S\nlost", "O\nneither", "SRR", "SRR of an\nunchanged\nmodel"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("observed", *_table_cells(change))
    evidence, unchanged_label = comparison.evidence, "unchanged model, resampled"
    # tests use all samples, of which there are more than the k of the table when budgets differ
    if evidence.basis != ALL_SAMPLES and evidence.E is not None and evidence.S is not None:
        if at_k is not None:
            table.add_row(unchanged_label, "", f"{at_k.changed:.1f}", f"{at_k.changed:.1f}", "")
        # a longer label would cut the numbers off; the sentence above the table has both n
        table.add_row("tested: all samples" if null else "tested", "", str(evidence.E), str(evidence.S), "")
    if null is not None:
        table.add_row(unchanged_label, "", f"{null.expected_E:.1f}", f"{null.expected_S:.1f}", "")
        # one-sided p-values of the exchange null: a small one says that some rate changed, not which one
        p = evidence.adjusted_p
        table.add_row("p (a rate rose / fell)", "", _p_text(p["E"]), _p_text(p["S"]), "")
    if comparison.guessing.without is not None:
        table.add_row("without guess-support", *_table_cells(comparison.guessing.without))
    return table


def _table_cells(change: SupportChange) -> list[str]:
    """P, E, S, O, SRR, and the SRR of an unchanged model drawn twice."""
    same = redraw_rates(change).get("SRR", float("nan"))
    return [*(_count(getattr(change, name)) for name in "PESO"), _value(change.value["SRR"]), _value(same)]


def _metrics(comparison: Comparison) -> Table:
    """The rates with intervals, beside those of an unchanged model drawn twice, without which they cannot be judged."""
    table, same = Table(box=box.SIMPLE_HEAD), redraw_rates(comparison.change)
    for column in ("", "value", "95% interval", "unchanged\nmodel", ""):
        table.add_column(column, justify="right" if column in ("value", "unchanged\nmodel") else "left")
    for name in METRICS:
        value, interval = comparison.change.value[name], comparison.change.interval[name]
        if np.isnan(value):
            table.add_row(name, "-", "", "", comparison.change.reason(name) or "")
        else:
            ends, unchanged_value = f"[{interval.low:.3f}, {interval.high:.3f}]", _value(same.get(name, float("nan")))
            table.add_row(name, f"{value:.3f}", ends, unchanged_value, MEANING[name])
    retest = comparison.evidence.retest
    if retest is not None and np.isfinite(retest.net_ratio):
        low, high = retest.net_ratio_interval.low, retest.net_ratio_interval.high
        ends = "" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        table.add_row("net ratio", _value(retest.net_ratio), ends, "1.000", NET_RATIO.format(k=retest.k))
    return table


def _pass_table(comparison: Comparison) -> Table:
    """pass@k of both runs at powers of two; nothing per answer or solution."""
    if comparison.tally.per is not Per.PROBLEM:
        return Table.grid()
    before, after, difference = (comparison.curves[name] for name in ("before", "after", "difference"))
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("pass@k", comparison.change.before, comparison.change.after, "difference", "95% interval"):
        table.add_column(column, justify="right")
    for i, k in enumerate(before.k_K):
        table.add_row(
            f"{k}",
            f"{before.value_K[i]:.4f}",
            f"{after.value_K[i]:.4f}",
            f"{difference.value_K[i]:+.4f}",
            f"[{difference.low_K[i]:+.4f}, {difference.high_K[i]:+.4f}]",
        )
    return table


def _benchmarks(comparison: Comparison) -> Table:
    """One line per benchmark, by name; the mean, where each weighs the same, below."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    rates = ("SRR", "unchanged\nmodel", "NDR", "NSCR", "95% interval")
    for column in ("benchmark", "problems", "P", "E", "S", "O", *rates):
        table.add_column(column, justify="left" if column == "benchmark" else "right")
    # the largest benchmarks are kept: small ones have the widest intervals
    largest_benchmarks = sorted(comparison.benchmarks, key=lambda part: -part.problems)[:MAX_BENCHMARKS]
    for part in sorted(largest_benchmarks, key=lambda part: part.name):
        change = part.change
        ends = change.interval["NSCR"]
        table.add_row(
            _plain(part.name) or "(unnamed)",
            str(part.problems),
            *_table_cells(change),
            *(_value(change.value[name]) for name in ("NDR", "NSCR")),
            f"[{_value(ends.low)}, {_value(ends.high)}]",
        )
    if len(comparison.benchmarks) > MAX_BENCHMARKS:
        table.add_row(f"and {len(comparison.benchmarks) - MAX_BENCHMARKS} more (--json)")
    if comparison.macro is not None:
        macro, ends = comparison.macro, comparison.macro.interval["NSCR"]
        values = [macro.value["SRR"], macro.redraw["SRR"], macro.value["NDR"], macro.value["NSCR"]]
        interval = "" if np.isnan(ends.low) else f"[{_value(ends.low)}, {_value(ends.high)}]"
        table.add_row("mean of benchmarks", "", "", "", "", "", *map(_value, values), interval)
    return table


def _leaderboard(comparisons: Sequence[Comparison]) -> Table:
    """All runs: pass@1, pass@k and the rates, the 95% interval of each below its value."""
    from offleash.comparing.leaderboard import leaderboard

    rows = leaderboard(comparisons)
    before, k = comparisons[0].change.before, rows[0].k
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title_justify="left",
        title=f"each run compared with {_plain(before)}, k = {k:,}; 95% intervals below the values;\n"
        "redraw: the SRR of an unchanged model drawn twice",
    )
    table.add_column("run", overflow="fold", min_width=9)
    passes = ("pass@1", f"pass@{k}") if rows[0].pass_at_1 is not None else ()
    for column in (*passes, "SRR", "redraw", "NDR", "NSCR"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        values = [_estimate(row.pass_at_1), _estimate(row.pass_at_k)] if passes else []
        same = "" if row.SRR is None else "-" if row.redraw is None else _value(row.redraw["SRR"])
        table.add_row(_plain(row.run), *values, _estimate(row.SRR), same, _estimate(row.NDR), _estimate(row.NSCR))
    return table


def _estimate(estimate: "Estimate | None") -> str:
    """A value and its interval below it, short enough for five of them in 80 columns; empty for the first run."""
    if estimate is None:
        return ""
    low, high = (_value(end).replace("0.", ".", 1) for end in (estimate.interval.low, estimate.interval.high))
    return f"{_value(estimate.value)}\n{low},{high}" if np.isfinite(estimate.value) else "-"


def _class_table(comparisons: Sequence[Comparison], union: CheckpointUnion | None) -> RenderableType:
    """The classes of several runs in a table, one row each, and what checkpoints reach together."""
    k = comparisons[0].change.k
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("run", overflow="fold", min_width=9)
    for column in ("P\nboth", "E\ngained", "S\nlost", "O\nneither", "rate fell,\nat least", "rate rose,\nat least"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("finding", no_wrap=True)
    for comparison in comparisons:
        change, evidence = comparison.change, comparison.evidence
        bounds = [
            "-" if bound is None else f"{bound:,}" for bound in (evidence.losses_at_least, evidence.gains_at_least)
        ]
        counts = [_count(getattr(change, name)) for name in "PESO"]
        table.add_row(_plain(change.after), *counts, *bounds, headline(comparison).finding.words)
    if union is None:
        return table
    # k samples from each checkpoint is a larger budget than the base had, so the fair row, k in total, goes with it
    table.add_row(f"union of {union.checkpoints}, {k} each", *map(_count, union.each_k))
    if union.equal_k is not None:
        table.add_row(f"union of {union.checkpoints}, {k} in total", *map(_count, union.equal_k))
    return table


def _notes(notes: Sequence[Note]) -> list[str]:
    """Notes on what was read and left out, each once: several comparisons share their first run."""
    note_lines = [f"{_plain(note.text)}{f' ({note.rows:,})' if note.rows else ''}" for note in notes]
    return list(dict.fromkeys(note_lines))


def _plain(text: str) -> str:
    """A name from a log without control characters: terminals obey them, and a log may come from anywhere."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _count(value: float) -> str:
    """A count: whole where it is whole, one decimal where it is an average over subsets of k samples."""
    if np.isnan(value):
        return "?"
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _value(value: float) -> str:
    """A rate in three digits; a dash where it is undefined."""
    return "-" if np.isnan(value) else f"{value:.3f}"


def _p_text(value: float) -> str:
    """A p-value; small ones with an exponent, since 0.000 would say nothing."""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
