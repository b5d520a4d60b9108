"""Types: a problem as it was read, as a row of the table and as a line of JSON, and what defines a benchmark.

To add a benchmark, write a `Benchmark` into PROBLEMS (problems/benchmarks.py) and, where its rows need more than a
choice of columns, a derivation (problems/derive.py).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from offleash.data.tables import PROBLEMS, Note, question_hash
from offleash.problems.prompts import prompt_hash

# The order of a line's keys; `hash` is left out, since it follows from the question and the images.
KEYS = ("problem", "question", "gold", "benchmark", "guess", "verifier", "prompt", "prompt_hash", "details", "images")
# Columns of a user's file that are not kept as further ones: they are fields of ours, or names of the gold answer.
OWN_NAMES = frozenset((*KEYS, "id", "hash", "columns", "answer", "solution", "ground_truth"))
NO_GOLD_NEEDED = ("program", "reasoning_gym", "countdown")  # verifiers whose details say all they need


@dataclass(frozen=True)
class Problem:
    """A question, and what its verifier needs to judge an answer."""

    problem: str  # id, unique within a set
    question: str
    gold: str | None = None
    benchmark: str | None = None
    guess: float | None = None  # chance that a blind guess is accepted; None: estimated from the samples
    verifier: str | None = None  # None: --verifier decides
    prompt: str | None = None  # the message, where it is not the question itself
    details: Mapping[str, object] = field(default_factory=dict)  # for the verifier: choices, unit, tests, ...
    images: tuple[str, ...] = ()
    columns: Mapping[str, object] = field(default_factory=dict, compare=False)  # the rest of its row in a user's file


@dataclass(frozen=True)
class ProblemSet:
    """Problems in the PROBLEMS schema, and what was noted while they were read."""

    frame: pl.DataFrame
    notes: tuple[Note, ...] = ()
    rows: Mapping[str, int] = field(
        default_factory=dict
    )  # problem -> its row in the user's file; empty for generated sets


def table(problems: Iterable[Problem]) -> pl.DataFrame:
    """Problems as a frame in the PROBLEMS schema."""
    rows = [
        {
            "problem": problem.problem,
            "hash": content_hash(problem.question, problem.images),
            "question": problem.question,
            "gold": problem.gold,
            "benchmark": problem.benchmark,
            "guess": problem.guess,
            "verifier": problem.verifier,
            "prompt": problem.prompt,
            "details": json.dumps(problem.details, ensure_ascii=False) if problem.details else None,
            "images": list(problem.images) or None,
            # escaped: a lone surrogate of a column that nobody may ever read must not stop the table
            "columns": json.dumps(problem.columns) if problem.columns else None,
        }
        for problem in problems
    ]
    return pl.DataFrame(rows, schema=PROBLEMS)


def content_hash(question: str, images: Iterable[str] = ()) -> str:
    """Hash by which problems of two runs are matched: of the question, and of its images where it has some.

    Without images it is `question_hash`, so that logs, which have none, match.
    """
    image_addresses = tuple(images)
    return question_hash(
        "\n".join((question.replace("\r\n", "\n").strip(), *image_addresses)) if image_addresses else question
    )


def line(row: Mapping[str, object]) -> dict[str, object]:
    """A row of the table as `offleash problems` prints it. Reading it again gives the same problem."""
    values = dict(row)
    details, prompt, columns = values.get("details"), values.get("prompt"), values.get("columns")
    values["details"] = json.loads(details) if isinstance(details, str) else None
    values["prompt_hash"] = prompt_hash(prompt) if isinstance(prompt, str) else None
    other_columns = json.loads(columns) if isinstance(columns, str) else {}
    return {**{key: values[key] for key in KEYS if values.get(key) is not None}, **other_columns}


# What defines a benchmark: where its rows are, which column is which, its verifier and its prompt.


Row = Mapping[str, object]


@dataclass(frozen=True)
class Fields:
    """Question and gold answer of a row as text, before the benchmark's own derivation."""

    question: str
    gold: str | None


@dataclass(frozen=True)
class Derived:
    """What a derivation makes of a row. None: as the entry of the benchmark says."""

    question: str
    gold: str | None
    details: Mapping[str, object] = field(default_factory=dict)
    verifier: str | None = None
    guess: float | None = None
    prompt: str | None = None


# From a row to what is asked and how it is judged; and whether a row belongs to the benchmark at all.
DeriveProblem = Callable[[Fields, Row], Derived]
KeepRow = Callable[[Row], bool]


@dataclass(frozen=True)
class Benchmark:
    """An entry of the registry: where the rows are, which column is which, and how answers are asked for and judged."""

    name: str  # key in PROBLEMS and CLI word
    about: str
    hub: str  # id of the data set on the Hugging Face hub
    split: str
    columns: Mapping[str, str]  # ours (problem, question, gold, images) -> the hub's; others are the derivation's own
    verifier: str
    prompt: str  # key in PROMPTS
    derive: DeriveProblem
    citation: str
    paper: int | None = None  # problems in the paper (arXiv:2507.14843); None: not in it
    size: int | None = None  # problems, where the paper does not say
    config: str | None = None
    guess: float | None = None  # chance that a blind guess is accepted
    keep: KeepRow | None = None  # rows of the data set that belong to the benchmark
    share: int | None = None  # a seeded sample of this many, where the paper took one
    checked: bool = False  # whether id, split and columns were seen on the hub itself (`make test-hub`)

    @property
    def count(self) -> int | None:
        """Problems, without reading them."""
        return self.share or self.paper or self.size

    @property
    def source(self) -> str:
        """Id, config and split as one text."""
        return f"{self.hub}{f' ({self.config})' if self.config else ''}, split {self.split}"
