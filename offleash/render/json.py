"""Results as JSON: one encoder for leaf values and for results whose fields are the keys.

A result whose fields are the keys of its document is encoded as it is: `encode(result)`. A document of another shape
is a literal whose values are encoded with it: `encode({"k": budget, "interval": interval})`. Either way nobody converts
single fields: what is not a number is null, a NumPy scalar is a number, a path is its text, an enum its value.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np

Json = dict[str, object]
SCHEMA = 2  # of every document that `--json` prints; a key keeps its name and meaning within it (docs/json.md)


@runtime_checkable
class HasJson(Protocol):
    """A value that says itself what its JSON is, such as an interval: its two ends."""

    def to_json(self) -> object: ...


@overload
def encode(value: Mapping[Any, object]) -> Json: ...
@overload
def encode(value: object) -> Any: ...
def encode(value: object) -> Any:
    """A value as `json.dumps` takes it, whatever is inside.

    Args:
        value: a number, text, enum or path; a dataclass; a mapping, a sequence, a set or an array of these.

    Returns:
        The same in dicts, lists, texts, numbers, booleans and None. Unknown numbers (nan, infinities) are None: JSON
        has no other word for them. Sets are sorted, so that a document does not change from run to run.

    >>> encode({"rate": np.float64("nan"), "k": np.int64(8), 16: (1.5, float("inf"))})
    {'rate': None, 'k': 8, '16': [1.5, None]}
    """
    # The most frequent first: documents are mostly numbers and texts. bool is an int and stays what it is.
    if value is None or (isinstance(value, str | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):  # tolist serves arrays without axes too, which cannot be iterated
        return encode(value.tolist())
    if isinstance(value, HasJson):
        return encode(value.to_json())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): encode(member_value) for key, member_value in value.items()}
    if isinstance(value, set | frozenset):
        return [encode(member) for member in sorted(value)]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [encode(member) for member in value]
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON; give it a to_json method")


def _key(key: object) -> str:
    return str(key.value if isinstance(key, Enum) else key)


def number(value: float | None) -> float | None:
    """A float for JSON: what is not a number is null."""
    return None if value is None or not math.isfinite(value) else float(value)


def count(value: float) -> int | float | None:
    """A count for JSON: whole where it is whole, a fraction where it is an expectation over thinned samples.

    >>> count(3.0), count(2.5), count(float("nan"))
    (3, 2.5, None)
    """
    if not math.isfinite(value):
        return None
    return round(value) if abs(value - round(value)) < 1e-9 else float(value)
