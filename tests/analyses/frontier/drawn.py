"""Scripted models of known rates for tests that draw: a base, a model after RL that unlearned some, a checkpoint."""

import sys
from os import getpid, kill
from pathlib import Path
from signal import SIGKILL

import numpy as np

from tests.drawing.drawn_world import problems_file, script

COUNT, K = 24, 16
MODELS = ("base", "rl", "step")


def write_world(folder: Path, count: int = COUNT) -> None:
    """RL is better on most problems and lost every sixth; the checkpoint has lost them half-way."""
    problems_file(folder / "problems.jsonl", count)
    lost_P = np.arange(count) % 6 == 0
    for name, gained, kept in (("base", 0.15, 0.15), ("rl", 0.6, 0.001), ("step", 0.3, 0.06)):
        script(folder / f"{name}.json", np.where(lost_P, kept, gained).tolist())


def run_until(moment: str) -> None:
    """The frontier of the folder it is started in, killed at the progress line of a number, or that holds a text."""
    import offleash as ol

    lines = 0

    def progress(line: str) -> None:
        nonlocal lines
        lines += 1
        if str(lines) == moment or moment in line:
            kill(getpid(), SIGKILL)

    ol.frontier(
        "problems.jsonl",
        *(f"scripted:{name}.json" for name in MODELS),
        k=K,
        out="runs",
        judging=ol.Judging(jobs=1, cache=False),
        progress=progress,
    )
    print(lines)


if __name__ == "__main__":
    run_until(sys.argv[1])
