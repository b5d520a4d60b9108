"""What `watch` returns: one look at a training run, or a session that follows it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offleash.errors import OffleashError
from offleash.results.result import Result, console_of, frame_of

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from offleash.training.watch.live import Watcher
    from offleash.training.watch.report import WatchedTraining


@dataclass(frozen=True, repr=False, eq=False)
class WatchResult(Result):
    """One look at a training run.

    >>> row = '{"input": "1+1?", "output": "2", "score": 1.0, "step": 1}'
    >>> Path("rollouts").mkdir()
    >>> written = Path("rollouts/1.jsonl").write_text(row)
    >>> ol.watch("rollouts", once=True).to_frame()["pass@1"].to_list()
    [1.0]
    """

    training: "WatchedTraining"
    path: Path | None = None  # of the page

    def to_dict(self) -> dict[str, Any]:
        from offleash.training.watch.report import watch_document

        return watch_document(self.training)

    def to_frame(self) -> "pl.DataFrame":
        """A row per window of steps."""
        return frame_of(self.to_dict()["steps"])

    def show(self, console: "Console | None" = None) -> None:
        from offleash.training.watch.report import watch_table

        console_of(console).print(watch_table(self.training))

    def save(self, path: str | Path) -> Path:
        """Write it to a file: .html as a page, .json and .txt as every result."""
        from offleash.render.output import PAGE_SUFFIXES, check_writable, write_text
        from offleash.training.watch.page import watch_page

        if Path(path).suffix.lower() not in PAGE_SUFFIXES:
            return super().save(path)
        check_writable(Path(path))
        write_text(Path(path), watch_page(self.training, None))
        return Path(path)


@dataclass(frozen=True, repr=False, eq=False)
class WatchSession(Result):
    """A training run that is followed: `serve()` looks every few seconds until Ctrl-C, `look()` once more.

    >>> Path("rollouts").mkdir()
    >>> session = ol.watch("rollouts")
    >>> session.look() is None  # there is no rollout yet
    True
    >>> session.close()
    """

    watcher: "Watcher"
    every: float
    page: Path | None = None

    def look(self) -> WatchResult | None:
        """Read what is new since the last look; None where there is no rollout yet."""
        look = self.watcher.look()
        return None if look is None else WatchResult(look)

    def to_dict(self) -> dict[str, Any]:
        look = self.look()
        if look is None:
            raise OffleashError(f"{self.watcher.watch.folder.folder} has no rollouts yet.")
        return look.to_dict()

    def show(self, console: "Console | None" = None) -> None:
        look = self.look()
        if look is not None:
            look.show(console)

    def serve(self, each: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Look every few seconds until Ctrl-C: on the terminal, or a document for every look that found more."""
        from offleash.training.watch.live import follow

        with self.watcher:
            try:
                follow(self.watcher, console_of(None), self.every, self.page, each)
            except KeyboardInterrupt:
                return

    def close(self) -> None:
        """End the workers of the verifier."""
        self.watcher.close()
