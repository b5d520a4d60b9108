"""Commands beside this process: waited for, their trouble told, ended when left."""

import time
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.lab.demo import BackgroundCommands


def nothing() -> None:
    pass


def test_commands_run_one_after_the_other(tmp_path: Path) -> None:
    with BackgroundCommands([["--version"], ["formats"]], tmp_path / "log") as lane:
        lane.wait(nothing)
    said = (tmp_path / "log").read_text()
    assert said.index("offleash 0.") < said.index("lm_eval")


def test_trouble_of_a_command_is_told_and_the_next_is_not_begun(tmp_path: Path) -> None:
    lane = BackgroundCommands([["compare", "nowhere"], ["formats"]], tmp_path / "log")
    with lane, pytest.raises(OffleashError, match="offleash compare nowhere ended with exit code 2"):
        lane.wait(nothing)
    assert "lm_eval" not in (tmp_path / "log").read_text()


def test_a_lane_that_is_left_ends_its_command(tmp_path: Path) -> None:
    started = time.monotonic()
    with BackgroundCommands([["problems", "reasoning_gym:codeio", "--size", "5000"]], tmp_path / "log"):
        time.sleep(1.0)
    assert time.monotonic() - started < 15
