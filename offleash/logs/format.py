"""What a log reader is: how a format is recognised and read (`Format`), and what reading gives (`Log`, `Entry`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import polars as pl

from offleash.data.tables import Note
from offleash.files.detect import Head


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
    frames: Iterator[pl.DataFrame]  # of data.tables.ENTRIES, or COUNTS when counts is True
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


class Entry(NamedTuple):
    """A row of the entries table. A tuple, because columns are made of thousands of them at once."""

    problem: str
    question: str | None = None
    gold: str | None = None
    benchmark: str | None = None
    guess: float | None = None
    sample: int | None = None
    text: str | None = None
    answer: str | None = None
    solution: str | None = None
    verdict: str | None = None
    score: float | None = None
    tokens: int | None = None
    finish: str | None = None
    split: str | None = None
    row: int | None = None
