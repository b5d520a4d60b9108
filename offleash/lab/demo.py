"""The demo: train a real model with RLVR on two CPU cores, and measure what it can reach before and after.

While one process trains, another draws the base; both use the ordinary functions and commands of the package, and all
that they write stays in one folder. Run again after an interruption, it resumes.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread

import polars as pl

from offleash.comparing.arguments import compare_arguments, question
from offleash.comparing.compare import Comparison
from offleash.drawing.draw import draw_arguments
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of
from offleash.lab.registry import problem_lines, write_problems
from offleash.lab.world import LabWorld
from offleash.loading.problem_set import load_problems
from offleash.progress import Progress, silent
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import DECODINGS, Decoding
from offleash.training.loop import Training, train
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling
from offleash.verifying.verify import verify

PROBLEMS, TRAINING, BASE, AGAIN, RL, PAPER = "problems", "training", "base", "base-again", "rl", "paper"
SETTLED = 5  # successes that settle a problem in the second draw of the base, which is asked what it reaches alone
OTHER = 1  # seed of that draw


@dataclass(frozen=True)
class DemoSize:
    """How large a demo is."""

    problems: int = 200
    k: int = 4096
    steps: int = 120
    groups: int = 64  # problems a step
    pool: int = 4096  # problems that are trained on
    seed: int = 0


QUICK = DemoSize(problems=60, k=512, steps=50, groups=32)


@dataclass(frozen=True)
class DemoResult:
    """What a demo came to. All comparisons are of problems that neither corpus nor training held."""

    world: str
    plan: DemoSize
    folder: Path
    trained: Training
    plain: Comparison  # base and RL at temperature 1, per problem
    solutions: Comparison  # the same, per solution
    paper: Comparison  # at the paper's decoding, per problem
    null: Comparison  # base and base again, per problem
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


def demonstrate(world: LabWorld, plan: DemoSize, folder: Path, progress: Progress = silent) -> DemoResult:
    """Train, draw, verify, compare; what stands in the folder already is not done again."""
    import torch

    started, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)  # the other core draws
    try:
        asked = _problems(world, plan, folder)
        base = f"hf:{base_of(world.name)}"
        with BackgroundCommands(_base_commands(plan, folder, base, world.longest), folder / "base.log") as lane:
            trained = train(recipe_of(world, plan, folder), folder / TRAINING, progress)
            rl = f"hf:{trained.model}"
            plain = replace(DECODINGS["plain"], max_tokens=world.longest)
            paper = replace(DECODINGS["paper"], max_tokens=world.longest)
            for run, model, decoding in (
                (RL, rl, plain),
                (f"{PAPER}/{RL}", rl, paper),
                (f"{PAPER}/{BASE}", base, paper),
            ):
                _drawn(folder / run, asked, model, decoding, plan, progress)
            lane.wait(lambda: progress(f"drawing the base: {_samples(folder / BASE):,} samples so far"))
        plainly = _compared(folder / BASE, folder / RL, "problem", progress)
        by_solution = _compared(folder / BASE, folder / RL, "solution", progress)
        papered = _compared(folder / PAPER / BASE, folder / PAPER / RL, "problem", progress)
        null = _compared(folder / BASE, folder / AGAIN, "problem", progress)
    finally:
        torch.set_num_threads(threads)
    seconds = time.monotonic() - started
    return DemoResult(world.name, plan, folder, trained, plainly, by_solution, papered, null, seconds)


def _problems(world: LabWorld, plan: DemoSize, folder: Path) -> pl.DataFrame:
    """The problems of the demo, written where every command finds them; refused where the folder holds others."""
    for part, size in (("train", plan.pool), ("test", plan.problems)):
        path = folder / PROBLEMS / f"{part}.jsonl"
        if path.is_file() and path.read_text(encoding="utf-8") != problem_lines(world, part, size, plan.seed):
            raise OffleashError(f"{folder} holds a demo of another seed, size or world; choose another with --out.")
        write_problems(world, part, size, plan.seed, path)
    return load_problems(folder / PROBLEMS / "test.jsonl").frame


def _base_commands(plan: DemoSize, folder: Path, base: str, longest: int) -> list[list[str]]:
    """What the other process does: draw the base, judge it, draw it again."""
    test = str(folder / PROBLEMS / "test.jsonl")
    draw = ["draw", test, base, "-k", str(plan.k), "--max-tokens", str(longest), "--json"]
    return [
        [*draw, "-o", str(folder / BASE), "--seed", str(plan.seed)],
        ["verify", str(folder / BASE), "--json"],
        [*draw, "-o", str(folder / AGAIN), "--seed", str(plan.seed + OTHER), "--until", str(SETTLED)],
    ]


def _drawn(run: Path, asked: pl.DataFrame, model: str, decoding: Decoding, plan: DemoSize, progress: Progress) -> None:
    draw_arguments(run, asked, model_of(model), decoding, str(plan.k), 0, plan.seed, None, progress)
    verify(run, None, progress)


def _samples(run: Path) -> int:
    """How many samples a run that is being drawn has so far."""
    shards = list((run / "samples").glob("*.parquet"))
    return int(pl.scan_parquet(shards).select(pl.len()).collect().item()) if shards else 0


def _compared(before: Path, after: Path, per: str, progress: Progress) -> Comparison:
    names = [f"{path.name}={path}" for path in (before, after)]
    comparisons, _ = compare_arguments(names, asked=question(per=per), progress=progress)
    return comparisons[0]


# A lane: commands of the package, one after the other, in processes beside this one.


LOOK = 2.0  # seconds between two looks at a lane that is waited for
GENTLE = 20.0  # seconds that a command has to end by itself


class BackgroundCommands:
    """Commands that run meanwhile; left, the one at work is ended gently, and can be run again."""

    def __init__(self, commands: Sequence[Sequence[str]], log: Path, module: str = "offleash") -> None:
        self._module = module
        self._commands, self._log = commands, log
        self._process: subprocess.Popen[bytes] | None = None
        self._trouble = ""
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "BackgroundCommands":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(GENTLE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(GENTLE)

    def wait(self, waiting: Callable[[], None]) -> None:
        """Until the last command has ended; `waiting` is called meanwhile. Trouble of a command is an error here."""
        while self._thread.is_alive():
            waiting()
            self._thread.join(LOOK)
        if self._trouble:
            raise OffleashError(self._trouble)

    def _run(self) -> None:
        alone = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with self._log.open("ab") as log:
            for command in self._commands:
                if self._stop.is_set():
                    return
                whole = [sys.executable, "-m", self._module, *command]
                self._process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=alone)
                if self._process.wait():
                    self._trouble = (
                        f"{self._module} {' '.join(command)} ended with exit code {self._process.returncode}; "
                        f"{self._log} says why. Run the same command again to resume."
                    )
                    return
