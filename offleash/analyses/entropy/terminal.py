"""Entropy of runs as tables in the terminal: the measures of Table 5, the 2x2, positions, distinct answers."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.entropy.entropy import ACCURACY, ALL, ANSWER, EQUAL, LENGTH, TOKEN, UNREAD, Entropies
from offleash.analyses.entropy.report import cautions, ends, finding, on_problems, token_source
from offleash.render.escape import clean
from offleash.stats.entropy import Means, Square
from offleash.stats.intervals import Interval

MOST = 20  # benchmarks shown, those with most problems
NAMES = {
    ACCURACY: "accuracy, avg@{k}",
    LENGTH: "length, tokens",
    TOKEN: "token entropy, nats",
    ANSWER: "answer entropy (unread = NA)",
    EQUAL: "  readable answers, equal n",
    ALL: "  estimated of all answers",
    UNREAD: "unread samples",
}
ENDS = "95% interval"
WIDEST = 12  # letters of a name above numbers
PERCENT = (ACCURACY, UNREAD)
DIGITS = {LENGTH: 2}  # else 3


def show_entropies(console: Console, one: Entropies) -> None:
    """Print everything."""
    parts: list[RenderableType] = [_title(one), _averages(one)]
    if len(one.measures[ACCURACY].benchmarks) > 1:
        parts.append(_benchmarks(one))
    parts += [_square(one, r, found) for r, found in enumerate(one.squares, 1) if found is not None]
    parts += [*_places(one), *_distinct(one)]
    lines = [Text(clean(line)) for line in _sources(one)]
    lines += [Text(f"! {clean(line)}", style="yellow") for line in cautions(one)]
    lines += [Text(f"· {clean(line)}", style="dim") for line in dict.fromkeys(note.text for note in one.notes)]
    console.print(Group(*parts, *lines, Text(""), Text(clean(finding(one)))))


def difference(name: str, means: Means, r: int) -> Sequence[str]:
    """How run r differs from the first in a measure, and the interval of that."""
    scale = 100 if name in PERCENT else 1
    interval = means.difference_interval_R[r]
    digits = 1 if name in PERCENT else DIGITS.get(name, 3)
    return _difference(scale * float(means.difference_R[r]), _percent(interval) if scale == 100 else interval, digits)


def shown_value(name: str, value: float) -> str:
    """A mean of a measure for people."""
    if np.isnan(value):
        return "-"
    return f"{value:.1%}" if name in PERCENT else f"{value:,.{DIGITS.get(name, 3)}f}"


def label(one: Entropies, name: str) -> str:
    """A measure for people, with the number of its problems where it is not known of all."""
    return NAMES[name].format(k=one.k) + on_problems(one, one.measures[name].average.problems)


def _title(one: Entropies) -> Text:
    title = Text(clean(" → ".join(one.runs)), style="bold")
    many = f"{len(one.problem_P):,} problem{'' if len(one.problem_P) == 1 else 's'}"
    title.append(f"   {many}, the first {one.k:,} samples of each", style="not bold dim")
    return title


def _averages(one: Entropies) -> Table:
    """Every measure, mean of benchmarks: of one run with its interval, of two side by side, of several one below."""
    first = clean(one.runs[0])
    if len(one.runs) == 1:
        table = _table("", first, ENDS, left=1)
    elif len(one.runs) == 2:
        table = _table("", first, clean(one.runs[1]), "difference", ENDS, left=1)
    else:
        table = _table("", "run", "mean", f"minus {first}", ENDS, left=2)
    for name, measure in one.measures.items():
        means, named = measure.average, label(one, name)
        value_R = [shown_value(name, value) for value in means.value_R.tolist()]
        if len(one.runs) == 1:
            table.add_row(named, *value_R, _ends(name, means.interval_R[0], sign=False))
        elif len(one.runs) == 2:
            table.add_row(named, *value_R, *difference(name, means, 1))
        else:
            for r, run in enumerate(one.runs):
                apart = difference(name, means, r) if r else ()
                table.add_row("" if r else named, clean(run), value_R[r], *apart, end_section=r == len(one.runs) - 1)
    return table


def _benchmarks(one: Entropies) -> Table:
    """Every measure on every benchmark; the differences where there are two runs."""
    two = len(one.runs) == 2
    last = ("difference", ENDS) if two else ()
    table = _table("", "benchmark", "problems", *map(clean, one.runs), *last, left=2)
    sizes = {part: means.problems for part, means in one.measures[ACCURACY].benchmarks.items()}
    shown = sorted(sorted(sizes, key=lambda part: -sizes[part])[:MOST])
    for name, measure in one.measures.items():
        for number, part in enumerate(shown):
            means = measure.benchmarks[part]
            values = [shown_value(name, value) for value in means.value_R.tolist()]
            apart = difference(name, means, 1) if two else ()
            named = NAMES[name].format(k=one.k) if number == 0 else ""
            row = (named, clean(part) or "(unnamed)", f"{means.problems:,}", *values, *apart)
            table.add_row(*row, end_section=number == len(shown) - 1)
    if len(sizes) > MOST:
        table.add_row("", f"and {len(sizes) - MOST} more (--json)")
    return table


def _square(one: Entropies, r: int, found: Square) -> Table:
    known, every = found.problems, len(one.problem_P)
    many = f"{every:,}" if known == every else f"{known:,} of {every:,}"
    table = _table(f"{clean(one.runs[r])}, {many} problems", "answers up", "answers down", left=1)
    table.add_row("token entropy up", f"{found.up_up:,}", f"{found.up_down:,}")
    table.add_row("token entropy down", f"{found.down_up:,}", f"{found.down_down:,}")
    if found.level:
        table.add_row("one of them the same", f"{found.level:,}")
    return table


def _places(one: Entropies) -> list[RenderableType]:
    """Where tokens are uncertain: runs side by side, and the difference where there are two."""
    found = one.positions
    if not found.bins:
        return []
    two = len(one.runs) == 2
    last = ("difference", ENDS) if two else ()
    many = on_problems(one, found.problems)
    more = "" if set(found.samples_R.tolist()) <= {0, one.k * found.problems} else ", of all samples scored"
    table = _table(f"entropy a token, nats{more}{many}", *map(clean, one.runs), *last, left=1)
    for place in found.places:
        values = ["-" if np.isnan(value) else f"{value:.3f}" for value in place.value_R.tolist()]
        apart = _difference(float(place.difference_R[1]), place.difference_interval_R[1]) if two else ()
        table.add_row(place.name, *values, *apart)
    if found.forks is not None:
        shares = ["-" if np.isnan(value) else f"{value:.1%}" for value in found.forks.value_R.tolist()]
        forks = found.forks
        apart = (
            _difference(100 * float(forks.difference_R[1]), _percent(forks.difference_interval_R[1]), 1) if two else ()
        )
        table.add_row("of all, the top 20% of tokens hold", *shares, *apart)
        heights = ["-" if np.isnan(value) else f"{value:.1f}" for value in found.fork_height_R.tolist()]
        table.add_row("and they start at", *heights)
    return [table]


def _distinct(one: Entropies) -> list[RenderableType]:
    spent = one.distinct
    if spent is None or not spent.problems_K[0]:
        return []
    table = _table("different answers in k samples", *map(clean, one.runs), "problems", left=1)
    columns = (column.tolist() for column in (spent.k_K, spent.mean_KR, spent.problems_K))
    for k, mean_R, problems in zip(*columns, strict=True):
        told = ("-" if np.isnan(value) else f"{value:,.2f}" for value in mean_R)
        table.add_row(f"{k:,}", *told, f"{problems:,}")
    return [table]


def _sources(one: Entropies) -> list[str]:
    """Where token entropies come from, and what is not known and why."""
    lines = [f"{name}: {token_source(told)}." for name, told in zip(one.runs, one.tokens, strict=True)]
    silent = {f"{name}: {why}." for key in (LENGTH, ANSWER) for name, why in one.measures[key].reasons.items()}
    lines += sorted(silent)
    scoring = " ".join(lines)
    read = [(name, int(count)) for name, count in zip(one.runs, one.positions.samples_R, strict=True) if count]
    lines += [f"{name}: entropies by position of {count:,} samples, scores of its own model." for name, count in read]
    for name, why in one.positions.reasons.items():
        command = why.partition(": ")[2]
        lines += [] if command and command in scoring else [f"{name}: {why}."]
    return list(dict.fromkeys(lines))


def _table(*columns: str, left: int) -> Table:
    """A table whose first columns are words and the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, column in enumerate(columns):
        if place < left:
            table.add_column(column)
        else:  # names of runs are folded, numbers never
            folded = "\n".join(column[start : start + WIDEST] for start in range(0, len(column), WIDEST))
            table.add_column(folded, justify="right", no_wrap=True)
    return table


def _difference(value: float, interval: Interval, digits: int = 3) -> Sequence[str]:
    return ("-", "") if np.isnan(value) else (f"{value:+,.{digits}f}", ends(interval, digits))


def _percent(interval: Interval) -> Interval:
    return Interval(100 * interval.low, 100 * interval.high)


def _ends(name: str, interval: Interval, sign: bool = True) -> str:
    digits = 1 if name in PERCENT else DIGITS.get(name, 3)
    return ends(_percent(interval) if name in PERCENT else interval, digits, sign)
