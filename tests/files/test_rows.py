"""The one reader of users' files: every verb reads the same encodings, refuses the same damage, counts rows alike."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from offleash.analyses.likelihood.traces import read_traces as likelihood_traces
from offleash.errors import OffleashError
from offleash.files.detect import read_rows
from offleash.files.lines import FileKind, Repairs, array_rows, jsonl_rows
from offleash.files.rows import WrittenFloat
from offleash.problems.read import read_problems
from offleash.scoring.rows import read_rows as texts_to_score
from offleash.training.traces import read_traces as training_traces
from offleash.verifying.rows import read_rows as rows_to_verify

ROW = {"id": "a", "problem": "p0", "question": "1+1?", "gold": 2, "prompt": "é", "text": "2", "author": "x"}
STRICT = FileKind(description="a test", example='{"a": ...}')

READERS: dict[str, Callable[[Path], object]] = {
    "problems": lambda path: read_problems(path).frame.rows(),
    "verify": lambda path: list(rows_to_verify(path)),
    "score": lambda path: list(texts_to_score(path, {})),
    "likelihood": lambda path: likelihood_traces(path, {"p0": 0}).traces,
    "train": training_traces,
}


def written(folder: Path, data: bytes) -> Path:
    path = folder / "rows.jsonl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_every_verb_reads_byte_order_marks_utf16_gzip_and_blank_lines(reader: str, tmp_path: Path) -> None:
    text = json.dumps(ROW, ensure_ascii=False) + "\n"
    plain = READERS[reader](written(tmp_path, text.encode()))
    for data in (
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        gzip.compress(text.encode()),
        text.replace("\n", "\r\n").encode() + b"\n \n",
    ):
        assert READERS[reader](written(tmp_path, data)) == plain


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\n{oops\n", "is cut off or not JSON"),
        (json.dumps(ROW).encode() + b"\n\n{oops\n", "row 3 is cut off or not JSON"),
        (json.dumps(ROW).encode() + b"\n[1]\n", "row 2 is a JSON list"),
        (json.dumps(ROW).encode() + b"\n" + b"[" * 100_000, "row 2 is nested too deeply"),
        (gzip.compress(json.dumps(ROW).encode() * 9)[:-9], "gzip file is cut off"),
    ],
)
def test_every_verb_refuses_damage_in_the_same_words(reader: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, data)
    with pytest.raises(OffleashError, match=message) as refused:
        READERS[reader](path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("reader", READERS)
def test_every_verb_names_a_missing_file_and_a_folder(reader: str, tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "none.jsonl", "There is no file"),
        (tmp_path, "is a folder"),
        (written(tmp_path, b"x") / "below", "There is no file"),
        (tmp_path / ("n" * 300), "cannot be read"),
        (Path("a\0b.jsonl"), "not a valid file name"),
    ]:
        with pytest.raises(OffleashError, match=message):
            READERS[reader](path)


def test_a_fraction_keeps_its_digits_and_is_a_number_all_the_same(tmp_path: Path) -> None:
    kind = FileKind(description="a test", example="", written_floats=True)
    (row,) = jsonl_rows(written(tmp_path, b'{"a": 10.50, "b": 1e400, "c": 7, "d": {"e": 0.10}}'), kind)
    a, b = row.values["a"], row.values["b"]
    assert isinstance(a, WrittenFloat)
    assert isinstance(b, WrittenFloat)
    assert (a, a.written, b, b.written) == (10.5, "10.50", float("inf"), "1e400")
    assert json.dumps(row.values["d"]) == '{"e": 0.1}'


def test_repairs_are_made_only_where_they_are_noted(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"a": "\xff"}\n{"a": 2}\n{"a"')
    repairs = Repairs()
    assert [row.values["a"] for row in jsonl_rows(path, STRICT, repairs)] == ["\ufffd", 2]
    assert [note.rows for note in repairs.all_notes(path)] == [1, 1]
    with pytest.raises(OffleashError, match="row 1 is not valid UTF-8"):
        list(jsonl_rows(path, STRICT))


def test_what_follows_a_json_array_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, b'[{"a": 1}]\n \n[{"a": 2}]\n')
    with pytest.raises(OffleashError, match=r"has text after the end of its JSON: '\[\{"):
        list(array_rows(path, STRICT))


def test_records_without_a_value_are_skipped_in_csv_of_any_reader(tmp_path: Path) -> None:
    path = written(tmp_path, b"question,answer\n1+1?,2\n,\n1+2?,3\n")
    assert [row.number for row in read_rows(path, STRICT)] == [2, 4]
