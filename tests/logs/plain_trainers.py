"""Counts of trainers' rollout files by scripts that import nothing of the package: {problem: (samples, correct)}.

Each is a few lines, as an engineer would write them who knows the format: what names a problem, what is correct.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

Counts = dict[Hashable, tuple[int, int]]


def tally(samples: Iterable[tuple[Hashable, bool]]) -> Counts:
    counts: dict[Hashable, list[int]] = defaultdict(lambda: [0, 0])
    for problem, correct in samples:
        counts[problem][0] += 1
        counts[problem][1] += correct
    return {problem: (drawn, correct) for problem, (drawn, correct) in counts.items()}


def rows_of(*paths: Path) -> Iterator[Any]:
    for path in paths:
        if path.suffix == ".parquet":
            yield from pl.read_parquet(path).to_dicts()
        else:
            yield from map(json.loads, path.read_text().splitlines())


def trl(*paths: Path) -> Counts:
    """The files in their order; one that holds the rows of the file before, but for the step, is left out."""
    kept, before = [], None
    for path in paths:
        rows = [{key: value for key, value in row.items() if key != "step"} for row in rows_of(path)]
        kept += [] if rows == before else rows
        before = rows
    return tally(((row["prompt"], row["answer"]), row["logged_accuracy"] == 1) for row in kept)


def verl(path: Path) -> Counts:
    return tally(((row["input"], json.dumps(row["gts"])), row["score"] >= 1) for row in rows_of(path))


def prime_rl(path: Path) -> Counts:
    return tally(
        (row["task"]["key"], row["traces"][0]["rewards"]["correct"]["score"] == 1)
        for row in rows_of(path)
        if not row["errors"]
    )


def nemo_rl_training(path: Path) -> Counts:
    return tally((row["content"][0][1], row["rewards"][0] == 1) for row in rows_of(path))


def nemo_rl_validation(path: Path) -> Counts:
    return tally((row["content"][0][1]["content"], row["rewards"][0] == 1) for row in rows_of(path))


def skyrl(path: Path) -> Counts:
    samples = []
    for row in rows_of(path):
        total = sum(row["score"]) if isinstance(row["score"], list) else row["score"]
        samples.append(((row["input_prompt"], row["env_extras"]["reward_spec"]["ground_truth"]), total >= 1))
    return tally(samples)


def open_instruct(path: Path) -> Counts:
    return tally(((str(row["prompt_tokens"]), str(row["ground_truth"])), row["reward"] >= 1) for row in rows_of(path))


def swift(path: Path) -> Counts:
    """Every group once: in the fixture no group is drawn twice."""
    seen: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for line in rows_of(path):
        for prompt, gold, text, reward in zip(
            line["prompt"], line["solution"], line["completion"], line["MathAccuracy"], strict=True
        ):
            seen.setdefault((line["step"][0], prompt, gold), []).append((text, reward))
    first: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for (_, prompt, gold), group in seen.items():
        first.setdefault((prompt, gold), group)  # a group that is logged again is the same group
    return tally((problem, reward == 1) for problem, group in first.items() for _, reward in group)


def tinker(path: Path) -> Counts:
    return tally((row["group_idx"], row["steps"][-1]["metrics"]["correct"] == 1) for row in rows_of(path))


def areal(*paths: Path) -> Counts:
    return tally((row["prompt"], row["reward"] == 1) for row in rows_of(*paths))


def art(path: Path) -> Counts:
    samples = []
    for row in rows_of(path):
        gold, correct = json.loads(row["metadata"])["answer"], json.loads(row["metrics"])["correct"]
        samples.append(((row["messages"][1]["content"], gold), correct == 1))
    return tally(samples)
