"""Scoring a JSONL file of prompts and texts: log-probability and entropy of every row, in the same order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.data.scores import ScoredSample, Trace
from offleash.errors import OffleashError, unknown
from offleash.files.lines import FileKind, jsonl_rows
from offleash.files.rows import Row
from offleash.progress import Progress, silent
from offleash.samplers.sampler import FINISHED, SamplingParams

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

NAMES = ("id", "prompt", "text", "finish")
ROWS_AT_A_TIME, CHARACTERS_AT_A_TIME = 1_024, 16 << 20  # per call of the scorer: what fits into memory
# Bad bytes are kept: the tokenizer decides what to make of them. NaN is refused, because ids are printed as JSON again.
TEXT_FILE = FileKind(
    description="a file of prompts and texts",
    example='{"id": ..., "prompt": ..., "text": ...}',
    missing="Give a run folder, or a JSONL file of prompts and texts.",
    constants=False,
    keep_bytes=True,
)


@dataclass(frozen=True)
class TextRow:
    """One row of the file as read."""

    id: object
    trace: Trace


@dataclass(frozen=True)
class ScoredRow:
    """One row with its sums."""

    row: TextRow
    sums: ScoredSample


def score_rows(
    path: Path, scorer: "Scorer", decoding: SamplingParams, columns: Mapping[str, str], progress: Progress = silent
) -> Iterator[ScoredRow]:
    """All rows with their sums, in order."""
    done = 0
    for batch in _parts(read_rows(path, columns)):
        scored = scorer.score([row.trace for row in batch], decoding)
        yield from (ScoredRow(row, sums) for row, sums in zip(batch, scored, strict=True))
        done += len(batch)
        progress(f"{path.name}: {done:,} rows scored")


def check_rows(path: Path, columns: Mapping[str, str]) -> int:
    """How many rows a file has; a bad one is named before a model is loaded for the others."""
    for name in columns:
        if name not in NAMES:
            raise unknown("column", name, NAMES, " for prompts and texts")
    return sum(1 for _ in read_rows(path, columns))


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[TextRow]:
    """The rows of a JSONL file; a bad one is an error that names its row and what was found."""
    return (_text_row(row, columns) for row in jsonl_rows(path, TEXT_FILE))


def _text_row(row: Row, columns: Mapping[str, str]) -> TextRow:
    prompt, written = (_text(row, name, columns) for name in ("prompt", "text"))
    finish = row.values.get(columns.get("finish", "finish"))
    return TextRow(row.values.get(columns.get("id", "id"), row.number), Trace(prompt, written, finish == FINISHED))


def _text(row: Row, name: str, columns: Mapping[str, str]) -> str:
    value = row.column(name, columns, TEXT_FILE.example)
    if value is None and name == "text":  # an empty text, as some logs write it
        return ""
    if not isinstance(value, str):
        raise OffleashError(f"{row.where}: {columns.get(name, name)!r} should be a string; found {str(value)[:60]!r}.")
    return value


def _parts(rows: Iterator[TextRow]) -> Iterator[list[TextRow]]:
    """Rows that are scored together."""
    batch: list[TextRow] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += len(row.trace.text)
        if len(batch) == ROWS_AT_A_TIME or characters > CHARACTERS_AT_A_TIME:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
