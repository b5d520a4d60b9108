"""Entropy of runs as tables in the terminal: the measures of Table 5, the 2x2, positions, distinct answers."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.entropy.entropy import ACCURACY, ALL, ANSWER, EQUAL_N, LENGTH, TOKEN, UNREAD, Entropies
from offleash.analyses.entropy.report import cautions, ends, finding, problems_note, token_source
from offleash.render.escape import clean
from offleash.stats.entropy import Means, Square
from offleash.stats.intervals import Interval

BENCHMARKS_SHOWN = 20  # benchmarks shown, those with the most problems; --json has all
# Indented names are variants of the measure above them.
NAMES = {
    ACCURACY: "accuracy, avg@{k}",
    LENGTH: "length, tokens",
    TOKEN: "token entropy, nats",
    ANSWER: "answer entropy (unread = NA)",
    EQUAL_N: "  readable answers, equal n",
    ALL: "  estimated, all answers",
    UNREAD: "unread samples",
}
INTERVAL_HEADING = "95% interval"  # heading of the column
NAME_WIDTH = 12  # characters of a run's name above a column of numbers; longer names are folded
PERCENT = (ACCURACY, UNREAD)  # shares: differences in percent points
DIGITS = {LENGTH: 2}  # decimals; the others have 3, which is finer than their intervals


def show_entropies(console: Console, entropies: Entropies) -> None:
    """Print the tables, where their numbers come from, cautions, notes, and last the result in words."""
    parts: list[RenderableType] = [_title(entropies), _averages(entropies)]
    if len(entropies.measures[ACCURACY].benchmarks) > 1:
        parts.append(_benchmarks(entropies))
    parts += [
        _directions_table(entropies, r, square) for r, square in enumerate(entropies.squares, 1) if square is not None
    ]
    parts += [*_parts(entropies), *_distinct_table(entropies)]
    lines = [Text(clean(line)) for line in _sources(entropies)]
    lines += [Text(f"! {clean(line)}", style="yellow") for line in cautions(entropies)]
    lines += [Text(f"· {clean(line)}", style="dim") for line in dict.fromkeys(note.text for note in entropies.notes)]
    console.print(Group(*parts, *lines, Text(""), Text(clean(finding(entropies)))))


def difference(name: str, means: Means, r: int) -> Sequence[str]:
    """Two cells: how run r differs from the first in a measure (percent points for shares), and the interval."""
    scale = 100 if name in PERCENT else 1
    interval = means.difference_interval_R[r]
    digits = 1 if name in PERCENT else DIGITS.get(name, 3)
    return _difference(scale * float(means.difference_R[r]), _percent(interval) if scale == 100 else interval, digits)


def shown_value(name: str, value: float) -> str:
    """A mean as a cell: percent for shares, else nats or tokens; a dash where it is not known."""
    if np.isnan(value):
        return "-"
    return f"{value:.1%}" if name in PERCENT else f"{value:,.{DIGITS.get(name, 3)}f}"


def label(entropies: Entropies, name: str) -> str:
    """A measure's name, with the number of problems where it is not known for all of them."""
    return NAMES[name].format(k=entropies.k) + problems_note(entropies, entropies.measures[name].average.problems)


def _title(entropies: Entropies) -> Text:
    """The runs, the number of problems and k."""
    title = Text(clean(" → ".join(entropies.runs)), style="bold")
    problem_count = f"{len(entropies.problem_P):,} problem{'' if len(entropies.problem_P) == 1 else 's'}"
    title.append(f"   {problem_count}, the first {entropies.k:,} samples of each", style="not bold dim")
    return title


def _averages(entropies: Entropies) -> Table:
    """Every measure, mean of benchmarks: one run with its interval, two side by side, more one below the other."""
    first = clean(entropies.runs[0])
    if len(entropies.runs) == 1:
        table = _table("", first, INTERVAL_HEADING, left_columns=1)
    elif len(entropies.runs) == 2:
        table = _table("", first, clean(entropies.runs[1]), "difference", INTERVAL_HEADING, left_columns=1)
    else:
        table = _table("", "run", "mean", f"minus {first}", INTERVAL_HEADING, left_columns=2)
    for name, measure in entropies.measures.items():
        means, named = measure.average, label(entropies, name)
        value_R = [shown_value(name, value) for value in means.value_R.tolist()]
        if len(entropies.runs) == 1:
            table.add_row(named, *value_R, _interval_text(name, means.interval_R[0], sign=False))
        elif len(entropies.runs) == 2:
            table.add_row(named, *value_R, *difference(name, means, 1))
        else:
            for r, run in enumerate(entropies.runs):
                difference_cells = difference(name, means, r) if r else ()
                table.add_row(
                    "" if r else named,
                    clean(run),
                    value_R[r],
                    *difference_cells,
                    end_section=r == len(entropies.runs) - 1,
                )
    return table


def _benchmarks(entropies: Entropies) -> Table:
    """Every measure on every benchmark; the differences where there are two runs."""
    has_two_runs = len(entropies.runs) == 2
    last = ("difference", INTERVAL_HEADING) if has_two_runs else ()
    table = _table("", "benchmark", "problems", *map(clean, entropies.runs), *last, left_columns=2)
    sizes = {part: means.problems for part, means in entropies.measures[ACCURACY].benchmarks.items()}
    # The largest benchmarks, then in the order of their names.
    shown = sorted(sorted(sizes, key=lambda part: -sizes[part])[:BENCHMARKS_SHOWN])
    for name, measure in entropies.measures.items():
        for number, part in enumerate(shown):
            means = measure.benchmarks[part]
            values = [shown_value(name, value) for value in means.value_R.tolist()]
            difference_cells = difference(name, means, 1) if has_two_runs else ()
            named = NAMES[name].format(k=entropies.k) if number == 0 else ""
            row = (named, clean(part) or "(unnamed)", f"{means.problems:,}", *values, *difference_cells)
            table.add_row(*row, end_section=number == len(shown) - 1)
    if len(sizes) > BENCHMARKS_SHOWN:
        table.add_row("", f"and {len(sizes) - BENCHMARKS_SHOWN} more (--json)")
    return table


