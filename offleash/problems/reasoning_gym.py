"""Problems of Reasoning Gym (Stojanovski et al., arXiv:2505.24760): 105 tasks, two levels, sets that never overlap.

A problem carries all that the task's scorer needs (`details`: task, config, entry): verifying generates nothing.
"""

import io
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import polars as pl

from offleash.data.gym_tasks import TASKS
from offleash.data.problem import as_problems, question_hash
from offleash.data.reasoning_gym import encoded
from offleash.errors import OffleashError, unknown
from offleash.problems.gym_levels import HARD, LEVELS

if TYPE_CHECKING:
    from types import ModuleType

Row = dict[str, str | None]

# Item i of the library is drawn with seed + i: neighbouring seeds share nearly all items, so ours lie this far apart.
STRIDE = 1_000_000
SPARE = 50  # items looked at per problem wanted, before a task is said to have no more different ones

# many answers are right and the library names none: their gold is null
NO_GOLD = frozenset({"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})

# today's date, put into the metadata of a question about hours: no scorer reads it, and a set must not change overnight
DATED: dict[str, tuple[str, ...]] = {"time_intervals": ("start_time", "end_time")}


# what the library draws for these follows the order of a set, which changes from one process to the next
HASHED = frozenset(
    {
        "codeio",
        "intermediate_integration",
        "isomorphic_strings",
        "knight_swap",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)


def generate(task: str, size: int, seed: int, level: str = "easy") -> pl.DataFrame:
    """`size` different problems of a task; the same at every call, and a longer set begins with the shorter one."""
    if task not in TASKS:
        raise unknown("Reasoning Gym task", task, TASKS)
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    _check_bounds(task, size, seed)
    _library()
    apart = task in HASHED and os.environ.get("PYTHONHASHSEED") != "0"
    rows = _rows_from_a_process(task, size, seed, level) if apart else _rows(task, size, seed, level)
    if len(rows) < size:
        raise OffleashError(
            f"{task} at level {level!r} gave {len(rows)} different questions in {size * SPARE} draws, and {size} were "
            f"asked for. Ask for --size {len(rows)} or fewer."
        )
    return as_problems(pl.DataFrame(rows, infer_schema_length=None))


def library_seed(seed: int, index: int) -> int:
    """The seed with which the library draws item `index` of our set `seed`: no two sets share one."""
    return seed * STRIDE + index


def _check_bounds(task: str, size: int, seed: int) -> None:
    if not 0 < size * SPARE <= STRIDE:
        raise OffleashError(f"A Reasoning Gym set has 1 to {STRIDE // SPARE} problems; {size} were asked for.")
    if seed < 0:  # the library's generator drops the sign: -1 would draw what 1 draws
        raise OffleashError(f"A Reasoning Gym seed is 0 or more; {seed} was given.")
    if task == "pool_matrix" and library_seed(seed, size * SPARE) >= 2**32:
        most = (2**32 - size * SPARE) // STRIDE
        raise OffleashError(f"pool_matrix takes seeds up to {most} at this size; {seed} was given.")


def _library() -> "ModuleType":
    try:
        import reasoning_gym
    except ModuleNotFoundError as missing:
        raise OffleashError(
            f"Reasoning Gym problems need the module {missing.name!r}, which is not installed: "
            "pip install 'offleash[gym]'."
        ) from missing
    module: ModuleType = reasoning_gym
    return module


def _rows_from_a_process(task: str, size: int, seed: int, level: str) -> list[Row]:
    """The rows as a process draws them in which sets have one order: hashes of text are fixed when Python starts."""
    settled = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    command = [sys.executable, "-P", "-W", "ignore", "-m", __spec__.name, task, str(size), str(seed), level]
    done = subprocess.run(command, env=settled, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise OffleashError(f"Drawing {size} problems of {task} failed: {last}")
    rows: list[Row] = json.loads(done.stdout)
    return rows


def _rows(task: str, size: int, seed: int, level: str) -> list[Row]:
    """The first `size` items whose question is new; a task with few questions repeats them, a set counts each once."""
    dataset_class, config_class = _library().factory.DATASETS[task]
    settings = HARD.get(task, {}) if level == "hard" else {}
    config = config_class(seed=library_seed(seed, 0), size=size * SPARE, **settings)
    with _steady(task, library_seed(seed, 0)):
        dataset = dataset_class(config)
    rows: dict[str, Row] = {}
    for index in range(size * SPARE):
        with _steady(task, library_seed(seed, index)):
            try:
                entry: dict[str, Any] = dataset[index]
            except ValueError:  # "failed to generate after 100 tries": the library has no item for this seed
                continue
        if not entry["metadata"].get("input_data", True) and not entry["metadata"]["output_data"]:
            continue  # codeio, when its program crashed: neither input nor output
        row = _row(task, level, seed, index, entry, _scored_with(config))
        rows.setdefault(str(row["hash"]), row)
        if len(rows) == size:
            break
    return list(rows.values())


@contextmanager
def _steady(task: str, seed: int) -> Iterator[None]:
    """The global generators, seeded for one item and put back; what a task prints or warns of is not shown.

    codeio runs programs and list_functions draws numbers that use the global generators, whatever the item's seed.
    """
    import numpy as np

    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002 - the library uses the global one
    words = blake2b(f"{task}-{seed}".encode(), digest_size=8).digest()
    random.seed(int.from_bytes(words))
    np.random.seed(int.from_bytes(words[:4]))  # noqa: NPY002
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files left open and the like are the library's affair
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002


def _scored_with(config: Any) -> dict[str, object]:
    """The settings in force that JSON can carry; the rest (how an ARC board is written) keep the library's defaults."""
    values: dict[str, object] = {}
    for field in fields(config):
        if field.name not in ("seed", "size"):
            try:
                values[field.name] = encoded(getattr(config, field.name))
            except OffleashError:
                continue
    return values


def _row(task: str, level: str, seed: int, index: int, entry: Mapping[str, Any], config: Mapping[str, object]) -> Row:
    metadata = {key: value for key, value in entry["metadata"].items() if key not in DATED.get(task, ())}
    kept = {"question": entry["question"], "answer": entry["answer"], "metadata": metadata}
    details = {"task": task, "config": config, "entry": encoded(kept)}
    return {
        "problem": f"{task}-{level}-{seed}-{index}",
        "hash": question_hash(entry["question"]),
        "question": entry["question"],
        "gold": _gold(entry["answer"]),
        "benchmark": f"reasoning_gym:{task}",
        "verifier": "reasoning_gym",
        "details": json.dumps(details, sort_keys=True),
    }


def _gold(answer: str | None) -> str | None:
    """The library's answer; an integral that it left standing (one intermediate_integration in seven) is worked out."""
    if answer is None or "Integral(" not in answer:
        return answer
    import sympy

    return str(sympy.parse_expr(answer).doit())


if __name__ == "__main__":
    json.dump(_rows(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]), sys.stdout)
