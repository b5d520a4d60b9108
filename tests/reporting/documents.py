"""JSON documents of `compare` from many kinds of runs: what the schema must allow, and all that it may require."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import offleash as ol
from tests.places import EXAMPLES
from tests.reporting.worlds import write_counts

FEW: dict[str, Any] = {"replicates": 100}
COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")


def log(path: Path, problems: int, samples: int, seed: int, **columns: object) -> Path:
    """A log with answers, some of them unread, some scores between 0 and 1 and some undecided verdicts."""
    rng, rows = np.random.default_rng(seed), []
    for p in range(problems):
        for i in range(samples):
            unread = bool(rng.random() < 0.1)
            hit = bool(rng.random() < p / problems) and not unread
            answer = str(p) if hit else str(rng.integers(50, 99))
            row = {"id": f"p{p}", "question": f"What is {p}?", "gold": str(p), "response": f"It is {answer}. {i}"}
            rows.append(row | {"correct": hit, "extracted_answer": None if unread else answer} | columns)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def results(folder: Path) -> Iterator[tuple[str, "ol.ComparisonResult"]]:
    """Comparisons of every kind, each with a name."""
    yield "counts", ol.compare(*COUNTS, **FEW)
    yield "fewer samples", ol.compare(*COUNTS, at=64, **FEW)
    for rule in ("above", "confident", "posterior"):
        yield f"rule {rule}", ol.compare(*COUNTS, rule=rule, tau=0.1 if rule == "above" else 0.0, **FEW)
    yield "guess", ol.compare(*COUNTS, guess=0.25, **FEW)
    tiny = [write_counts(folder / f"tiny{r}.csv", [r, 0], 1) for r in range(2)]
    yield "one sample", ol.compare(*tiny, **FEW)
    none = [write_counts(folder / f"none{r}.csv", [0, 0, 0], 8) for r in range(2)]
    yield "nothing reached", ol.compare(*none, **FEW)
    steps = [write_counts(folder / f"step{r}.csv", [r * 3, 9, 1, 0] * 4, 16) for r in range(4)]
    yield "checkpoints", ol.compare(*steps, **FEW)
    yield "methods", ol.compare(*steps, runs_are="methods", **FEW)
    logs = [log(folder / f"{name}.jsonl", 12, 16, seed) for seed, name in enumerate(("base", "rl"))]
    yield "logs", ol.compare(*logs, **FEW)
    yield "per answer", ol.compare(*logs, per="answer", **FEW)
    yield "flips", ol.compare(*logs, flips=True, **FEW)
    yield "unread dropped", ol.compare(*logs, unread="drop", **FEW)
    yield "judged", ol.compare(*logs, verifier="number", judging=ol.Judging(jobs=1, cache=False), **FEW)
    yield "listed", ol.compare(*COUNTS, list="lost", **FEW)
    yield "conditions", ol.compare(*COUNTS, fail_if=["SRR<0.95", "losses>0", "pass@8>0.9"], **FEW)
    yield "undefined conditions", ol.compare(*none, fail_if=["SRR<0.95"], **FEW)
    greedy = [
        log(folder / f"greedy{r}.jsonl", 12, 1, r, temperature=0.0, doc={"arguments": {"do_sample": False}})
        for r in range(2)
    ]
    yield "one answer each", ol.compare(*greedy, **FEW)
    problems, model = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
    for name, seed in (("drawn", 0), ("again", 1)):
        ol.draw(problems, model, k=16, until=2, out=folder / name, seed=seed, judging=ol.Judging(jobs=1, cache=False))
    yield "stopped", ol.compare(folder / "drawn", folder / "again", **FEW)
    yield "stopped, fewer", ol.compare(folder / "drawn", folder / "again", at=8, **FEW)
    for name, seed in (("whole", 0), ("whole2", 1)):
        ol.draw(problems, model, k=16, out=folder / name, seed=seed, judging=ol.Judging(jobs=1, cache=False))
    yield "run folders", ol.compare(folder / "whole", folder / "whole2", **FEW)
    scored = [log(folder / f"scored{r}.jsonl", 6, 8, r, score=0.5) for r in range(2)]
    yield "scores", ol.compare(*scored, **FEW)


def documents(folder: Path) -> Iterator[tuple[str, Any]]:
    """The same as JSON has them."""
    for name, result in results(folder):
        yield name, json.loads(json.dumps(result.to_dict(), allow_nan=False))
