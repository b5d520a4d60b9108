"""Options that every verb reading logs shares, and progress on standard error."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.study.load import Progress, Reading

Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, verdict, ...) from COLUMN. Repeatable."
    ),
]
SplitBy = Annotated[str | None, typer.Option(metavar="COLUMN", help="Take several runs from one file, by this column.")]
FormatName = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help="Force a format (see: offleash formats).")
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="NAME", help="Which of several filters (lm-eval) or scorers (inspect) decides."),
]
Threshold = Annotated[float, typer.Option(help="A score at or above it is correct.")]
Verifier = Annotated[str | None, typer.Option(metavar="NAME", help="Whose verdicts, where a run folder has several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def reading(
    columns: list[str] | None,
    split_by: str | None,
    format_name: str | None,
    filter_name: str | None,
    threshold: float,
    verifier: str | None = None,
    texts: bool = False,
) -> "Reading":
    """How to read logs, from the options of the command line."""
    from offleash.logs.format import Options
    from offleash.study.load import Reading

    if not math.isfinite(threshold):
        raise OffleashError(f"A threshold is a score; found --threshold {threshold}.")
    options = Options(named_columns(columns or [], "verdict=is_correct"), split_by, filter_name, threshold, texts)
    return Reading(options, format_name, verifier)


@contextmanager
def progress(quiet: bool) -> Iterator["Progress"]:
    """A line on standard error that tells what is being done, once it has taken two seconds."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        started = time.monotonic()
        last = [started]

        def plain(text: str) -> None:
            now = time.monotonic()
            if now - started > 2 and now - last[0] > 5:
                last[0] = now
                print(printable(text), file=sys.stderr)

        yield plain
        return
    with console.status("") as status:
        yield lambda text: status.update(escape(printable(text)))


def printable(text: str) -> str:
    """A text without what could steer a terminal; lines stay lines."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def named_columns(pairs: list[str], example: str) -> dict[str, str]:
    """What --map says: names to columns."""
    columns = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not equals or not name:
            raise OffleashError(f"--map takes NAME=COLUMN, found {pair!r}; for example --map {example}.")
        columns[name] = column
    return columns
