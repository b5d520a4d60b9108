"""External traces: solutions that others wrote for the problems of a run, read from a file of rows and checked."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from offleash.errors import OffleashError, unknown
from offleash.render.escape import valid_utf8
from offleash.samplers.sampler import FINISHED

NAMES = ("problem", "text", "author", "correct", "finish")
EXAMPLE = '{"problem": ..., "text": ..., "author": ...}'
NAMED = 5  # unknown problems that are named
LIKE = 2_000  # ids among which the nearest is looked for


@dataclass(frozen=True)
class External:
    """One trace; the line of its row tells it apart."""

    line: int
    problem: str  # as the row names it
    place: int  # of its problem
    text: str
    author: str
    correct: bool | None  # None: the row does not say
    ended: bool


@dataclass(frozen=True)
class TraceFile:
    """The traces of a file, and what of it is none."""

    path: Path
    rows: int
    traces: tuple[External, ...]
    unknown: Mapping[str, str]  # ids of no problem here, and the nearest id that is one ("": none is near)
    unknown_rows: int
    empty: int
    duplicates: int  # rows that an earlier one repeats


def read_traces(path: Path, places: Mapping[str, int], columns: Mapping[str, str] | None = None) -> TraceFile:
    """The traces of a JSONL file for the problems at `places`; a bad row is an error that names its line."""
    for name in columns or {}:
        if name not in NAMES:
            raise unknown("column of traces", name, NAMES)
    rows = list(_rows(path, columns or {}))
    if not rows:
        raise OffleashError(f"{path} is empty; it should hold a row {EXAMPLE} a line.")
    seen: dict[tuple[int, str, str], External] = {}
    strangers: dict[str, str] = {}
    unknown_rows = empty = duplicates = 0
    for row in rows:
        if row.problem not in places:
            unknown_rows += 1
            if row.problem not in strangers:
                near = get_close_matches(row.problem, list(places)[:LIKE], n=1) if len(strangers) < NAMED else []
                strangers[row.problem] = near[0] if near else ""
        elif not row.text.strip():
            empty += 1
        else:
            place = places[row.problem]
            first = seen.setdefault((place, row.author, row.text), replace(row, place=place))
            duplicates += first.line != row.line
            _refuse_two_words(path, first, row)
            if first.correct is None:
                seen[place, row.author, row.text] = replace(first, correct=row.correct)
    _refuse_nothing(path, len(rows), seen, strangers, places, empty)
    return TraceFile(path, len(rows), tuple(seen.values()), strangers, unknown_rows, empty, duplicates)


def _refuse_two_words(path: Path, first: External, row: External) -> None:
    if first.correct is not row.correct and None not in (first.correct, row.correct):
        raise OffleashError(
            f"{path}, lines {first.line} and {row.line}: the same trace of {row.author!r} on {row.problem!r} is once "
            "'correct' and once not; keep one of them."
        )


def _refuse_nothing(
    path: Path,
    rows: int,
    seen: Mapping[tuple[int, str, str], External],
    strangers: Mapping[str, str],
    places: Mapping[str, int],
    empty: int,
) -> None:
    if seen:
        return
    if not strangers:
        raise OffleashError(
            f"{path}: all of its {rows:,} traces are empty ({empty:,}); 'text' is what the author wrote."
        )
    first, near = next(iter(strangers.items()))
    hint = f" Did you mean {near!r}?" if near else f" The runs have ids like {next(iter(places))!r}."
    raise OffleashError(
        f"{path}: none of its {rows:,} traces is for a problem of the runs; the first is for {first!r}.{hint} "
        "Name the column of ids with --map problem=COLUMN."
    )


def _rows(path: Path, columns: Mapping[str, str]) -> Iterator[External]:
    try:
        file = path.open(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise OffleashError(
            f"{path} cannot be read ({error.strerror}); traces are a JSONL file of {EXAMPLE}."
        ) from None
    with file:
        for line, text in enumerate(file, 1):
            if text.strip():
                yield _row(path, line, text, columns)


def _row(path: Path, line: int, text: str, columns: Mapping[str, str]) -> External:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise OffleashError(f"{path}, line {line}: not JSON ({error}): {text[:60].strip()!r}.") from None
    except RecursionError:
        raise OffleashError(f"{path}, line {line}: JSON nested too deep to be read.") from None
    if not isinstance(row, dict):
        raise OffleashError(f"{path}, line {line}: a row is {EXAMPLE}; found a {type(row).__name__}.")
    named = {name: columns.get(name, name) for name in NAMES}
    for name in ("problem", "text", "author"):
        if named[name] not in row:
            keys = ", ".join(map(str, row))[:100] or "nothing"
            raise OffleashError(
                f"{path}, line {line}: there is no {named[name]!r}; found {keys}. A row is {EXAMPLE}; other names: "
                f"--map {name}=COLUMN."
            )
    problem, written, author = (row[named[name]] for name in ("problem", "text", "author"))
    correct, finish = row.get(named["correct"]), row.get(named["finish"])
    if isinstance(problem, bool) or not isinstance(problem, str | int):
        raise _wrong(path, line, named["problem"], "the id of a problem", problem)
    if written is not None and not isinstance(written, str):
        raise _wrong(path, line, named["text"], "a string", written)
    if not isinstance(author, str) or not author.strip():
        raise _wrong(path, line, named["author"], "who wrote the trace", author)
    for name, value in (("problem", str(problem)), ("author", author)):
        if valid_utf8(value) != value:
            raise _wrong(path, line, named[name], "text in UTF-8", value)
    if correct is not None and correct not in (True, False):
        raise _wrong(path, line, named["correct"], "true, false or null", correct)
    right = None if correct is None else bool(correct)
    return External(line, str(problem), -1, valid_utf8(written or ""), author.strip(), right, finish == FINISHED)


def _wrong(path: Path, line: int, name: str, what: str, found: object) -> OffleashError:
    return OffleashError(f"{path}, line {line}: {name!r} should be {what}; found {str(found)[:60]!r}.")
