"""Samples trained per CPU-second: the loop against TRL's GRPOTrainer, one thread each, on the lab's base.

Same model, problems, group size, length, optimizer and reward; no KL, one update a step. TRL's cost a step does not
change as the policy gets sharper; ours falls, since samples then share more of their beginnings. So ours is measured
over the whole recipe of the demo, and at its first steps; TRL over a few steps after a warm-up, with all samples in one
forward pass, which is its quickest here. Gradient checkpointing, TRL's default, is off.

    python benchmarks/training.py            (about five minutes; needs trl: pip install -e '.[bench]')
"""

import json
import logging
import os
import sys
import tempfile
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}

import torch

from offleash.lab.bases import base_of
from offleash.lab.countdown import COUNTDOWN
from offleash.training.loop import train
from offleash.training.recipe import Asked, Optimizer, Recipe, Sampling
from offleash.verifiers import countdown
from offleash.verifiers.judgement import Case
from offleash.verifiers.numbers.steps import decide_steps

SAMPLES = 1024  # a step
STEPS, FIRST = 120, 20  # of our loop: the whole recipe, and its beginning
PEER = 8  # steps of TRL, after one that warms up
RATE = 3e-4
PROBLEMS = 4096


def ours(group: int) -> tuple[float, float]:
    """CPU-seconds a step of the loop: over its first steps, and over the whole recipe."""
    marks: list[float] = []

    def mark(text: str) -> None:
        if ": step " in text:
            marks.append(time.process_time())

    recipe = Recipe(
        model=f"hf:{base_of(COUNTDOWN.name)}",
        problems=Asked("countdown:train", PROBLEMS),
        steps=STEPS,
        sampling=Sampling(problems=SAMPLES // group, group=group, max_tokens=COUNTDOWN.longest),
        optimizer=Optimizer(rate=RATE),
        checkpoint_every=STEPS,
        tensorboard=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder), mark)
    return (marks[FIRST] - marks[0]) / FIRST, (marks[-1] - marks[0]) / (STEPS - 1)


def trl(group: int, batch: int) -> float:
    """CPU-seconds a step of GRPOTrainer, `batch` samples in one forward pass."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    library: Any = import_module("trl")

    marks: list[float] = []

    class Marking(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: object, **__: object) -> None:
            marks.append(time.process_time())

    frame = COUNTDOWN.problems("train", PROBLEMS, 0)
    asked = Dataset.from_dict({"prompt": frame["prompt"].to_list(), "details": frame["details"].to_list()})
    base = base_of(COUNTDOWN.name)
    with tempfile.TemporaryDirectory() as folder:
        config = library.GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1000,
            disable_tqdm=True, gradient_checkpointing=False, per_device_train_batch_size=batch,
            gradient_accumulation_steps=SAMPLES // batch, num_generations=group,
            max_completion_length=COUNTDOWN.longest, max_steps=PEER + 1, learning_rate=RATE, beta=0.0, temperature=1.0,
        )  # fmt: skip
        trainer = library.GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(base),
            processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
            reward_funcs=_reward,
            args=config,
            train_dataset=asked,
            callbacks=[Marking()],
        )
        trainer.train()
    return (marks[-1] - marks[0]) / PEER


def _reward(completions: list[str], details: list[str], **_: object) -> list[float]:
    """The lab's own verifier, called directly: TRL has no judge to pay for."""
    cases = [Case(text, details=json.loads(one)) for text, one in zip(completions, details, strict=True)]
    return [float((decide_steps(case) or countdown.decide(case)).verdict == "correct") for case in cases]


def main() -> None:
    torch.set_num_threads(1)
    if find_spec("trl") is None:
        print("trl is not installed: pip install -e '.[bench]'", file=sys.stderr)
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from transformers.utils import logging as quiet

    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    print(f"{SAMPLES} samples a step, at most {COUNTDOWN.longest} tokens each, one thread\n")
    print(
        f"{'group':>6} {'loop, first':>12} {'loop, whole':>12} {'TRL, 1024':>12} {'TRL, 128':>12}   CPU-seconds a step"
    )
    lines = []
    for group in (16, 64):
        first, whole = ours(group)
        peers = [trl(group, batch) for batch in (SAMPLES, 128)]
        print(f"{group:6} {first:12.3f} {whole:12.3f} {peers[0]:12.3f} {peers[1]:12.3f}", flush=True)
        lines.append(
            f"ratio samples trained per CPU-second to TRL, groups of {group}, whole recipe: {min(peers) / whole:.2f}"
        )
        lines.append(
            f"ratio samples trained per CPU-second to TRL, groups of {group}, first steps: {min(peers) / first:.2f}"
        )
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
