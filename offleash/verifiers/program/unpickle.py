"""Read untrusted pickles without running anything in them: LiveCodeBench's private tests, and plain values.

A pickle may name any function of any module and call it. These readers allow no names at all, or only those on a list
of plain values (see "Restricting Globals" in the documentation of Python's pickle module).
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Collection

from offleash.errors import OffleashError

MAX_BYTES = 512 << 20  # bytes after decompression: the largest real ones are below a fifth of this

HEAP_TYPE_FLAG, IMMUTABLE_TYPE_FLAG = (
    1 << 9,
    1 << 8,
)  # Py_TPFLAGS of CPython: made at run time; attributes cannot be set
# Types whose values are nothing but values: building one runs no code of anybody's.
PLAIN_VALUES = frozenset(
    [("builtins", name) for name in ("bool", "bytearray", "complex", "dict", "float", "frozenset", "int", "iter")]
    + [("builtins", name) for name in ("list", "range", "set", "slice", "str", "tuple")]
    + [("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")]
    + [("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")]
    + [("decimal", "Decimal"), ("fractions", "Fraction")]
)


class ForbiddenPickleError(pickle.UnpicklingError):
    """The pickle names something that is not admitted."""


def plain(data: bytes, allowed_classes: Collection[tuple[str, str]] = ()) -> object:
    """The value of a pickle that names nothing but what is admitted; pickle.UnpicklingError otherwise."""
    return _RestrictedUnpickler(data, allowed_classes).load()


def private_tests(text: str) -> list[dict[str, str]]:
    """LiveCodeBench's tests: JSON, or base64 of a zlib stream of a pickle of JSON, as the data set stores them."""
    tests = _json(text) if text.lstrip()[:1] in ("[", "{") else _json(_unpacked(text))
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise OffleashError(
            f"The private tests are not a list of tests but {str(tests)[:80]!r}. Load the data set again."
        )
    return [
        {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in t.items()} for t in tests
    ]


def _unpacked(text: str) -> str:
    try:
        packed = base64.b64decode("".join(text.split()), validate=True)
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, MAX_BYTES)
        if inflater.unconsumed_tail or not inflater.eof:
            raise OffleashError(
                f"The private tests do not end within {MAX_BYTES >> 20} MiB: they are damaged, or malicious. "
                "Load the data set again."
            )
        value = plain(data)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise OffleashError(f"The private tests are neither JSON nor base64 of zlib: {error}.") from None
    except ForbiddenPickleError as error:
        raise OffleashError(f"The private tests were refused: {error}. Do not use this copy of the data set.") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise OffleashError(f"The private tests are a damaged pickle: {type(error).__name__}: {error}.") from None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OffleashError(f"The private tests are not JSON: {error}. Load the data set again.") from None
    return value


class _RestrictedUnpickler(pickle.Unpickler):
    """An unpickler that resolves no name but those admitted: resolving is how a pickle reaches code."""

    def __init__(self, data: bytes, allowed_classes: Collection[tuple[str, str]]) -> None:
        super().__init__(io.BytesIO(data))
        self._admitted = allowed_classes

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in self._admitted:
            raise ForbiddenPickleError(f"it names {module}.{name}")
        value = super().find_class(module, name)
        if isinstance(value, type) and value.__flags__ & HEAP_TYPE_FLAG and not value.__flags__ & IMMUTABLE_TYPE_FLAG:
            # a class written in Python could be changed by the pickle (BUILD sets attributes): give only its making
            return lambda *arguments: value(*arguments)
        return value

    def persistent_load(self, pid: object) -> object:
        raise ForbiddenPickleError("it refers to an object outside of itself")
