"""Loading: names, folders, globs, merged seeds and benchmarks, repeats and clashes."""

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.comparing.tally import tally
from offleash.errors import OffleashError
from offleash.loading.arguments import distinct_names, parse_argument
from offleash.loading.load import LoadOptions, load
from offleash.logs.format import Options
from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log
from tests.verifying.samples import run_of_texts


def counts(*arguments: str | Path, **options: object) -> tuple[list[int], list[int]]:
    """Samples drawn and correct of each problem of a single run."""
    found = tally(load(*arguments, **options)).tally  # type: ignore[arg-type]
    return found.drawn_PR[:, 0].tolist(), found.correct_PR[:, 0].tolist()


def test_a_log_is_counted_as_it_was_written(tmp_path: Path) -> None:
    table = drawn(6, 10)
    assert counts(write_log(tmp_path / "log.jsonl", table)) == ([10] * 6, [sum(hits) for hits in table])


def test_seeds_of_a_glob_add_up_in_natural_order(tmp_path: Path) -> None:
    for seed in (0, 2, 10):
        write_log(tmp_path / f"output-rs{seed}.jsonl", [[seed == 10], [True]], attempt=seed)
    (run,) = load(f"base={tmp_path}/output-rs*.jsonl")
    assert run.name == "base"
    assert run.verdicts is not None
    first = run.verdicts.filter(pl.col("problem") == "p0").sort("index").collect()
    assert first["verdict"].to_list() == ["wrong", "wrong", "correct"]


def test_benchmarks_that_number_their_problems_alike_stand_side_by_side(tmp_path: Path) -> None:
    for name in ("aime", "math"):
        rows = [{"id": i, "question": f"{name} {i}?", "response": "x", "correct": True} for i in range(3)]
        file = tmp_path / name / "out.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = tally(load(f"{tmp_path}/*/out.jsonl")).tally
    assert sorted(found.problem_P) == [f"{name}/{i}" for name in ("aime", "math") for i in range(3)]
    assert set(found.benchmark_P) == {"aime", "math"}


def test_the_same_id_with_two_texts_in_one_file_is_two_problems(tmp_path: Path) -> None:
    rows = [{"id": "p", "question": text, "response": "x", "correct": True} for text in ("one?", "two?")]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = load(path)
    assert sorted(run.problems["problem"]) == ["p", "p#2"]
    (note,) = [note.text for note in run.notes if note.warning]
    assert note == "One id is used for several problems (first: 'one?'); 2 problems are kept apart by text"


def test_a_folder_skips_what_is_no_log_and_says_so(tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "a.jsonl", [[True]])
    (tmp_path / "logs" / "notes.txt").write_text("not a log")
    (run,) = load(tmp_path / "logs")
    assert any("notes.txt" in note.text for note in run.notes)
    (tmp_path / "logs" / "a.jsonl").unlink()
    with pytest.raises(OffleashError, match=r"notes\.txt"):
        load(tmp_path / "logs")


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.jsonl", drawn(10, 20))
    shutil.copy(first, tmp_path / "b.jsonl")
    with pytest.raises(OffleashError, match="same content"):
        load(f"{tmp_path}/*.jsonl")


def test_short_files_of_verdicts_may_be_the_same_by_chance(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"s{seed}.csv").write_text("id,correct\na,1\nb,0\n")
    (run,) = load(f"{tmp_path}/s*.csv")
    assert any("same content" in note.text for note in run.notes)
    assert any("samples are pooled" in note.text for note in run.notes)


def test_markers_beside_the_logs_are_skipped(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_log(tmp_path / "ns" / f"output-rs{seed}.jsonl", drawn(3, 2, seed))
        (tmp_path / "ns" / f"output-rs{seed}.jsonl.done").touch()
    (run,) = load(tmp_path / "ns")
    assert any("skipped" in note.text and note.rows == 2 for note in run.notes)


def test_files_with_the_same_ids_and_other_gold_answers_are_other_benchmarks(tmp_path: Path) -> None:
    for name, gold in (("aime", 7), ("math", 9)):
        rows = [{"id": i, "correct": True, "gold": f"{gold}{i}"} for i in range(3)]
        file = tmp_path / name / "test.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert set(tally(load(f"{tmp_path}/*/test.jsonl")).tally.benchmark_P) == {"aime", "math"}


def test_ids_that_are_not_utf_8_do_not_fuse_problems(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes("id,correct\né,1\nü,0\n".encode("latin-1"))
    with pytest.raises(OffleashError, match="UTF-8"):
        load(tmp_path / "log.csv")


def test_runs_of_the_same_name_are_called_after_the_folder_that_differs(tmp_path: Path) -> None:
    for model in ("base", "rl"):
        write_log(tmp_path / model / "eval" / "out.jsonl", drawn(3, 2))
    runs = load(tmp_path / "base" / "eval" / "out.jsonl", tmp_path / "rl" / "eval" / "out.jsonl")
    assert [run.name for run in runs] == ["base", "rl"]


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OffleashError, match="Save it to a file"):
        load(tmp_path / "pipe")


def numbered(path: Path, rows: list[tuple[int, str, bool]]) -> Path:
    keys = ("sample", "response", "correct")
    path.write_text("".join(json.dumps({"id": "p", **dict(zip(keys, row, strict=True))}) + "\n" for row in rows))
    return path


def test_rows_that_repeat_a_sample_are_counted_once_and_said(tmp_path: Path) -> None:
    path = numbered(tmp_path / "log.jsonl", [(0, "x", True), (0, "x", True), (1, "y", False)])
    (run,) = load(path)
    assert counts(path) == ([2], [1])
    assert any(note.left_out and note.rows == 1 for note in run.notes)