def _directions_table(entropies: Entropies, r: int, square: Square) -> Table:
    """The 2x2 of problems by whether token and answer entropy rose or fell: means may hide that problems disagree."""
    known, every = square.problems, len(entropies.problem_P)
    problem_count = f"{every:,}" if known == every else f"{known:,} of {every:,}"
    table = _table(
        f"{clean(entropies.runs[r])}, {problem_count} problems", "answers up", "answers down", left_columns=1
    )
    table.add_row("token entropy up", f"{square.up_up:,}", f"{square.up_down:,}")
    table.add_row("token entropy down", f"{square.down_up:,}", f"{square.down_down:,}")
    if square.level:
        table.add_row("one of the two unchanged", f"{square.level:,}")
    return table


def _parts(entropies: Entropies) -> list[RenderableType]:
    """Where tokens are uncertain: runs side by side, and the difference where there are two."""
    positions = entropies.positions
    if not positions.bins:
        return []
    has_two_runs = len(entropies.runs) == 2
    last = ("difference", INTERVAL_HEADING) if has_two_runs else ()
    problem_note = problems_note(entropies, positions.problems)
    # --first may have scored other samples than the first k that the measures above are over.
    samples_text = (
        "" if set(positions.samples_R.tolist()) <= {0, entropies.k * positions.problems} else ", all scored samples"
    )
    table = _table(
        f"entropy per token, nats{samples_text}{problem_note}", *map(clean, entropies.runs), *last, left_columns=1
    )
    for part in positions.parts:
        values = ["-" if np.isnan(value) else f"{value:.3f}" for value in part.value_R.tolist()]
        change = _difference(float(part.difference_R[1]), part.difference_interval_R[1]) if has_two_runs else ()
        table.add_row(part.name, *values, *change)
    if positions.forks is not None:
        shares = ["-" if np.isnan(value) else f"{value:.1%}" for value in positions.forks.value_R.tolist()]
        forks = positions.forks
        change = (
            _difference(100 * float(forks.difference_R[1]), _percent(forks.difference_interval_R[1]), 1)
            if has_two_runs
            else ()
        )
        table.add_row("share held by the top 20% of tokens", *shares, *change)
        heights = ["-" if np.isnan(value) else f"{value:.1f}" for value in positions.fork_height_R.tolist()]
        table.add_row("lowest entropy among these", *heights)
    return [table]


def _distinct_table(entropies: Entropies) -> list[RenderableType]:
    """Different answers against k; none where no problem has a readable answer in every run."""
    distinct = entropies.distinct
    if distinct is None or not distinct.problems_K[0]:
        return []
    table = _table("distinct answers in k samples", *map(clean, entropies.runs), "problems", left_columns=1)
    columns = (column.tolist() for column in (distinct.k_K, distinct.mean_KR, distinct.problems_K))
    for k, mean_R, problems in zip(*columns, strict=True):
        means = ("-" if np.isnan(value) else f"{value:,.2f}" for value in mean_R)
        table.add_row(f"{k:,}", *means, f"{problems:,}")
    return [table]


def _sources(entropies: Entropies) -> list[str]:
    """Where token entropies come from, and what is not known and why."""
    lines = [f"{name}: {token_source(tokens)}." for name, tokens in zip(entropies.runs, entropies.tokens, strict=True)]
    # Three measures of answers share one reason: it is printed once.
    missing = {f"{name}: {why}." for key in (LENGTH, ANSWER) for name, why in entropies.measures[key].reasons.items()}
    lines += sorted(missing)
    scoring = " ".join(lines)
    scored_counts = [
        (name, int(count)) for name, count in zip(entropies.runs, entropies.positions.samples_R, strict=True) if count
    ]
    lines += [
        f"{name}: entropies by position of {count:,} samples, scored by its own model." for name, count in scored_counts
    ]
    for name, why in entropies.positions.reasons.items():
        # One command scores both: a run without any scores needs it printed once.
        command = why.partition(": ")[2]
        lines += [] if command and command in scoring else [f"{name}: {why}."]
    return list(dict.fromkeys(lines))


def _table(*columns: str, left_columns: int) -> Table:
    """A table whose first columns are words and the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    # Columns of numbers never wrap: a number that is cut in two lines is read as two.
    for index, column in enumerate(columns):
        if index < left_columns:
            table.add_column(column)
        else:  # names of runs are folded, numbers never
            wrapped = "\n".join(column[start : start + NAME_WIDTH] for start in range(0, len(column), NAME_WIDTH))
            table.add_column(wrapped, justify="right", no_wrap=True)
    return table


def _difference(value: float, interval: Interval, digits: int = 3) -> Sequence[str]:
    return ("-", "") if np.isnan(value) else (f"{value:+,.{digits}f}", ends(interval, digits))


def _percent(interval: Interval) -> Interval:
    return Interval(100 * interval.low, 100 * interval.high)


def _interval_text(name: str, interval: Interval, sign: bool = True) -> str:
    digits = 1 if name in PERCENT else DIGITS.get(name, 3)
    return ends(_percent(interval) if name in PERCENT else interval, digits, sign)
