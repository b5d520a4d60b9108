"""Damaged or wrong files of problems: refused with the file, the row and the next step; never a traceback."""

import gzip
import io
import json
import tempfile
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offleash.errors import OffleashError
from offleash.problems.benchmarks import PROBLEMS
from offleash.problems.read import read_problems
from tests.effort import examples

GOOD = '{"id": "a", "question": "1+1?", "answer": "2"}\n'


def parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"question": ["1+1?"], "answer": ["2"]}).write_parquet(file)
    return file.getvalue()


REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "cut off last line": (f"{GOOD}{GOOD[:20]}".encode(), "row 2 is cut off or not JSON"),
    "broken line": (f"{GOOD}{{oops\n{GOOD}".encode(), "row 2 is cut off or not JSON"),
    "row that is no object": (f"{GOOD}[1]\n".encode(), "row 2 is a JSON list"),
    "nested too deeply": (f"{GOOD}{'[' * 100_000}\n".encode(), "row 2 is nested too deeply"),
    "number of too many digits": (f'{GOOD}{{"id": {"9" * 5000}}}\n'.encode(), "row 2 is cut off or not JSON"),
    "truncated array": (f"[{GOOD},".encode(), "cut off or not JSON"),
    "empty array": (b"[]", "no rows"),
    "array of numbers": (b"[1, 2]", "row 1 is a JSON int"),
    "truncated gzip": (gzip.compress(GOOD.encode() * 50)[:-12], "gzip file is cut off or damaged"),
    "truncated parquet": (parquet()[:-20], "Parquet file is cut off or damaged"),
    "zip": (b"PK\x03\x04xxxx", "zip archive"),
    "binary": (bytes(range(256)), "binary data"),
    "prose": (b"Dear all\nhere are the problems\n", "not JSON, JSONL, CSV or Parquet"),
    "bad bytes": (GOOD.encode() + b'{"question": "\xff"}\n', "row 2 is not valid UTF-8"),
    "header alone": (b"question,answer\n", "no rows"),
    "column twice": (b"question,answer,answer\na,1,1\n", "'answer' more than once"),
    "too few fields": (b"question,answer\na,1\nb\n", "row 3 has 1 fields, but the header has 2"),
    "open quote": (b'question,answer\na,1\n"b,1\n', "not CSV"),
    "unknown columns": (b'{"colour": "red"}\n', "none of them is recognized as the question.*--map question="),
    "empty question": (f'{GOOD}{{"question": "  ", "answer": "2"}}\n'.encode(), "row 2: the question.*is empty"),
    "question that is a number list": (b'{"question": [1, 2], "answer": "2"}\n', "row 1: the question is \\[1, 2\\]"),
    "no answer": (f'{GOOD}{{"id": "b", "question": "q", "answer": null}}\n'.encode(), "row 2: there is no answer"),
    "no answer in CSV": (b"question,answer\na,1\nb,\n", "row 3: there is no answer"),
    "no column of answers": (b'{"question": "q"}\n', "row 1: there is no answer.*--map gold="),
    "answer that is not a number": (b'{"question": "q", "answer": NaN}\n', "row 1: there is no answer"),
    "several answers": (b'{"question": "q", "answer": ["1", "2"]}\n', "row 1: the answer is \\['1', '2'\\]"),
    "answer that is an object": (b'{"question": "q", "answer": {"x": 1}}\n', "row 1: the answer is {'x': 1}"),
    "one choice": (b'{"question": "q", "answer": "A", "choices": ["x"]}\n', "row 1: there are 1 choices"),
    "choices that are a text": (b'{"question": "q", "answer": "A", "choices": "x"}\n', "row 1: the choices are 'x'"),
    "guess above one": (b'{"question": "q", "answer": "1", "guess": 2}\n', "row 1: the guess floor is 2"),
    "guess that is a word": (b'{"question": "q", "answer": "1", "guess": "low"}\n', "row 1: the guess floor is 'low'"),
    "details that are a list": (b'{"question": "q", "answer": "1", "details": [1]}\n', "row 1: the details are"),
    "half a surrogate pair": (b'{"question": "\\ud800", "answer": "1"}\n', "row 1: the question holds half"),
    "half a pair in details": (
        b'{"question": "q", "answer": "1", "details": {"unit": "\\ud800"}}\n',
        "row 1: the details cannot be written",
    ),
    "conversation": (
        b'{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "answer": "1"}\n',
        "row 1: the question is a conversation with the turns user, assistant",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_file_and_the_reason(case: str, tmp_path: Path) -> None:
    data, message = REFUSED[case]
    path = tmp_path / "problems"
    path.write_bytes(data)
    with pytest.raises(OffleashError, match=f"(?s){message}") as caught:
        read_problems(path)
    assert str(path) in str(caught.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="is a folder"):
        read_problems(tmp_path)
    with pytest.raises(OffleashError, match="There is no file"):
        read_problems(tmp_path / "nothing.jsonl")


def test_problems_whose_verifier_needs_no_answer_may_have_none(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"question": "q", "verifier": "program", "details": {"kind": "stdin", "tests": []}}\n')
    assert read_problems(path).frame["gold"].to_list() == [None]


ROWS = [
    {"id": "a", "question": "1+1?", "answer": 2.50, "choices": None, "images": []},
    {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": "1"}, "extra_info": {"index": 1}},
    {
        "task_id": "t",
        "prompt": "def f():",
        "canonical_solution": " pass",
        "test": "def check(c): ...",
        "entry_point": "f",
    },
    {
        "question_id": 1,
        "question_content": "q",
        "public_test_cases": "[]",
        "private_test_cases": "eJw=",
        "metadata": "{}",
    },
    {"question": "q", "options": ["x", "y"], "answer": "B", "decoded_image": None},
]
TEXTS = ["".join(json.dumps(row) + "\n" for row in ROWS).encode(), json.dumps(ROWS).encode(), parquet()]


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_cut_or_change_of_a_file_is_read_or_refused_never_a_crash(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(TEXTS)))
    del text[data.draw(st.integers(0, len(text))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if text:
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    benchmark = data.draw(st.sampled_from([None, *PROBLEMS.values()]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problems"
        path.write_bytes(bytes(text))
        with suppress(OffleashError):
            frame = read_problems(path, benchmark=benchmark).frame
            assert frame.height > 0
            assert frame["question"].null_count() == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("id", "question", "answer", "choices", "images", "details", "guess", "verifier", "prompt", "unit", "options",
         "test_list", "public_test_cases", "metadata", "original_json", "final_answer", "context", "precision",
         "answer_type", "contest_date", "task", "solution", "reward_model")  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(row=st.dictionaries(st.sampled_from(NAMES), JSON), name=st.sampled_from([None, *PROBLEMS]))
def test_values_of_any_type_are_read_or_refused_never_a_crash(row: dict[str, object], name: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problems.jsonl"
        path.write_text(json.dumps({"question": "q", "answer": "1", **row}) + "\n")
        with suppress(OffleashError):
            read_problems(path, benchmark=PROBLEMS[name] if name else None)
