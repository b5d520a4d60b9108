"""Counts a problem: read from every container, and refused when they cannot be counts."""

from pathlib import Path

import polars as pl
import pytest

from offleash.errors import OffleashError
from offleash.loading.load import load
from offleash.logs.format import Options
from tests.logs.log_reading import lines, read


def counted(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("n", "c"), [("n", "c"), ("total", "correct"), ("num_samples", "num_correct"), ("trials", "successes")]
)
def test_counts_read_the_same_from_csv_jsonl_and_parquet(tmp_path: Path, n: str, c: str) -> None:
    rows = [{"problem": "a", n: 8, c: 3}, {"problem": "b", n: 8, c: 0}]
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    lines(tmp_path / "rows.jsonl", rows)
    counted(tmp_path / "rows.csv", f"problem,{n},{c}\na,8,3\nb,8,0\n")
    for path in sorted(tmp_path.iterdir()):
        log, frame = read(path)
        assert log.counts
        assert frame.select("problem", "n", "c").rows() == [("a", 8, 3), ("b", 8, 0)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,8,9", r"row 2: it has 9 correct \(c\) but only 8 samples \(n\)"),
        ("a,-8,0", "row 2: 'n' is '-8'"),
        ("a,8,-1", "row 2: 'c' is '-1'"),
        ("a,8.5,1", "row 2: 'n' is '8.5'"),
        ("a,8,many", "row 2: 'c' is 'many'"),
        ("a,,1", "row 2: 'n' is None"),
        (",8,1", "row 2: it has neither 'problem'"),
        ("b,8,1\nb,8,2", "row 3: problem 'b' was already counted in row 2"),
        ("a,8", "row 2 has 2 fields, but the header has 3"),
    ],
)
def test_what_cannot_be_a_count_is_refused_with_its_row(tmp_path: Path, row: str, message: str) -> None:
    path = counted(tmp_path / "counts.csv", f"problem,n,c\n{row}\n")
    with pytest.raises(OffleashError, match=message) as caught:
        read(path, format_name="counts")
    assert str(path) in str(caught.value)


def test_no_samples_is_a_count_too(tmp_path: Path) -> None:
    _, frame = read(counted(tmp_path / "counts.csv", "problem,n,c\na,0,0\n"))
    assert frame.select("n", "c").row(0) == (0, 0)


def test_one_problem_may_stand_in_two_runs_and_two_benchmarks(tmp_path: Path) -> None:
    text = "problem,n,c,model,benchmark\na,8,1,base,x\na,8,2,rl,x\na,8,3,rl,y\n"
    path = counted(tmp_path / "counts.csv", text)
    _, frame = read(path, Options(split_by="model"))
    assert frame.select("split", "benchmark", "c").rows() == [("base", "x", 1), ("rl", "x", 2), ("rl", "y", 3)]
    with pytest.raises(OffleashError, match="already counted in row 2"):
        read(path)


def test_guess_and_columns_of_other_names_are_read(tmp_path: Path) -> None:
    path = counted(tmp_path / "counts.csv", "aufgabe,versuche,treffer,chance\na,8,1,0.25\n")
    asked = {"problem": "aufgabe", "n": "versuche", "c": "treffer"}
    _, frame = read(path, Options(columns=asked))
    assert frame.select("problem", "n", "c", "guess").row(0) == ("a", 8, 1, 0.25)


def test_samples_with_a_column_n_are_not_counts(tmp_path: Path) -> None:
    rows = [{"problem": "a", "completion": "5", "correct": 1, "n": 8}]
    log, _ = read(lines(tmp_path / "rows.jsonl", rows))
    assert log.format == "generic"


def test_a_missing_column_is_asked_for(tmp_path: Path) -> None:
    path = counted(tmp_path / "counts.csv", "problem,correct\na,1\n")
    with pytest.raises(OffleashError, match=r"samples drawn \(n\).*--map n=COLUMN"):
        read(path, format_name="counts")


def test_a_text_stands_for_the_problem_where_there_is_no_id(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "gold": gold, "n_rollouts": 8, "n_correct": int(gold)} for gold in "123"]
    log, frame = read(lines(tmp_path / "rows.jsonl", rows))
    assert log.counts
    assert frame["c"].to_list() == [1, 2, 3]
    (run,) = load(tmp_path / "rows.jsonl")
    assert run.problems.height == 3
    with pytest.raises(OffleashError, match=r"row 4: problem .* was already counted in row 1"):
        read(lines(tmp_path / "twice.jsonl", [*rows, rows[0]]))
