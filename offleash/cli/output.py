"""What a verb prints: progress on standard error, its result as JSON or for people; what it needs beyond the core."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from rich.console import Console

    from offleash.progress import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


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
                warn(text)

        yield plain
        return
    with console.status("") as status:
        yield lambda text: status.update(escape(printable(text)))


def print_json(document: object) -> None:
    """A result for programs, on one line."""
    import json

    print(json.dumps(document, ensure_ascii=False, allow_nan=False))


def console() -> "Console":
    """Where tables are shown; what stands in them is data and never markup."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """A result for people."""
    print(printable(text))


def warn(text: str) -> None:
    """What people are to know and programs need not read."""
    print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """A text without what could steer a terminal; lines stay lines."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def command_line() -> str:
    """The words of this command, quoted so that they can be typed again."""
    return shlex.join(["offleash", *sys.argv[1:]])


def needs_local(verb: str) -> None:
    """Refuse a verb that trains where the libraries for it are not installed."""
    lacking = [name for name in ("torch", "transformers", "yaml") if find_spec(name) is None]
    if lacking:
        raise OffleashError(
            f"offleash {verb} needs {lacking[0]}, which is not installed: pip install 'offleash[local]'."
        )
