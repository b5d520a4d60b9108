"""Rows of JSONL and JSON logs: encodings, gzip, blank lines and cut-off ends, with notes on what was repaired."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.rows import Row

GZIP = b"\x1f\x8b"
BLOCK = 1 << 20
GAP = re.compile(r"[\s,]*")


@dataclass
class Repairs:
    """What had to be mended while the lines of one file were read."""

    notes: list[Note] = field(default_factory=list)
    replaced: int = 0
    first_replaced: int = 0

    def replace(self, number: int) -> None:
        self.replaced += 1
        self.first_replaced = self.first_replaced or number

    def all_notes(self, path: Path) -> list[Note]:
        if not self.replaced:
            return self.notes
        where = f"{path.name}: {self.replaced} lines, the first is line {self.first_replaced}"
        return [
            *self.notes,
            Note(f"{where}, are not valid UTF-8; the bad bytes were replaced by U+FFFD.", self.replaced),
        ]


def jsonl_rows(path: Path, repairs: Repairs) -> Iterator[Row]:
    """One JSON object a line. A last line that was cut off is left out and noted."""
    broken = 0
    for number, line in enumerate(text_lines(path, repairs), 1):
        if not line.strip():
            continue
        if broken:
            raise OffleashError(
                f"{path}: row {broken} is not JSON. Mend or delete that line; "
                "only a cut-off last line is left out by itself."
            )
        try:
            value = decode(line, path, number)
        except ValueError:
            broken = number
            continue
        yield Row(path, number, _object(value, path, number))
    if broken:
        repairs.notes.append(
            Note(
                f"{path.name}: the last line, row {broken}, is cut off or not JSON and was left out.", 1, left_out=True
            )
        )


def array_rows(path: Path, repairs: Repairs) -> Iterator[Row]:
    """The objects of a JSON array, without holding the whole array in memory."""
    blocks, decoder = text_blocks(path, repairs), json.JSONDecoder()
    text = "".join(islice(blocks, 1)).lstrip()
    opened = text.startswith("[")  # a single object counts as an array of one
    number, place, wanted = 0, int(opened), 1
    while True:
        place = GAP.match(text, place).end()  # type: ignore[union-attr]
        if text.startswith("]", place):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except RecursionError:
            raise _too_deep(path, number + 1) from None
        except ValueError:
            more = "".join(islice(blocks, wanted))
            if not more:
                raise OffleashError(
                    f"{path}: row {number + 1} of the array is cut off or not JSON. Copy the file again, or mend it."
                ) from None
            text, place, wanted = text[place:] + more, 0, wanted * 2
            continue
        number, wanted = number + 1, 1
        yield Row(path, number, _object(value, path, number))
        if not opened:
            return


def document(path: Path) -> object:
    """A whole JSON file as one value."""
    text = "".join(text_lines(path, Repairs()))
    try:
        return decode(text, path, 1)
    except ValueError as error:
        raise OffleashError(f"{path} is cut off or not JSON ({error}). Copy the file again, or mend it.") from None


def text_lines(path: Path, repairs: Repairs) -> Iterator[str]:
    """Decoded lines of a file with their ends; only a line feed ends a line, U+2028 and its like do not."""
    for block in text_blocks(path, repairs):
        yield from io.StringIO(block, newline="\n")


def text_blocks(path: Path, repairs: Repairs) -> Iterator[str]:
    """Decoded blocks of whole lines, of a file compressed or not; bad bytes become U+FFFD and are counted."""
    with reading(path), _opened(path) as file:
        start = file.peek(4)[:4]  # type: ignore[attr-defined]
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            with io.TextIOWrapper(file, encoding="utf-16", newline="\n") as text_file:
                while text := text_file.read(BLOCK) + text_file.readline():
                    yield text
            return
        if start.startswith(b"\xef\xbb\xbf"):
            file.read(3)
        number = 1
        while data := file.read(BLOCK) + file.readline():
            try:
                yield data.decode("utf-8")
            except UnicodeDecodeError:
                yield "".join(_replaced(data, number, repairs))
            number += data.count(b"\n")


def decode(text: str, path: Path, number: int) -> object:
    """One JSON value. ValueError when it is not JSON; NaN and Infinity are accepted."""
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise _too_deep(path, number) from None
    return value


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the file system and of compression, as ones a user can act on."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OffleashError(f"{path}: the gzip file is cut off or damaged ({error}). Copy it again.") from None
    except UnicodeDecodeError as error:
        raise OffleashError(f"{path} starts as UTF-16 and is not ({error.reason}). Save it as UTF-8.") from None
    except OSError as error:
        raise OffleashError(f"{path} cannot be read: {error.strerror or error}.") from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        compressed = file.read(2) == GZIP
    return io.BufferedReader(gzip.open(path, "rb")) if compressed else path.open("rb")


def _object(value: object, path: Path, number: int) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    kind = type(value).__name__
    raise OffleashError(
        f"{path}: row {number} is a JSON {kind}, not an object with named fields such as problem, verdict."
    )


def _too_deep(path: Path, number: int) -> OffleashError:
    return OffleashError(f"{path}: row {number} is nested too deeply to be read. Is it a log of samples?")


def _replaced(data: bytes, number: int, repairs: Repairs) -> Iterator[str]:
    for line_number, line in enumerate(data.split(b"\n"), number):
        text = line.decode("utf-8", "replace")
        if text.count("\ufffd") != line.count("\ufffd".encode()):
            repairs.replace(line_number)
        yield text if line_number == number else f"\n{text}"
