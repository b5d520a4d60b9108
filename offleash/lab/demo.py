"""The demo: train a real model with RLVR on two CPU cores, and measure what it can reach before and after.

While one process trains, another draws from the base; both call the public functions of the package and write to one
folder. Run it again after an interruption to resume.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.analyses.blending.blend import blend_models
from offleash.api.compare import compare
from offleash.api.draw import draw
from offleash.api.verify import verify
from offleash.comparing.compare import Comparison
from offleash.errors import OffleashError
from offleash.lab.background import BackgroundCall, BackgroundCalls
from offleash.lab.pretrain import base_of
from offleash.lab.registry import problem_lines, write_problems
from offleash.lab.world import LabWorld
from offleash.options import Decoding
from offleash.progress import Progress, silent
from offleash.training.loop import Training, train
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling

PROBLEMS, TRAINING, BASE, BASE_REDRAW, RL, PAPER = "problems", "training", "base", "base-again", "rl", "paper"
BLEND, BLEND_MODEL, BLEND_WEIGHT = "blend", "blend-model", 0.5
BLEND_K_SHARE = 4  # a blend gets a quarter of the samples: a few seconds, and enough to see what it gets back
REDRAW_UNTIL = 5  # correct samples at which a problem stops in the second draw from the base: only reach matters there
REDRAW_SEED_OFFSET = 1  # added to the seed for that draw


@dataclass(frozen=True)
class DemoSize:
    """The size of a demo."""

    problems: int = 200
    k: int = 4096
    steps: int = 120
    groups: int = 64  # problems per step
    pool: int = 4096  # problems that are trained on
    seed: int = 0


QUICK = DemoSize(problems=60, k=512, steps=50, groups=32)


@dataclass(frozen=True)
class DemoRuns:
    """The comparisons of a demo, all on problems that were neither in the corpus nor trained on."""

    world: str
    plan: DemoSize
    folder: Path
    trained: Training
    plain: Comparison  # base and RL at temperature 1, per problem
    solutions: Comparison  # the same, per solution
    paper: Comparison  # at the paper's decoding, per problem
    null: Comparison  # base and base again, per problem
    blend: Comparison  # base and the model halfway to RL, per problem, at a quarter of the samples
    plain_at_blend: Comparison  # `plain` with as many samples as the blend has
    seconds: float


def recipe_of(world: LabWorld, plan: DemoSize, folder: Path) -> Recipe:
    """The default training: GRPO, fixed before any evaluation."""
    return Recipe(
        model=f"hf:{base_of(world.name)}",
        problems=ProblemSource(str(folder / PROBLEMS / "train.jsonl")),
        method="grpo",
        steps=plan.steps,
        seed=plan.seed,
        sampling=Sampling(problems=plan.groups, group=16, temperature=1.0, max_tokens=world.longest),
        optimizer=Optimizer(rate=3e-4),
        checkpoint_every=10,
    )


def run_demo(world: LabWorld, plan: DemoSize, folder: Path, progress: Progress = silent) -> DemoRuns:
    """Train, draw, verify, compare; what the folder already has is not done again."""
    import torch

    started, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)  # the other core draws
    try:
        test = _problems(world, plan, folder)
        base = f"hf:{base_of(world.name)}"
        with BackgroundCalls(_base_calls(plan, folder, base, world.longest), folder / "base.log") as background:
            trained = train(recipe_of(world, plan, folder), folder / TRAINING, progress)
            rl = f"hf:{trained.model}"
            for run, model, named in (
                (RL, rl, "plain"),
                (f"{PAPER}/{RL}", rl, "paper"),
                (f"{PAPER}/{BASE}", base, "paper"),
            ):
                decoding = Decoding(named, max_tokens=world.longest)
                draw(test, model, k=plan.k, out=folder / run, seed=plan.seed, decoding=decoding, progress=progress)
                verify(folder / run, progress=progress)
            blend = blend_models(base_of(world.name), trained.model, BLEND_WEIGHT, folder / BLEND_MODEL)
            decoding = Decoding(max_tokens=world.longest)
            k = max(1, plan.k // BLEND_K_SHARE)
            draw(test, f"hf:{blend}", k=k, out=folder / BLEND, seed=plan.seed, decoding=decoding, progress=progress)
            verify(folder / BLEND, progress=progress)
            background.wait(lambda: progress(f"drawing from the base: {_sample_count(folder / BASE):,} samples so far"))
        plain = _compare_runs(folder / BASE, folder / RL, "problem", progress)
        by_solution = _compare_runs(folder / BASE, folder / RL, "solution", progress)
        paper_comparison = _compare_runs(folder / PAPER / BASE, folder / PAPER / RL, "problem", progress)
        null = _compare_runs(folder / BASE, folder / BASE_REDRAW, "problem", progress)
        blended, plain_at_blend = (
            _compare_runs(folder / BASE, folder / run, "problem", progress, at=k) for run in (BLEND, RL)
        )
    finally:
        torch.set_num_threads(threads)
    seconds = time.monotonic() - started
    return DemoRuns(
        world.name,
        plan,
        folder,
        trained,
        plain,
        by_solution,
        paper_comparison,
        null,
        blended,
        plain_at_blend,
        seconds,
    )


def _problems(world: LabWorld, plan: DemoSize, folder: Path) -> Path:
    """Write the problems of the demo and return the test file; refused if the folder holds other problems."""
    for part, size in (("train", plan.pool), ("test", plan.problems)):
        path = folder / PROBLEMS / f"{part}.jsonl"
        if path.is_file() and path.read_text(encoding="utf-8") != problem_lines(world, part, size, plan.seed):
            raise OffleashError(
                f"{folder} holds a demo with a different seed, size or world. Choose another with --out."
            )
        write_problems(world, part, size, plan.seed, path)
    return folder / PROBLEMS / "test.jsonl"


def _base_calls(plan: DemoSize, folder: Path, base: str, longest: int) -> list[BackgroundCall]:
    """What the other process does: draw from the base, verify, draw again."""
    common = {"k": plan.k, "max_tokens": longest}
    test = str(folder / PROBLEMS / "test.jsonl")
    base_redraw_options = {
        "out": str(folder / BASE_REDRAW),
        "seed": plan.seed + REDRAW_SEED_OFFSET,
        "until": REDRAW_UNTIL,
    }
    return [
        BackgroundCall("draw", (test, base), {**common, "out": str(folder / BASE), "seed": plan.seed}),
        BackgroundCall("verify", (str(folder / BASE),)),
        BackgroundCall("draw", (test, base), {**common, **base_redraw_options}),
    ]


def _sample_count(run: Path) -> int:
    """How many samples a run that is being drawn has so far."""
    shards = list((run / "samples").glob("*.parquet"))
    return int(pl.scan_parquet(shards).select(pl.len()).collect().item()) if shards else 0


def _compare_runs(before: Path, after: Path, per: str, progress: Progress, at: int | None = None) -> Comparison:
    return compare(f"{before.name}={before}", f"{after.name}={after}", per=per, at=at, progress=progress).comparison
