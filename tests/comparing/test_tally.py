"""Tallies: counts of runs at one budget for all, in index order, stopped early or not."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.comparing.answers import answers
from offleash.comparing.tally import tally, verdict_table
from offleash.data.run import Budget, Run
from offleash.data.run_folder import append_to_run, create_run, open_run
from offleash.errors import OffleashError
from offleash.loading.load import load
from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log
from tests.verifying.samples import run_of_texts


def folder(path: Path, verdicts: list[list[str | None]], budget: Budget | None = None) -> Run:
    """A run folder with these verdicts of problems p0, p1, ..."""
    rows = [
        {"problem": f"p{p}", "index": i, "verdict": verdict}
        for p, row in enumerate(verdicts)
        for i, verdict in enumerate(row)
    ]
    problems = pl.DataFrame({"problem": [f"p{p}" for p in range(len(verdicts))]})
    with create_run(path, path.name, problems, {}, budget) as run:
        run.write_verdicts("tool", pl.DataFrame(rows, schema_overrides={"verdict": pl.String}))
    return open_run(path)


def test_one_scan_by_answer_counts_what_two_scans_count(tmp_path: Path) -> None:
    rows = [
        {"problem": f"p{p}", "index": i, "verdict": verdict, "answer": answer}
        for p in range(3)
        for i, (verdict, answer) in enumerate(
            [("wrong", "7"), ("correct", "1"), ("correct", f"{p}"), (None, None), ("unread", None), ("failed", "7")]
        )
    ]
    problems = pl.DataFrame({"problem": ["p0", "p1", "p2"]})
    with create_run(tmp_path / "run", "run", problems, {}) as written:
        written.write_verdicts("tool", pl.DataFrame(rows, schema_overrides={"verdict": pl.String}))
    run = open_run(tmp_path / "run")
    tables = [verdict_table(run, "answer")]
    apart, together = tally([run]), tally([run], tables=tables)
    for name, column in vars(apart.tally).items():
        assert np.array_equal(getattr(together.tally, name), column, equal_nan=name == "guess_P"), name
    assert (together.tally.drawn_PR.ravel() == 5).all()
    assert (together.tally.first_PR.ravel() == 1).all()
    two_scans, one_scan = answers([run], apart), answers([run], together, tables)
    assert two_scans is not None
    assert one_scan is not None
    for name, column in vars(two_scans[0]).items():  # in the same order, too: sums of floats depend on it
        assert getattr(one_scan[0], name).tolist() == column.tolist(), name


def words(hits: str) -> list[str | None]:
    return [{"+": "correct", "-": "wrong", "?": "unread", "!": "failed", " ": None}[hit] for hit in hits]


def test_every_kind_of_verdict_is_counted(tmp_path: Path) -> None:
    found = tally([folder(tmp_path / "run", [words("-+?! +"), words("------")])]).tally
    assert found.drawn_PR[:, 0].tolist() == [5, 6]
    assert found.correct_PR[:, 0].tolist() == [2, 0]
    assert found.unread_PR[:, 0].tolist() == [1, 0]
    assert found.failed_PR[:, 0].tolist() == [1, 0]
    assert found.unverified_PR[:, 0].tolist() == [1, 0]
    assert found.first_PR[:, 0].tolist() == [1, -1]


def test_the_first_k_are_counted_in_index_order(tmp_path: Path) -> None:
    runs = [folder(tmp_path / "a", [words("--++"), words("+---")]), folder(tmp_path / "b", [words("-+"), words("--")])]
    found = tally(runs)
    assert found.tally.head == 2
    assert found.tally.head_PR.tolist() == [[0, 1], [1, 0]]
    assert found.tally.correct_PR.tolist() == [[2, 1], [1, 0]]


def test_unverified_samples_do_not_take_a_place_among_the_first_k(tmp_path: Path) -> None:
    runs = [folder(tmp_path / "a", [words(" +-+")]), folder(tmp_path / "b", [words("--")])]
    assert tally(runs).tally.head_PR.tolist() == [[1, 0]]


def test_bare_counts_use_a_random_subset_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("problem,n,c\n" + "".join(f"p{i},1000,500\n" for i in range(200)))
    (tmp_path / "b.csv").write_text("problem,n,c\n" + "".join(f"p{i},100,50\n" for i in range(200)))
    found = tally(load(tmp_path / "a.csv", tmp_path / "b.csv"))
    assert found.tally.head == 100
    assert found.tally.head_PR[:, 0].mean() == pytest.approx(50, abs=1.5)
    assert found.random_subset == ("a",)


def test_a_run_without_verdicts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="None of the 4 samples"):
        tally([folder(tmp_path / "run", [words("    ")])])


def test_a_shard_that_was_copied_is_noticed(tmp_path: Path) -> None:
    folder(tmp_path / "run", [words("+-")])
    with append_to_run(tmp_path / "run") as run:
        run.write_verdicts("tool", pl.DataFrame({"problem": ["p0"], "index": [1], "verdict": ["wrong"]}))
    with pytest.raises(OffleashError, match="duplicate"):
        tally([open_run(tmp_path / "run")])


def test_a_stopped_record_ends_at_its_last_success_and_later_samples_stay_out(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [words("-+-++++"), words("------+-"), words("--------")], Budget(8, until=2))
    found = tally([run]).tally
    assert found.drawn_PR[:, 0].tolist() == [4, 8, 8]
    assert found.correct_PR[:, 0].tolist() == [2, 1, 0]
    assert found.stopped_PR[:, 0].tolist() == [True, False, False]
    assert found.head == 8


def test_a_gap_in_the_indices_blocks_a_stopped_record(tmp_path: Path) -> None:
    rows = pl.DataFrame({"problem": ["p"] * 2, "index": [0, 2], "verdict": ["wrong", "correct"]})
    with create_run(tmp_path / "run", "run", pl.DataFrame({"problem": ["p"]}), {}, Budget(4, until=1)) as run:
        run.write_verdicts("tool", rows)
    with pytest.raises(OffleashError, match="gap"):
        tally([open_run(tmp_path / "run")])


def test_merged_run_folders_count_on(tmp_path: Path) -> None:
    folder(tmp_path / "runs" / "a", [words("+-")])
    folder(tmp_path / "runs" / "b", [words("--+"), words("+")])
    (run,) = load(f"{tmp_path}/runs/*")
    found = tally([run]).tally
    assert found.drawn_PR[:, 0].tolist() == [5, 1]
    assert found.correct_PR[:, 0].tolist() == [2, 1]
    with pytest.raises(OffleashError, match="holds run folders"):
        load(tmp_path / "runs")


def test_truncated_samples_are_counted(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.jsonl", drawn(3, 4), finish_reason="length")
    assert np.all(tally(load(path)).tally.truncated_PR == 4)


def test_samples_without_a_row_of_verdicts_are_unverified(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"problem": ["p"] * 4, "index": [0, 1, 2, 3], "verdict": ["correct", "wrong", "wrong", "wrong"]}
    )
    with create_run(tmp_path / "run", "run", pl.DataFrame({"problem": ["p"]}), {}) as run:
        run.write_samples(rows.select("problem", "index"))
        run.write_verdicts("tool", rows.head(3))
    found = tally([open_run(tmp_path / "run")]).tally
    assert (found.drawn_PR.item(), found.unverified_PR.item()) == (3, 1)


def test_a_copied_shard_of_samples_is_noticed(tmp_path: Path) -> None:
    rows = pl.DataFrame({"problem": ["p"] * 2, "index": [0, 1], "verdict": ["correct", "wrong"]})
    with create_run(tmp_path / "run", "run", pl.DataFrame({"problem": ["p"]}), {}) as run:
        run.write_samples(rows.select("problem", "index"))
        run.write_verdicts("tool", rows)
    shutil.copy(tmp_path / "run" / "samples" / "000000.parquet", tmp_path / "run" / "samples" / "000001.parquet")
    with pytest.raises(OffleashError, match="duplicate"):
        tally([open_run(tmp_path / "run")])


@pytest.mark.parametrize("verb", ["compare", "entropy", "likelihood", "plan samples"])
def test_a_run_folder_that_nobody_has_judged_names_the_verb_that_does(tmp_path: Path, verb: str) -> None:
    runs = [run_of_texts(tmp_path / name, {"a": "1"}, {"a": ["1", "2"]}) for name in ("the base", "rl")]
    done = offleash(*verb.split(), *runs)
    refused(done, "None of the 2 samples", f"offleash verify '{runs[0]}'", "compare with --verifier")


def test_a_log_without_verdicts_says_how_each_verb_gets_them(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"problem": "p", "question": "?", "response": "x"}\n')
    refused(offleash("entropy", log), "`compare` judges them", "offleash verify RUN", "--map verdict=COLUMN")
