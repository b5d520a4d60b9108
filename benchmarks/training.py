"""Samples trained per CPU-second: the loop against TRL's GRPOTrainer, one thread each, on the lab's base.

Same model, problems, group size, length, optimizer and reward; no KL, one update a step. TRL's cost a step does not
change as the policy gets sharper; ours falls, since samples then share more of their beginnings. So ours is measured
over the whole recipe of the demo, and at its first steps; TRL over a few steps after a warm-up, as it comes (gradient
checkpointing is on by default) and tuned to this task (off; all samples in one forward pass either way, its quickest).

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

from offleash.lab.countdown import COUNTDOWN
from offleash.lab.pretrain import base_of
from offleash.training.loop import train
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling
from offleash.verifiers import countdown
from offleash.verifiers.countdown import decide_steps
from offleash.verifiers.verifier import Case

SAMPLES = 1024  # a step
STEPS, FIRST = 120, 20  # of our loop: the whole recipe, and its beginning
GROUPS = (16, 64, 128)  # 16 is the demo's, 64 DeepSeekMath's, who had 1,024 samples a step too
PEER = 6  # steps of TRL, after one that warms up
RATE = 3e-4
PROBLEMS = 4096


def ours(group: int) -> tuple[float, float]:
    """CPU-seconds per step of the loop: over its first steps, and over the whole recipe."""
    marks: list[float] = []

    def mark(text: str) -> None:
        if ": step " in text:
            marks.append(time.process_time())

    recipe = Recipe(
        model=f"hf:{base_of(COUNTDOWN.name)}",
        problems=ProblemSource("countdown:train", PROBLEMS),
        steps=STEPS,
        sampling=Sampling(problems=SAMPLES // group, group=group, max_tokens=COUNTDOWN.longest),
        optimizer=Optimizer(rate=RATE),
        checkpoint_every=STEPS,
        tensorboard=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder), mark)
    return (marks[FIRST] - marks[0]) / FIRST, (marks[-1] - marks[0]) / (STEPS - 1)


def trl(group: int, checkpointing: bool) -> float:
    """CPU-seconds per step of GRPOTrainer."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    library: Any = import_module("trl")

    marks: list[float] = []

    class Marking(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: object, **__: object) -> None:
            marks.append(time.process_time())

    frame = COUNTDOWN.problems("train", PROBLEMS, 0)
    dataset = Dataset.from_dict({"prompt": frame["prompt"].to_list(), "details": frame["details"].to_list()})
    base = base_of(COUNTDOWN.name)
    with tempfile.TemporaryDirectory() as folder:
        config = library.GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1000,
            disable_tqdm=True, gradient_checkpointing=checkpointing, per_device_train_batch_size=SAMPLES,
            gradient_accumulation_steps=1, num_generations=group,
            max_completion_length=COUNTDOWN.longest, max_steps=PEER + 1, learning_rate=RATE, beta=0.0, temperature=1.0,
        )  # fmt: skip
        trainer = library.GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(base),
            processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
            reward_funcs=_reward,
            args=config,
            train_dataset=dataset,
            callbacks=[Marking()],
        )
        trainer.train()
    return (marks[-1] - marks[0]) / PEER


def _reward(completions: list[str], details: list[str], **_: object) -> list[float]:
    """The lab's own verifier, called directly: TRL has no judge to pay for."""
    cases = [Case(text, details=json.loads(detail)) for text, detail in zip(completions, details, strict=True)]
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
    print(f"{'group':>6} {'loop, first':>12} {'loop, whole':>12} {'TRL':>12} {'TRL, tuned':>12}   CPU-seconds per step")
    lines = []
    for group in GROUPS:
        first, whole = ours(group)
        peers = {"TRL": trl(group, True), "TRL tuned": trl(group, False)}
        print(f"{group:6} {first:12.3f} {whole:12.3f} {peers['TRL']:12.3f} {peers['TRL tuned']:12.3f}", flush=True)
        for name, peer in peers.items():
            lines.append(
                f"ratio samples trained, groups of {group}, first {FIRST} steps, to {name}: {peer / first:.2f}"
            )
            lines.append(f"ratio samples trained, groups of {group}, whole recipe, to {name}: {peer / whole:.2f}")
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
