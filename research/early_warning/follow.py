"""Following trainings: in legs from look to look, each model drawn small (what a monitor sees) and large (the truth).

What a look saw is kept in one small file of arrays; the samples themselves are not kept. Training, drawing and judging
are those of the package, and all of it resumes after a kill.
"""

import shutil
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.data.verdict import Verdict
from offleash.drawing.draw import DrawRequest, draw
from offleash.errors import OffleashError
from offleash.lab.demo import PROBLEMS
from offleash.lab.pretrain import base_of
from offleash.lab.registry import write_problems
from offleash.lab.world import LabWorld
from offleash.loading.load import load
from offleash.loading.problem_set import load_problems
from offleash.progress import Progress
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import DECODINGS, Sampler
from offleash.samplers.seeds import seed_of
from offleash.training.checkpoints import newest
from offleash.training.loop import train
from offleash.verifying.verify import VerifyOptions, verify
from research.early_warning.plan import BASE, SEED_PARTS, Job, Plan, recipe_for

LOOKS, TRAININGS, DRAWS = "looks", "trainings", "draws"  # folders of a study
FIRST, AGAIN = "first", "again"  # the two draws of a base
VALUE = r"=\s*(\d+)\s*$"  # the value of an answer: the number after its last equal sign
JUDGING = VerifyOptions(jobs=1)  # two processes share the machine


@dataclass(frozen=True)
class Watched:
    """Samples of P problems, K each: answers and values as codes (-1: unread), entropies, lengths and verdicts."""

    answer_PK: NDArray[np.int32]
    value_PK: NDArray[np.int32]
    entropy_PK: NDArray[np.float64]  # summed over the tokens of a sample, in nats
    tokens_PK: NDArray[np.int32]
    correct_PK: NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
    """The truth: how many samples of each problem were drawn, and how many were correct."""

    drawn_P: NDArray[np.int64]
    correct_P: NDArray[np.int64]


@dataclass(frozen=True)
class Look:
    """What is stored of one model: the monitor's draw and the truth."""

    watched: Watched
    counts: Counts


def file_of(folder: Path, job: Job, look: str) -> Path:
    return folder / LOOKS / str(job) / f"{look}.npz"


def name_of(step: int) -> str:
    return f"step-{step:06d}"


def prepare(world: LabWorld, plan: Plan, folder: Path) -> None:
    """Write the problems of all seeds: to train on, and of the part `test` first the watched ones, then the truth's."""
    for seed in range(plan.seeds):
        for part, size in (("train", plan.pool), ("test", plan.watched + plan.tested)):
            path = _place(folder, seed) / PROBLEMS / f"{part}.jsonl"
            if not path.is_file():
                write_problems(world, part, size, seed, path)


def follow(world: LabWorld, plan: Plan, folder: Path, job: Job, progress: Progress) -> None:
    """Train in legs and look after each, or draw a base; looks that are stored are skipped."""
    if job.recipe == BASE:
        _follow_base(world, plan, folder, job, progress)
        return
    recipe = recipe_for(world, plan, job, _place(folder, job.seed))
    for step in range(plan.every, plan.looks * plan.every + 1, plan.every):
        file = file_of(folder, job, name_of(step))
        if file.is_file():
            continue
        training = folder / TRAININGS / str(job)
        train(replace(recipe, steps=step), training, _named(job, progress))
        last = newest(training)
        if last is None or last.step != step:
            raise OffleashError(
                f"{training} is past step {step}, of which no look is stored. Delete it and {file.parent}, then run "
                "the same command again."
            )
        progress(f"{job}: looking at step {step:,}")
        _look(world, plan, folder, job, f"hf:{last.folder}", name_of(step), plan.k)


def read_look(file: Path) -> Look:
    """A stored look."""
    with np.load(file, allow_pickle=False) as kept:
        arrays = {name: kept[name] for name in kept.files}
    watched = {name: arrays[name] for name in Watched.__dataclass_fields__}
    return Look(Watched(**watched), Counts(**{name: arrays[name] for name in Counts.__dataclass_fields__}))


