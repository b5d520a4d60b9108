"""Plain values travel between processes unchanged, and nothing else does."""

import collections
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.verifiers.program.plain import NotPlainError, decode, encode

HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(1 << 62, 1 << 20_000)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HASHABLE, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


def sent(value: object) -> object:
    """A value after its way through the pipe."""
    return decode(json.loads(json.dumps(encode(value))))


@given(VALUES)
def test_what_is_plain_arrives_as_it_was(value: object) -> None:
    actual = sent(value)
    assert actual == value
    assert type(actual) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        {1, "a"},
        bytearray(b"x"),
        range(3, 9, 2),
        collections.deque([1, (2, 3)]),
        collections.Counter("aab"),
        collections.OrderedDict([("b", 1), ("a", [2])]),
        datetime(2024, 2, 29, 12, 30, 1, 5),
        date(2024, 2, 29),
        time(1, 2, 3),
        timedelta(days=-1, microseconds=7),
        Fraction(-1, 3),
        Decimal("1.20"),
        pytest.param(-(10**5000), id="long"),
        float("inf"),
    ],
)
def test_every_kind_arrives(value: object) -> None:
    assert sent(value) == value
    assert type(sent(value)) is type(value)


Pair = collections.namedtuple("Pair", "x y")


class Lies(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_what_equals_a_plain_value_becomes_one() -> None:
    assert type(sent(Pair(1, 2))) is tuple
    assert type(sent(collections.defaultdict(list, a=[1]))) is dict
    assert type(sent(Lies(3))) is int
    assert type(sent(np.int64(3))) is int
    assert sent(np.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
    assert list(sent(x * x for x in range(4))) == [0, 1, 4, 9]  # type: ignore[call-overload]
    assert sorted(sent({"a": 1}.keys())) == ["a"]  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [object(), len, Lies, json, lambda: 1, AssertionError("x"), [object()]])
def test_nothing_else_is_sent(value: object) -> None:
    with pytest.raises(NotPlainError):
        encode(value)


@pytest.mark.parametrize(
    "message",
    [
        {"module": "os"},
        {"ref": 0},
        {"tuple": [1], "set": []},
        {},
        {"bytes": "zz"},
        {"complex": ["x"]},
        {"fraction": ["0x1", "0x0"]},
        {"fraction": "1e999999999"},
        {"set": [[1]]},
        {"dict": [[[1], 2]]},
        {"dict": [1]},
        {"decimal": "one"},
        {"int": "eleven"},
        {"timedelta": [1e999]},
        {"iter": 3},
        {"__class__": "x"},
    ],
)
def test_messages_that_are_no_values_are_refused(message: object) -> None:
    with pytest.raises((ValueError, TypeError, ArithmeticError)):
        decode(message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda i: (
            st.lists(i)
            | st.dictionaries(
                st.sampled_from(["tuple", "dict", "set", "bytes", "int", "range", "decimal", "iter", "ref", "date"]),
                i,
                max_size=1,
            )
        ),
    )
)
def test_any_message_is_a_value_or_refused(message: object) -> None:
    try:
        decode(message)
    except (ValueError, TypeError, ArithmeticError, OverflowError):
        return
