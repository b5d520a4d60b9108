"""Routes: what a request for an address gets. Nothing of it names a file: rows and indices are numbers, checked."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from offleash.data.shards import DAMAGE, first_line
from offleash.data.verdict import Verdict
from offleash.errors import unknown
from offleash.render.escape import script_json
from offleash.render.numbers import Json
from offleash.reporting.documents import RUNS, problem_document, samples_document, text_document
from offleash.reporting.samples import UNVERIFIED, Shelf

ALL = "all"
VERDICTS = (*(verdict.value for verdict in Verdict), UNVERIFIED, ALL)
SAMPLES_AT_ONCE, LETTERS_AT_ONCE = 100, 100_000
LARGEST = 2**32 - 1  # of an index
HTML, JSON = "text/html; charset=utf-8", "application/json; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """What goes back: a status, a body and its kind."""

    status: int
    body: bytes
    kind: str = JSON


class RefusedError(Exception):
    """A request that gets no content; the message says what would."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(shelf: Shelf, page: bytes, target: str) -> Reply:
    """The page, a document, or an error that says what is right."""
    path, _, query = target.partition("?")  # compared as it stands: an encoded dot is no dot
    if path == "/":
        return Reply(200, page, HTML)
    if path == "/favicon.ico":  # browsers ask for it by themselves
        return Reply(204, b"")
    try:
        if path not in ROUTES:
            raise RefusedError(404, f"There is nothing at {path[:80]!r}. Known: /, {', '.join(ROUTES)}.")
        route = ROUTES[path]
        return Reply(200, script_json(route.document(shelf, _asked(query, route.names))).encode())
    except RefusedError as error:
        return refusal(error.status, str(error))
    except DAMAGE as error:
        reason = f"The samples cannot be read ({first_line(error)}). Is the run folder still where it was?"
        return refusal(500, reason)


def refusal(status: int, message: str) -> Reply:
    """A reply without content: only what is wrong, and what would be right."""
    return Reply(status, script_json({"error": message}).encode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class Route:
    """A document, and the names that its query may have."""

    document: Callable[[Shelf, Mapping[str, str]], Json]
    names: tuple[str, ...]


def _problem(shelf: Shelf, asked: Mapping[str, str]) -> Json:
    return problem_document(shelf, _row(shelf, asked))


def _samples(shelf: Shelf, asked: Mapping[str, str]) -> Json:
    row, r = _row(shelf, asked), _number(asked, "run", RUNS[0], RUNS[-1])
    verdict = asked.get("verdict", ALL)
    if verdict not in VERDICTS:
        raise RefusedError(400, str(unknown("verdict", verdict[:40], VERDICTS)))
    start = _number(asked, "start", 0, LARGEST, 0)
    size = _number(asked, "size", 1, SAMPLES_AT_ONCE, 20)
    return samples_document(shelf, row, r, None if verdict == ALL else verdict, start, size)


def _text(shelf: Shelf, asked: Mapping[str, str]) -> Json:
    row, r = _row(shelf, asked), _number(asked, "run", RUNS[0], RUNS[-1])
    index = _number(asked, "index", 0, LARGEST)
    start = _number(asked, "start", 0, LARGEST, 0)
    found = text_document(shelf, row, r, index, start, LETTERS_AT_ONCE)
    if found is None:
        name = shelf.run(r).name
        raise RefusedError(404, f"{name!r} keeps no text of a sample {index} of this problem; /api/samples lists them.")
    return found


ROUTES: dict[str, Route] = {
    "/api/problem": Route(_problem, ("row",)),
    "/api/samples": Route(_samples, ("row", "run", "verdict", "start", "size")),
    "/api/text": Route(_text, ("row", "run", "index", "start")),
}


def _asked(query: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """The query by name; a name that is not known or stands twice is refused."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise RefusedError(400, f"The query has more than 20 parts. Known: {', '.join(names)}.") from None
    for name, _ in pairs:
        if name not in names:
            raise RefusedError(400, str(unknown("part of the query", name[:40], names)))
    if len(dict(pairs)) < len(pairs):
        raise RefusedError(400, f"A part of the query stands twice: {query[:80]!r}. Give each of them once.")
    return dict(pairs)


def _row(shelf: Shelf, asked: Mapping[str, str]) -> int:
    return _number(asked, "row", 0, shelf.one.counted.problems.height - 1)


def _number(asked: Mapping[str, str], name: str, low: int, high: int, usual: int | None = None) -> int:
    """A whole number of the query between two bounds; without `usual` it must be there."""
    text = asked.get(name)
    if text is None and usual is not None:
        return usual
    right = f"{name} is a whole number from {low:,} to {high:,}"
    if text is None:
        raise RefusedError(400, f"{right}; it is missing.")
    if not re.fullmatch("[0-9]{1,12}", text):
        raise RefusedError(400, f"{right}; found {text[:40]!r}.")
    if not low <= int(text) <= high:
        raise RefusedError(404, f"{right}; found {int(text):,}.")
    return int(text)
