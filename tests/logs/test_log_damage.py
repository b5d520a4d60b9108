"""Damaged files: an error that a user can act on, or a repair that is told; never a traceback, never silence."""

import gzip
import json
import tempfile
from contextlib import suppress
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offleash as ol
from offleash.errors import OffleashError
from offleash.logs.format import Options
from offleash.logs.registry import FORMATS
from tests.effort import examples
from tests.logs.log_reading import FIXTURES, notes_text, read

GOOD = '{"id": "a", "response": "x", "correct": true}\n'
SMALL = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.name != "README.md")


def write_log(folder: Path, data: bytes) -> Path:
    path = folder / "log"
    path.write_bytes(data)
    return path


REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"\n  \n\n", "only blank lines"),
    "malformed line in the middle": (f"{GOOD}{{oops\n{GOOD}".encode(), "row 2 is cut off or not JSON"),
    "row that is no object": (f"{GOOD}[1]\n{GOOD}".encode(), "row 2 is a JSON list"),
    "nested too deeply": (f"{GOOD}{'[' * 100_000}\n{GOOD}".encode(), "row 2 is nested too deeply"),
    "first line nested too deeply": (b'{"a":' * 100_000, "nested too deeply"),
    "number of too many digits": (f'{GOOD}{{"id": {"9" * 5000}}}\n{GOOD}'.encode(), "row 2 is cut off or not JSON"),
    "truncated parquet": ((FIXTURES / "trl/completions_00001.parquet").read_bytes()[:-20], "Parquet file is cut off"),
    "parquet of nothing": (b"PAR1 xxxx PAR1", "Parquet file is cut off or damaged"),
    "truncated zip": ((FIXTURES / "inspect/tiny_sums.eval").read_bytes()[:-200], "zip file is cut off or damaged"),
    "truncated gzip": (gzip.compress(GOOD.encode() * 50)[:-12], "gzip file is cut off or damaged"),
    "truncated array": (f"[{GOOD}, {GOOD[:-8]}".encode(), "row 2 of the array is cut off"),
    "empty array": (b"[]", "empty JSON array"),
    "truncated object": ((FIXTURES / "inspect/tiny_sums.json").read_bytes()[:-300], "cut off or not JSON"),
    "binary": (bytes(range(256)), "not JSON, JSONL, CSV, Parquet or zip"),
    "prose": (b"Dear all\nhere are the results\n", "not JSON, JSONL, CSV, Parquet or zip"),
    "header alone": (b"problem,correct\n", "the columns problem, correct but no rows"),
    "column twice": (b"problem,correct,correct\na,1,1\n", "'correct' more than once"),
    "too few fields": (b"problem,correct\na,1\nb\n", "row 3 has 1 fields, but the header has 2"),
    "too many fields": (b"problem,correct\na,1\nb,1,1\n", "row 3 has 3 fields, but the header has 2"),
    "open quote": (b'problem,correct\na,1\n"b,1\n', "row 3 is not CSV"),
    "UTF-16 cut in half": ("id,correct\na,1\n".encode("utf-16")[:-1], "UTF-16"),
    "unknown verdict": (f'{GOOD}{{"id": "a", "response": "x", "correct": "perhaps"}}\n'.encode(), "row 2.*'perhaps'"),
    "unknown verdict in CSV": (b"problem,correct\na,1\nb,perhaps\n", "row 3.*'perhaps'"),
    "verdict that is an object": (b'{"id": "a", "correct": {"x": 1}}\n', "row 1.*the verdict is"),
    "lists of different lengths": (
        b'{"id": "a", "responses": ["x", "y"], "correct": [true]}\n',
        "row 1.*differ in length: text 2, verdict 1",
    ),
    "no sample": (b'{"id": "a", "responses": []}\n', "was read as generic, but has no samples"),
    "no problem": (f'{GOOD}{{"response": "x", "correct": true}}\n'.encode(), "row 2 has neither an id"),
    "no problem in CSV": (b"problem,correct\na,1\n,1\n", "row 3 has neither an id"),
    "sample that is no number": (
        b'{"id": "a", "correct": 1, "sample": 1}\n{"id": "a", "correct": 1, "sample": "x"}\n',
        "row 2: 'sample' is 'x'",
    ),
    "sample that is no number in CSV": (b"id,sample,correct\na,1,1\na,x,1\n", "row 3: 'sample' is 'x'"),
    "unknown columns": (
        b'{"colour": "red", "size": 3}\n',
        "has the columns colour, size.*--map",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_file_and_the_reason(case: str, tmp_path: Path) -> None:
    data, message = REFUSED[case]
    path = write_log(tmp_path, data)
    with pytest.raises(OffleashError, match=f"(?s){message}") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"input": "a", "step": 1, "gts": "3"},
            r"closest: verl \(no output, score\), swift \(no completion, prompt\)\. ",
        ),
        ({"doc_id": 1, "doc": {}, "target": "b"}, r"closest: lm_eval \(no filtered_resps, resps\)\. "),
        (
            {"colour": 1},
            r"no known format\. Name them with --map problem=COLUMN --map text=COLUMN \(or verdict=COLUMN\)",
        ),
        ({"question": "What is it?", "colour": 1}, r"no known format\. Name them with --map text=COLUMN"),
        ({}, "row 1 is empty"),
    ],
)
def test_an_unknown_table_is_refused_with_the_two_nearest_formats(
    row: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(OffleashError, match=message):
        read(write_log(tmp_path, json.dumps(row).encode()))


@pytest.mark.parametrize(
    ("row", "step"),
    [
        ({"task_id": "HumanEval/0", "completion": "return 1"}, "--verifier program --problems humaneval"),
        ({"task_id": "Mbpp/2", "solution": "return 1"}, "evalplus.evaluate.*--verifier program --problems mbpp"),
        ({"task_id": "BigCodeBench/0", "solution": "return 1"}, "bigcodebench.evaluate"),
        ({"question_id": "1", "output_list": ["a"], "code_list": ["a"]}, "lcb_runner.*--problems livecodebench_v6"),
    ],
)
def test_programs_without_verdicts_are_not_sent_to_a_verifier_of_mathematics(
    row: dict[str, object], step: str, tmp_path: Path
) -> None:
    path = write_log(tmp_path, json.dumps(row).encode())
    with pytest.raises(OffleashError, match=f"None of the 1 samples.*{step}") as caught:
        ol.compare(path, path)
    assert "math" not in str(caught.value)


def test_lists_as_text_are_refused_with_the_containers_that_hold_lists(tmp_path: Path) -> None:
    with pytest.raises(
        OffleashError, match=r"row 2: the verdict is '\[true, false\]', a list as text.*JSONL or Parquet"
    ):
        read(write_log(tmp_path, b'problem_id,correct\na,"[true, false]"\n'))


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(OffleashError, match="There is no file"):
        read(tmp_path / "nothing.jsonl")


def test_a_cut_off_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    log, frame = read(write_log(tmp_path, (GOOD * 3 + GOOD[:20]).encode()))
    assert frame.height == 3
    assert [(note.rows, note.left_out) for note in log.notes if note.left_out] == [(1, True)]
    assert "row 4" in notes_text(log)


def test_blank_lines_are_ignored_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    _, frame = read(write_log(tmp_path, f"\n{GOOD}\n\n{GOOD}\n".encode()))
    assert frame["row"].to_list() == [2, 5]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [GOOD.replace("x", "é\u2028ß"), "id,response,correct\na,é\u2028ß,true\n"])
