"""The worlds of the lab by name, and their problems and expert traces as files that every command reads."""

import json
from pathlib import Path

import numpy as np

from offleash.errors import OffleashError, unknown
from offleash.lab.chain_sum import CHAIN_SUM
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.world import LabWorld
from offleash.loading.problem_set import load_problems
from offleash.problems.problem import line
from offleash.progress import Progress, silent
from offleash.training.traces import write_traces

WORLDS: dict[str, LabWorld] = {"countdown": COUNTDOWN, "chain_sum": CHAIN_SUM}


def world(name: str) -> LabWorld:
    """A world by its name."""
    if name not in WORLDS:
        raise unknown("world", name, WORLDS)
    return WORLDS[name]


def problem_lines(world: LabWorld, part: str, size: int, seed: int) -> str:
    """Problems of a world as JSON lines."""
    rows = world.problems(part, size, seed).iter_rows(named=True)
    return "".join(json.dumps(line(row), ensure_ascii=False) + "\n" for row in rows)


def write_problems(world: LabWorld, part: str, size: int, seed: int, path: Path) -> int:
    """Write problems of a world as JSONL; returns their number."""
    text = problem_lines(world, part, size, seed)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OffleashError(f"{path} cannot be written ({error.strerror}).") from None
    return text.count("\n")


def write_expert_traces(
    world: LabWorld, problems: Path, max_traces: int, seed: int, path: Path, progress: Progress = silent
) -> int:
    """Write correct traces of a file's problems, at most `max_traces` per problem, at random; returns their number."""
    frame, rng = load_problems(problems).frame, np.random.default_rng(seed)
    traces: dict[str, list[str]] = {}
    for number in range(frame.height):
        row = frame[number : number + 1]
        solutions = world.traces(row)[0]
        chosen_indices = sorted(rng.choice(len(solutions), min(max_traces, len(solutions)), replace=False).tolist())
        traces[row["problem"][0]] = [solutions[index] for index in chosen_indices]
        progress(f"solving problem {number + 1:,} of {frame.height:,}")
    return write_traces(path, traces)
