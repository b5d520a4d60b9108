"""The monitor in whole trainings, by `make test-trl`: silence, alarms, false alarms, two ranks, kill and resume."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import offleash as ol
from offleash.lab.pretrain import base_of
from offleash.stats.pass_at_k import pass_at_k
from offleash.training.evaluation import confirmed_losses, first_losses
from tests.training.trl_lab import LONGEST, grpo, rows

pytestmark = [
    pytest.mark.trl,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
ROOT = Path(__file__).parents[2]
SEEDS = range(5)
SIZE, K = 40, 64


def train(out: Path, rate: float, steps: int, every: int, seed: int) -> tuple[Any, ol.SupportMonitor]:
    """A training that stops at an alarm."""
    trainer = grpo(out, steps, rate, groups=16, seed=seed)
    monitor = ol.SupportMonitor(
        trainer, probe=rows("dev", SIZE), k=K, every=every, max_share=None, on_alarm="stop", seed=seed
    )
    trainer.add_callback(monitor)
    trainer.train()
    return trainer, monitor


@pytest.mark.parametrize("seed", SEEDS)
def test_a_learning_rate_of_zero_stays_silent(seed: int, tmp_path: Path) -> None:
    trainer, monitor = train(tmp_path, rate=0.0, steps=8, every=2, seed=seed)
    assert [evaluation.step for evaluation in monitor.state.evaluations] == [2, 4, 6, 8]
    assert not any(evaluation.alarm for evaluation in monitor.state.evaluations)
    assert trainer.state.global_step == 8


@pytest.fixture(scope="module")
def base_rates(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """pass@64 of the base on every probe problem, by 4,096 samples that the monitor does not see."""
    return independent_rates(f"hf:{base_of('countdown')}", tmp_path_factory.mktemp("base") / "run")


def independent_rates(model: str, out: Path) -> np.ndarray:
    problems = ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=SIZE))
    run = ol.draw(problems, model, k=4096, out=out, decoding=ol.Decoding(max_tokens=LONGEST), seed=7)
    tally = ol.tally({"run": ol.load(run.folder)})
    order = np.argsort(tally.problem_P)
    return np.asarray(pass_at_k(tally.drawn_PR[order, 0], tally.correct_PR[order, 0], K))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_training_that_loses_raises_the_alarm_and_stops(seed: int, tmp_path: Path, base_rates: np.ndarray) -> None:
    trainer, monitor = train(tmp_path / "out", rate=1e-3, steps=40, every=10, seed=seed)
    trainer.save_model(str(tmp_path / "model"))
    after = independent_rates(f"hf:{tmp_path / 'model'}", tmp_path / "run")
    fallen = int(((base_rates > 0.9) & (after < 0.1)).sum())
    last = monitor.state.evaluations[-1]
    print(f"\nseed {seed}: pass@{K} of {fallen} of {SIZE} problems fell from above .9 to below .1; "
          f"alarm {last.alarm} at step {last.step} (at least {last.losses_at_least} lost)")  # fmt: skip
    assert fallen >= 10, "this training did not lose, so it shows nothing"
    assert last.alarm
    assert trainer.state.global_step == last.step


def test_an_unchanged_model_raises_an_alarm_in_few_trainings() -> None:
    """400 trainings of 20 evaluations; each has a base of its own, which all of its evaluations share."""
    rng, planned, trainings, alarms = np.random.default_rng(0), 20, 400, 0
    for _ in range(trainings):
        rate_P = np.where(rng.random(60) < 0.2, 0.0, rng.beta(0.4, 4.0, 60))
        base_P = rng.binomial(2 * K, rate_P)
        drawn_P2 = np.column_stack([np.full(60, 2 * K), np.full(60, K)])
        for _ in range(planned):
            first = np.column_stack([base_P, rng.binomial(K, rate_P)])
            if not first_losses(drawn_P2, first, planned):
                continue
            again = np.column_stack([base_P, rng.binomial(K, rate_P)])
            if confirmed_losses(drawn_P2, again):
                alarms += 1
                break
    print(f"\n{alarms} of {trainings} simulated trainings raised a false alarm")
    assert alarms <= 0.05 * trainings


def run_script(out: Path, options: dict[str, Any], *launcher: str) -> list[str]:
    return [*(launcher or (sys.executable,)), "-m", "tests.training.trl_lab", str(out), json.dumps(options)]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
SMALL = {"steps": 9, "rate": 1e-4, "groups": 4, "monitor": {"k": 16, "every": 3, "size": 7}}


def test_two_ranks_share_the_draws_and_survive_an_evaluation_that_fails_on_one(tmp_path: Path) -> None:
    blocked = tmp_path / "out" / "support" / "step-00006"
    blocked.parent.mkdir(parents=True)
    blocked.touch()  # a file where the main process wants to write a folder: the other rank must not wait for it
    launcher = [str(Path(sys.executable).parent / "accelerate"), "launch", "--cpu", "--num_processes", "2"]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    command = run_script(tmp_path / "out", SMALL, *launcher)
    ran = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr[-3000:]
    logged = json.loads(ran.stdout.splitlines()[-1])
    assert [entry["step"] for entry in logged if "support/srr" in entry] == [3, 9]
    assert "The evaluation at step 6 was skipped" in ran.stderr
    for name, samples in (("base", 32), ("step-00003", 16), ("step-00009", 16)):
        run = ol.load(tmp_path / "out" / "support" / name)
        assert run.samples is not None
        frame = run.samples.collect()
        assert frame.group_by("problem").len()["len"].to_list() == [samples] * 7
        assert frame.select(pl.struct("problem", "index").is_duplicated().sum()).item() == 0


def test_the_best_checkpoint_is_kept_and_the_history_can_be_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    keep = {"keep": "best_above_floor", "floor": 0.5}
    options = {**SMALL, "save_total_limit": 1, "monitor": {"k": 16, "every": 3, "size": 7, **keep}}
    ran = subprocess.run(
        run_script(out, options), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=900
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    state = json.loads((out / "support" / "monitor.json").read_text())
    above = [done for done in state["evaluations"] if done["net_ratio"] >= 0.5]
    assert above, "this training kept nothing, so it shows nothing"
    best = max(above, key=lambda done: done["metrics"]["probe/pass@1"])
    kept = json.loads((out / "best_above_floor" / "trainer_state.json").read_text())
    assert kept["global_step"] == best["step"] == state["best_step"]
    assert (out / "best_above_floor" / "model.safetensors").exists()
    assert [path.name for path in out.glob("checkpoint-*")] == ["checkpoint-9"]
    base, evaluations = out / "support" / "base", sorted((out / "support").glob("step-*"))
    assert [folder.name for folder in evaluations] == ["step-00003", "step-00006", "step-00009"]
    assert len(ol.compare(str(base), *map(str, evaluations)).to_dict()["leaderboard"]) == 4
    page = ol.report(str(base), str(evaluations[-1]), out=tmp_path / "report.html")
    assert page.path is not None
    session = ol.view(str(base), str(evaluations[-1]))
    threading.Thread(target=session.serve, daemon=True).start()
    assert b"<html" in urllib.request.urlopen(session.url).read()
    session.close()


def test_a_killed_training_resumes_with_its_base(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {**SMALL, "save_strategy": "steps", "save_steps": 3}
    killed = subprocess.Popen(
        run_script(out, {**options, "steps": 900}), cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not (out / "support" / "step-00009").is_dir():
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.2)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    base = (out / "support" / "base" / "run.json").read_bytes()
    for late in (out / "checkpoint-9", out / "checkpoint-12"):  # as if it had been killed before it saved
        shutil.rmtree(late, ignore_errors=True)
    command = run_script(out, {**options, "steps": 12, "resume": str(out / "checkpoint-6")})
    ran = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr[-3000:]
    logged = json.loads(ran.stdout.splitlines()[-1])
    assert [entry["step"] for entry in logged if "support/srr" in entry] == [3, 6, 9, 12]
    state = json.loads((out / "support" / "monitor.json").read_text())
    assert [evaluation["step"] for evaluation in state["evaluations"]] == [3, 6, 9, 12]
    assert (out / "support" / "base" / "run.json").read_bytes() == base
