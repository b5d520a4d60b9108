"""verl itself: the example's configuration composes, its reward manager judges by a verifier, its dumps are watched."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import offleash as ol
from offleash.lab.pretrain import base_of

ROOT = Path(__file__).parents[2]


@pytest.mark.verl
def test_the_example_composes_and_verls_reward_manager_judges_in_its_threads(tmp_path: Path) -> None:
    script = ROOT / "tests" / "training" / "verl_rewards.py"
    command = [os.environ["OFFLEASH_VERL_PYTHON"], script, ROOT / "examples" / "verl", base_of("countdown"), tmp_path]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    document = json.loads(ran.stdout.splitlines()[-1])
    assert (document["estimator"], document["group"]) == ("grpo", 16)
    assert [result["reward_score"] for result in document["results"]] == [1.0] * 4 + [0.0] * 8
    assert set(document["results"][0]["reward_extra_info"]) == {"score", "acc", "pred", "unread", "failed"}
    assert document["in_thread"]["score"] == 1.0

    look = ol.watch(tmp_path / "rollouts", once=True).to_dict()
    assert (look["trainer"], look["counts"]) == (
        "verl",
        {"samples": 24, "problems": 1, "duplicates": 0, "missing": 0},
    )
    assert [(window["first"], window["samples"], window["pass@1"]) for window in look["steps"]] == [
        (1, 12, pytest.approx(1 / 3)),
        (2, 12, pytest.approx(1 / 3)),
    ]
    assert "3 samples from evaluations are left out" in str(look["warnings"])
    older = ol.watch(tmp_path / "older", once=True).to_dict()
    assert [(window["first"], window["samples"], window["pass@1"]) for window in older["steps"]] == [
        (7, 12, pytest.approx(1 / 3))
    ]
