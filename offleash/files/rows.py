"""A row of a user's file (`Row`) and the values in it, as the types that the rest of the package works with.

JSON, CSV and Parquet write the same value in different ways: an id may be 3, "3" or, after a null made its column one
of fractions, 3.0. The functions here give all of them one form, so that files of different tools can be joined.
"""

import json
import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from offleash.data.tables import question_hash
from offleash.errors import OffleashError

MAX_INT64 = 2**63 - 1  # of a column of 64-bit integers


class WrittenFloat(float):
    """A fraction that knows its digits in the file: as a gold answer 10.0 is not 10, and 1e400 is not infinite.

    It is its value in every other respect, JSON included.
    """

    __slots__ = ("written",)

    written: str

    def __new__(cls, written: str) -> "WrittenFloat":
        number = super().__new__(cls, written)
        number.written = written
        return number


@dataclass(frozen=True, slots=True)
class Row:
    """A row, and where it came from. Its methods read fields, and end in an error that names the row."""

    path: Path
    number: int  # as an editor counts: of the line, of the CSV record with the header as 1, or of the entry of an array
    values: Mapping[str, object]

    @property
    def where(self) -> str:
        """File and row, as every error about it begins."""
        return f"{self.path}: row {self.number}"

    def column(self, role: str, columns: Mapping[str, str], example: str) -> object:
        """The value of a role, from the column that --map gives it or of its own name; refused where there is none."""
        name = columns.get(role, role)
        if name not in self.values:
            keys = ", ".join(map(str, self.values))[:100] or "nothing"
            raise OffleashError(
                f"{self.where} has no {name!r}; found {keys}. A row should be {example}; "
                f"to read another column, use --map {role}=COLUMN."
            )
        return self.values[name]

    def text(self, *names: str) -> str | None:
        """The first of these fields that has a value, as text."""
        for name in names:
            value = text_of(self.values.get(name))
            if value is not None:
                return value
        return None

    def integer(self, name: str) -> int | None:
        """A field that is a whole number, or nothing."""
        value = self.values.get(name)
        number = integer_of(value)
        if number is None and text_of(value) is not None:
            self.wrong(f"{name!r} is {shown(value)}, not an integer")
        return number

    def number_field(self, name: str) -> float | None:
        """A field that is a number, or nothing."""
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
        """The id of the problem: the first of these fields that has a value, else the hash of the question.

        The hash makes samples of one question one problem, in this log and in others that keep the same text.
        """
        name = self.text(*names)
        if name is None and question is None:
            keys = " nor ".join([*(repr(name) for name in names), "a question"])
            self.wrong(f"it has neither {keys} to identify the problem by")
        return name if name is not None else question_hash(question or "")

    def require_same_length(self, lists: Mapping[str, Sized | None]) -> None:
        """Refuse a row whose lists of samples, texts, marks, differ in length: which belongs to which is not known."""
        lengths = {name: len(values) for name, values in lists.items() if values is not None}
        if len(set(lengths.values())) > 1:
            self.wrong("its lists differ in length: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))

    def wrong(self, reason: str) -> NoReturn:
        """End reading with what is wrong with this row."""
        raise OffleashError(f"{self.where}: {reason}. Correct the row or leave it out.")


def fields_of(value: object) -> Mapping[str, object]:
    """An object's fields; none for anything else."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str | None:
    """A value as text: structures as JSON, null and NaN as nothing.

    A whole number that became a fraction is written as the whole number it was: a column of ids with a gap in it is one
    of floats in pandas, and 3.0 would not match the 3 of another file.

    >>> text_of(3.0), text_of(2.5), text_of({"b": 1, "a": None}), text_of(float("nan"))
    ('3', '2.5', '{"a": null, "b": 1}', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        # above 2**53 not every whole number is a float, so the digits would be made up
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
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


def integer_of(value: object) -> int | None:
    """A value as an integer; None when it is not one, or does not fit a column of 64 bits. Booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    is_integer = isinstance(value, str) or number == value
    return number if is_integer and abs(number) <= MAX_INT64 else None


def chat_text(value: object, role: str) -> str | None:
    """Text of a prompt or completion: as it is, or the messages of one role when it is a chat."""
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        return text_of(value)
    messages = [message for message in value if message.get("role", role) == role] or value
    return "\n\n".join(content_text(message.get("content")) for message in messages)


def is_chat(value: object) -> bool:
    """A list of messages is one text, not several samples. A message has a role, or nothing but its content."""
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        return False
    return all("content" in message and ("role" in message or len(message) == 1) for message in value)


def content_text(content: object) -> str:
    """Text of a message whose content is a string or a list of parts, of which only the texts are read."""
    if isinstance(content, list):
        return "\n".join(text_of(fields_of(part).get("text", "")) or "" for part in content)
    return text_of(content) or ""


def shown(value: object) -> str:
    """A value for an error message: at most 60 characters, control characters escaped."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