def _follow_base(world: LabWorld, plan: Plan, folder: Path, job: Job, progress: Progress) -> None:
    """Draw the base of a seed: many samples of the watched problems, the truth, and the truth a second time."""
    model = f"hf:{base_of(world.name)}"
    for look, k in ((FIRST, plan.base_k + plan.null_k), (AGAIN, plan.k)):
        if not file_of(folder, job, look).is_file():
            progress(f"{job}: drawing the base")
            _look(world, plan, folder, job, model, look, k)


def _look(world: LabWorld, plan: Plan, folder: Path, job: Job, model: str, look: str, k: int) -> None:
    """Draw the watched problems and the truth's, judge them, store the arrays of the look and delete the samples."""
    test_problems = load_problems(_place(folder, job.seed) / PROBLEMS / "test.jsonl").frame
    place, file = folder / DRAWS / str(job), file_of(folder, job, look)
    decoding = replace(DECODINGS["plain"], max_tokens=world.longest)

    def drawn(problems: pl.DataFrame, sampler: Sampler, what: str, budget: int) -> Run:
        seed = seed_of(SEED_PARTS, job, look, what) >> 1
        run = place / f"{look}-{what}"
        draw(run, problems, sampler, decoding, DrawRequest(model, budget, seed=seed))
        verify(run, JUDGING)
        return load(run)[0]

    with closing(open_sampler(model_of(model))) as sampler:
        watched = _watched(drawn(test_problems.head(plan.watched), sampler, "watched", k), k)
        tested = test_problems.tail(plan.tested)
        counts = _counts(drawn(tested, sampler, "truth", plan.truth_k), tested["problem"])
    file.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its name and renamed: a look is there as a whole or not at all. Then its samples can go.
    temporary = file.with_name(f".{file.name}.writing")
    with temporary.open("wb") as opened:
        np.savez_compressed(opened, **asdict(watched), **asdict(counts))
    temporary.replace(file)
    shutil.rmtree(place, ignore_errors=True)


def _watched(run: Run, k: int) -> Watched:
    """The samples of a run as arrays, problems in the order of the run."""
    assert run.samples is not None
    assert run.verdicts is not None
    keys = ["problem", "index"]
    samples = run.samples.select(*keys, "tokens", "entropy_raw")
    verdicts = run.verdicts.select(*keys, "verdict", "answer")
    order = run.problems.lazy().select("problem").with_row_index("place")
    answer = pl.col("answer").cast(pl.Categorical())
    rows = (
        samples.join(verdicts, on=keys)
        .join(order, on="problem")
        .sort("place", "index")
        .with_columns(value=pl.col("answer").str.extract(VALUE), correct=pl.col("verdict") == Verdict.CORRECT.value)
        .with_columns(answer.to_physical().cast(pl.Int32).fill_null(-1), pl.col("value").cast(pl.Int32).fill_null(-1))
        .collect()
    )
    shape = (run.problems.height, k)
    return Watched(
        answer_PK=rows["answer"].to_numpy().reshape(shape),
        value_PK=rows["value"].to_numpy().reshape(shape),
        entropy_PK=rows["entropy_raw"].to_numpy().reshape(shape),
        tokens_PK=rows["tokens"].cast(pl.Int32).to_numpy().reshape(shape),
        correct_PK=rows["correct"].to_numpy().reshape(shape),
    )


def _counts(run: Run, names: Iterable[str]) -> Counts:
    counts = tally([run]).tally
    place = {str(name): row for row, name in enumerate(counts.problem_P)}
    rows = np.array([place[name] for name in names])
    return Counts(counts.drawn_PR[rows, 0], counts.correct_PR[rows, 0])


def _place(folder: Path, seed: int) -> Path:
    """The folder of the problems of a seed."""
    return folder / f"seed-{seed}"


def _named(job: Job, progress: Progress) -> Progress:
    return lambda text: progress(f"{job}: {text}")
