"""Read LiveCodeBench's private tests, which are untrusted pickles, without running anything in them.

A pickle may name any function of any module and call it. This reader allows no names at all (see "Restricting Globals"
in the documentation of Python's pickle module).
"""

import base64
import binascii
import io
import json
import pickle
import zlib

from offleash.errors import OffleashError

MAX_BYTES = 512 << 20  # bytes after decompression: the largest real ones are below a fifth of this


class ForbiddenPickleError(pickle.UnpicklingError):
    """The pickle names something that is not admitted."""


def load_plain_pickle(data: bytes) -> object:
    """The value of a pickle that names nothing; pickle.UnpicklingError otherwise."""
    return _RestrictedUnpickler(io.BytesIO(data)).load()


def private_tests(text: str) -> list[dict[str, str]]:
    """LiveCodeBench's tests: JSON, or base64 of a zlib stream of a pickle of JSON, as the data set stores them."""
    tests = _parse_json(text) if text.lstrip()[:1] in ("[", "{") else _parse_json(_decompress(text))
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise OffleashError(
            f"The private tests are not a list of tests but {str(tests)[:80]!r}. Load the data set again."
        )
    return [
        {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in test.items()}
        for test in tests
    ]


def _decompress(text: str) -> str:
    try:
        compressed = base64.b64decode("".join(text.split()), validate=True)
        inflater = zlib.decompressobj()
        data = inflater.decompress(compressed, MAX_BYTES)
        if inflater.unconsumed_tail or not inflater.eof:
            raise OffleashError(
                f"The private tests exceed {MAX_BYTES >> 20} MiB: they are damaged, or malicious. "
                "Load the data set again."
            )
        value = load_plain_pickle(data)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise OffleashError(f"The private tests are neither JSON nor base64 of zlib: {error}.") from None
    except ForbiddenPickleError as error:
        raise OffleashError(f"The private tests were refused: {error}. Do not use this copy of the data set.") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise OffleashError(f"The private tests are a damaged pickle: {type(error).__name__}: {error}.") from None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _parse_json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OffleashError(f"The private tests are not JSON: {error}. Load the data set again.") from None
    return value


class _RestrictedUnpickler(pickle.Unpickler):
    """An unpickler that resolves no name: resolving is how a pickle reaches code."""

    def find_class(self, module: str, name: str) -> object:
        raise ForbiddenPickleError(f"it names {module}.{name}")

    def persistent_load(self, pid: object) -> object:
        raise ForbiddenPickleError("it refers to an object outside of itself")
