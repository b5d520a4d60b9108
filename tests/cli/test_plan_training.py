"""`offleash plan training`: the document, the file of weights, solutions at risk, and what is refused."""

import json
from pathlib import Path

import polars as pl
import pytest

from offleash.analyses.group_signal.plan import GROUP_SIZES
from offleash.data.run_folder import create_run
from offleash.data.tables import as_problems
from tests.cli.command import offleash, refused

COUNTS = "examples/counts/base.csv"


def test_the_document_has_every_group_size_and_every_problem() -> None:
    document = offleash("plan", "training", COUNTS, "--group", "24", "--json").json
    assert [size["group"] for size in document["sizes"]] == sorted({*GROUP_SIZES, 24})
    shares = [size["no_signal"] for size in document["sizes"]]
    assert shares == sorted(shares, reverse=True)  # larger groups have more signal here, where few are all right
    for size in document["sizes"]:
        low, high = size["interval"]
        assert low <= size["no_signal"] <= high
        assert size["no_signal"] == pytest.approx(size["all_wrong"] + size["all_right"])
        assert size["step_interval"][0] <= low
        assert size["samples"] == 200 * size["group"]
    problems = {problem["problem"]: problem for problem in document["problems"]}
    assert len(problems) == 200
    assert sum(problem["weight"] for problem in problems.values()) == pytest.approx(200)
    seldom = {name for name, problem in problems.items() if problem["solved"] < 0.05}
    assert set(document["seldom_solved"]) == seldom
    assert all((problem["loss_by_chance"] is None) == (problem["c"] == 0) for problem in problems.values())
    solved = [problem for problem in problems.values() if problem["c"]]
    assert all(0 <= problem["loss_by_chance"] <= 1 and 0 <= problem["chance_of_loss"] <= 1 for problem in solved)
    assert sum(problem["chance_of_loss"] for problem in solved) > sum(problem["loss_by_chance"] for problem in solved)
    assert document["solutions"] is None
    assert "counts" in document["solutions_reason"]


def test_rare_problems_weigh_more_than_easy_ones_and_hopeless_ones_least(tmp_path: Path) -> None:
    rows = [("never", 0)] * 20 + [("rare", 8)] * 20 + [("half", 32)] * 20 + [("always", 64)] * 20
    table = pl.DataFrame({"problem": [f"{name}{number}" for number, (name, _) in enumerate(rows)]})
    table = table.with_columns(n=pl.lit(64), c=pl.Series([count for _, count in rows]))
    table.write_csv(tmp_path / "base.csv")
    assert offleash("plan", "training", tmp_path / "base.csv", "--curriculum", tmp_path / "weights.csv").code == 0
    weights = pl.read_csv(tmp_path / "weights.csv")
    assert weights.columns == ["problem", "weight", "rate", "signal", "n", "c"]
    mean = dict(weights.group_by(pl.col("problem").str.extract("([a-z]+)")).agg(pl.col("weight").mean()).rows())
    assert mean["rare"] > mean["half"] > mean["never"]
    assert mean["always"] < 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose problems have several solutions."""
    path = tmp_path_factory.mktemp("plan") / "run"
    solutions = {"sum": ["1+1"] * 6 + ["4-2"] + [None] * 9, "rare": ["x"] + [None] * 15}
    problems = pl.DataFrame(
        {"problem": list(solutions), "question": [f"What is {name}?" for name in solutions], "gold": ["2", "2"]}
    )
    samples = pl.DataFrame(
        [
            {
                "problem": name,
                "index": index,
                "text": text or "?",
                "verdict": "correct" if text else "wrong",
                "solution": text,
            }
            for name, texts in solutions.items()
            for index, text in enumerate(texts)
        ]
    )
    with create_run(path, "base", as_problems(problems), {}) as run:
        run.write_samples(samples.select("problem", "index", "text"))
        run.write_verdicts("math", samples.select("problem", "index", "verdict", "solution"))
    return path


def test_a_run_with_solutions_says_which_are_at_risk(folder: Path) -> None:
    document = offleash("plan", "training", folder, "--group", "8", "--json").json
    solutions = document["solutions"]
    assert solutions["count"] == 3
    chances = [risk["missed"] for risk in solutions["at_risk"]]
    assert chances == sorted(chances, reverse=True)
    by_solution = {(risk["problem"], risk["solution"]): risk["missed"] for risk in solutions["at_risk"]}
    assert by_solution["sum", "4-2"] > 0.4  # a group often has 1+1 and wrong samples, and seldom 4-2
    assert by_solution["sum", "1+1"] < by_solution["sum", "4-2"]
    assert by_solution["rare", "x"] < 0.1  # the only solution of its problem: without it there is no signal
    assert list(solutions["missed"]) == [str(size) for size in GROUP_SIZES]
    assert "Most at risk" in offleash("plan", "training", folder).out


def test_a_file_of_weights_is_a_dataset_for_trl_and_verl(folder: Path, tmp_path: Path) -> None:
    for name in ("weights.jsonl", "weights.parquet"):
        path = tmp_path / name
        assert offleash("plan", "training", folder, "--curriculum", path).code == 0
        rows = (
            pl.read_parquet(path).to_dicts()
            if name.endswith("parquet")
            else list(map(json.loads, path.read_text().splitlines()))
        )
        assert len(rows) == 2
        for row in rows:
            assert row["prompt"] == [{"role": "user", "content": f"What is {row['extra_info']['problem']}?"}]
            assert row["solution"] == row["reward_model"]["ground_truth"] == "2"
            assert row["weight"] == row["extra_info"]["weight"] > 0


def test_a_figure_is_written_by_its_ending(tmp_path: Path) -> None:
    assert offleash("plan", "training", COUNTS, "--figure", tmp_path / "groups.svg").code == 0
    assert "samples per group" in (tmp_path / "groups.svg").read_text()


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    refused(offleash("plan", "training", COUNTS, "--curriculum", tmp_path / "w.txt"), "w.txt", ".csv")
    refused(offleash("plan", "training", COUNTS, "--curriculum", tmp_path / "w.jsonl"), "no questions", "FILE.csv")
    refused(offleash("plan", "training", COUNTS, "--figure", tmp_path / "g.txt"), ".png")
    refused(offleash("plan", "training", COUNTS, "--group", "1"), "group")
    (tmp_path / "zero.csv").write_text("problem,n,c\na,8,0\nb,8,0\n")
    refused(offleash("plan", "training", tmp_path / "zero.csv"), "none of its 2 problems", "easier problems")
