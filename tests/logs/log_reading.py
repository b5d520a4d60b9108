"""Reads a whole log for a test: the log with all its notes, and its frames as one."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from offleash.logs.format import Log, Options
from offleash.logs.registry import open_log

FIXTURES = Path(__file__).parent / "fixtures"


def read(path: Path, options: Options | None = None, format_name: str | None = None) -> tuple[Log, pl.DataFrame]:
    log = open_log(path, options or Options(), format_name)
    return log, pl.concat(list(log.frames))


def lines(path: Path, rows: Iterable[Mapping[str, object]], parents: bool = False) -> Path:
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(frame: pl.DataFrame) -> dict[str | None, int]:
    return dict(frame["verdict"].value_counts().rows())


def notes_text(log: Log) -> str:
    return " | ".join(note.text for note in log.notes)
