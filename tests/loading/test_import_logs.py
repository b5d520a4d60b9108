"""Importing: a log as a run folder gives the same comparison as the log itself, and keeps the texts."""

import json
from pathlib import Path

import polars as pl
import pytest

from offleash.comparing.tally import tally
from offleash.errors import OffleashError
from offleash.loading.import_logs import import_logs
from offleash.loading.load import load
from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log


def test_an_imported_run_counts_as_its_log_does(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_log(tmp_path / f"s{seed}.jsonl", drawn(5, 8, seed))
    done = import_logs(f"base={tmp_path}/s*.jsonl", tmp_path / "run")
    assert (done.problems, done.samples, done.verdicts) == (5, 80, 80)
    log, run = (tally(load(path)).tally for path in (f"{tmp_path}/s*.jsonl", tmp_path / "run"))
    assert log.correct_PR.tolist() == run.correct_PR.tolist()
    assert log.first_PR.tolist() == run.first_PR.tolist()


def test_texts_stay_with_their_verdicts(tmp_path: Path) -> None:
    import_logs(str(write_log(tmp_path / "log.jsonl", drawn(4, 6))), tmp_path / "run")
    (run,) = load(tmp_path / "run")
    assert run.samples is not None
    assert run.verdicts is not None
    joined = run.samples.join(run.verdicts, on=["problem", "index"]).collect()
    assert joined.height == 24
    assert joined.select((pl.col("text").str.split(" ").list.get(1) == pl.col("problem").str.slice(1)).all()).item()
    questions = dict(run.problems.select("problem", "question").rows())
    assert questions["p2"] == "Question 2?"


def test_the_command_imports_and_compares(tmp_path: Path) -> None:
    base, rl = write_log(tmp_path / "base.jsonl", drawn(5, 8, 0)), write_log(tmp_path / "rl.jsonl", drawn(5, 8, 1))
    for path in (base, rl):
        result = offleash("import", path, "-o", tmp_path / "runs" / path.stem, "--json")
        assert result.json["samples"] == 40
    from_runs = offleash("compare", tmp_path / "runs" / "base", tmp_path / "runs" / "rl", "--json").json
    from_logs = offleash("compare", base, rl, "--json").json
    for part in ("support", "pass_at_k", "chance", "crossing", "diversity", "guessing"):
        assert from_runs[part] == from_logs[part]


def test_what_cannot_be_imported_is_refused(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("problem,n,c\na,4,1\n")
    with pytest.raises(OffleashError, match="holds counts"):
        import_logs(str(counts), tmp_path / "run")
    log = write_log(tmp_path / "log.jsonl", drawn(2, 2))
    import_logs(str(log), tmp_path / "run")
    refused(offleash("import", log, "-o", tmp_path / "run"), "exists")
    refused(offleash("import", log, "-o", log), "is a file")
    refused(offleash("import", log, "-o", "/proc/nowhere/run"), "cannot be created")
    refused(offleash("import", tmp_path / "run", "-o", tmp_path / "other"), "already a run folder")


def test_run_folders_that_number_other_problems_alike_are_not_merged(tmp_path: Path) -> None:
    for name in ("aime", "math"):
        rows = [{"id": i, "question": f"{name} {i}?", "response": "x", "correct": True} for i in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        import_logs(str(tmp_path / f"{name}.jsonl"), tmp_path / "runs" / name)
    with pytest.raises(OffleashError, match="for different problems"):
        load(f"{tmp_path}/runs/*")
    import_logs(f"{tmp_path}/*.jsonl", tmp_path / "both")
    assert set(tally(load(tmp_path / "both")).tally.benchmark_P) == {"aime", "math"}
