"""verl itself: the example's configuration composes, and its reward manager judges by a verifier of offleash."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from offleash.lab.pretrain import base_of

ROOT = Path(__file__).parents[2]


@pytest.mark.verl
def test_the_example_composes_and_verls_reward_manager_judges_in_its_threads() -> None:
    script = ROOT / "tests" / "training" / "verl_rewards.py"
    command = [os.environ["OFFLEASH_VERL_PYTHON"], script, ROOT / "examples" / "verl", base_of("countdown")]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    document = json.loads(ran.stdout.splitlines()[-1])
    assert (document["estimator"], document["group"]) == ("grpo", 16)
    assert [result["reward_score"] for result in document["results"]] == [1.0] * 4 + [0.0] * 8
    assert set(document["results"][0]["reward_extra_info"]) == {"score", "acc", "pred", "unread", "failed"}
