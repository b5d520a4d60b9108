"""The protocol of a log format: how it is recognised and read (`Format`), and what reading gives (`Log`, `Entry`).

A format is two functions. `recognise` looks at the head of a file, `read` turns the file into a `Log`; most formats
leave that to `row_log` (logs/frames.py) and write only how one row becomes entries:

>>> from offleash.logs.frames import row_log
>>> def recognise(head):
...     return {"quiz_item", "reply", "points"} <= set(head.columns)
>>> def entries(row, judge):
...     verdict, score = judge.mark(row.values["points"], row.number)
...     problem = row.problem("quiz_item", question=None)
...     yield Entry(problem, text=row.text("reply"), verdict=verdict, score=score, row=row.number)
>>> def read(path, head, options):
...     return row_log("quizlog", head, options, entries, verifier="quizlog")
>>> quizlog = Format("quizlog", "replies of a quiz server", recognise, read, ("quiz.jsonl",))

It reads any container: here a CSV file with one reply.

>>> from tempfile import TemporaryDirectory
>>> from offleash.files.detect import read_head
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "quiz.csv"
...     _ = path.write_text("quiz_item,reply,points\\ncapital,Paris,1\\n")
...     quizlog.recognise(read_head(path))
...     log = quizlog.read(path, read_head(path), Options())
...     [frame.select("problem", "text", "verdict").row(0) for frame in log.frames]
True
[('capital', 'Paris', 'correct')]

A new format is one file with its `FORMAT` and one line in `FORMATS` (logs/registry.py); docs/extending.md has the test.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import polars as pl

from offleash.data.tables import Note
from offleash.files.detect import Head


@dataclass(frozen=True)
class Options:
    """The options of a user that concern reading. A reader refuses those it would not use (`check_maps`)."""

    columns: Mapping[str, str] = field(
        default_factory=dict
    )  # --map: role -> column; an empty column leaves the role unread
    split_by: str | None = None  # --split-by: a column whose values are different runs
    filter: str | None = None  # --filter: which of several filters (lm-eval) or scorers (inspect) decides
    threshold: float = 1.0  # a score at or above it is correct
    texts: bool = True  # False: only verdicts are needed, and texts may be left unread
    rows: str | None = None  # --rows: dotted path of the list of rows inside a JSON object
    decode: Callable[[Sequence[int]], str] | None = None  # --tokenizer: from token ids to text, for logs that hold ids
    taken: tuple[str, ...] = ()  # columns of another run in the same file (loading/wide.py), not to be guessed


class Ids(StrEnum):
    """What the ids of a log name (`Entry.problem`)."""

    PROBLEM = "problem"  # a problem: two ids are two problems, even where their texts are equal
    GROUP = "group"  # a group of samples of one problem within one file; another file has other ids
    UNKNOWN = "unknown"  # a problem or a sample: a column called `id` may be either


@dataclass
class Log:
    """One file as read. It is lazy: the file is read while `frames` is consumed, and `notes` grows until its end."""

    format: str
    verifier: str | None  # the tool whose verdicts these are; None: the log has none
    frames: Iterator[pl.DataFrame]  # of data.tables.ENTRIES, or COUNTS when counts is True
    counts: bool = False
    notes: list[Note] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)  # model, tool version, decoding: what the log says about itself
    unverified_hint: str = ""  # next step where samples have no verdict
    companions: list[Path] = field(default_factory=list)  # other files that it was read with: verdicts in a folder
    ids: Ids = Ids.PROBLEM
    gold_guessed: bool = False  # the golds are those of a column that may also hold the model's answers


@dataclass(frozen=True)
class Skip:
    """What is left out of one of several files of a run, because another of them holds it."""

    why: str  # completes "NAME: 8 rows were left out: "
    rows: int | None = None  # the first so many rows (`Entry.row` up to it); None: the whole file


@dataclass(frozen=True)
class RolloutFormat:
    """What the files of a trainer say about training, for whoever follows a run (training/watch/).

    Args:
        steps: Columns that hold the training step, as --split-by takes them; the first that a file has counts.
        evaluation: Whether a sample was drawn for an evaluation, from the path of the file and the sample's row.
        context: Rows before new ones that must be read again, because what a row means depends on them.
        step_in: The step in the path of a file, for formats whose rows do not hold it; None where the path has none.
    """

    steps: Sequence[str]
    evaluation: Callable[[Path, Mapping[str, object]], bool]
    context: int = 0
    step_in: Callable[[Path], str | None] | None = None


@dataclass(frozen=True)
class Format:
    """A format of logs.

    Args:
        name: Key in FORMATS, and the word of --log-format.
        about: What it is, for `offleash formats`.
        recognise: Whether a file is of this format, from its head alone: container, columns and first row. It must be
            false for every other format, because the first that says yes reads the file.
        read: From path, head and options to the log. Errors that a user can fix are `OffleashError` with the row.
        examples: File names as the tool writes them.
        columns: The columns by which its files are known, a set for each kind of them; for messages.
        skip: From the files of one run that are of this format, in their order, to what must not be counted in some of
            them: trainers log a batch again, or a selection of it in a second file.
        rollouts: Of a trainer's format: where the training step is, and which samples are of evaluations.
    """

    name: str
    about: str
    recognise: Callable[[Head], bool]
    read: Callable[[Path, Head, Options], Log]
    examples: Sequence[str] = ()
    skip: Callable[[Sequence[Path]], Mapping[Path, Skip]] | None = None
    columns: Sequence[Collection[str]] = ()
    rollouts: RolloutFormat | None = None


class Entry(NamedTuple):
    """One sample of a log: a row of the ENTRIES table, with its fields in their order.

    A tuple, because columns are made of thousands of them at once. None is "the log does not say"; in particular a
    sample without a verdict is unverified, not wrong.
    """

    problem: str  # id within the log; `Row.problem` gives the hash of the question where there is none
    question: str | None = None
    gold: str | None = None
    benchmark: str | None = None
    guess: float | None = None  # chance that a blind guess is accepted
    identity: str | None = None  # the tool's name of the problem's content: equal means the same problem in every run
    contents: str | None = None  # hashes of choices, images, tests, context: `content_hashes` (data/content.py)
    sample: int | None = None  # number within the problem; None: numbered in the order of the rows
    text: str | None = None
    answer: str | None = None  # as the tool extracted it
    solution: str | None = None  # canonical form of a correct answer, for diversity
    verdict: str | None = None  # correct, wrong or unread
    score: float | None = None
    tokens: int | None = None  # written by the model
    finish: str | None = None  # "length": cut off at the token limit
    split: str | None = None  # value of the column of --split-by
    row: int | None = None  # for messages
