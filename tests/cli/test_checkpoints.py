"""Several runs: one table at one k, on the problems that all have, with the notes of all of them."""

import json
from pathlib import Path

from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log


def test_every_step_stands_at_one_k_on_the_same_problems_with_all_notes(tmp_path: Path) -> None:
    for step in (0, 2):
        write_log(tmp_path / f"m{step}.jsonl", drawn(10, 8, step))
    rows = [json.loads(line) for line in write_log(tmp_path / "m1.jsonl", drawn(9, 8, 1)).read_text().splitlines()]
    rows[3]["correct"] = None
    (tmp_path / "m1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [tmp_path / f"m{step}.jsonl" for step in range(3)]
    document = offleash("compare", *files, "--json", "--replicates", "200").json
    assert [
        (comparison["support"]["k"], comparison["runs"]["after"]["problems"]) for comparison in document["comparisons"]
    ] == [(7, 9)] * 2
    assert any("m1" in note["text"] and "no verdict" in note["text"] for note in document["notes"])
    assert any(note["left_out"] and note["rows"] == 1 for note in document["notes"])
    shown = offleash("compare", *files, "--replicates", "200").out
    assert "m1.jsonl" in shown


def test_equal_notes_of_two_runs_are_told_for_each(tmp_path: Path) -> None:
    for model in ("base", "rl"):
        path = write_log(tmp_path / model / "out.jsonl", drawn(4, 4))
        path.write_text(path.read_text()[:-10])
    document = offleash("compare", tmp_path / "base" / "out.jsonl", tmp_path / "rl" / "out.jsonl", "--json").json
    assert sum(note["rows"] for note in document["notes"] if "cut off" in note["text"]) == 2


def test_a_run_is_not_compared_with_itself_by_name(tmp_path: Path) -> None:
    files = [write_log(tmp_path / f"{name}.jsonl", drawn(3, 4)) for name in ("a", "b")]
    refused(offleash("compare", *files, "--after", "a"), "Choose two")
    refused(offleash("compare", *files, "--seed", "-1"), "--seed -1")
    refused(offleash("compare", *files, "--replicates", "1000000000"), "1,000,000")
    refused(offleash("compare", *files, "--threshold", "nan"), "nan")
    refused(offleash("plan", "samples", files[0], "--until", "0"), "--until")


def test_the_same_samples_twice_are_noticed(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", drawn(6, 8))
    assert "are they the same samples?" in offleash("compare", f"a={log}", f"b={log}").out.replace("\n", " ")
