"""Plain values as JSON: all that the process of a program and the process of its tests ever exchange.

Numbers, texts and lists stand for themselves; everything else is an object with one key, which names its kind. Reading
builds values of the kinds listed here and of no others: no name is looked up, nothing is imported, no code of the
sender's runs. Values that equal plain ones become plain when they are written: subclasses, named tuples, NumPy's
scalars and arrays.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from types import GeneratorType
from typing import Any, cast

INT64_LIMIT = 1 << 63  # integers beyond this travel in hexadecimal: reading and writing decimals takes quadratic time
MAX_ELEMENTS = 2_000_000  # of an iterator
# Values that tests only iterate over.
ITERATORS: tuple[type, ...] = (
    *(GeneratorType, map, filter, zip, enumerate, reversed, range(0).__iter__().__class__),
    *(iter([]).__class__, iter(()).__class__, iter({}).__class__, iter("").__class__, iter(set()).__class__),
    *({}.keys().__class__, {}.values().__class__, {}.items().__class__),
)
Fallback = Callable[[object], object]  # what to do with a value that is not plain


class NotPlainError(TypeError):
    """A value that only its own process knows."""


def encode(value: Any, fallback: Fallback | None = None) -> object:
    """A value as JSON; `fallback` gives the content of the tag "ref" for what is not plain, otherwise NotPlainError."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if isinstance(value, int) and kind is not bool:
        number = int(value)
        return number if -INT64_LIMIT < number < INT64_LIMIT else {"int": hex(number)}
    if isinstance(value, list):
        return [encode(item, fallback) for item in value]
    if isinstance(value, str | float):
        return str(value) if isinstance(value, str) else float(value)
    for base, (tag, write, _) in CODECS.items():
        if isinstance(value, base):
            content = write(value)
            return {tag: encode(content, fallback) if tag in CONTAINER_TAGS else content}
    if isinstance(value, ITERATORS):
        return {"iter": [encode(item, fallback) for item in islice(cast(Iterable[object], value), MAX_ELEMENTS)]}
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist(), fallback)
    if fallback is not None:
        return {"ref": fallback(value)}
    raise NotPlainError(f"a value of type {kind.__name__}, which is not plain")


def decode(value: object, fallback: Fallback | None = None) -> Any:
    """The value of JSON; ValueError where it is not what `encode` writes."""
    if isinstance(value, list):
        return [decode(item, fallback) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError("not a plain value")
    ((tag, content),) = value.items()
    if tag == "int":
        return int(str(content), 16)
    if tag == "iter" and isinstance(content, list):
        return iter([decode(item, fallback) for item in content])
    if tag == "ref" and fallback is not None:
        return fallback(content)
    if tag not in READERS_BY_TAG:
        raise ValueError("not a plain value")
    return READERS_BY_TAG[tag](decode(content, fallback) if tag in CONTAINER_TAGS else content)


def _pairs(value: dict[object, object]) -> list[list[object]]:
    return [[key, item] for key, item in value.items()]


# kind -> tag, how its content is written, how it is read; the order matters: a datetime is a date
CODECS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: ("tuple", list, tuple),
    # these two compare unlike other dicts, and a test may call most_common
    OrderedDict: ("ordered", _pairs, OrderedDict),
    Counter: ("counter", _pairs, lambda content: Counter(dict(content))),
    dict: ("dict", _pairs, dict),
    set: ("set", list, set),
    frozenset: ("frozenset", list, frozenset),
    deque: ("deque", list, deque),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    bytearray: ("bytearray", bytearray.hex, bytearray.fromhex),
    complex: ("complex", lambda value: [value.real, value.imag], lambda content: complex(*content)),
    range: ("range", lambda value: [value.start, value.stop, value.step], lambda content: range(*content)),
    Decimal: ("decimal", str, Decimal),
    # not as text: reading "1e999999999" would take forever
    Fraction: (
        "fraction",
        lambda value: [hex(value.numerator), hex(value.denominator)],
        lambda content: Fraction(*(int(str(part), 16) for part in content)),
    ),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda content: timedelta(*content),
    ),
}
CONTAINER_TAGS = {
    "tuple",
    "dict",
    "ordered",
    "counter",
    "set",
    "frozenset",
    "deque",
}  # whose content holds values of any kind
READERS_BY_TAG = {tag: read for tag, _, read in CODECS.values()}
