"""`compare --verify`: other tools' samples judged anew, and where the tools disagree."""

import json
from pathlib import Path

from tests.cli.command import offleash, refused
from tests.verifying.samples import run_of_texts


def log(path: Path, hits: list[list[str]], claimed: bool | None = None) -> Path:
    """A log whose gold is 1/2 everywhere; `claimed` is what its tool says of every sample."""
    rows = [
        {"id": f"p{p}", "question": f"Half, {p}?", "gold": "\\frac{1}{2}", "response": f"\\boxed{{{answer}}}"}
        | ({} if claimed is None else {"correct": claimed})
        for p, answers in enumerate(hits)
        for answer in answers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_samples_without_verdicts_are_judged_and_compared(tmp_path: Path) -> None:
    base = log(tmp_path / "base.jsonl", [["0.5", "3"], ["4", "4"]])
    rl = log(tmp_path / "rl.jsonl", [["3", "3"], ["2/4", "4"]])
    actual = offleash("compare", base, rl, "--verifier", "math", "--json").json
    assert [actual["support"][cell] for cell in "PESO"] == [0, 1, 1, 0]
    assert [run["tool"] for run in actual["verified"]] == [None, None]
    assert actual["verified"][0]["verdicts"] == {"correct": 1, "wrong": 3, "unread": 0, "failed": 0}


def test_disagreements_with_the_verdicts_of_the_tool_are_counted_and_shown(tmp_path: Path) -> None:
    base = log(tmp_path / "base.jsonl", [["0.5", "3"], ["4", "4"]], claimed=True)
    rl = log(tmp_path / "rl.jsonl", [["0.5", "0.5"], ["0.5", "0.5"]], claimed=True)
    actual = offleash("compare", base, rl, "--verifier", "math", "--json").json["verified"]
    assert [(run["compared"], run["tool_only_correct"], run["only_now_correct"]) for run in actual] == [
        (4, 3, 0),
        (4, 0, 0),
    ]
    assert {(d["problem"], d["answer"], d["tool"], d["ours"]) for d in actual[0]["differences"]} == {
        ("p0", "3", "correct", "wrong"),
        ("p1", "4", "correct", "wrong"),
    }
    text = " ".join(offleash("compare", base, rl, "--verifier", "math").out.split())  # lines may wrap
    assert "disagrees on 3 of 4 samples: 3 correct only in the log" in text
    assert "agrees on all 4 samples" in text


def test_run_folders_keep_the_verdicts_that_the_comparison_gave(tmp_path: Path) -> None:
    base = run_of_texts(tmp_path / "base", {"a": "7"}, {"a": ["\\boxed{7}"]}, verifier=None)
    rl = run_of_texts(tmp_path / "rl", {"a": "7"}, {"a": ["\\boxed{8}"]}, verifier=None)
    first = offleash("compare", base, rl, "--verifier", "math", "--json").json
    again = offleash("compare", base, rl, "--json").json
    assert first["support"]["S"] == again["support"]["S"] == 1


def test_what_cannot_be_judged_is_refused_with_the_next_step(tmp_path: Path) -> None:
    base, rl = log(tmp_path / "base.jsonl", [["1"]]), log(tmp_path / "rl.jsonl", [["1"]])
    refused(offleash("compare", base, rl, "--verifier", "mth"), "'mth'", "'math'")
    refused(
        offleash("compare", base, rl, "--verifier", "math", "--verdicts", "string"),
        "--verdicts string",
        "Leave one out",
    )
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"id": "p0", "question": "q?", "response": "\\\\boxed{1}"}\n', encoding="utf-8")
    refused(offleash("compare", bare, rl, "--verifier", "math"), "'p0'", "no gold answer")