def test_encodings_with_a_byte_order_mark_are_read(tmp_path: Path, encoding: str, text: str) -> None:
    marked = f"\ufeff{text}" if encoding in ("utf-16-le", "utf-16-be") else text
    _, frame = read(write_log(tmp_path, marked.encode(encoding)))
    assert frame.select("problem", "text", "verdict").row(0) == ("a", "é\u2028ß", "correct")


def test_bad_bytes_are_replaced_and_counted(tmp_path: Path) -> None:
    bad = GOOD.encode().replace(b"x", b"\xff")
    log, frame = read(write_log(tmp_path, GOOD.encode() + bad + bad))
    assert frame["text"].to_list() == ["x", "\ufffd", "\ufffd"]
    assert "2 lines (first: line 2) are not valid UTF-8" in notes_text(log)


def test_half_a_surrogate_pair_is_replaced_and_told(tmp_path: Path) -> None:
    log, frame = read(write_log(tmp_path, GOOD.replace("x", r"\ud800").encode()))
    assert frame["text"].to_list() == ["\ufffd"]
    assert "surrogate" in notes_text(log)


def test_nan_is_accepted_in_json(tmp_path: Path) -> None:
    _, frame = read(write_log(tmp_path, GOOD.replace("true", "NaN").encode()))
    assert frame["verdict"].to_list() == [None]


def test_an_empty_text_is_still_a_sample(tmp_path: Path) -> None:
    _, frame = read(write_log(tmp_path, GOOD.replace('"x"', '""').encode()))
    assert frame.select("text", "verdict").row(0) == ("", "correct")