def test_one_sample_with_two_contents_is_an_error_that_names_the_rows(tmp_path: Path) -> None:
    path = numbered(tmp_path / "log.jsonl", [(0, "x", True), (0, "z", False), (1, "y", False)])
    with pytest.raises(OffleashError, match="rows 1, 2"):
        load(path)
    ignoring = LoadOptions(Options({"sample": ""}, texts=False))
    assert counts(path, options=ignoring) == ([3], [1])


def test_samples_are_ordered_by_their_number_not_by_their_row(tmp_path: Path) -> None:
    path = numbered(tmp_path / "log.jsonl", [(2, "c", True), (0, "a", False), (1, "b", False)])
    found = tally(load(path)).tally
    assert found.first_PR[0, 0] == 2


def test_one_file_can_hold_several_runs(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    lines = []
    for model, hit in (("base", True), ("rl", False)):
        file = write_log(tmp_path / f"{model}.jsonl", [[hit, hit]], model=model)
        lines.append(file.read_text())
    path.write_text("".join(lines))
    runs = load(path, options=LoadOptions(Options(split_by="model", texts=False)))
    assert [run.name for run in runs] == ["base", "rl"]
    assert tally(runs).tally.correct_PR.tolist() == [[2, 0]]


def test_training_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    parts = [write_log(tmp_path / f"{step}.jsonl", [[True]], step=step).read_text() for step in (100, 20, 3)]
    path.write_text("".join(parts))
    runs = load(path, options=LoadOptions(Options(split_by="step", texts=False)))
    assert [run.name for run in runs] == ["3", "20", "100"]


def test_names_come_from_the_argument(tmp_path: Path) -> None:
    file = write_log(tmp_path / "samples.v2.jsonl", [[True]])
    odd = write_log(tmp_path / "a=b.jsonl", [[True]])
    assert parse_argument(str(file)).name == "samples.v2"
    assert parse_argument(str(write_log(tmp_path / "qwen2.5-7b.jsonl", [[True]]))).name == "qwen2.5-7b"
    assert parse_argument(f"my base={file}").name == "my base"
    assert parse_argument(str(odd)).paths == (odd,)
    assert distinct_names(["a", "b", "a"]) == ["a", "b", "a#2"]


def test_what_is_not_there_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    write_log(tmp_path / "base.jsonl", [[True]])
    with pytest.raises(OffleashError, match=r"Did you mean .*base\.jsonl"):
        load(tmp_path / "bas.jsonl")
    with pytest.raises(OffleashError, match="no file matches"):
        load(f"{tmp_path}/*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OffleashError, match="empty folder"):
        load(tmp_path / "empty")


def test_ids_that_name_samples_do_not_name_problems(tmp_path: Path) -> None:
    rows = [{"id": i, "question": f"q{i % 3}", "response": "x", "correct": i % 2 == 0} for i in range(12)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = load(path)
    assert counts(path) == ([4, 4, 4], [2, 2, 2])
    assert any("the ids are treated as sample ids" in note.text for note in run.notes)


def test_a_seed_that_is_the_same_in_every_row_numbers_nothing(tmp_path: Path) -> None:
    path = numbered(tmp_path / "log.jsonl", [(42, "x", True), (42, "y", False), (42, "z", False)])
    (run,) = load(path)
    assert counts(path) == ([3], [1])
    assert any("sample number 42" in note.text for note in run.notes)


def test_a_glob_that_the_shell_cut_up_is_noticed(tmp_path: Path) -> None:
    files = [write_log(tmp_path / f"s{seed}.jsonl", drawn(3, 4, seed)) for seed in range(4)]
    comparisons, together = compare_inputs([str(file) for file in files], question=question(replicates=200))
    assert len(comparisons) == 3
    assert together is None, "names such as s1 show neither steps nor seeds"
    assert any("quote the glob" in note.text for note in comparisons[0].notes)
    assert not any("quote the glob" in note.text for note in compare_inputs([*map(str, files[:2])])[0][0].notes)


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        (("compare",), ("--log-format", "lm_eval")),
        (("compare",), ("--split-by", "x")),
        (("compare",), ("--map", "problem=x")),
        (("entropy",), ("--filter", "zzz")),
        (("plan", "samples"), ("--threshold", "0.5")),
        (("strategies", "--by", "steps"), ("--map", "text=x")),
        (("report",), ("--log-format", "lm_eval")),
        (("view",), ("--filter", "zzz")),
        (("figure", "plane", "-o", "plane.pdf"), ("--log-format", "lm_eval")),
    ],
)
def test_options_for_logs_are_refused_where_there_are_only_run_folders(
    tmp_path: Path, verb: tuple[str, ...], option: tuple[str, str]
) -> None:
    runs = [run_of_texts(tmp_path / name, {"a": "1"}, {"a": ["1"]}) for name in ("base", "rl")]
    refused(offleash(*verb, *runs, *option), " ".join(option), "run folders", "Leave it out")
    if "format" in option[0]:
        refused(offleash(*verb, *runs, option[0], "lm_evl"), "'lm_evl'", "Did you mean 'lm_eval'?")


def test_options_for_logs_stand_where_one_run_is_a_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", [[True, False]])
    assert offleash("import", log, "-o", tmp_path / "run").code == 0
    done = offleash("compare", tmp_path / "run", log, "--map", "verdict=correct", "--json", "--replicates", "100")
    assert done.code == 0, done.err


def test_a_name_taken_from_a_path_or_a_column_is_told_on_one_line(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a\nb.jsonl", [[True]])
    assert load(path)[0].name == r"a\nb"
    rows = [{"problem": "p", "model": model, "response": "x", "correct": True} for model in ("a\tb", "c")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = load(path, options=LoadOptions(Options(split_by="model", texts=False)))
    assert [run.name for run in runs] == [r"a\tb", "c"]
