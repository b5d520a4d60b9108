"""The main job in one call: draw from two models, verify, compare. One model is in memory at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.registry import Model
from offleash.samplers.sampler import Decoding
from offleash.study.compare import Comparison, Question
from offleash.study.draw import Announce, Drawing, DrawnRun, unannounced
from offleash.study.drawing import budget, draw_arguments
from offleash.study.load import Progress, silent
from offleash.study.verbs import compare_arguments
from offleash.study.verify import Verified, Verifying, judge_of, verify_with

NAMES = ("base", "rl")  # the folders of the two runs


@dataclass(frozen=True)
class Cost:
    """What a study may come to, before it begins."""

    problems: int
    k: int
    until: int
    least: int  # samples, if every one were correct
    most: int  # samples, if none were
    tokens: int  # a sample may have


@dataclass(frozen=True)
class TwoModels:
    """What is to be compared."""

    problems: pl.DataFrame
    models: tuple[Model, Model]  # base, RL
    decoding: Decoding
    k: str  # a number, or 'paper'
    until: int = 0
    seed: int = 0

    def cost(self) -> Cost:
        k = Drawing("", budget(self.k, self.problems), self.until, self.seed).k
        least = min(self.until or k, k)
        N = self.problems.height
        return Cost(N, k, self.until, 2 * N * least, 2 * N * k, self.decoding.max_tokens)

    def seeds(self) -> tuple[int, int]:
        """The same for both, since seeds are hashes of the model too; another one where both are the same model."""
        return self.seed, self.seed + (str(self.models[0]) == str(self.models[1]))


@dataclass(frozen=True)
class Studied:
    """Both runs and what is said of them; no comparison while samples are missing."""

    folder: Path
    drawn: tuple[DrawnRun, ...]
    verified: tuple[Verified, ...]
    comparison: Comparison | None


def study(
    asked: TwoModels,
    folder: Path,
    verifying: Verifying | None = None,
    question: Question | None = None,
    progress: Progress = silent,
    announce: Announce = unannounced,
    drawn: Callable[[DrawnRun], None] = lambda _: None,
) -> Studied:
    """Draw both models into folder/base and folder/rl, verify and compare; again after a kill, it goes on."""
    if folder.is_file():
        raise OffleashError(f"{folder} is a file; choose another folder with -o.")
    runs: list[DrawnRun] = []
    for name, model, seed in zip(NAMES, asked.models, asked.seeds(), strict=True):
        what = (asked.problems, model, asked.decoding, asked.k, asked.until, seed)
        runs.append(draw_arguments(folder / name, *what, verifying, progress, announce))
        drawn(runs[-1])
    if any(run.failed for run in runs):
        return Studied(folder, tuple(runs), (), None)
    judged = () if asked.until else _verified(folder, verifying or Verifying(), progress)
    reached = [f"{name}={folder / name}" for name in NAMES]
    comparisons, _ = compare_arguments(reached, asked=question, progress=progress)
    return Studied(folder, tuple(runs), judged, comparisons[0])


def _verified(folder: Path, options: Verifying, progress: Progress) -> tuple[Verified, ...]:
    with judge_of(options, progress) as judge:
        return tuple(verify_with(judge, folder / name, options, progress) for name in NAMES)
