"""Scoring a JSONL file of prompts and texts: log-probability and entropy of every row, in the same order."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.data.scores import Sums, Trace
from offleash.errors import OffleashError, unknown
from offleash.progress import Progress, silent
from offleash.samplers.sampler import FINISHED, SamplingParams

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

NAMES = ("id", "prompt", "text", "finish")
ROWS_AT_A_TIME, LETTERS_AT_A_TIME = 1_024, 16 << 20
EXAMPLE = '{"id": ..., "prompt": ..., "text": ...}'


@dataclass(frozen=True)
class TextRow:
    """One row of the file as read."""

    id: object
    trace: Trace


@dataclass(frozen=True)
class ScoredRow:
    """One row with its sums."""

    row: TextRow
    sums: Sums


def score_rows(
    path: Path, scorer: "Scorer", decoding: SamplingParams, columns: Mapping[str, str], progress: Progress = silent
) -> Iterator[ScoredRow]:
    """All rows with their sums, in order."""
    done = 0
    for part in _parts(read_rows(path, columns)):
        scored = scorer.score([row.trace for row in part], decoding)
        yield from (ScoredRow(row, sums) for row, sums in zip(part, scored, strict=True))
        done += len(part)
        progress(f"{path.name}: {done:,} rows scored")


def check_rows(path: Path, columns: Mapping[str, str]) -> int:
    """How many rows a file has; a bad one is named before a model is loaded for the others."""
    for name in columns:
        if name not in NAMES:
            raise unknown("column of traces", name, NAMES)
    return sum(1 for _ in read_rows(path, columns))


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[TextRow]:
    """The rows of a JSONL file; a bad one is an error that names its line and what was found."""
    try:
        file = path.open(encoding="utf-8-sig", errors="surrogateescape")
    except FileNotFoundError:
        raise OffleashError(f"There is no file {path}; score takes run folders and JSONL files of {EXAMPLE}.") from None
    found = 0
    with file:
        for line, text in enumerate(file, 1):
            if text.strip():
                found += 1
                yield _row(path, line, text, columns)
    if not found:
        raise OffleashError(f"{path} is empty; it should hold a row {EXAMPLE} a line.")


def _row(path: Path, line: int, text: str, columns: Mapping[str, str]) -> TextRow:
    try:
        row = json.loads(text, parse_constant=_refused)
    except ValueError as error:
        raise OffleashError(f"{path}, line {line}: not JSON ({error}): {text[:60].strip()!r}.") from None
    except RecursionError:
        raise OffleashError(f"{path}, line {line}: JSON nested too deep to be read.") from None
    if not isinstance(row, dict):
        raise OffleashError(f"{path}, line {line}: a row is {EXAMPLE}; found a {type(row).__name__}.")
    prompt, written = (_text(path, line, row, name, columns.get(name, name)) for name in ("prompt", "text"))
    finish = row.get(columns.get("finish", "finish"))
    return TextRow(row.get(columns.get("id", "id"), line), Trace(prompt, written, finish == FINISHED))


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


def _text(path: Path, line: int, row: dict[str, object], name: str, column: str) -> str:
    if column not in row:
        keys = ", ".join(map(str, row))[:100] or "nothing"
        raise OffleashError(
            f"{path}, line {line}: there is no {column!r}; found {keys}. A row is {EXAMPLE}; "
            f"other names: --map {name}=COLUMN."
        )
    value = row[column]
    if value is None and name == "text":  # a log's word for an empty text
        return ""
    if not isinstance(value, str):
        raise OffleashError(f"{path}, line {line}: {column!r} should be a string; found {str(value)[:60]!r}.")
    return value


def _parts(rows: Iterator[TextRow]) -> Iterator[list[TextRow]]:
    """Rows that are scored together."""
    part: list[TextRow] = []
    letters = 0
    for row in rows:
        part.append(row)
        letters += len(row.trace.text)
        if len(part) == ROWS_AT_A_TIME or letters > LETTERS_AT_A_TIME:
            yield part
            part, letters = [], 0
    if part:
        yield part
