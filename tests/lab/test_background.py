"""Calls in a process beside this one: waited for, their trouble told, ended when left."""

import time
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.lab.background import BackgroundCall, BackgroundCalls
from tests.verifiers.sandbox.outside import gone

FORMATS = BackgroundCall("show_formats")


def nothing() -> None:
    pass


def test_calls_run_one_after_the_other(tmp_path: Path) -> None:
    with BackgroundCalls([BackgroundCall("lab_list"), FORMATS], tmp_path / "log") as lane:
        lane.wait(nothing)
    said = (tmp_path / "log").read_text()
    assert said.index("countdown") < said.index("lm_eval")


def test_trouble_of_a_call_is_told_and_the_next_is_not_begun(tmp_path: Path) -> None:
    lane = BackgroundCalls([BackgroundCall("compare", ("nowhere",)), FORMATS], tmp_path / "log")
    with lane, pytest.raises(OffleashError, match=r"compare\('nowhere'\) failed with exit code 1"):
        lane.wait(nothing)
    said = (tmp_path / "log").read_text()
    assert "'nowhere' is not a file" in said
    assert "lm_eval" not in said


def test_a_call_that_is_left_is_ended(tmp_path: Path) -> None:
    with BackgroundCalls([BackgroundCall("problem_set", ("reasoning_gym:codeio",), {"size": 4999})], tmp_path / "log"):
        time.sleep(1.0)
    assert gone('"size": 4999', 60.0)  # so many problems would take minutes
