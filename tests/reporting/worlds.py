"""Small comparisons for figures: counts written as CSV, and logs with answers."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.question import Question
from offleash.comparing.runs import compare_inputs
from offleash.reporting.figures import subject
from tests.comparing.world import drawn

FEW = 200  # replicates


def write_counts(
    path: Path, correct: Sequence[int], drawn: int | Sequence[int], benchmarks: Sequence[str] = ()
) -> Path:
    many = [drawn] * len(correct) if isinstance(drawn, int) else drawn
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["problem", "n", "c", "benchmark"] if benchmarks else ["problem", "n", "c"])
        for p, c in enumerate(correct):
            rows.writerow([f"p{p}", many[p], c, *([benchmarks[p]] if benchmarks else [])])
    return path


def compared(*arguments: str, **asked: object) -> FigureInput:
    """The subject of runs named as on the command line."""
    question = Question(replicates=FEW, **asked)  # type: ignore[arg-type]
    return subject(*compare_inputs(arguments, question=question))


def counted(
    folder: Path,
    before: Sequence[int],
    after: Sequence[int],
    n: int | Sequence[int] = 64,
    benchmarks: Sequence[str] = (),
    names: tuple[str, str] = ("base", "rl"),
) -> FigureInput:
    """A comparison of bare counts."""
    files = [write_counts(folder / f"{r}.csv", correct, n, benchmarks) for r, correct in enumerate((before, after))]
    return compared(*(f"{name}={file}" for name, file in zip(names, files, strict=True)))


def spread(problems: int, n: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Counts of a base and of a run that sharpened: some problems lost, some found."""
    rng = np.random.default_rng([seed, problems])
    rate_P = rng.beta(0.3, 1.0, problems)
    sharp_P = np.where(rng.random(problems) < 0.2, 0.0, np.sqrt(rate_P))
    return rng.binomial(n, rate_P).tolist(), rng.binomial(n, sharp_P).tolist()


def answered(folder: Path, problems: int = 12, samples: int = 16) -> FigureInput:
    """A comparison of logs that keep answers: 7 or 8 is right, wrong ones are right answers to other problems."""
    files = []
    for step in (0, 1):
        rng, path = np.random.default_rng([step, problems]), folder / f"m{step}.jsonl"
        hits = drawn(problems, samples, step)
        rows = [
            {
                "id": f"p{p}",
                "question": f"Question {p}?",
                "gold": str(7 + p % 2),
                "response": "...",
                "correct": hit,
                "prediction": str(7 + p % 2 if hit else 8 - p % 2 if rng.random() < 0.5 else rng.integers(100)),
            }
            for p in range(problems)
            for hit in hits[p]
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        files.append(path)
    return compared(*(f"{name}={file}" for name, file in zip(("base", "rl"), files, strict=True)))
