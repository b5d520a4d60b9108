"""Rows of files: a log's row with typed fields (`Row`), and all rows of a problem file (`read_rows`).

A log is repaired with notes (files/lines.py). A problem file never is: a missing problem would change every result.
"""

import csv
import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from offleash.data.tables import question_hash
from offleash.errors import OffleashError

BIGGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row and where it came from."""

    path: Path
    number: int
    values: Mapping[str, object]

    def text(self, *names: str) -> str | None:
        """The first of these fields that has a value, as text."""
        for name in names:
            value = text_of(self.values.get(name))
            if value is not None:
                return value
        return None

    def whole(self, name: str) -> int | None:
        value = self.values.get(name)
        number = whole_of(value)
        if number is None and text_of(value) is not None:
            self.wrong(f"{name!r} is {shown(value)}, not a whole number")
        return number

    def number_of(self, name: str) -> float | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return None
        try:
            return float(str(value))
        except ValueError:
            self.wrong(f"{name!r} is {shown(value)}, not a number")

    def items(self, name: str) -> list[object]:
        """A field that must be a list."""
        value = self.values.get(name)
        if not isinstance(value, list):
            self.wrong(f"{name!r} is {shown(value)}, not a list")
        return value

    def fields(self, name: str) -> Mapping[str, object]:
        """A field that is an object, or nothing."""
        return fields_of(self.values.get(name))

    def problem(self, *names: str, question: str | None) -> str:
        """The log's own id of the problem; the hash of the question where it has none."""
        name = self.text(*names)
        if name is None and question is None:
            keys = " nor ".join([*(repr(name) for name in names), "a question"])
            self.wrong(f"it has neither {keys} to know the problem by")
        return name if name is not None else question_hash(question or "")

    def wrong(self, what: str) -> NoReturn:
        raise OffleashError(f"{self.path}: row {self.number}: {what}. Mend the row or leave it out.")


