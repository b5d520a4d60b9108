"""What every result of a public function can do.

`to_dict()` is what `--json` prints, `to_frame()` the same as a table. `show()` is what the command line prints for
people, `summary()` its text; `repr` is its beginning, at most a screen. `save(path)` writes it to a file, whose ending
says as what. `figure(name)` draws one of its figures, where it has any. `ok` is False where something is missing or
wrong, and the command line then exits with 1.

Renderers are imported when they are needed: the result of comparing two files of counts needs no altair.
"""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offleash.display import printable
from offleash.errors import OffleashError

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from offleash.stats.intervals import Interval

REPR_LINES = 24  # lines of a repr
WIDTH = 100  # characters of its lines


class Result(ABC):
    """What a public function returns."""

    @property
    def lines(self) -> bool:
        """Whether `--json` prints a line per entry of the list that `to_dict` gives."""
        return False

    @abstractmethod
    def to_dict(self) -> Any:
        """What `--json` prints: a dict, or a list where the command prints one."""

    @abstractmethod
    def show(self, console: "Console | None" = None) -> None:
        """Print it for people, as the command line does."""

    @property
    def ok(self) -> bool:
        """Whether all is there and nothing is wrong."""
        return True

    @property
    def exit_code(self) -> int:
        """What the command line exits with: 0, or 1 where something is missing or wrong."""
        return 0 if self.ok else 1

    @property
    def pending_error(self) -> OffleashError | None:
        """What went wrong after the result was there, such as a figure that could not be written."""
        return None

    def summary(self) -> str:
        """The result in words and numbers: what `show()` prints, as a text."""
        return shown(self)

    def to_frame(self) -> "pl.DataFrame":
        """The result as a polars frame: a row per run or entry of `to_dict()`, inner keys joined by dots."""
        document = self.to_dict()
        runs = document.get("runs") if isinstance(document, dict) else None
        return frame_of(runs if isinstance(runs, list) and runs else document)

    def save(self, path: str | Path) -> Path:
        """Write it to a file: .json as `to_dict` gives it, .jsonl a line per entry, .txt as it is shown."""
        from offleash.render.output import check_writable, write_text

        target = Path(path)
        endings = (".json", *((".jsonl",) if isinstance(self.to_dict(), list) else ()), ".txt")
        if target.suffix.lower() not in endings:
            raise unknown_ending(target, endings)
        check_writable(target)
        text = shown(self) if target.suffix.lower() == ".txt" else json_text(self, target.suffix.lower() == ".jsonl")
        write_text(target, text + "\n")
        return target

    def figure(self, name: str) -> "Result":
        """One of its figures."""
        raise OffleashError(
            f"A {type(self).__name__} has no figure {name!r}. Comparisons have figures: compare(...).figure(NAME)."
        )

    def __repr__(self) -> str:
        return truncated_repr(shown(self))


class Metric(float):
    """A number with its 95% interval: it is used like any float, and `.interval` has both ends.

    >>> SRR = ol.compare("examples/counts/base.csv", "examples/counts/rl.csv").SRR
    >>> SRR < 0.9, SRR.interval.low < SRR < SRR.interval.high, SRR
    (True, True, 0.871 [0.814, 0.915])
    """

    interval: "Interval"

    def __new__(cls, value: float, interval: "Interval") -> "Metric":
        metric = super().__new__(cls, value)
        metric.interval = interval
        return metric

    def __getnewargs__(self) -> tuple[float, "Interval"]:  # type: ignore[override]
        return float(self), self.interval

    def __repr__(self) -> str:
        return f"{float(self):.3f} [{self.interval.low:.3f}, {self.interval.high:.3f}]"


def frame_of(document: Any) -> "pl.DataFrame":
    """A JSON document as a frame: an object is a row, a list of objects a row each."""
    import polars as pl

    entries = document if isinstance(document, list) else [document]
    rows = [_flat(entry if isinstance(entry, dict) else {"value": entry}) for entry in entries]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in names}, strict=False)


def _flat(document: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The values of an object and of the objects in it, by dotted names."""
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{above}{key}.")
        else:
            flat[above + key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return flat


def truncated_repr(text: str) -> str:
    """The beginning of a text that fits on a screen, with a word on the rest."""
    lines = text.splitlines()
    if len(lines) > REPR_LINES:
        lines = [*lines[: REPR_LINES - 1], f"... {len(lines) - REPR_LINES + 1} more lines: .show()"]
    return "\n".join(lines)


def json_text(result: Result, lines: bool) -> str:
    """A result as JSON: on one line, or a line per entry."""
    document = result.to_dict()
    parts = document if lines else [document]
    return "\n".join(json.dumps(part, ensure_ascii=False, allow_nan=False) for part in parts)


def shown(result: Result, width: int = WIDTH) -> str:
    """What a result shows, as plain text."""
    from rich.console import Console

    console_of = io.StringIO()
    result.show(Console(file=console_of, width=width, markup=False, emoji=False, highlight=False, no_color=True))
    return "\n".join(line.rstrip() for line in console_of.getvalue().splitlines()).strip("\n")


def print_text(console: "Console | None", text: str) -> None:
    """Print a text as it is, without what could steer a terminal; lines stay lines and are not wrapped."""
    console_of(console).print(printable(text), soft_wrap=True)


def console_of(console: "Console | None") -> "Console":
    """The console given, or standard output; what is printed there is data and never markup."""
    if console is not None:
        return console
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def unknown_ending(path: Path, known: Sequence[str]) -> OffleashError:
    """A file whose ending says nothing of what to write."""
    return OffleashError(f"{path} ends in {path.suffix!r}. Choose one of {', '.join(known)}.")
