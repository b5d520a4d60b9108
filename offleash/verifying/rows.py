"""Verifying a JSONL file of gold answers and texts: one verdict per row, in the same order."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from offleash.data.tables import TRUNCATED
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.verifiers.registry import verifier as named
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cases import judge_texts, unreadable
from offleash.verifying.judge import Judge, ProblemCase, problem_case
from offleash.verifying.verify import VerifyOptions, kept, open_judge

CHUNK = 2_000  # rows judged at a time; the seconds of a row are its decision's and its share of the reading


@dataclass(frozen=True)
class GoldRow:
    """One row of the file as read."""

    line: int
    id: object
    problem: ProblemCase
    text: str
    truncated: bool


@dataclass(frozen=True)
class Outcome:
    """One row's verdict."""

    id: object
    verdict: Verdict
    answer: str | None
    step: str | None
    seconds: float
    reason: str = ""
    score: float | None = None
    unreadable: bool = False  # its gold answer, by the verifier


def is_rows(path: Path) -> bool:
    """Whether a path names a file of rows rather than a run folder."""
    return path.is_file() or path.suffix in (".jsonl", ".json", ".ndjson")


def verify_rows(judge: Judge, path: Path, options: VerifyOptions, progress: Progress = silent) -> Iterator[Outcome]:
    """The outcomes of all rows, in order; a row whose gold answer cannot be read is `failed` with the reason."""
    if options.verifier is None:
        raise OffleashError(f"{path} names no verifier; choose one with --verifier NAME, for example --verifier math.")
    verifier = options.extraction.of(named(options.verifier))
    rows = read_rows(path)
    done = 0
    while chunk := list(islice(rows, CHUNK)):
        yield from _outcomes(judge, verifier, chunk, options.extraction.opened)
        done += len(chunk)
        progress(f"{path.name}: {done:,} rows verified")


def read_rows(path: Path) -> Iterator[GoldRow]:
    """The rows of a JSONL file; a bad one is an error that names its line and what was found."""
    try:
        file = path.open(encoding="utf-8-sig", errors="surrogateescape")
    except FileNotFoundError:
        raise OffleashError(f"There is no file {path}; verify takes run folders and JSONL files.") from None
    found = 0
    with file:
        for line, text in enumerate(file, 1):
            if text.strip():
                found += 1
                yield _row(path, line, text)
    if not found:
        raise OffleashError(f'{path} is empty; it should hold a row {{"id": ..., "gold": ..., "text": ...}} a line.')


class Digits(str):
    """A number of the file, digit for digit: a float would round a gold answer."""


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


def _row(path: Path, line: int, text: str) -> GoldRow:
    try:
        row = json.loads(text, parse_float=Digits, parse_constant=_refused)
    except ValueError as error:
        raise OffleashError(f"{path}, line {line}: not JSON ({error}): {text[:60].strip()!r}.") from None
    except RecursionError:
        raise OffleashError(f"{path}, line {line}: JSON nested too deep to be read.") from None
    if not isinstance(row, dict) or "text" not in row:
        keys = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
        raise OffleashError(
            f'{path}, line {line}: a row is {{"id": ..., "gold": ..., "text": ...}}; found {keys[:100] or "nothing"}. '
            "Logs of other tools: offleash import LOG -o RUN, then verify RUN; or offleash compare --verifier NAME."
        )
    if not isinstance(row["text"], str | None):
        raise OffleashError(f'{path}, line {line}: "text" should be a string; found {str(row["text"])[:60]!r}.')
    gold = row.get("gold")
    if isinstance(gold, bool | list | dict):
        raise OffleashError(f'{path}, line {line}: "gold" should be a string or a number; found {str(gold)[:60]!r}.')
    details = json.loads(text).get("details")  # numbers here are numbers
    written = json.dumps(details) if details is not None and not isinstance(details, str) else details
    name = row.get("id", line)
    name = float(name) if isinstance(name, Digits) else name
    problem = problem_case(str(name), None if gold is None else str(gold), row.get("question"), written)
    return GoldRow(line, name, problem, row["text"] or "", row.get("finish") == TRUNCATED)


def _outcomes(judge: Judge, verifier: Verifier, rows: list[GoldRow], opened: bool) -> Iterator[Outcome]:
    started = time.monotonic()
    distinct = {row.problem.key: row.problem for row in rows}
    faults = {
        problem.key: why for problem, why in unreadable(judge, [(problem, verifier) for problem in distinct.values()])
    }
    good = [row for row in rows if row.problem.key not in faults]
    pairs = [(row.problem, verifier) for row in good]
    found = judge_texts(judge, pairs, [row.text for row in good], [row.truncated for row in good], opened)
    spent = sum({id(judged): judged.seconds for _, judged in found}.values())
    share = max(time.monotonic() - started - spent, 0.0) / len(rows)
    by_line = dict(zip((row.line for row in good), found, strict=True))
    for row in rows:
        if row.line not in by_line:
            yield Outcome(row.id, Verdict.FAILED, None, None, share, faults[row.problem.key], unreadable=True)
            continue
        read, judged = by_line[row.line]
        seconds = share + judged.seconds
        yield Outcome(row.id, judged.verdict, kept(read.answer), read.step, seconds, judged.reason, judged.score)


def verify_file(
    path: Path, options: VerifyOptions, each: Callable[[Outcome], None], progress: Progress = silent
) -> list[Outcome]:
    """Verify a file of rows; `each` gets every outcome as it is there. Returns those whose gold could not be read."""
    with open_judge(options, progress) as judge:
        return [outcome for outcome in _told(verify_rows(judge, path, options, progress), each) if outcome.unreadable]


def _told(outcomes: Iterator[Outcome], each: Callable[[Outcome], None]) -> Iterator[Outcome]:
    for outcome in outcomes:
        each(outcome)
        yield outcome


def file_among(arguments: Sequence[str], verb: str) -> Path | None:
    """The one file of rows that the arguments name; None where they name run folders."""
    files = [Path(argument) for argument in arguments if is_rows(Path(argument))]
    if not files:
        return None
    if len(arguments) > 1:
        raise OffleashError(f"{verb} one file of rows at a time, or run folders; found {', '.join(arguments)}.")
    return files[0]
