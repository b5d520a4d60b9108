"""Small logs and runs whose counts are known."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def write_log(path: Path, correct: Sequence[Sequence[bool]], **columns: object) -> Path:
    """A generic JSONL log: `correct[p][i]` is the verdict of sample i of problem p."""
    rows = [
        {
            "id": f"p{p}",
            "question": f"Question {p}?",
            "response": f"text {p} {i}",
            "correct": bool(hit),
            "extracted_answer": int(hit),
        }
        | columns
        for p, hits in enumerate(correct)
        for i, hit in enumerate(hits)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def drawn(problems: int, samples: int, seed: int = 0) -> list[list[bool]]:
    """Verdicts of problems whose rates spread from 0 to 1."""
    rng = np.random.default_rng(seed)
    rate_P = np.linspace(0, 1, problems)
    table: list[list[bool]] = (rng.random((problems, samples)) < rate_P[:, None]).tolist()
    return table