def fields_of(value: object) -> Mapping[str, object]:
    """An object's fields; none for anything else."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str | None:
    """A value as text: numbers as written, structures as JSON, null and NaN as nothing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return (
            str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        )  # ids turned to 3.0 by a null
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict | list):
        return _json(value)
    return str(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (RecursionError, ValueError) as error:
        raise OffleashError(f"A value is nested too deeply to be read as text ({error}).") from None


def whole_of(value: object) -> int | None:
    """A value as an integer, when it is one that fits a column."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    same = isinstance(value, str) or number == value
    return number if same and abs(number) <= BIGGEST else None


def chat_text(value: object, role: str) -> str | None:
    """Text of a prompt or completion: as it is, or the messages of one role when it is a chat."""
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        return text_of(value)
    said = [message for message in value if message.get("role", role) == role] or value
    return "\n\n".join(content_text(message.get("content")) for message in said)


def content_text(content: object) -> str:
    """Text of a message whose content is a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(text_of(fields_of(part).get("text", "")) or "" for part in content)
    return text_of(content) or ""


def shown(value: object) -> str:
    """A value as it can stand in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Rows of a problem file: JSONL, a JSON list, CSV or Parquet, compressed or not; a broken row is refused by number.


PARQUET, GZIP, ZIP = b"PAR1", b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = (",", "\t", ";")


@dataclass(frozen=True)
class NumberedRow:
    """One row and the number by which an editor finds it: of the line, or of the entry of a list."""

    number: int
    values: Mapping[str, object]
    text: str = ""  # the JSON it was read from
    exactly: Mapping[str, object] | None = None

    def exact(self) -> Mapping[str, object]:
        """Its values with every fraction as the text that stands in the file: 10.0 stays '10.0'."""
        if self.exactly is not None or not self.text:
            return self.exactly or self.values
        values: dict[str, object] = _exact(self.text)
        return values


def read_rows(path: Path) -> list[NumberedRow]:
    """All rows of a file, whatever its name says it is."""
    if path.is_dir():
        raise OffleashError(f"{path} is a folder. Give the file of problems itself, for example {path}/problems.jsonl.")
    try:
        with path.open("rb") as file:
            start = file.read(4)
            data = b"" if start == PARQUET else start + file.read()
    except FileNotFoundError:
        raise OffleashError(f"There is no file {path}. Check the path.") from None
    except (OSError, ValueError) as error:
        raise OffleashError(f"{str(path)!r} cannot be read: {error}.") from None
    if start == PARQUET:
        rows = list(_parquet(path))
    elif start == ZIP:
        raise OffleashError(f"{path} is a zip archive. Unpack it and give the file of problems in it.")
    else:
        rows = list(_text_rows(path, _decoded(path, data)))
    if not rows:
        raise OffleashError(f"{path} has no rows: no problem is in it.")
    return rows


def _text_rows(path: Path, text: str) -> Iterator[NumberedRow]:
    start = text.lstrip()[:1]
    if not start:
        raise OffleashError(f"{path} is empty. Was the file written to its end?")
    if start == "[":
        return _array(path, text)
    if start == "{":
        return _objects(path, text)
    return _csv(path, text)


def _objects(path: Path, text: str) -> Iterator[NumberedRow]:
    """One object a line; one object over many lines is a list of one."""
    lines = [(number, line) for number, line in enumerate(io.StringIO(text, newline="\n"), 1) if line.strip()]
    first = lines[0][1]
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        whole = _whole(text)
        if whole is not None:
            lines = [(1, whole)]
    for number, line in lines:
        yield _row(path, number, _parsed(path, number, line), line)


def _whole(text: str) -> str | None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


def _array(path: Path, text: str) -> Iterator[NumberedRow]:
    values = _parsed(path, 1, text)
    if not isinstance(values, list):
        raise OffleashError(f"{path} begins as a JSON list and is not one. Copy it again, or mend it.")
    for number, (value, exactly) in enumerate(zip(values, _exact(text), strict=True), 1):
        yield replace(_row(path, number, value, ""), exactly=exactly)


def _exact(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_constant=str)


def _csv(path: Path, text: str) -> Iterator[NumberedRow]:
    header = text.lstrip().partition("\n")[0]
    separator = max(SEPARATORS, key=header.count)
    if "\x00" in text or separator not in header:
        begin = shown(header[:40])
        raise OffleashError(f"{path} is neither JSON, JSONL, CSV nor Parquet: it begins with {begin}.")
    csv.field_size_limit(sys.maxsize)
    number, names = 1, None
    try:
        for number, record in enumerate(csv.reader(io.StringIO(text), delimiter=separator, strict=True), 1):
            if not any(record):
                continue
            if names is None:
                names = record
                twice = [name for name in names if names.count(name) > 1]
                if twice:
                    raise OffleashError(f"{path}: the header has the column {twice[0]!r} twice. Rename one of them.")
                continue
            if len(record) != len(names):
                raise OffleashError(
                    f"{path}: row {number} has {len(record)} fields and the header {len(names)}. "
                    "Quote fields that hold a separator."
                )
            yield NumberedRow(number, {name: value or None for name, value in zip(names, record, strict=True)})
    except csv.Error as error:
        raise OffleashError(f"{path}: row {number + 1} is not CSV ({error}). Mend its quotes.") from None


def _parquet(path: Path) -> Iterator[NumberedRow]:
    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OffleashError(f"{path}: the Parquet file is cut off or damaged ({reason}). Copy it again.") from None
    for number, values in enumerate(frame.iter_rows(named=True), 1):
        yield NumberedRow(number, {name: _without_nulls(value) for name, value in values.items()})


def _without_nulls(value: object) -> object:
    """Objects without the fields that only other rows have: Parquet gives every row the fields of all."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _decoded(path: Path, data: bytes) -> str:
    try:
        plain = gzip.decompress(data) if data[:2] == GZIP else data
        if plain[:4] == PARQUET or (b"\x00" in plain[:1000] and not plain.startswith(UTF16)):
            raise OffleashError(f"{path} is neither JSON, JSONL, CSV nor Parquet: it holds binary data.")
        return plain.decode("utf-16" if plain.startswith(UTF16) else "utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OffleashError(f"{path}: the gzip file is cut off or damaged ({error}). Copy it again.") from None
    except UnicodeDecodeError as error:
        row = plain[: error.start].count(b"\n") + 1
        raise OffleashError(
            f"{path}: row {row} is not valid {error.encoding.upper()}. Save the file as UTF-8."
        ) from None


def _parsed(path: Path, number: int, text: str) -> object:
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise OffleashError(
            f"{path}: row {number} is nested too deeply to be read. Is it a file of problems?"
        ) from None
    except ValueError as error:
        raise OffleashError(
            f"{path}: row {number} is cut off or not JSON ({error}). Copy the file again, or mend that row."
        ) from None
    return value


def _row(path: Path, number: int, value: object, text: str) -> NumberedRow:
    if isinstance(value, dict):
        return NumberedRow(number, value, text)
    kind = type(value).__name__
    raise OffleashError(
        f"{path}: row {number} is a JSON {kind}, not an object with fields such as question and answer."
    )
