"""The registry: every benchmark of the paper, and what its own columns become."""

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from offleash.errors import OffleashError
from offleash.problems.benchmarks import PROBLEMS
from offleash.problems.prompts import PROMPTS
from offleash.problems.read import read_problems
from offleash.verifiers.registry import VERIFIERS
from tests.places import SHARED_DATA

BENCH = SHARED_DATA / "bench"
PAPER = {  # arXiv:2507.14843
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "math500": 500,
    "minerva": 272,
    "olympiadbench": 675,
    "simpleqa": 433,
    "livebench_reasoning": 100,
    "livebench_coding": 128,
    "livebench_language": 50,
    "scibench": 692,
    "livecodebench_v5": 323,
    "livecodebench_v6": 131,
    "mathvista": 1000,
    "mathvision": 304,
}
PRIVATE = base64.b64encode(zlib.compress(pickle.dumps(json.dumps([{"input": "3", "output": "6"}])))).decode()
PNG = b"\x89PNG\r\n\x1a\n rest"

# A row with the hub's own columns, and what must come of it.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "aime24": ({"id": 60, "problem": "q", "answer": "073"}, {"problem": "60", "gold": "73", "guess": 0.001}),
    "aime25": ({"id": "0", "problem": "q", "answer": r"336^\circ"}, {"gold": "336", "guess": 0.001}),
    "amc23": ({"id": 0, "question": "q", "answer": 27.0}, {"gold": "27", "guess": None}),
    "math500": (
        {"unique_id": "test/a/1.json", "problem": "q", "solution": r"\boxed{2}", "answer": r"\frac{1}{2}"},
        {"problem": "test/a/1.json", "gold": r"\frac{1}{2}"},
    ),
    "minerva": ({"question": "q", "answer": "4.5e33"}, {"problem": "minerva-0", "gold": "4.5e33"}),
    "olympiadbench": (
        {"id": 7, "question": "q", "context": "Let n be odd.", "final_answer": ["1", "3"]},
        {"problem": "7", "question": "Let n be odd.\nq", "gold": "1, 3"},
    ),
    "gsm8k": ({"question": "q", "answer": "so\n#### 1,450,000"}, {"gold": "1450000"}),
    "simpleqa": ({"metadata": "{}", "problem": "Who?", "answer": "Ada"}, {"gold": "Ada", "verifier": "referee"}),
    "livebench_reasoning": (
        {"question_id": "x", "task": "web_of_lies_v2", "turns": ["Who lies?"], "ground_truth": "yes, no, yes"},
        {"question": "Who lies?", "gold": "yes, no, yes", "guess": 0.125, "verifier": "string"},
    ),
    "livebench_coding": (
        {
            "question_id": "x",
            "task": "coding_completion",
            "turns": ["Complete it."],
            "partial_solution": "class Solution:",
            "public_test_cases": '[{"input": "1", "output": "2", "testtype": "functional"}]',
            "private_test_cases": PRIVATE,
            "original_json": {"metadata": '{"func_name": "double"}'},
        },
        {
            "verifier": "program",
            "gold": None,
            "details": {
                "kind": "call",
                "tests": [{"input": "1", "output": "2"}],
                "entry_point": "double",
                "private": PRIVATE,
                "partial": "class Solution:",
            },
        },
    ),
    "livebench_language": (
        {"question_id": "x", "task": "typos", "turns": ["Mend teh text."], "ground_truth": "The text."},
        {"gold": "The text.", "guess": None},
    ),
    "scibench": (
        {"problem_text": "q", "answer_number": "\u22121,234.5", "unit": " $10^{-3} \\mathrm{~s}$ ", "problemid": "e1"},
        {"gold": "-1234.5", "details": {"unit": "$10^{-3} \\mathrm{~s}$", "relative": 0.05}, "verifier": "number"},
    ),
    "livecodebench_v5": (
        {
            "question_id": "abc_a",
            "question_content": "Double it.",
            "contest_date": "2025-01-31T00:00:00",
            "starter_code": "",
            "public_test_cases": '[{"input": "1\\n", "output": "2\\n", "testtype": "stdin"}]',
            "private_test_cases": PRIVATE,
            "metadata": "{}",
        },
        {
            "problem": "abc_a",
            "gold": None,
            "details": {"kind": "stdin", "tests": [{"input": "1\n", "output": "2\n"}], "private": PRIVATE},
        },
    ),
    "livecodebench_v6": (
        {
            "question_id": "lc_a",
            "question_content": "Double it.",
            "contest_date": "2025-02-01T00:00:00",
            "starter_code": "class Solution:\n    def double(self, n):",
            "public_test_cases": "[]",
            "private_test_cases": PRIVATE,
            "metadata": '{"func_name": "double"}',
        },
        {
            "details": {
                "kind": "call",
                "tests": [],
                "entry_point": "double",
                "private": PRIVATE,
                "starter": "class Solution:\n    def double(self, n):",
            }
        },
    ),
    "humaneval": (
        {
            "task_id": "HumanEval/0",
            "prompt": "def f():\n",
            "canonical_solution": "    return 1\n",
            "test": "def check(candidate): ...",
            "entry_point": "f",
        },
        {
            "problem": "HumanEval/0",
            "question": "def f():\n",
            "gold": "def f():\n    return 1\n",
            "details": {
                "kind": "check",
                "prompt": "def f():\n",
                "test": "def check(candidate): ...",
                "entry_point": "f",
            },
        },
    ),
    "mbpp": (
        {
            "task_id": 11,
            "text": "Write f.",
            "code": "def f(): return 1",
            "test_list": ["assert f() == 1", "assert f() < 2"],
            "test_setup_code": "import math",
            "challenge_test_list": [],
        },
        {
            "problem": "11",
            "gold": "def f(): return 1",
            "details": {"kind": "asserts", "setup": "import math", "tests": ["assert f() == 1", "assert f() < 2"]},
        },
    ),
    "mathvista": (
        {
            "pid": "1",
            "question": "How long?",
            "choices": None,
            "answer": "1.2",
            "answer_type": "float",
            "precision": 1.0,
            "unit": "cm",
            "decoded_image": {"bytes": PNG, "path": None},
        },
        {"verifier": "number", "gold": "1.2", "details": {"unit": "cm", "absolute": 0.05}},
    ),
    "mathvision": (
        {
            "id": "4",
            "question": "Which? <image1>",
            "options": ["A", "B", "C", "D", "E"],
            "answer": "C",
            "decoded_image": {"bytes": PNG, "path": None},
        },
        {"verifier": "choice", "gold": "C", "guess": 0.2, "details": {"choices": ["A", "B", "C", "D", "E"]}},
    ),
}


