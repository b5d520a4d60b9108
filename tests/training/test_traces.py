"""Traces from outside: read in their order, and a line that is none is named."""

from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.training.traces import read_traces, write_traces


def test_what_is_written_is_read_again_in_its_order(tmp_path: Path) -> None:
    traces = {"größe": ["1 + 2 = 3", "2 + 1 = 3"], "b": ['say "x"\nand y', "  z"]}
    assert write_traces(tmp_path / "new" / "t.jsonl", traces) == 4
    assert read_traces(tmp_path / "new" / "t.jsonl") == traces


def test_traces_of_one_problem_may_stand_apart_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"problem": "a", "text": "1"}\n\n{"problem": "b", "text": "2", "more": 1}\n{"problem":"a","text":"3"}'
    )
    assert read_traces(path) == {"a": ["1", "3"], "b": ["2"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"problem": "a", "text": "1"}\n{"problem": "a"', "row 2 is cut off or not JSON"),
        ('{"problem": "a"}', "row 1 must be an object with non-empty problem and text"),
        ('{"problem": "a", "text": " "}', "non-empty"),
        ('{"problem": 3, "text": "1"}', "problem and text"),
        ('["a", "1"]', "row 1 is a JSON list, not an object such as"),
        ("null", "row 1 is a JSON null"),
        ("\n\n", "is empty.*problem.*text.*per line"),
        ("", "is empty"),
    ],
)
def test_a_line_that_is_no_trace_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(OffleashError, match=why):
        read_traces(path)


def test_what_cannot_be_read_is_told_with_the_form(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"no file .*none.jsonl\. Traces are a JSONL file of \{problem, text\}"):
        read_traces(tmp_path / "none.jsonl")
    with pytest.raises(OffleashError, match="is a folder"):
        read_traces(tmp_path)
    (tmp_path / "t.jsonl").write_bytes(b'\xff\xfe{"problem"')
    with pytest.raises(OffleashError, match="row 1 is cut off or not JSON"):
        read_traces(tmp_path / "t.jsonl")


def test_a_line_of_a_hundred_thousand_brackets_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("[" * 100_000)
    with pytest.raises(OffleashError, match="row 1 is nested too deeply"):
        read_traces(tmp_path / "t.jsonl")


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OffleashError, match="cannot be written"):
        write_traces(tmp_path / "file" / "t.jsonl", {"a": ["1"]})
