"""Comparing runs: sensitivities, stopped runs, answers, and what must not depend on where the samples came from."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import offleash as ol
from offleash.data.run import Budget, Run
from offleash.data.run_folder import create_run, open_run
from offleash.loading.import_logs import import_logs
from tests.cli.command import offleash
from tests.comparing.world import drawn, write_log


def graded(path: Path, verdicts: list[str]) -> Path:
    """A log of one verdict word a sample: eight problems with the same words."""
    rows = [{"id": p, "response": "x", "verdict": word} for p in range(8) for word in verdicts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_dropping_unread_samples_lowers_the_budget_and_is_said(tmp_path: Path) -> None:
    base = graded(tmp_path / "base.jsonl", ["correct", "unread", "wrong", "wrong"])
    rl = graded(tmp_path / "rl.jsonl", ["unread", "unread", "correct", "wrong"])
    kept, dropped = (
        offleash("compare", base, rl, "--unread", how, "--json", "--replicates", "200").json for how in ("keep", "drop")
    )
    assert (kept["support"]["k"], dropped["support"]["k"]) == (4, 2)
    assert kept["runs"]["after"]["unread"] == 16
    assert dropped["runs"]["after"]["unread"] == 0
    assert {note["rows"] for note in dropped["notes"] if "--unread drop" in note["text"]} == {8, 16}


def test_unverified_samples_are_counted_in_logs_and_in_imported_runs(tmp_path: Path) -> None:
    rows = [{"id": p, "response": "x", "score": None if i == 0 else float(i % 2)} for p in range(6) for i in range(5)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_logs(str(log), tmp_path / "run")
    for source in (log, tmp_path / "run"):
        document = offleash("compare", f"a={source}", f"b={source}", "--json", "--replicates", "200").json
        assert document["runs"]["before"]["unverified"] == 6
        assert document["sensitivity"]["undecided"]["P"] == [6, 6]


def run_folder(path: Path, hit_PN: np.ndarray, until: int = 0) -> Run:
    """A run of these verdicts; with `until`, only the rounds that were needed are drawn."""
    rows = []
    for p, hits in enumerate(hit_PN):
        ends = np.flatnonzero(hits.cumsum() >= until) if until else np.array([])
        stop = min(len(hits), int(ends[0]) + 3) if ends.size else len(hits)  # a round goes on past the last success
        rows += [(f"p{p}", i, "correct" if hits[i] else "wrong") for i in range(stop)]
    frame = pl.DataFrame(rows, schema=["problem", "index", "verdict"], orient="row")
    problems = pl.DataFrame({"problem": [f"p{p}" for p in range(len(hit_PN))]})
    with create_run(path, path.name, problems, {}, Budget(hit_PN.shape[1], until)) as run:
        run.write_verdicts("tool", frame)
    return open_run(path)


def worlds(problems: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    rate = rng.beta(0.3, 1.5, problems)
    after = np.where(rate > 0.05, np.minimum(2 * rate, 1), 0.0)
    return (rng.random((problems, samples)) < rate[:, None], rng.random((problems, samples)) < after[:, None])


def test_runs_that_stop_early_give_the_same_table_as_full_ones(tmp_path: Path) -> None:
    before, after = worlds(60, 64)
    full = ol.compare(run_folder(tmp_path / "b", before), run_folder(tmp_path / "a", after), replicates=500)
    short = ol.compare(
        run_folder(tmp_path / "bs", before, until=3), run_folder(tmp_path / "as", after, until=3), replicates=500
    )
    assert short.comparison.tally.drawn_PR.sum() < full.comparison.tally.drawn_PR.sum()
    assert pytest.approx((full.change.P, full.change.E, full.change.S, full.change.O)) == (
        short.change.P,
        short.change.E,
        short.change.S,
        short.change.O,
    )
    assert short.comparison.evidence.mcnemar_p == full.comparison.evidence.mcnemar_p
    assert short.comparison.evidence.null is None
    document = short.to_dict()
    json.dumps(document, allow_nan=False)
    assert "not exchangeable" in str(document["chance"])
    assert set(short.comparison.evidence.lost) <= {f"p{p}" for p in range(60) if before[p].any() and not after[p].any()}


def test_support_per_answer_has_no_o_and_stands_beside_its_redraw(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, kinds in (("base", 8), ("rl", 2)):
        rows = [
            {"id": p, "response": "x", "correct": True, "prediction": f"s{rng.integers(kinds)}"}
            for p in range(20)
            for _ in range(16)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = (tmp_path / "base.jsonl", tmp_path / "rl.jsonl", "--per", "answer", "--json", "--replicates", "500")
    document = offleash("compare", *arguments).json
    assert document["support"]["O"] is None
    assert document["support"]["reasons"]["O"]
    assert document["support"]["S"] > 60
    assert document["chance"]["retest"]["redraw_SRR"] < 1
    assert document["chance"]["retest"]["net_ratio"] < 0.7
    assert document["support"]["redraw"]["SRR"] < 1


def test_the_same_problem_in_another_order_gives_the_same_comparison(tmp_path: Path) -> None:
    table = drawn(12, 8)
    write_log(tmp_path / "base.jsonl", table)
    write_log(tmp_path / "rl.jsonl", drawn(12, 8, 3))
    lines = (tmp_path / "base.jsonl").read_text().splitlines()
    (tmp_path / "turned.jsonl").write_text("\n".join(lines[8:] + lines[:8]) + "\n")
    one, other = (
        ol.compare(ol.load(f"base={tmp_path}/{name}.jsonl"), ol.load(tmp_path / "rl.jsonl"))
        for name in ("base", "turned")
    )
    assert one.change == other.change
    assert one.comparison.evidence == other.comparison.evidence


def test_a_run_is_called_after_its_folder_unless_it_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", drawn(3, 4))
    import_logs(f"my base={log}", tmp_path / "run")
    assert ol.load(tmp_path / "run").name == "run"
    assert ol.load(f"x={tmp_path / 'run'}").name == "x"


def test_every_comparison_is_json_without_nan(tmp_path: Path) -> None:
    base = write_log(tmp_path / "base.jsonl", drawn(6, 8, 0))
    rl = write_log(tmp_path / "rl.jsonl", drawn(6, 8, 1))
    for options in ({}, {"rule": "confident"}, {"rule": "posterior"}, {"rule": "above", "tau": 0.3}, {"at": 3}):
        found = ol.compare(ol.load(base), ol.load(rl), replicates=200, **options)
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.finding


def test_partial_credit_gives_the_expected_best_of_k(tmp_path: Path) -> None:
    scores = {"base": [0.0, 1.0, 1.0, 0.0, 0.5], "rl": [1.0, 1.0, 0.0, 1.0, 1.0]}
    for name, row in scores.items():
        rows = [{"id": p, "response": "x", "score": score} for p in range(4) for score in row]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = (tmp_path / "base.jsonl", tmp_path / "rl.jsonl", "--json", "--replicates", "200")
    best = offleash("compare", *arguments).json["max_at_k"]
    assert best["before"]["1"] == pytest.approx(0.5)
    assert best["before"]["2"] == pytest.approx(np.mean([1] * 7 + [0.5] * 2 + [0]))
    assert best["after"]["4"] == pytest.approx(1.0)


def test_a_log_can_be_imported_without_its_texts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", drawn(3, 4))
    assert offleash("import", log, "-o", tmp_path / "run", "--no-texts").code == 0
    samples = ol.load(tmp_path / "run").samples
    assert samples is not None
    assert samples.collect()["text"].null_count() == 12
