"""offleash check: exit 0 when problems are sound, 1 when they have faults, 2 when they cannot be read."""

import json
from pathlib import Path

from tests.cli.command import offleash, refused


def wrote(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GOOD: dict[str, object] = {"id": "a", "question": "1+1?", "answer": "2"}


def test_sound_problems_end_with_0(tmp_path: Path) -> None:
    run = offleash("check", wrote(tmp_path, GOOD), "--verifier", "number")
    assert run.code == 0, run.err
    assert "1 problems: 1 gold answers accepted" in run.out
    assert "no faults" in run.out


def test_faults_end_with_1_and_name_the_row(tmp_path: Path) -> None:
    path = wrote(tmp_path, GOOD, {"id": "b", "question": "Why?", "answer": "it rains"})
    run = offleash("check", path, "--verifier", "number")
    assert run.code == 1
    assert "row 2, b" in run.out
    assert "Traceback" not in run.err
    result = offleash("check", path, "--verifier", "number", "--json")
    assert result.code == 1
    assert result.json["accepted"] == 1
    assert [fault["problem"] for fault in result.json["faults"]] == ["b"]


def test_what_cannot_be_checked_ends_with_2(tmp_path: Path) -> None:
    refused(offleash("check", wrote(tmp_path, GOOD)), "does not name a verifier", "--verifier math")
    refused(offleash("check", wrote(tmp_path, GOOD), "--verifier", "strng"), "Did you mean 'string'")
    refused(offleash("check", "nothing.jsonl"), "There is no file")


def test_a_local_copy_of_a_benchmark_is_checked(tmp_path: Path) -> None:
    run = offleash("check", "scibench", "--from", wrote(tmp_path, {**GOOD, "unit": "s"}), "--json")
    assert run.code == 0, run.out
    assert run.json["problems"] == 1
