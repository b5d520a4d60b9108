"""Tables of any make: columns guessed by name, mapped by hand, split, in lists, and read alike from every container."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.tables import question_hash
from offleash.errors import OffleashError
from offleash.logs.format import Options
from tests.logs.log_reading import lines, notes_text, read, verdicts
from tests.places import SHARED_DATA

# outputs of models made public by others, kept beside the repository and not in it
SHARED = SHARED_DATA / "outputs"
here = pytest.mark.skipif(not SHARED.exists(), reason="OFFLEASH_SHARED_DATA does not name a folder of public outputs")

ROWS: list[dict[str, object]] = [
    {"problem_id": "p1", "prompt": "What is 2 + 3?", "completion": "5, surely", "correct": True, "gold": "5"},
    {"problem_id": "p1", "prompt": "What is 2 + 3?", "completion": "", "correct": False, "gold": "5"},
    {"problem_id": "p2", "prompt": 'Say "a,\nb"', "completion": "a\nb", "correct": False, "gold": "a, b"},
]


def as_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_table_reads_the_same_from_jsonl_json_csv_parquet_and_gzip(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    lines(tmp_path / "rows.jsonl", ROWS)
    as_csv(tmp_path / "rows.csv", ROWS)
    for name in ("rows.csv", "rows.jsonl"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    frames = [read(path)[1].drop("row") for path in sorted(tmp_path.iterdir())]
    assert len(frames) == 6
    assert frames[0]["verdict"].to_list() == ["correct", "wrong", "wrong"]
    assert frames[0]["text"].to_list() == ["5, surely", "", "a\nb"]
    assert all(frame.equals(frames[0]) for frame in frames)


def test_rows_of_mixed_kinds_read_the_same_as_each_alone(tmp_path: Path) -> None:
    more: list[dict[str, object]] = [
        {"problem_id": None, "prompt": "Why?", "completion": "so", "correct": 0.5},
        {"problem_id": 7, "prompt": "Why not?", "completion": None, "correct": 1},
        {"problem_id": "p4", "prompt": "Who?", "completion": "me", "correct": "passed"},
    ]
    rows = [*ROWS, *more]
    _, mixed = read(lines(tmp_path / "all.jsonl", rows))
    alone = pl.concat([read(lines(tmp_path / "one.jsonl", [row]))[1] for row in rows])
    assert mixed.drop("row").equals(alone.drop("row"))
    assert mixed["problem"].to_list()[3:] == [question_hash("Why?"), "7", "p4"]


def test_the_guess_is_told(tmp_path: Path) -> None:
    log, _ = read(lines(tmp_path / "rows.jsonl", ROWS))
    assert "problem <- problem_id, question <- prompt, gold <- gold" in notes_text(log)
    assert "verdict <- correct" in notes_text(log)


def test_a_mapping_overrules_the_guess(tmp_path: Path) -> None:
    rows = [{**row, "human": not row["correct"]} for row in ROWS]
    _, frame = read(lines(tmp_path / "rows.jsonl", rows), Options(columns={"verdict": "human"}))
    assert verdicts(frame) == {"wrong": 1, "correct": 2}


def test_columns_of_any_name_can_be_mapped(tmp_path: Path) -> None:
    rows = [{"aufgabe": "p1", "ergebnis": "richtig", "ok": 1}, {"aufgabe": "p1", "ergebnis": "falsch", "ok": 0}]
    path = lines(tmp_path / "rows.jsonl", rows)
    with pytest.raises(OffleashError, match="aufgabe, ergebnis, ok"):
        read(path)
    _, frame = read(path, Options(columns={"problem": "aufgabe", "verdict": "ok"}))
    assert frame["verdict"].to_list() == ["correct", "wrong"]
    with pytest.raises(OffleashError, match="'richtig'"):
        read(path, Options(columns={"problem": "aufgabe", "verdict": "ergebnis"}))


@pytest.mark.parametrize("options", [Options(columns={"verdict": "corect"}), Options(split_by="corect")])
def test_an_absent_column_names_the_nearest(tmp_path: Path, options: Options) -> None:
    for path in (lines(tmp_path / "rows.jsonl", ROWS), as_csv(tmp_path / "rows.csv", ROWS)):
        with pytest.raises(OffleashError, match=r"no column 'corect'.*Did you mean 'correct'.*problem_id, prompt"):
            read(path, options)


def test_an_empty_mapping_leaves_a_column_unread(tmp_path: Path) -> None:
    rows = [{**row, "seed": 42} for row in ROWS]
    path = lines(tmp_path / "rows.jsonl", rows)
    assert read(path)[1]["sample"].to_list() == [42] * 3
    assert read(path, Options(columns={"sample": ""}))[1]["sample"].null_count() == 3


def test_a_problem_without_an_id_is_known_by_the_hash_of_its_question(tmp_path: Path) -> None:
    rows = [{"problem": "What is 2 + 3?", "response": "5", "score": 1.0}]
    for path in (lines(tmp_path / "rows.jsonl", rows), as_csv(tmp_path / "rows.csv", rows)):
        assert read(path)[1]["problem"].to_list() == [question_hash("What is 2 + 3?")]


def test_a_problem_column_of_words_is_an_id(tmp_path: Path) -> None:
    _, frame = read(lines(tmp_path / "rows.jsonl", [{"problem": "aime-1", "correct": 1}]))
    assert frame.select("problem", "question").row(0) == ("aime-1", None)


def test_answer_is_the_reference_unless_there_is_another(tmp_path: Path) -> None:
    _, alone = read(lines(tmp_path / "a.jsonl", [{"id": 1, "response": "5", "answer": "5"}]))
    assert alone.select("gold", "answer").row(0) == ("5", None)
    _, both = read(lines(tmp_path / "b.jsonl", [{"id": 1, "response": "5", "answer": "5", "target": "6"}]))
    assert both.select("gold", "answer").row(0) == ("6", "5")


def test_lists_are_the_samples_of_a_problem_in_every_container(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"id": "a", "responses": ["x", "y", "z"], "correct": [True, False, True]},
        {"id": "b", "responses": ["u"], "correct": [False]},
    ]
    lines(tmp_path / "rows.jsonl", rows)
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        _, frame = read(tmp_path / name)
        assert frame["text"].to_list() == ["x", "y", "z", "u"]
        assert frame["verdict"].to_list() == ["correct", "wrong", "correct", "wrong"]
        assert frame["row"].to_list() == [1, 1, 1, 2]


def test_a_verdict_of_the_problem_is_not_copied_to_its_samples(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"id": "a", "responses": ["x", "y"], "correct": True},
        {"id": "b", "responses": ["u"], "correct": True},
    ]
    lines(tmp_path / "rows.jsonl", rows)
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        log, frame = read(tmp_path / name)
        assert frame["verdict"].to_list() == [None, None, "correct"]
        assert "2 samples share one verdict" in notes_text(log)


def test_empty_lists_are_left_out_and_counted(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": "a", "responses": ["x"]}, {"id": "b", "responses": []}]
    lines(tmp_path / "rows.jsonl", rows)
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        log, frame = read(tmp_path / name)
        assert frame["problem"].to_list() == ["a"]
        assert [(note.rows, note.left_out) for note in log.notes if note.left_out] == [(1, True)]


def test_chats_are_read_by_role(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 3?"}]
    row = {"prompt": prompt, "completion": [{"role": "assistant", "content": "5"}], "reward": 1.0}
    lines(tmp_path / "rows.jsonl", [row])
    pl.DataFrame([row]).write_parquet(tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        _, frame = read(tmp_path / name)
        assert frame.select("question", "text").row(0) == ("What is 2 + 3?", "5")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_scores_between_0_and_1_are_wrong_and_counted(tmp_path: Path, ending: str) -> None:
    rows = [{"id": index, "score": score} for index, score in enumerate([1.0, 0.5, 0.0, 0.25, 2.0, -1.0])]
    path = tmp_path / f"rows.{ending}"
    (lines if ending == "jsonl" else as_csv)(path, rows)
    log, frame = read(path)
    assert frame["verdict"].to_list() == ["correct", "wrong", "wrong", "wrong", "correct", "wrong"]
    assert frame["score"].to_list() == [1.0, 0.5, 0.0, 0.25, 2.0, -1.0]
    assert [note.rows for note in log.notes if "partial credit" in note.text] == [2]
    assert [note.rows for note in log.notes if "above 1" in note.text] == [1]
    log, frame = read(path, Options(threshold=0.5))
    assert verdicts(frame) == {"correct": 3, "wrong": 3}
    assert [note.rows for note in log.notes if "partial credit" in note.text] == [1]


def test_a_filter_that_chooses_nothing_is_told(tmp_path: Path) -> None:
    log, _ = read(lines(tmp_path / "rows.jsonl", ROWS), Options(filter="strict"))
    assert "--filter strict is not used" in notes_text(log)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_missing_verdict_is_unverified_and_counted(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, object]] = [
        {"id": index, "score": mark} for index, mark in enumerate([1.0, None, float("nan")])
    ]
    path = tmp_path / f"rows.{ending}"
    (lines if ending == "jsonl" else as_csv)(path, rows)
    log, frame = read(path)
    assert frame["verdict"].to_list() == ["correct", None, None]
    first = 2 if ending == "jsonl" else 3
    assert f"2 samples have no verdict (null or NaN, first in row {first})" in notes_text(log)


VERDICT_WORDS = ["correct", "Incorrect", "TRUE", "false", "pass", "passed", "failed", "C", "I", "1", "0", "0.0"]
MEANT = [True, False, True, False, True, True, False, True, False, True, False, False]


@settings(deadline=None)  # the first example imports a parser
@given(st.permutations(range(len(VERDICT_WORDS))))
def test_words_mean_the_same_in_every_order_and_container(order: list[int]) -> None:
    rows: list[dict[str, object]] = [{"id": index, "verdict": VERDICT_WORDS[index]} for index in order]
    with TemporaryDirectory() as folder:
        for path in (lines(Path(folder) / "rows.jsonl", rows), as_csv(Path(folder) / "rows.csv", rows)):
            _, frame = read(path)
            assert [verdict == "correct" for verdict in frame["verdict"]] == [MEANT[index] for index in order]


def test_many_rows_are_read_in_chunks_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("problem,correct\n" + "".join(f"p{i},{i % 2}\n" for i in range(60_000)))
    _, frame = read(path)
    assert frame["problem"][-1] == "p59999"
    assert frame["row"].to_list() == list(range(2, 60_002))
    assert verdicts(frame) == {"correct": 30_000, "wrong": 30_000}


@here
def test_four_models_in_one_file_are_split() -> None:
    _, frame = read(SHARED / "openai_gsm8k.4models.jsonl", Options(split_by="model"))
    assert frame["split"].value_counts()["count"].to_list() == [1319] * 4
    assert frame["problem"].n_unique() == 1319


@here
def test_eight_samples_of_a_hundred_problems_are_read_with_their_verdicts() -> None:
    log, frame = read(SHARED / "qwen25math.math100x8.jsonl")
    assert "verdict <- file_correct" in notes_text(log)
    assert (frame.height, frame["problem"].n_unique()) == (800, 100)
    assert verdicts(frame) == {"correct": 728, "wrong": 72}
