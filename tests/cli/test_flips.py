"""offleash compare --flips, as a user types it."""

import json
from pathlib import Path

from tests.cli.command import offleash, refused
from tests.comparing.flip_world import Drawn, random_world, right, write_run, wrong
from tests.comparing.world import drawn, write_log
from tests.places import ROOT
from tests.test_docs import described, keys_of

QUICK = ("--replicates", "100")
DOUBTFUL = Drawn({"math@1": "correct", "string@1": "wrong"}, "last_number", "length", "7", "so I guess 7")


def two_runs(folder: Path) -> tuple[Path, Path]:
    base = write_run(folder / "base", {"p1": [DOUBTFUL, wrong()], "p2": [right(), right()]})
    rl = write_run(folder / "rl", {"p1": [wrong(), wrong()], "p2": [right(), wrong()]})
    return base, rl


def test_the_review_list_names_the_problem_the_sample_and_the_ways(tmp_path: Path) -> None:
    shown = offleash("compare", *two_runs(tmp_path), "--verdicts", "math", "--flips", *QUICK)
    assert shown.code == 0, shown.err
    text = " ".join(shown.out.split())
    for words in (
        "verifier string@1",
        "1 problem to review",
        "p1 S → O (verifier string@1, only strict steps, without step last_number, truncated left out) gold 7",
        "base 0: correct, answer 7 (step last_number), truncated, string@1: wrong (7)",
        "so I guess 7",
        "not tried: failed verdicts: no verdict failed",
    ):
        assert words in text, text


def test_json_holds_what_the_list_shows_and_every_key_is_described(tmp_path: Path) -> None:
    document = offleash("compare", *two_runs(tmp_path), "--verdicts", "math", "--flips", "--json", *QUICK).json
    actual = document["flips"]
    assert actual["to_review"] == 1
    assert actual["now"]["S"] == document["support"]["S"] == 1
    first = actual["problems"][0]
    assert (first["problem"], first["now"], first["correct"]) == ("p1", "S", {"before": 1, "after": 0})
    assert {"alternative": "truncated left out", "class": "O"} in first["under"]
    assert first["samples"][0]["others"] == [
        {"verifier": "string@1", "verdict": "wrong", "answer": "7", "reason": None},
    ]
    assert "| `flips` |" in described("json.md")
    assert sorted({key for key in keys_of(actual) if f"`{key}`" not in described("json.md")}) == []
    assert "flips" not in offleash("compare", *two_runs(tmp_path / "more"), "--verdicts", "math", "--json", *QUICK).json


def test_nothing_flips_is_said_with_what_was_tried(tmp_path: Path) -> None:
    world = {"p": [right(), wrong()]}
    base, rl = write_run(tmp_path / "base", world), write_run(tmp_path / "rl", world)
    text = " ".join(offleash("compare", base, rl, "--verdicts", "math", "--flips", *QUICK).out.split())
    assert "No class changes under: verifier string@1, only strict steps." in text
    assert "1 problem changes class only if a whole answer format is ignored" in text
    assert "No problem needs review." in text


def test_logs_and_counts_are_told_what_they_lack(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"{name}.jsonl", drawn(4, 4, seed)) for seed, name in enumerate(("base", "rl"))]
    text = " ".join(offleash("compare", *logs, "--flips", *QUICK).out.split())
    assert "No alternative could be tried." in text
    assert "offleash import" in text
    counts = [ROOT / "examples" / "counts" / name for name in ("base.csv", "rl.csv")]
    assert "No alternative could be tried." in offleash("compare", *counts, "--flips", *QUICK).out


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    base, rl = (write_run(tmp_path / name, random_world(150, 8, seed)) for seed, name in enumerate(("base", "rl")))
    command = ("compare", base, rl, "--verdicts", "math", "--flips", *QUICK)
    document = offleash(*command, "--json").json["flips"]
    assert document["to_review"] > 25
    shown = offleash(*command).out
    assert f"and {document['to_review'] - 20} more; --json has all" in shown
    assert " 20. " in shown
    assert " 21. " not in shown


def test_several_checkpoints_have_their_flips_each(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, random_world(20, 6, seed)) for seed, name in enumerate(("a", "b", "c"))]
    document = offleash("compare", *runs, "--verdicts", "math", "--flips", "--json", *QUICK).json
    assert len(document["comparisons"]) == 2
    assert document["flips"] == document["comparisons"][1]["flips"]
    assert document["comparisons"][0]["flips"] != document["flips"]


def test_questions_about_answers_are_refused_before_any_work(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    refused(offleash("compare", *runs, "--verdicts", "math", "--flips", "--per", "answer"), "--per problem")
    refused(offleash("compare", *runs, "--verdicts", "math", "--flips", "--unread", "drop"), "--unread drop")


def test_different_versions_of_a_verifier_are_pointed_out(tmp_path: Path) -> None:
    world = {"p": [Drawn({"math@1": "correct"}), Drawn({"math@1": "wrong"})]}
    newer = {"p": [Drawn({"math@2": "correct"}), Drawn({"math@2": "wrong"})]}
    base, rl = write_run(tmp_path / "base", world), write_run(tmp_path / "rl", newer)
    document = offleash("compare", base, rl, "--json", *QUICK).json
    assert any("base by math@1, rl by math@2" in note["text"] for note in document["notes"])


def test_hostile_names_and_texts_do_not_reach_the_terminal(tmp_path: Path) -> None:
    bad = "\x1b]0;owned\x07\x1b[2J\u202e [red]7"
    result = Drawn({"math@1": "correct", "string@1": "wrong"}, f"st{bad}", "length", bad, bad * 40)
    base = write_run(tmp_path / "base", {f"p{bad}": [result, wrong()]})
    rl = write_run(tmp_path / "rl", {f"p{bad}": [wrong(), wrong()]})
    command = ("compare", base, rl, "--verdicts", "math", "--flips", *QUICK)
    shown = offleash(*command).out
    assert shown.replace("\n", "").isprintable()
    assert "[red]7" in shown, "square brackets are not markup"
    document = offleash(*command, "--json")
    assert "\x1b" not in document.out
    assert "\u202e" not in json.dumps(document.json["flips"]["problems"][0]["samples"], ensure_ascii=False)
