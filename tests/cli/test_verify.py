"""The verb `verify` as it is typed."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.command import offleash, refused
from tests.verifying.samples import run_of_texts

GOLDS = {"half": "\\frac{1}{2}", "seven": "7"}
TEXTS = {"half": ["\\boxed{0.5}", "\\boxed{3}"], "seven": ["\\boxed{7}", "what?"]}


def rows(path: Path, *some: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return path


def test_a_file_of_rows_gives_one_verdict_a_line_in_the_same_order(tmp_path: Path) -> None:
    file = rows(
        tmp_path / "rows.jsonl",
        {"id": "b", "gold": "1/2", "text": "so \\boxed{0.5}"},
        {"id": "a", "gold": 7, "text": "\\boxed{8}"},
        {"id": 3, "gold": "$x+1$", "text": "<think>hm"},
        {"id": "bomb", "gold": "5", "text": "\\boxed{9^{9^{9^9}}}"},
    )
    result = offleash("verify", file, "--verifier", "math", "--json")
    assert result.code == 0, result.err
    actual = [json.loads(line) for line in result.out.splitlines()]
    assert [row["id"] for row in actual] == ["b", "a", 3, "bomb"]
    assert [row["verdict"] for row in actual] == ["correct", "wrong", "unread", "failed"]
    assert [row["step"] for row in actual] == ["boxed", "boxed", "unfinished", "boxed"]
    assert actual[0]["answer"] == "0.5"
    assert all(row["seconds"] >= 0 for row in actual)
    assert "tower" in actual[3]["reason"]


def test_marks_of_windows_and_empty_texts_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"id": 1, "gold": "5", "text": "\\\\boxed{5}"}\r\n\r\n{"id": 2, "gold": "5", "text": null}\r\n'
    )
    actual = [json.loads(line) for line in offleash("verify", file, "--verifier", "math", "--json").out.splitlines()]
    assert [row["verdict"] for row in actual] == ["correct", "unread"]


def test_a_row_whose_gold_cannot_be_read_fails_and_the_others_are_judged(tmp_path: Path) -> None:
    file = rows(
        tmp_path / "rows.jsonl",
        {"id": 1, "gold": "", "text": "\\boxed{5}"},
        {"id": 2, "gold": "5", "text": "\\boxed{5}"},
    )
    result = offleash("verify", file, "--verifier", "math", "--json")
    refused(result, "1 rows", "row 1", "no gold answer")
    assert [json.loads(line)["verdict"] for line in result.out.splitlines()] == ["failed", "correct"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty", '"gold"']),
        ("{not json\n", ["row 1", "not JSON"]),
        ('{"id": 1, "gold": "5"}\n', ["row 1", "id, gold"]),
        ('{"id": 1, "gold": "5", "text": 7}\n', ["row 1", '"text" should be a string', "7"]),
        ('{"id": 1, "gold": ["5"], "text": "7"}\n', ["row 1", '"gold"']),
        ("[1]\n", ["row 1", "list"]),
    ],
)
def test_bad_rows_are_named_with_what_was_found(tmp_path: Path, content: str, words: list[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(content, encoding="utf-8")
    refused(offleash("verify", file, "--verifier", "math", "--json"), *words)


def test_unknown_names_are_answered_with_the_nearest(tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.jsonl", {"id": 1, "gold": "5", "text": "5"})
    refused(offleash("verify", file, "--verifier", "maths"), "'maths'", "Did you mean 'math'?")
    refused(offleash("verify", file), "--verifier")
    refused(offleash("verify", tmp_path / "nowhere"), "no run folder", "offleash import")
    refused(offleash("verify", file, "--verifier", "referee"), "--judge")
    refused(offleash("verify", file, "--verifier", "referee", "--judge", "http://x/v1"), "--judge-model")


def test_runs_are_verified_and_compared(tmp_path: Path) -> None:
    base = run_of_texts(tmp_path / "base", GOLDS, TEXTS)
    rl = run_of_texts(tmp_path / "rl", GOLDS, {"half": ["\\boxed{1/2}", "\\boxed{.5}"], "seven": ["\\boxed{8}"] * 2})
    result = offleash("verify", base, rl, "--also", "string", "--json", "--jobs", "1")
    assert result.code == 0, result.err
    runs = result.json["runs"]
    assert [run["verdicts"]["correct"] for run in runs] == [2, 2, 1, 0]
    compared = offleash("compare", base, rl, "--verdicts", "math", "--json").json
    assert [compared["support"][cell] for cell in "PESO"] == [1, 0, 1, 0]
    text = offleash("verify", base, rl)
    assert "4 samples by math@" in text.out
    assert "0 judged now, 4 had a verdict already" in text.out


@pytest.mark.parametrize("options", [[], ["--last-number"]], ids=["plain", "another ladder"])
def test_the_next_step_that_is_printed_works_with_verdicts_of_several_verifiers(
    tmp_path: Path, options: list[str]
) -> None:
    base = run_of_texts(tmp_path / "the base", GOLDS, TEXTS)
    rl = run_of_texts(tmp_path / "rl", GOLDS, {"half": ["\\boxed{1/2}"] * 2, "seven": ["\\boxed{8}"] * 2})
    assert offleash("verify", base, rl, "--jobs", "1").code == 0
    shown = offleash("verify", base, rl, "--also", "string", "--jobs", "1", *options)
    refused(offleash("compare", base, rl, "--flips"), "several verifiers", "--verdicts")
    steps = [line.partition("next: ")[2] for line in shown.out.splitlines() if "next: " in line]
    assert len(steps) == 4
    for step in steps:
        words = shlex.split(step.replace("OTHER", str(rl)))
        result = offleash(*words[1:], "--replicates", "100")
        assert result.code == 0, (step, result.err)
    assert ("math --flips" in steps[0]) == (not options)


def test_the_help_gives_the_recipe_of_two_verifiers_in_full() -> None:
    text = offleash("verify", "--help").out
    assert "offleash compare runs/base runs/rl --verdicts math --flips" in text


def test_a_run_without_texts_says_how_to_get_them(tmp_path: Path) -> None:
    import polars as pl

    from offleash.data.run_folder import create_run

    problems = pl.DataFrame({"problem": ["a"], "gold": ["1"], "verifier": ["math"]})
    with create_run(tmp_path / "run", "run", problems, {}):
        pass
    refused(offleash("verify", tmp_path / "run"), "no sample texts", "--texts")


def test_numbers_of_the_file_are_taken_digit_for_digit(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    lines = [
        '{"id": 1, "gold": 12345678901234567890.5, "text": "\\\\boxed{12345678901234567890.5}"}',
        '{"id": 2.5, "gold": 1e5, "text": "\\\\boxed{1e5}", "details": {"relative": 0.05}}',
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    actual = [json.loads(line) for line in offleash("verify", file, "--verifier", "string", "--json").out.splitlines()]
    assert [(row["id"], row["verdict"]) for row in actual] == [(1, "correct"), (2.5, "correct")]
    file.write_text('{"id": 1, "gold": NaN, "text": "5"}', encoding="utf-8")
    refused(offleash("verify", file, "--verifier", "math", "--json"), "row 1", "NaN")


def test_what_could_steer_a_terminal_is_not_printed(tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.jsonl", {"id": "\x1b[2Jx", "gold": "", "text": "\\boxed{5}"})
    result = offleash("verify", file, "--verifier", "math")
    assert "\x1b" not in result.out + result.err


def test_a_second_verifier_that_cannot_judge_is_named_before_anything_is_written(tmp_path: Path) -> None:
    base = run_of_texts(tmp_path / "base", GOLDS, TEXTS)
    refused(offleash("verify", base, "--also", "countdown", "--json", "--jobs", "1"), "By 'countdown': 2 of the 2")
    assert not (base / "verdicts").exists()


def test_a_second_run_that_cannot_be_judged_stops_the_first_too(tmp_path: Path) -> None:
    base = run_of_texts(tmp_path / "base", GOLDS, TEXTS)
    bare = run_of_texts(tmp_path / "bare", {"half": None, "seven": "7"}, TEXTS)
    refused(offleash("verify", base, bare, "--jobs", "1"), "'half'", "no gold answer")
    assert not (base / "verdicts").exists()


def test_a_referee_without_a_server_names_the_verb_that_takes_one(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "base", GOLDS, TEXTS)
    way = "offleash verify RUN --verifier model_judge --judge URL --judge-model NAME"
    refused(offleash("compare", run, run, "--verifier", "referee", "--jobs", "1"), way)
