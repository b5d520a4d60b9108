"""Pickles are read without running anything: LiveCodeBench's private tests, and hostile ones in their place."""

import base64
import collections
import contextlib
import json
import os
import pickle
import zlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.errors import OffleashError
from offleash.verifiers.program import unpickle
from offleash.verifiers.program.unpickle import load_plain_pickle, private_tests

TESTS = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}, {"input": "", "output": "0", "testtype": "stdin"}]


def encoded(value: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tests_stored_as_livecodebench_does_are_read(protocol: int) -> None:
    assert private_tests(encoded(json.dumps(TESTS), protocol)) == TESTS


def test_tests_stored_as_plain_json_are_read() -> None:
    assert private_tests(json.dumps(TESTS)) == TESTS
    assert private_tests("  " + json.dumps(TESTS) + "\n") == TESTS


@given(st.lists(st.dictionaries(st.sampled_from(["input", "output"]), st.text())))
def test_whatever_the_texts_hold_they_come_back(tests: list[dict[str, str]]) -> None:
    assert private_tests(encoded(json.dumps(tests))) == tests


class Evil:
    def __init__(self, call: object, *arguments: object) -> None:
        self._made = (call, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._made


@pytest.mark.parametrize("call", [os.system, eval, print, getattr, __import__, open, collections.OrderedDict])
def test_a_pickle_that_calls_anything_is_refused(call: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OffleashError, match="refused: it names"):
        private_tests(encoded(Evil(call, "print('ran')")))
    assert "ran" not in capsys.readouterr().out


def test_a_bomb_of_zeros_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickle, "MAX_BYTES", 1 << 20)
    bomb = base64.b64encode(zlib.compress(bytes(64 << 20))).decode()
    with pytest.raises(OffleashError, match="exceed 1 MiB"):
        private_tests(bomb)


@pytest.mark.parametrize("text", ["", "nonsense", "AAAA", "{", "[1, 2]", '{"a": 1}', '"text"', "\ud800", "é"])
def test_damaged_tests_are_an_error_a_user_can_read(text: str) -> None:
    with pytest.raises(OffleashError, match="private tests"):
        private_tests(text)


def test_a_cut_off_stream_is_an_error() -> None:
    whole = base64.b64decode(encoded(json.dumps(TESTS)))
    with pytest.raises(OffleashError, match="damaged"):
        private_tests(base64.b64encode(whole[:-8]).decode())


@given(st.binary())
def test_no_bytes_run_anything_or_escape_as_another_error(data: bytes) -> None:
    with contextlib.suppress(OffleashError):
        private_tests(base64.b64encode(zlib.compress(data)).decode())


def test_values_without_names_pass_and_others_do_not() -> None:
    values = [1, 2.5, "a", b"b", None, True, (1, [2, {3}]), {"a": -1}, frozenset({1})]
    assert load_plain_pickle(pickle.dumps(values, protocol=4)) == values
    for evil in (Evil(os.getpid), Fraction(1, 3), collections.Counter("a")):
        with pytest.raises(pickle.UnpicklingError, match="it names"):
            load_plain_pickle(pickle.dumps(evil))