def read(tmp_path: Path, name: str, *rows: dict[str, Any]) -> pl.DataFrame:
    path = tmp_path / "copy.parquet"
    pl.DataFrame(list(rows)).write_parquet(path)
    return read_problems(path, benchmark=PROBLEMS[name]).frame


def test_every_benchmark_of_the_paper_is_there_with_its_size() -> None:
    assert {name: item.paper for name, item in PROBLEMS.items() if item.paper} == PAPER
    assert {"gsm8k", "humaneval", "mbpp"} <= PROBLEMS.keys()


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_entry_names_a_verifier_and_a_prompt_that_exist(name: str) -> None:
    item = PROBLEMS[name]
    assert item.name == name
    assert item.verifier in VERIFIERS
    assert item.prompt in PROMPTS
    assert item.guess is None or 0 < item.guess < 1
    assert item.hub.count("/") == 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_hubs_own_columns_are_read(name: str, tmp_path: Path) -> None:
    row, wanted = ROWS[name]
    result = read(tmp_path, name, row).row(0, named=True)
    result["details"] = json.loads(result["details"]) if result["details"] else None
    assert {key: result[key] for key in wanted} == wanted
    assert result["benchmark"] == name
    assert result["verifier"] == wanted.get("verifier", PROBLEMS[name].verifier)
    assert result["question"] in result["prompt"]


@pytest.mark.parametrize("name", ["mathvista", "mathvision"])
def test_image_problems_carry_their_image(name: str, tmp_path: Path) -> None:
    (image,) = read(tmp_path, name, ROWS[name][0])["images"][0]
    assert image == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_rows_outside_the_benchmark_are_left_out(tmp_path: Path) -> None:
    inside = ROWS["livecodebench_v5"][0]
    outside = {**inside, "question_id": "later", "contest_date": "2025-02-01T00:00:00"}
    assert read(tmp_path, "livecodebench_v5", inside, outside)["problem"].to_list() == ["abc_a"]
    lies, zebra = ROWS["livebench_reasoning"][0], {**ROWS["livebench_reasoning"][0], "task": "zebra_puzzle"}
    assert read(tmp_path, "livebench_reasoning", lies, {**zebra, "question_id": "y"}).height == 1
    with pytest.raises(OffleashError, match="none of its 1 rows belongs to livebench_reasoning"):
        read(tmp_path, "livebench_reasoning", zebra)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("humaneval", {"test": None}, "it has no test"),
        ("mbpp", {"test_list": None}, "test_list is None"),
        ("livecodebench_v5", {"public_test_cases": "[]", "private_test_cases": ""}, "neither public_test_cases nor"),
        ("livecodebench_v6", {"public_test_cases": '[{"testtype": "functional"}]', "metadata": "{}"}, "no func_name"),
        ("mathvision", {"answer": "F"}, "'F' is not among the 5 choices"),
        ("aime24", {"answer": None}, "there is no answer"),
    ],
)
def test_a_row_that_lacks_what_its_benchmark_needs_is_refused(
    name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(OffleashError, match=f"row 1: .*{message}"):
        read(tmp_path, name, {**ROWS[name][0], **change})


@pytest.mark.parametrize(
    ("name", "file", "size"),
    [
        ("aime24", "aime24", 30),
        ("aime25", "aime25", 30),
        ("amc23", "amc23", 40),
        ("minerva", "minerva_math", 272),
        ("olympiadbench", "olympiadbench", 675),
        ("gsm8k", "gsm8k", 1319),
        ("scibench", "scibench", 692),
        ("humaneval", "humaneval", 164),
    ],
)
def test_copies_under_usual_names_are_read_whole(name: str, file: str, size: int) -> None:
    path = BENCH / f"{file}.jsonl"
    if not path.exists():
        pytest.skip("no shared data beside the project")
    given = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    frame = read_problems(path, benchmark=PROBLEMS[name]).frame
    assert frame.height == size
    assert frame["problem"].to_list() == [row["id"] for row in given]
    assert frame["gold"].null_count() == 0
    golds = [row["problem"] + row["answer"] if name == "humaneval" else row["answer"] for row in given]
    changed = [(ours, theirs) for ours, theirs in zip(frame["gold"], golds, strict=True) if ours != theirs]
    assert all(_digits(ours) == _digits(theirs) for ours, theirs in changed)
    assert len(changed) <= {"aime24": 7, "scibench": 4, "minerva": 1}.get(name, 0)
    if name == "scibench":
        assert [json.loads(text)["unit"] for text in frame["details"]] == [row["unit"].strip() for row in given]


def _digits(text: str) -> str:
    """A number without leading zeros, thousands and the kind of its minus; a text without white space at its ends."""
    return text.strip().replace("\u2212", "-").replace(",", "").lstrip("0")
