"""check: gold answers accepted, corruptions rejected, and faults told with their row and the next step."""

import json
from pathlib import Path

import polars as pl
import pytest

from offleash.data.tables import as_problems
from offleash.errors import OffleashError
from offleash.loading.problem_set import load_problems
from offleash.verifying.check_problems import ProblemCheck, check, check_json, check_text
from tests.places import SHARED_DATA

BENCHMARKS = SHARED_DATA / "bench"


def checked(folder: Path, *rows: dict[str, object], name: str | None = None) -> ProblemCheck:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(json.dumps(row) + "\n" for row in rows))  # a blank line after each
    read = load_problems(path)
    return check(read.frame, rows=read.rows, name=name, jobs=1)


def test_sound_problems_have_no_faults(tmp_path: Path) -> None:
    result = checked(
        tmp_path,
        {"id": "a", "question": "1+1?", "answer": "2", "verifier": "string"},
        {"id": "b", "question": "2+2?", "answer": "B", "choices": ["3", "4", "5"]},
        {"id": "c", "question": "How long?", "answer": "2.5", "verifier": "number", "details": {"unit": "s"}},
    )
    assert result.sound
    assert (result.problems, result.accepted) == (3, 3)
    assert result.rejected == result.corruptions >= 6
    assert check_text(result).endswith("no faults")


def test_a_gold_answer_its_verifier_cannot_read_is_a_fault_with_its_row(tmp_path: Path) -> None:
    result = checked(
        tmp_path,
        {"id": "a", "question": "1+1?", "answer": "2"},
        {"id": "b", "question": "Why?", "answer": "because it rains"},
        name="number",
    )
    (fault,) = result.faults
    assert (fault.row, fault.problem, fault.verifier, fault.gold) == (3, "b", "number", "because it rains")
    assert "gold answer" in fault.happened
    assert fault.next_step
    text = check_text(result)
    assert "row 3, b (number, gold 'because it rains')" in text
    assert "1 faults in 1 problems" in text
    assert json.loads(json.dumps(check_json(result)))["faults"][0]["row"] == 3


def test_a_verifier_that_accepts_a_corruption_is_a_fault(tmp_path: Path) -> None:
    # `accepted` names the changed answer as another right one: a mistake of the problem's author
    details = {"accepted": ["3"]}
    (fault,) = checked(
        tmp_path, {"id": "a", "question": "1+1?", "answer": "2", "verifier": "string", "details": details}
    ).faults
    assert fault.happened == "the corruption '3' is accepted"


def test_problems_that_ask_a_model_are_not_checked(tmp_path: Path) -> None:
    result = checked(tmp_path, {"question": "Who?", "answer": "Ada", "verifier": "referee"})
    assert result.sound
    assert result.unchecked == {"not checked: it queries a model": 1}
    assert "1 not checked: it queries a model" in check_text(result)


def test_problems_without_a_verifier_need_one(tmp_path: Path) -> None:
    row: dict[str, object] = {"id": "a", "question": "1+1?", "answer": "2"}
    with pytest.raises(OffleashError, match=r"'a' \(row 1\) does not name a verifier.*--verifier math"):
        checked(tmp_path, row)
    assert checked(tmp_path, row, name="string").sound
    with pytest.raises(OffleashError, match="Did you mean 'math'"):
        checked(tmp_path, row, name="maths")


def test_symbolic_problems_are_checked_in_workers(tmp_path: Path) -> None:
    rows = [
        {"id": n, "question": "q", "answer": gold, "verifier": "math"}
        for n, gold in enumerate([r"\frac{1}{2}", "73", "(1, 2)", r"x^2+1"])
    ]
    result = checked(tmp_path, *rows)
    assert result.sound, check_text(result)
    assert result.accepted == 4


@pytest.mark.parametrize(("name", "file"), [("aime24", "aime24"), ("amc23", "amc23"), ("scibench", "scibench")])
def test_the_shared_benchmarks_are_sound(name: str, file: str) -> None:
    path = BENCHMARKS / f"{file}.jsonl"
    if not path.exists():
        pytest.skip("no shared data beside the project")
    read = load_problems(name, source=path)
    result = check(read.frame, rows=read.rows, jobs=2)
    assert result.sound, check_text(result)
    assert result.accepted == read.frame.height


def test_a_problem_that_its_verifier_cannot_read_is_a_fault_with_or_without_a_gold_answer() -> None:
    frame = as_problems(
        pl.DataFrame(
            {
                "problem": ["a", "b", "c"],
                "question": ["?", "?", "?"],
                "gold": [None, None, "\\frac{"],
                "verifier": ["countdown", "reasoning_gym", "math"],
                "details": ["{}", '{"task": "nope"}', None],
            },
            schema_overrides={"gold": pl.String},
        )
    )
    result = check(frame, jobs=1)
    assert sorted(fault.problem for fault in result.faults) == ["a", "b", "c"]
