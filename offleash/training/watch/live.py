"""Following a training run: a look every few seconds, on the terminal, as lines, as JSON or on a page."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from offleash.data.run import Run
from offleash.errors import OffleashError
from offleash.logs.format import Options
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import Json
from offleash.render.output import write_text
from offleash.training.watch.against_base import AgainstBase, Base
from offleash.training.watch.judge import judging
from offleash.training.watch.page import watch_page
from offleash.training.watch.report import (
    WatchedTraining,
    WatchWarning,
    nothing_recognised,
    watch_document,
    watch_table,
    watched_training,
)
from offleash.training.watch.rollouts import Changes, RolloutFolder
from offleash.training.watch.windows import Watch, WindowStats
from offleash.verifying.verify import VerifyOptions


class Watcher:
    """A training run that is looked at again and again; `close` ends the workers of its verifier.

    Args:
        folder: Where the trainer writes.
        options: How rollouts are read.
        format_name: --log-format.
        base: The base to compare with.
        verify: How samples are judged in place of the trainer's verdicts.
        width: Steps per window.
        progress: Gets a line as samples are judged.
    """

    def __init__(
        self,
        folder: Path,
        options: Options,
        format_name: str | None = None,
        base: Run | None = None,
        verify: VerifyOptions | None = None,
        width: int | None = None,
        progress: Progress = silent,
    ) -> None:
        self._open = ExitStack()
        judged = None if verify is None else self._open.enter_context(judging(verify, progress))
        rollouts = RolloutFolder(folder, options, format_name, judged)
        if verify is not None:
            rollouts.verifier = verify.verifier
        self.watch = Watch(rollouts, width)
        self.changes = Changes()  # of the last look
        self._base = None if base is None else Base(base)
        self._against: dict[int, tuple[WindowStats, AgainstBase | None]] = {}  # by the number of the window

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers of the verifier."""
        self._open.close()

    def look(self) -> WatchedTraining | None:
        """Read what is new; None where there is no rollout yet."""
        self.changes = self.watch.refresh()
        if not self.watch.windows:
            return None
        if self._base is None:
            return watched_training(self.watch)
        self._base.look_up(self.watch.folder.problems)
        for number, window in self.watch.windows.items():
            if number not in self._against or self._against[number][0] is not window:  # it is new, or has changed
                self._against[number] = window, self._base.compare_window(window)
        rows = [self._against[number][1] for number in sorted(self.watch.windows)]
        base_rows = [row for row in rows if row is not None]
        return watched_training(self.watch, self._base.name, self._base.matched, base_rows)

    def look_once(self) -> WatchedTraining:
        """The only look; a folder without rollouts is refused."""
        look = self.look()
        if look is None:
            raise OffleashError(nothing_recognised(self.watch.folder))
        return look


def follow(
    watcher: Watcher,
    console: Console,
    seconds: float,
    page: Path | None = None,
    each: Callable[[Json], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look every few seconds, until interrupted.

    Args:
        watcher: What is looked at.
        console: Where it is shown: a table that is replaced on a terminal, lines elsewhere.
        seconds: Between two looks.
        page: Written after every look that changed something.
        each: Gets the document of every look that changed something, in place of the console.
        sleep: Waits; a test ends the loop here.
    """
    lines = PlainLines(console)
    live = Live(console=console, auto_refresh=False) if each is None and console.is_terminal else None
    waiting = f"No rollouts yet. {nothing_recognised(watcher.watch.folder)}"
    with live if live is not None else ExitStack():
        while True:
            look = watcher.look()
            changed = bool(watcher.changes.batches)
            if look is not None and changed and page is not None:
                write_text(page, watch_page(look, seconds))
            if live is not None:
                live.update(Text(waiting) if look is None else watch_table(look), refresh=True)
            elif look is not None and changed:
                lines.show(look) if each is None else each(watch_document(look))
            elif look is None and each is None:
                lines.print_once(waiting)
            sleep(seconds)


class PlainLines:
    """A line per look, for logs of batch jobs: the newest window, and warnings that are new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed_texts: set[str] = set()

    def print_once(self, text: str) -> None:
        """Print a text unless it was printed."""
        if text not in self._printed_texts:
            self._console.print(Text(text), soft_wrap=True)
            self._printed_texts.add(text)

    def show(self, look: WatchedTraining) -> None:
        """Print the newest window of a look."""
        newest = look.windows[-1]
        shares = {"pass@1": newest.pass_1, "pass@G": newest.pass_G, "all wrong": newest.all_wrong}
        shares["all right"] = newest.all_right
        known = ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if share is not None)
        line = f"steps {newest.first}-{newest.last}: {look.samples:,} samples so far; {known}"
        self._console.print(Text(clean(line)), soft_wrap=True)
        for warning in look.warnings:
            self._warn(warning)

    def _warn(self, warning: WatchWarning) -> None:
        """Print a warning when it appears; its numbers change at every look."""
        if warning.code not in self._printed_texts:
            self._console.print(Text(f"! {clean(warning.text)}"), soft_wrap=True)
            self._printed_texts.add(warning.code)
