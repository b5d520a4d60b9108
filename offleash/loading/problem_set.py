"""Problem sets by name: a benchmark, Reasoning Gym or Countdown tasks, or a user's file, in one schema.

A sample of a set is seeded: the same seed and problems give the same sample, in the file's order.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.tables import Note, as_problems
from offleash.errors import OffleashError, unknown
from offleash.problems import countdown
from offleash.problems.benchmarks import GYM, PROBLEMS
from offleash.problems.hub import HubDataset, dataset_from_hub, from_hub, hub_dataset
from offleash.problems.problem import Benchmark, ProblemSet, content_hash
from offleash.problems.read import read_problems
from offleash.verifiers.registry import verifier

LEVELS = ("easy", "hard")
DEFAULT_GENERATED_SIZE = 50  # problems of a Reasoning Gym task when no size is given, as in the paper
# A word with one of these endings is meant as a file, also where none of that name exists.
FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz")


def load_problems(
    name: str | Path,
    *,
    size: int | None = None,
    seed: int = 0,
    source: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
) -> ProblemSet:
    """Problems by name.

    Args:
        name: A benchmark (`aime24`), a file, a data set on the hub (`org/name:config:split`), or generated problems
            (`reasoning_gym:leg_counting:hard`, `countdown:test`).
        size: A random sample of so many; None for all, or for the paper's own sample.
        seed: Of that sample, or of generated problems.
        source: A local copy of the benchmark.
        columns: --map: role -> column of the file.

    Returns:
        The problems with hashes and prompts, the notes made on the way, and their rows in the file.
    """
    if str(name).split(":")[0] in (GYM, countdown.NAME):
        if source is not None or columns:
            raise OffleashError(f"{name} is generated. Leave out --from and --map, which are for benchmarks and files.")
        return ProblemSet(_with_hashes(_generate(str(name), size, seed)))
    problem_set, benchmark = _read_named(name, source, columns)
    size = size if size is not None or benchmark is None else _default_size(benchmark, problem_set)
    if size is None:
        return replace(problem_set, frame=_with_hashes(problem_set.frame))
    frame = random_subset(problem_set.frame, size, seed, str(name))
    note = Note(f"{name}: a random sample of {size} of {problem_set.frame.height} problems, seed {seed}.")
    return ProblemSet(_with_hashes(frame), (*problem_set.notes, note), problem_set.rows)


def problem_count(name: str | Path, size: int | None = None) -> int | None:
    """How many problems a name stands for, without reading or fetching them; None where only reading them tells.

    >>> problem_count("aime24"), problem_count("math500", size=100), problem_count("reasoning_gym:dice")
    (30, 100, 50)
    """
    kind = str(name).partition(":")[0]
    if kind in (GYM, countdown.NAME):
        return size or (DEFAULT_GENERATED_SIZE if kind == GYM else countdown.DEFAULT_SIZE)
    benchmark = PROBLEMS.get(str(name))
    if benchmark is None and _hub_id(name) is not None:
        return size
    if benchmark is None or benchmark.count is None:
        return None
    return benchmark.count if size is None else min(size, benchmark.count)


def placeholders(name: str, size: int | None = None) -> pl.DataFrame | None:
    """As many problems as a benchmark has, without their texts, to plan with; None for a file, which can be read."""
    count = problem_count(name, size)
    if count is None:
        return None
    rows = {"problem": [f"{number}" for number in range(count)], "question": [""] * count, "benchmark": [name] * count}
    return as_problems(pl.DataFrame(rows))


def _read_named(
    name: str | Path, source: str | Path | None, columns: Mapping[str, str] | None
) -> tuple[ProblemSet, Benchmark | None]:
    """The problems of a benchmark (from a copy or the hub) or of a file, and the benchmark."""
    benchmark = PROBLEMS.get(str(name))
    if benchmark is not None and source is not None:
        return _with_count_note(read_problems(Path(source), columns=columns, benchmark=benchmark), benchmark), benchmark
    if benchmark is not None:
        return from_hub(benchmark, columns=columns), benchmark
    path = Path(name)
    if source is not None and path.exists():
        raise OffleashError(
            f"--from names a local copy of a benchmark, but {name} is already a file. Leave out --from."
        )
    dataset = _hub_id(name) if source is None else None
    if dataset is not None:
        if path.parent.is_dir():  # the folder is there, so a file in it was meant
            raise OffleashError(f"There is no file {name} in {path.parent}. Check its name.")
        return dataset_from_hub(dataset, columns=columns), None
    if source is not None or (isinstance(name, str) and not _is_path(name)):
        raise _unknown_name_error(str(name))
    return read_problems(path, columns=columns), None


def _hub_id(name: str | Path) -> HubDataset | None:
    """The data set on the hub that a name stands for; None for a path, which exists or has the ending of a file."""
    if not isinstance(name, str) or Path(name).exists() or name.lower().endswith(FILES):
        return None
    return hub_dataset(name)


def _with_count_note(problem_set: ProblemSet, benchmark: Benchmark) -> ProblemSet:
    """The problems of a local copy, with a note where their number is not the benchmark's."""
    if benchmark.paper is None or benchmark.share is not None or problem_set.frame.height == benchmark.paper:
        return problem_set
    sizes = f"{benchmark.name} has {benchmark.paper} problems in the paper but {problem_set.frame.height} in this copy"
    return replace(problem_set, notes=(*problem_set.notes, Note(f"{sizes}: is it the right file?")))