def test_a_json_array_in_one_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    rows = [{"id": f"p{i}", "response": "x" * 50_000, "correct": True} for i in range(20)]
    _, frame = read(write_log(tmp_path, json.dumps(rows).encode()))
    assert frame["problem"].to_list() == [f"p{i}" for i in range(20)]


def attempt(data: bytes, options: Options) -> None:
    """Read whatever this is; only an OffleashError may come of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_log(Path(folder), data)
        with suppress(OffleashError):
            read(path, options)


@given(st.binary(max_size=300), st.sampled_from([b"", b"{", b"[", b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b"a,b\n"]))
def test_random_bytes_raise_nothing_else(data: bytes, start: bytes) -> None:
    attempt(start + data, Options())


@given(st.sampled_from(SMALL), st.floats(0, 1), st.booleans())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_truncated_log_raises_nothing_else(path: Path, share: float, texts: bool) -> None:
    data = path.read_bytes()
    attempt(data[: int(share * len(data))], Options(texts=texts))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TEXTS = [path for path in SMALL if path.suffix in (".json", ".jsonl")]


@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_log_with_a_field_of_any_other_kind_raises_nothing_else(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    whole = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    place = whole
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            place[key] = data.draw(VALUES)
            break
        place = place[key]
    lines = json.dumps(whole) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in whole)
    attempt(lines.encode(), Options())


@pytest.mark.parametrize("path", SMALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_log_read_as_any_other_format_raises_nothing_else(path: Path) -> None:
    for name in FORMATS:
        with suppress(OffleashError):
            read(path, format_name=name)


KINDS: dict[str, pl.Series] = {
    "text": pl.Series(["1", "", None]),
    "numbers": pl.Series([1, 0, None]),
    "floats": pl.Series([0.5, float("nan"), None]),
    "flags": pl.Series([True, False, None]),
    "bytes": pl.Series([b"1", b"\xff", None]),
    "dates": pl.Series([date(2026, 1, 31), date(2026, 2, 1), None]),
    "nothing": pl.Series([None, None, None]),
    "categories": pl.Series(["1", "0", None], dtype=pl.Categorical),
    "lists": pl.Series([[1, 0], [1], None]),
    "lists of lists": pl.Series([[["1"], []], [["0"]], None]),
    "objects": pl.Series([{"a": 1}, {"a": 2}, None]),
    "messages": pl.Series([[{"role": "user", "content": "1"}], [], None]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "column", ["id", "question", "completion", "correct", "answer", "gold", "sample", "tokens", "task"]
)
def test_a_parquet_column_of_any_kind_raises_nothing_else(column: str, kind: str, tmp_path: Path) -> None:
    plain = {"id": ["a", "b", "c"], "completion": ["x", "y", "z"], "correct": [True, False, True]}
    path = tmp_path / "log.parquet"
    pl.DataFrame({**plain, column: KINDS[kind]}).write_parquet(path)
    for options in (Options(), Options(split_by=column)):
        with suppress(OffleashError):
            read(path, options)


def test_numbers_that_are_not_whole_are_no_index(tmp_path: Path) -> None:
    rows = [{"id": "a", "correct": True, "sample": 1}, {"id": "a", "correct": True, "sample": 1.5}]
    pl.DataFrame(rows, schema_overrides={"sample": pl.Float64}).write_parquet(tmp_path / "rows.parquet")
    for path in (
        tmp_path / "rows.parquet",
        write_log(tmp_path, "".join(json.dumps(row) + "\n" for row in rows).encode()),
    ):
        with pytest.raises(OffleashError, match=r"row 2.*'sample' is 1\.5"):
            read(path)


def test_blank_lines_before_a_header_are_ignored(tmp_path: Path) -> None:
    for quote in ("", '"'):
        text = f"\n\nid\tcorrect\n{quote}a{quote}\t1\n\nb\t0\n"
        _, frame = read(write_log(tmp_path, text.encode()))
        assert frame.select("problem", "row").rows() == [("a", 4), ("b", 6)]


def test_a_quote_far_down_a_csv_file_is_read_as_one(tmp_path: Path) -> None:
    plain = "".join(f"p{i},{'x' * 20},1\n" for i in range(60_000))
    _, frame = read(write_log(tmp_path, f'id,response,correct\n{plain}"q","a,\nb",0\nr,c,1\n'.encode()))
    assert frame["row"].to_list() == list(range(2, 60_004))
    assert frame.tail(2).select("problem", "text", "verdict").rows() == [("q", "a,\nb", "wrong"), ("r", "c", "correct")]
