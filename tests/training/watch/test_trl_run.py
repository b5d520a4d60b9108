"""A training by TRL in another process, watched while it runs: every sample of its generations is counted once.

An evaluation in between overwrites the file of its step: those training samples are missing, and counted as such.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import offleash as ol

pytestmark = pytest.mark.trl
STEPS, PROBLEMS_PER_STEP, GROUP = 8, 4, 4

TRAINING = """
import json, sys
from pathlib import Path
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from transformers import AutoModelForCausalLM, AutoTokenizer
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.pretrain import base_of

out = Path(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(base_of("countdown"))
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
problems = COUNTDOWN.problems("train", 16, 0)
prompts = [row["prompt"] or row["question"] for row in problems.iter_rows(named=True)]
split = ["train"] * len(prompts)
truth = (out / "truth.jsonl").open("a")

def accuracy(prompts, completions, split, log_extra, **_):
    log_extra("split", split)
    rewards = [float(len(text.split()) %% 2) for text in completions]
    for prompt, text, reward, kind in zip(prompts, completions, rewards, split):
        truth.write(json.dumps({"prompt": prompt, "text": text, "reward": reward, "split": kind}) + "\\n")
    truth.flush()
    return rewards

config = GRPOConfig(
    output_dir=str(out / "outputs"), log_completions=True, max_steps=%(steps)d, logging_steps=1, report_to=[],
    per_device_train_batch_size=%(batch)d, num_generations=%(group)d, max_completion_length=12, use_cpu=True,
    steps_per_generation=%(reuse)d, save_strategy="no", disable_tqdm=True, **%(evaluate)r,
)
trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained(base_of("countdown")), processing_class=tokenizer, args=config,
    reward_funcs=accuracy, train_dataset=Dataset.from_dict({"prompt": prompts, "split": split}),
    eval_dataset=Dataset.from_dict({"prompt": prompts[:4], "split": ["eval"] * 4}),
)
trainer.train()
(out / "done").touch()
"""


def looks(tmp_path: Path, reuse: int, **evaluate: object) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The documents of looks at a training that runs meanwhile, and its samples as the reward function saw them."""
    script = tmp_path / "train.py"
    batch = PROBLEMS_PER_STEP * GROUP
    script.write_text(TRAINING % {"steps": STEPS, "batch": batch, "group": GROUP, "reuse": reuse, "evaluate": evaluate})
    folder = tmp_path / "outputs"
    folder.mkdir()
    session, seen = ol.watch(folder), []
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([sys.executable, script, tmp_path], stdout=log, stderr=log) as process,
    ):
        while process.poll() is None:
            look = session.look()  # type: ignore[union-attr]
            if look is not None:
                seen.append(look.to_dict())
            time.sleep(0.05)
    assert process.returncode == 0, (tmp_path / "log").read_text()[-2000:]
    last = session.look()  # type: ignore[union-attr]
    assert last is not None
    return [*seen, last.to_dict()], [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("reuse", [1, 2])
def test_a_training_that_runs_is_counted_as_it_was(tmp_path: Path, reuse: int) -> None:
    documents, truth = looks(tmp_path, reuse)
    counts = [document["counts"]["samples"] for document in documents]
    assert counts == sorted(counts)  # every look has what the one before had
    assert len(set(counts)) > 2  # it was watched while it ran
    last = documents[-1]
    assert last["trainer"] == "trl"
    assert counts[-1] == len(truth)
    assert last["counts"]["problems"] == len({row["prompt"] for row in truth})
    assert last["counts"]["missing"] == 0
    correct = sum(window["pass@1"] * window["samples"] for window in last["steps"])
    assert correct == pytest.approx(sum(row["reward"] for row in truth))
    assert last == ol.watch(tmp_path / "outputs", once=True).to_dict()
    if reuse == 2:
        assert last["counts"]["duplicates"] >= len(truth) - 32  # a batch is logged at both steps that train on it


def test_training_samples_that_an_evaluation_overwrote_are_counted_as_missing(tmp_path: Path) -> None:
    documents, truth = looks(tmp_path, 1, eval_strategy="steps", eval_steps=4, per_device_eval_batch_size=16)
    of_training = [row for row in truth if row["split"] == "train"]
    assert len(of_training) < len(truth)
    last = documents[-1]["counts"]
    assert last["samples"] + last["missing"] == len(of_training)
    assert last["missing"] > 0
    assert "evaluations" in {warning["code"] for warning in documents[-1]["warnings"]}
