"""The demo as a user runs it, small: what it writes, that it is done only once, that Ctrl-C loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.demo import DemoRuns, DemoSize, recipe_of, run_demo
from offleash.lab.demo_report import demo_document, headline, next_commands, sentences, write_report
from offleash.loading.load import load
from offleash.training.recipe import read_recipe
from tests.places import ROOT

SMALL = DemoSize(problems=5, k=48, steps=2, groups=4, pool=32)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> DemoRuns:
    return run_demo(COUNTDOWN, SMALL, tmp_path_factory.mktemp("demo") / "out")


def test_every_run_has_all_its_samples_and_the_second_draw_of_the_base_is_another(done: DemoRuns) -> None:
    for name in ("base", "rl", "paper/base", "paper/rl"):
        (run,) = load(done.folder / name)
        assert run.budget.k == SMALL.k
        assert run.problems.height == SMALL.problems
    assert done.null.before.draw != done.null.after.draw
    assert load(done.folder / "blend")[0].budget.k == done.blend.change.k == SMALL.k // 4


def test_no_problem_of_the_evaluation_was_trained_on(done: DemoRuns) -> None:
    asked = {
        part: [json.loads(line) for line in (done.folder / "problems" / f"{part}.jsonl").read_text().splitlines()]
        for part in ("train", "test")
    }
    numbers = {part: {tuple(sorted(row["details"]["numbers"])) for row in rows} for part, rows in asked.items()}
    assert len(asked["test"]) == SMALL.problems
    assert not numbers["train"] & numbers["test"]


def test_the_json_is_that_of_compare_with_seconds_and_the_report(done: DemoRuns) -> None:
    path = write_report(done)
    result = json.loads(json.dumps(demo_document(done, path), allow_nan=False))
    assert result["schema"] == 2
    assert result["support"]["k"] == SMALL.k
    assert result["support"]["per"] == "problem"
    assert result["seconds"] > 0
    assert Path(result["report"]) == done.folder / "report.html"
    assert result["per_solution"]["support"]["per"] == "solution"


def test_the_report_holds_what_was_found_and_the_commands_that_show_it_again(done: DemoRuns) -> None:
    text = unescape(write_report(done).read_text(encoding="utf-8"))
    assert headline(done) in text
    assert all(sentence in text for sentence in sentences(done))
    assert all(command in text for command in next_commands(done))
    assert "The base against itself" in text


@pytest.mark.slow
def test_a_finished_demo_is_not_done_again(done: DemoRuns) -> None:
    shards = {path: path.stat().st_mtime_ns for path in done.folder.rglob("*.parquet")}
    again = run_demo(COUNTDOWN, SMALL, done.folder)
    assert {path: path.stat().st_mtime_ns for path in done.folder.rglob("*.parquet")} == shards
    assert again.plain.change.value == pytest.approx(done.plain.change.value, nan_ok=True)


def test_a_folder_of_another_seed_is_refused(done: DemoRuns) -> None:
    with pytest.raises(OffleashError, match="a different seed, size or world"):
        run_demo(COUNTDOWN, DemoSize(problems=5, k=48, steps=2, groups=4, pool=32, seed=1), done.folder)


def test_the_recipe_among_the_examples_is_that_of_the_demo() -> None:
    shown = read_recipe(ROOT / "examples" / "recipes" / "grpo.yaml")
    own = recipe_of(COUNTDOWN, DemoSize(), Path("runs/demo"))
    assert (shown.method, shown.options, shown.steps, shown.seed) == (own.method, own.options, own.steps, own.seed)
    assert (shown.sampling, shown.optimizer, shown.problems.size) == (own.sampling, own.optimizer, DemoSize().pool)


@pytest.mark.slow
def test_ctrl_c_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "offleash", "demo", "--quick", "--json", "-o", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for _ in range(2):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(25)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Nothing was lost" in said
        assert "Traceback" not in said
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout)["support"]["k"] == 512
