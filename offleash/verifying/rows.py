"""Verifying a JSONL file of gold answers and texts: one verdict per row, in the same order."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from offleash.data.tables import TRUNCATED
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.files.lines import FileKind, jsonl_rows
from offleash.files.rows import Row, WrittenFloat
from offleash.progress import Progress, silent
from offleash.verifiers.registry import chosen_verifier
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cases import judge_texts, own_case, unreadable_golds
from offleash.verifying.judge import Judge, ProblemCase, problem_case
from offleash.verifying.verify import VerifyOptions, open_judge, storable

# Bad bytes are kept: a sample with a broken character in it still has an answer. NaN is refused, because ids are
# printed as JSON again.
GOLD_FILE = FileKind(
    description="a file of gold answers and texts",
    example='{"id": ..., "gold": ..., "text": ...}',
    missing="Give a run folder, or a JSONL file of gold answers and texts.",
    written_floats=True,
    constants=False,
    keep_bytes=True,
)
ROW_KEYS = ("id", "gold", "text", "question", "details", "finish")
CHUNK = 2_000  # rows judged at a time: few enough that verdicts come as they are made, enough to keep workers busy


@dataclass(frozen=True)
class GoldRow:
    """One row of the file as read."""

    line: int
    id: object
    problem: ProblemCase
    text: str
    truncated: bool
    columns: Mapping[str, object] = field(default_factory=dict)  # the rest of the row, for a user's own function

    def for_verifier(self, verifier: Verifier) -> ProblemCase:
        """Its problem as the verifier gets it."""
        if verifier.own is None:
            return self.problem
        return own_case(self.problem, verifier, self.problem.question, None, self.columns)


@dataclass(frozen=True)
class Outcome:
    """One row's verdict."""

    id: object
    verdict: Verdict
    answer: str | None
    step: str | None  # of extraction; None where no answer was found
    seconds: float  # of its decision, and its share of the time that reading its chunk took
    reason: str = ""
    score: float | None = None
    unreadable: bool = False  # the verifier cannot read its gold answer


def is_gold_rows_file(path: Path) -> bool:
    """Whether a path names a file of rows rather than a run folder."""
    return path.is_file() or path.suffix in (".jsonl", ".json", ".ndjson")


def verify_rows(judge: Judge, path: Path, options: VerifyOptions, progress: Progress = silent) -> Iterator[Outcome]:
    """The outcomes of all rows, in order; a row whose gold answer cannot be read is `failed` with the reason."""
    if options.verifier is None:
        raise OffleashError(
            f"{path} does not name a verifier. Choose one with --verifier NAME, for example --verifier math."
        )
    verifier = options.extraction.of(chosen_verifier(options.verifier))
    rows = read_rows(path)
    rows_done = 0
    while chunk := list(islice(rows, CHUNK)):
        yield from _outcomes(judge, verifier, chunk, options.extraction.opened)
        rows_done += len(chunk)
        progress(f"{path.name}: {rows_done:,} rows verified")


def read_rows(path: Path) -> Iterator[GoldRow]:
    """The rows of a JSONL file; a bad one is an error that names its row and what was found."""
    return (_gold_row(row) for row in jsonl_rows(path, GOLD_FILE))


def _gold_row(row: Row) -> GoldRow:
    values = row.values
    if "text" not in values:
        keys = ", ".join(map(str, values))[:100] or "nothing"
        raise OffleashError(
            f"{row.where} should be {GOLD_FILE.example}; found {keys}. "
            "Logs of other tools: offleash import LOG -o RUN, then verify RUN; or offleash compare --verifier NAME."
        )
    text, gold, details = values["text"], values.get("gold"), values.get("details")
    if not isinstance(text, str | None):
        raise OffleashError(f'{row.where}: "text" should be a string; found {str(text)[:60]!r}.')
    if isinstance(gold, bool | list | dict):
        raise OffleashError(f'{row.where}: "gold" should be a string or a number; found {str(gold)[:60]!r}.')
    if details is not None and not isinstance(details, str):
        details = json.dumps(details)
    name = values.get("id", row.number)
    problem = problem_case(str(name), _as_written(gold), _as_written(values.get("question")), details)
    extra_values = {key: value for key, value in values.items() if key not in ROW_KEYS}
    return GoldRow(row.number, name, problem, text or "", values.get("finish") == TRUNCATED, extra_values)


def _as_written(value: object) -> str | None:
    """A text or number with the digits of the file."""
    if isinstance(value, WrittenFloat):
        return value.written
    return None if value is None else str(value)


def _outcomes(judge: Judge, verifier: Verifier, rows: list[GoldRow], opened: bool) -> Iterator[Outcome]:
    """The outcomes of a chunk; gold answers that cannot be read fail their rows and not the file."""
    started = time.monotonic()
    problems = {row.line: row.for_verifier(verifier) for row in rows}
    distinct_problems = {problem.key: problem for problem in problems.values()}
    faults = {
        problem.key: reason
        for problem, reason in unreadable_golds(judge, [(problem, verifier) for problem in distinct_problems.values()])
    }
    readable_rows = [row for row in rows if problems[row.line].key not in faults]
    pairs = [(problems[row.line], verifier) for row in readable_rows]
    judged = judge_texts(
        judge, pairs, [row.text for row in readable_rows], [row.truncated for row in readable_rows], opened
    )
    # equal answers share one judgement object: its seconds were spent once, so they are subtracted once
    seconds_used = sum({id(judgement): judgement.seconds for _, judgement in judged}.values())
    share = max(time.monotonic() - started - seconds_used, 0.0) / len(rows)
    by_line = dict(zip((row.line for row in readable_rows), judged, strict=True))
    for row in rows:
        if row.line not in by_line:
            yield Outcome(row.id, Verdict.FAILED, None, None, share, faults[problems[row.line].key], unreadable=True)
            continue
        extraction, judgement = by_line[row.line]
        yield Outcome(
            row.id,
            judgement.verdict,
            storable(extraction.answer),
            extraction.step,
            share + judgement.seconds,
            judgement.reason,
            judgement.score,
        )


def verify_file(
    path: Path, options: VerifyOptions, on_outcome: Callable[[Outcome], None], progress: Progress = silent
) -> list[Outcome]:
    """Verify a file of rows; `on_outcome` gets every outcome as it comes, in the order of the file.

    Returns:
        The outcomes of rows whose gold answer could not be read.
    """
    unreadable_golds = []
    with open_judge(options, progress) as judge:
        for outcome in verify_rows(judge, path, options, progress):
            on_outcome(outcome)
            if outcome.unreadable:
                unreadable_golds.append(outcome)
    return unreadable_golds


def file_among(arguments: Sequence[str], verb: str) -> Path | None:
    """The one file of rows that the arguments name; None where they name run folders."""
    files = [Path(argument) for argument in arguments if is_gold_rows_file(Path(argument))]
    if not files:
        return None
    if len(arguments) > 1:
        raise OffleashError(f"{verb} one file of rows at a time, or run folders. Found {', '.join(arguments)}.")
    return files[0]
