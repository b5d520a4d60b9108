"""Run the cells: train, blend, draw, judge; of each cell the counts per problem are stored, a small JSON file each.

A cell that has its file is not run again, and a training resumes from its last checkpoint, so the command can be
stopped at any time. The samples of a cell depend on its name and not on the folder.
"""

import json
import shutil
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from offleash.analyses.blending.blend import blend_models
from offleash.comparing.tally import tally
from offleash.data.atomic import write_text_atomically
from offleash.drawing.draw import DrawRequest, draw
from offleash.lab.demo import DemoSize, recipe_of
from offleash.lab.pretrain import base_of
from offleash.lab.registry import world, write_problems
from offleash.loading.load import load
from offleash.loading.problem_set import load_problems
from offleash.progress import Progress, stage
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import DECODINGS
from offleash.samplers.seeds import seed_of
from offleash.training.loop import train
from offleash.verifying.verify import VerifyOptions, verify
from research.blending.plan import (
    AGAIN,
    BASE,
    LONGER,
    PROBLEMS,
    SEEN_SEEDS,
    SPLITS,
    STEPS,
    STOPPED,
    WORLD,
    Cell,
    K,
    steps_of,
)

CELLS = Path(__file__).parent / "cells"


def file_of(cell: Cell) -> Path:
    """Where the counts of a cell are."""
    return CELLS / f"{cell}.json"


def measure(cell: Cell, folder: Path, progress: Progress) -> None:
    """Run one cell and store its counts; models and samples are in `folder`."""
    file = file_of(cell)
    if file.is_file():
        return
    model = _model_of(cell, folder, stage(progress, str(cell)))
    progress(f"{cell}: drawing")
    started = time.process_time()
    chosen = world(WORLD)
    decoding = replace(DECODINGS[cell.decoding], max_tokens=chosen.longest)
    if cell.model.startswith("hot-"):
        decoding = replace(decoding, temperature=float(cell.model.removeprefix("hot-")))
    problems = load_problems(_problems(cell.split, folder)).frame
    run = folder / "draws" / str(cell)
    with closing(open_sampler(model_of(f"hf:{model}"))) as sampler:
        draw(run, problems, sampler, decoding, DrawRequest(str(cell), K, seed=seed_of("blending", cell) >> 1))
    verify(run, VerifyOptions(jobs=1))
    counts = tally(load(run)).tally
    place = {str(name): row for row, name in enumerate(counts.problem_P)}
    rows = np.array([place[name] for name in problems["problem"]])
    record = {
        "cell": str(cell),
        "k": K,
        "cpu_seconds": round(time.process_time() - started, 1),
        "drawn": counts.drawn_PR[rows, 0].tolist(),
        "correct": counts.correct_PR[rows, 0].tolist(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(file, json.dumps(record) + "\n")
    shutil.rmtree(run)


def _problems(split: str, folder: Path) -> Path:
    """The problems of a split; of `test` those that the demo does not evaluate on."""
    file = folder / f"{split}.jsonl"
    if not file.is_file():
        chosen = world(WORLD)
        frame = chosen.problems(split, 3 * PROBLEMS, SPLITS[split])
        questions = {question for seed in SEEN_SEEDS for question in chosen.problems("test", 200, seed)["question"]}
        lines = folder / f"{split}-all.jsonl"
        write_problems(chosen, split, 3 * PROBLEMS, SPLITS[split], lines)
        new = [
            line
            for line, question in zip(lines.read_text("utf-8").splitlines(), frame["question"], strict=True)
            if question not in questions
        ]
        write_text_atomically(file, "\n".join(new[:PROBLEMS]) + "\n")
    return file


def _model_of(cell: Cell, folder: Path, progress: Progress) -> Path:
    """The folder of a cell's model, trained or blended where it is not there yet."""
    base = base_of(WORLD)
    if cell.model in (BASE, AGAIN):
        return base
    assert cell.seed is not None
    checkpoint = _checkpoint(cell.seed, steps_of(cell.model), folder, progress)
    if not cell.model.startswith("blend-"):
        return checkpoint
    weight = float(cell.model.rpartition("-")[2])
    blend = folder / "blends" / f"seed-{cell.seed}" / cell.model
    return blend if blend.is_dir() else blend_models(base, checkpoint, weight, blend)


def _checkpoint(seed: int, steps: int, folder: Path, progress: Progress) -> Path:
    """A checkpoint of the training of a seed, which is resumed as far as needed."""
    place = folder / f"seed-{seed}"
    checkpoint = place / "training" / "checkpoints" / f"step-{steps:06d}"
    if not checkpoint.is_dir():
        plan = DemoSize(steps=STEPS if steps <= STEPS else LONGER, seed=seed)
        pool = place / "problems" / "train.jsonl"
        if not pool.is_file():
            write_problems(world(WORLD), "train", plan.pool, seed, pool)
        kept = [*STOPPED, STEPS] + ([LONGER] if plan.steps == LONGER else [])
        recipe = replace(recipe_of(world(WORLD), plan, place), keep=kept, tensorboard=False)
        train(recipe, place / "training", progress)
    return checkpoint