def _is_path(name: str) -> bool:
    """Whether a name that is not a benchmark is meant as a file: it exists, or looks like a path."""
    return Path(name).exists() or "/" in name or "\\" in name or name.lower().endswith(FILES)


def _unknown_name_error(name: str) -> OffleashError:
    """The refusal of a name that is neither a benchmark nor a file."""
    error = unknown("benchmark or file", name, [*PROBLEMS, countdown.NAME, f"{GYM}:<task>"])
    return OffleashError(f"{error} Give a file by its path.")


def _generate(name: str, size: int | None, seed: int) -> pl.DataFrame:
    """Problems of Reasoning Gym (reasoning_gym:TASK[:LEVEL]) or Countdown (countdown[:PART])."""
    from offleash.data.reasoning_gym import TASKS
    from offleash.problems.reasoning_gym import generate

    if size is not None and size < 1:
        raise OffleashError(f"--size must be 1 or more; found --size {size}.")
    if seed < 0:
        raise OffleashError(f"--problem-seed must be 0 or more; found --problem-seed {seed}.")
    kind, _, task_and_level = name.partition(":")
    if kind == countdown.NAME:
        return countdown.generate(task_and_level or "test", size or countdown.DEFAULT_SIZE, seed)
    task, _, level = task_and_level.partition(":")
    if not task:
        raise OffleashError(f"{GYM} needs a task: {GYM}:leg_counting, for example. Known: {', '.join(sorted(TASKS))}.")
    if task not in TASKS:
        raise unknown("Reasoning Gym task", task, TASKS)
    if level and level not in LEVELS:
        raise unknown(f"level for {GYM}:{task}", level, LEVELS)
    return as_problems(generate(task, size or DEFAULT_GENERATED_SIZE, seed, level or "easy"))


def _default_size(benchmark: Benchmark, problem_set: ProblemSet) -> int | None:
    """The size of the paper's sample, where it took one and the set is larger."""
    return benchmark.share if benchmark.share is not None and problem_set.frame.height > benchmark.share else None


def _with_hashes(frame: pl.DataFrame) -> pl.DataFrame:
    """The problems with their hashes and prompts; a verifier that does not exist is refused here, not after drawing."""
    for name in frame["verifier"].drop_nulls().unique():
        verifier(name)
    hashes = [
        content_hash(question, images or ())
        for question, images in zip(frame["question"], frame["images"].to_list(), strict=True)
    ]
    return frame.with_columns(pl.Series("hash", hashes, pl.String), pl.coalesce("prompt", "question").alias("prompt"))


SUBSET_STREAM = 0x0FF1  # keeps this generator apart from other uses of the same seed


def random_subset(frame: pl.DataFrame, size: int, seed: int, name: str) -> pl.DataFrame:
    """`size` problems drawn at random without replacement, in the order of the set."""
    if size < 1:
        raise OffleashError(f"--size must be 1 or more; found --size {size}.")
    if seed < 0:
        raise OffleashError(f"--problem-seed must be 0 or more; found --problem-seed {seed}.")
    if size > frame.height:
        raise OffleashError(
            f"{name} has {frame.height} problems, fewer than --size {size}. Use --size {frame.height} or less."
        )
    selected = np.random.default_rng([seed, SUBSET_STREAM]).choice(frame.height, size=size, replace=False)
    return frame[np.sort(selected)]
