"""What a log reader is: how a file is recognised by its content, and what reading it gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import polars as pl

from offleash.tables.notes import Note as Note


class Container(StrEnum):
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    CSV = "csv"
    ZIP = "zip"


@dataclass(frozen=True)
class Head:
    """The beginning of a file: enough to recognise its format by, cheap to get."""

    path: Path
    container: Container
    # keys of the first row, Parquet columns, CSV header, top-level keys of a JSON object, names in a zip
    columns: tuple[str, ...]
    first: Mapping[str, object]  # the first row (JSON, JSONL, CSV, Parquet); empty for a zip


@dataclass(frozen=True)
class Options:
    """What the user asked of a reader."""

    columns: Mapping[str, str] = field(default_factory=dict)  # --map: our name -> the column in the file
    split_by: str | None = None  # --split-by: a column whose values are different runs
    filter: str | None = None  # --filter: which of several filters (lm-eval) or scorers (inspect) decides
    threshold: float = 1.0  # a score at or above it is correct
    texts: bool = True  # False: verdicts only, texts need not be read


@dataclass
class Log:
    """One file as read: frames of entries or of counts, and the notes made on the way (all after the last frame)."""

    format: str
    verifier: str | None  # the tool whose verdicts these are; None when it gives none
    frames: Iterator[pl.DataFrame]  # of tables.entries.ENTRIES, or COUNTS when counts is True
    counts: bool = False
    notes: list[Note] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)  # model, tool version, decoding: what the log says of itself
    unverified_hint: str = ""  # how to get verdicts when the log has none a sample


@dataclass(frozen=True)
class Format:
    """A kind of log: its name, what it is, how to recognise it and how to read it."""

    name: str
    about: str
    recognise: Callable[[Head], bool]
    read: Callable[[Path, Head, Options], Log]
    examples: Sequence[str] = ()  # file names as the tool writes them
