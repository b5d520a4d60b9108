"""Python values in JSON: what goes in comes out."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.data.reasoning_gym import decode_value, encode_value
from offleash.errors import OffleashError

keys = st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
plain = keys | st.floats(allow_nan=False) | st.fractions() | st.decimals(allow_nan=False) | st.binary() | st.dates()
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.sets(keys)
        | st.frozensets(keys)
        | st.dictionaries(st.just("!"), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_a_value_survives_json_with_its_types(value: object) -> None:
    back = decode_value(json.loads(json.dumps(encode_value(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


def test_times_and_complex_numbers_survive() -> None:
    value = [datetime(2024, 1, 2, 3, 4), date(2024, 1, 2), time(3, 4, 5), timedelta(1, 2, 3), 1 - 2j, float("inf")]
    assert decode_value(json.loads(json.dumps(encode_value(value)))) == value


def test_numpy_values_turn_plain() -> None:
    value = {"a": np.int64(3), "b": np.array([[1, 2], [3, 4]]), "c": np.str_("x"), "d": np.float32(0.5)}
    assert decode_value(json.loads(json.dumps(encode_value(value)))) == {
        "a": 3,
        "b": [[1, 2], [3, 4]],
        "c": "x",
        "d": 0.5,
    }


def test_a_set_is_written_in_one_order() -> None:
    assert json.dumps(encode_value({"b", "a", "c"})) == json.dumps(encode_value({"c", "b", "a"}))


def test_numbers_that_are_no_floats_stay_exact() -> None:
    assert decode_value(encode_value(Fraction(1, 3))) == Fraction(1, 3)
    assert decode_value(encode_value(Decimal("0.10"))) == Decimal("0.10")


def test_what_json_cannot_carry_is_refused() -> None:
    with pytest.raises(OffleashError, match="object cannot be stored"):
        encode_value(object())
    with pytest.raises(OffleashError, match="type 'code'"):
        decode_value({"!": "code", "of": "print()"})
