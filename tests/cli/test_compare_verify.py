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


def test_a_problem_without_gold_stays_unverified_and_is_counted(tmp_path: Path) -> None:
    base = log(tmp_path / "base.jsonl", [["0.5", "3"], ["4", "4"]])
    rl = log(tmp_path / "rl.jsonl", [["3", "3"], ["2/4", "4"]])
    for path in (base, rl):
        with path.open("a", encoding="utf-8") as file:
            row = {"id": "p9", "question": "Nobody knows?", "gold": None, "response": "\\boxed{1}"}
            file.write(json.dumps(row) + "\n")
    result = offleash("compare", base, rl, "--verifier", "math", "--json").json
    assert [result["support"][cell] for cell in "PESO"] == [0, 1, 1, 0]
    assert all((run["problems"], run["problems_in_run"]) == (2, 3) for run in result["runs"].values())
    assert "1 problem cannot be judged and stays unverified (first: 'p9'" in result["verified"][0]["notes"][0]


def test_what_was_read_or_left_out_is_still_noted_when_a_log_is_judged(tmp_path: Path) -> None:
    base = log(tmp_path / "base.jsonl", [["0.5", "3"]])
    rl = log(tmp_path / "rl.jsonl", [["3", "3"]])
    with base.open("a", encoding="utf-8") as file:
        file.write('{"id": "p0", "question": "Half, 0?", "gold": "x", "resp')  # a killed run leaves half a line
    result = offleash("compare", base, rl, "--verifier", "math", "--json").json
    texts = [note["text"] for note in result["notes"]]
    assert any("the last line, row 3, is cut off" in text for text in texts)
    assert any(text.startswith("rl: rl.jsonl: read problem <- id") for text in texts)
    assert "offleash-" not in json.dumps(result["notes"])  # no temporary folder


def test_golds_of_a_problem_set_and_answers_that_a_tool_extracted_are_judged(tmp_path: Path) -> None:
    golds = tmp_path / "problems.jsonl"
    golds.write_text('{"problem_id": "p0", "question": "Half of 1?", "answer": "0.5"}\n', encoding="utf-8")

    def bare(name: str, answer: str) -> Path:
        path = tmp_path / name
        row = {"problem_id": "p0", "question": "Half of 1?", "response": "I think, so I am.", "extracted": answer}
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        return path

    words = ("--verifier", "math", "--problems", golds, "--map", "answer=extracted", "--json")
    result = offleash("compare", bare("base.jsonl", "1/2"), bare("rl.jsonl", "2"), *words).json
    assert [result["support"][cell] for cell in "PESO"] == [0, 0, 1, 0]
    refused(offleash("compare", bare("a.jsonl", "1"), bare("b.jsonl", "1"), "--problems", golds), "need a verifier")


def test_a_text_that_several_problems_of_a_set_share_takes_its_gold_by_id(tmp_path: Path) -> None:
    golds = tmp_path / "problems.jsonl"
    rows = [{"problem_id": name, "question": "How many?", "answer": gold} for name, gold in (("a", "1"), ("b", "2"))]
    golds.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def bare(name: str, answers: list[str]) -> Path:
        path = tmp_path / name
        rows = [
            {"problem_id": problem, "question": "How many?", "response": f"\\boxed{{{answer}}}"}
            for problem, answer in zip("ab", answers, strict=True)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    base, rl = bare("base.jsonl", ["1", "2"]), bare("rl.jsonl", ["2", "2"])
    result = offleash("compare", base, rl, "--verifier", "math", "--problems", golds, "--json").json
    assert [result["support"][cell] for cell in "PESO"] == [1, 0, 1, 0]


def test_the_judge_model_is_a_verifier_by_the_name_that_users_know(tmp_path: Path) -> None:
    runs = [run_of_texts(tmp_path / name, {"p": "7"}, {"p": ["\\boxed{7}"]}) for name in ("base", "rl")]
    refused(offleash("compare", *runs, "--verifier", "model_judge"), "--judge")
