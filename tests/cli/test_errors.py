"""What ends a command: a file of the user's is named, and only our own bugs are called internal errors."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offleash.cli.main import run_guarded
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import RATES, drawn, problems_file, script
from tests.drawing.test_kill import LIMITED

DEEP = '{"a": ' * 100_000 + "1" + "}" * 100_000


def ended(capsys: pytest.CaptureFixture[str], command: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        run_guarded(command)
    assert isinstance(stop.value.code, int)
    return stop.value.code, capsys.readouterr().err


def failing(error: BaseException) -> Callable[[], object]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize("verb", ["verify", "compare", "draw"])
def test_a_run_whose_facts_are_nested_too_deeply_is_damaged(tmp_path: Path, verb: str) -> None:
    base = script(tmp_path / "base.json", RATES)
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    drawn(tmp_path / "run", base, 4)
    (tmp_path / "run" / "run.json").write_text(DEEP)
    words = {
        "verify": ("verify", tmp_path / "run"),
        "compare": ("compare", tmp_path / "run", tmp_path / "run"),
        "draw": ("draw", tmp_path / "problems.jsonl", f"scripted:{base}", "-k", "8", "-o", tmp_path / "run"),
    }
    refused(offleash(*words[verb]), f"{tmp_path / 'run' / 'run.json'} is damaged", "Restore it")


def test_a_script_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    problems_file(tmp_path / "problems.jsonl", 1)
    (tmp_path / "deep.json").write_text(DEEP)
    words = (
        "draw",
        tmp_path / "problems.jsonl",
        f"scripted:{tmp_path / 'deep.json'}",
        "-k",
        "8",
        "-o",
        tmp_path / "run",
    )
    refused(offleash(*words), "deep.json is nested too deeply")


def test_text_that_is_too_deep_for_a_parser_is_the_users_and_endless_recursion_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "about.json").write_text(DEEP)
    monkeypatch.setattr(sys, "argv", ["offleash", "score", str(tmp_path / "about.json")])
    code, said = ended(capsys, lambda: json.loads(DEEP))
    assert code == 2
    assert "nested too deeply" in said
    assert str(tmp_path / "about.json") in said

    def recurse() -> None:
        recurse()

    code, said = ended(capsys, recurse)
    assert code == 70
    assert "internal error" in said


def test_too_little_memory_is_no_bug_and_is_reported_with_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "huge.jsonl").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["offleash", "compare", str(tmp_path / "huge.jsonl")])
    code, said = ended(capsys, failing(MemoryError()))
    assert code == 2
    assert "not enough memory" in said
    assert str(tmp_path / "huge.jsonl") in said
    assert "internal error" not in said


def test_a_full_disk_is_reported_with_the_file_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = ended(capsys, failing(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/page.html")))
    assert code == 2
    assert "runs/page.html: No space left on device. Free some space" in said


def test_a_page_that_cannot_be_written_whole_is_named(tmp_path: Path) -> None:
    base = script(tmp_path / "base.json", RATES)
    for seed in (0, 1):
        drawn(tmp_path / f"run{seed}", base, 4, seed=seed)
        offleash("verify", tmp_path / f"run{seed}", "--jobs", "1", "--no-cache")
    words = ["compare", str(tmp_path / "run0"), str(tmp_path / "run1"), "--report", str(tmp_path / "page.html")]
    run = subprocess.run([sys.executable, "-c", LIMITED, "2000", *words], capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    assert "page.html" in run.stderr
    assert "Traceback" not in run.stderr


def test_ctrl_c_and_a_closed_pipe_have_the_exit_codes_of_shells(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(capsys, failing(KeyboardInterrupt()))[0] == 130
    code = "from offleash.cli.main import main; main()"
    words = [sys.executable, "-c", code, "formats"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141
    assert b"Traceback" not in said


@pytest.mark.parametrize("traceback", ["", "1"])
def test_an_internal_error_shows_no_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, traceback: str
) -> None:
    monkeypatch.setenv("OFFLEASH_TRACEBACK", traceback)
    monkeypatch.setenv("MY_API_KEY", "a-key-of-no-known-form")
    error = ValueError("https://me:hunter2@host/v1?sig=hunter2 answered: bad key a-key-of-no-known-form")
    code, said = ended(capsys, failing(error))
    assert code == 70
    assert "ValueError" in said
    assert ("Traceback" in said) == bool(traceback)
    assert "hunter2" not in said
    assert "no-known-form" not in said


def test_a_panic_of_a_library_in_rust_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    panic = type("PanicException", (BaseException,), {})  # as PyO3 makes it: it cannot be imported
    code, said = ended(capsys, failing(panic("index out of bounds")))
    assert code == 70
    assert "internal error, please report it (PanicException: index out of bounds)" in said
