"""What a verb prints: progress and announcements on standard error, its result as JSON or as text."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offleash.credentials import mask_credentials
from offleash.display import printable

if TYPE_CHECKING:
    from rich.console import Console

    from offleash.progress import Progress

current_activity = [""]  # what is being done, as progress reported it last: an error may need to say it


@contextmanager
def progress(quiet: bool) -> Iterator["Progress"]:
    """A line on standard error that says what is being done.

    On a terminal, a spinner whose line is replaced. Elsewhere (the log of a batch job), a line every five seconds after
    the first two: short commands print nothing, and a day of drawing does not fill the disk.
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        started = time.monotonic()
        last = [started]

        def plain(text: str) -> None:
            current_activity[0] = text
            now = time.monotonic()
            if now - started > 2 and now - last[0] > 5:
                last[0] = now
                warn(mask_credentials(text))

        yield plain
        return
    with console.status("") as status:

        def shown(text: str) -> None:
            current_activity[0] = text
            status.update(escape(printable(mask_credentials(text))))

        yield shown


def print_json(document: object) -> None:
    """A result for programs, on one line."""
    import json

    print(json.dumps(document, ensure_ascii=False, allow_nan=False), flush=True)


def console() -> "Console":
    """The console that tables are printed to. Cells are data: [red] or :smile: in model output is not markup."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def warn(text: str) -> None:
    """Print a line for people on standard error; standard output is for results."""
    print(printable(text), file=sys.stderr)


def command_line() -> str:
    """This command, quoted so that it can be pasted into a shell: reports name the command that made them.

    What looks like a key is left out of it.
    """
    return shlex.join(["offleash", *map(mask_credentials, sys.argv[1:])])
