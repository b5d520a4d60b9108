"""offleash problems: the list of benchmarks, problems as JSON lines, and what is refused."""

import json
from pathlib import Path

from offleash.problems.benchmarks import PROBLEMS
from tests.cli.command import offleash, refused


def copy_of(folder: Path, count: int = 3) -> Path:
    path = folder / "copy.jsonl"
    rows = [{"id": f"p{n}", "problem": f"Wie groß ist {n}+1?", "answer": str(n + 1)} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_without_a_name_the_benchmarks_are_listed() -> None:
    run = offleash("problems")
    assert run.code == 0, run.err
    assert "aime24" in run.out
    listed = json.loads(offleash("problems", "--json").out)
    assert {row["name"] for row in listed} >= PROBLEMS.keys()
    assert {row["checked"] for row in listed} <= {True, False}


def test_problems_are_json_lines_with_a_summary_on_standard_error(tmp_path: Path) -> None:
    run = offleash("problems", "aime24", "--from", copy_of(tmp_path))
    assert run.code == 0, run.err
    rows = [json.loads(text) for text in run.out.splitlines()]
    assert [row["problem"] for row in rows] == ["p0", "p1", "p2"]
    assert list(rows[0]) == ["problem", "question", "gold", "benchmark", "guess", "verifier", "prompt", "prompt_hash"]
    assert "groß" in run.out
    assert "3 problems" in run.err


def test_what_is_printed_is_printed_again_unchanged(tmp_path: Path) -> None:
    run = offleash("problems", "aime24", "--from", copy_of(tmp_path))
    path = tmp_path / "p.jsonl"
    path.write_text(run.out)
    assert offleash("problems", path).out == run.out


def test_a_sample_is_drawn_by_its_seed(tmp_path: Path) -> None:
    path = copy_of(tmp_path, 50)
    words = ("problems", "aime24", "--from", path, "--size", "5", "--problem-seed", "7")
    assert offleash(*words).out == offleash(*words).out
    assert len(offleash(*words).out.splitlines()) == 5
    refused(offleash("problems", "aime24", "--from", path, "--size", "51"), "50 problems", "--size 51")


def test_columns_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("frage,antwort\n1+1?,2\n")
    refused(offleash("problems", path), "frage, antwort", "--map question=COLUMN")
    run = offleash("problems", path, "--map", "question=frage", "--map", "gold=antwort")
    assert json.loads(run.out)["gold"] == "2"
    refused(offleash("problems", path, "--map", "frage"), "--map takes NAME=COLUMN")


def test_what_cannot_be_read_is_refused_without_a_traceback(tmp_path: Path) -> None:
    refused(offleash("problems", "amc"), "no benchmark or file 'amc'")
    refused(offleash("problems", "aime_24"), "Did you mean 'aime24'")
    refused(offleash("problems", tmp_path / "none.jsonl"), "There is no file")
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "q", "answer": "1"}\n{"question": "q"')
    refused(offleash("problems", path), "row 2 is cut off or not JSON")
    path.write_text('{"question": "q"}\n')
    refused(offleash("problems", path), "row 1: there is no answer")
