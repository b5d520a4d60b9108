"""Counts of the logs of evaluation tools, each by a script that imports nothing of the package.

A script goes from a file, or the folder of a run, to {problem: (samples, correct)}; see plain_counts.py.
"""

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

Counts = dict[Hashable, tuple[int, int]]


def counted(marks: Iterable[tuple[Hashable, bool]]) -> Counts:
    """Samples and correct ones by problem."""
    counts: Counts = {}
    for problem, correct in marks:
        drawn, right = counts.get(problem, (0, 0))
        counts[problem] = drawn + 1, right + bool(correct)
    return counts


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def bigcodebench(path: Path) -> Counts:
    tasks = json.loads(path.read_text())["eval"]
    return counted((task, sample["status"] == "pass") for task, samples in tasks.items() for sample in samples)


def evalplus_lists(path: Path) -> Counts:
    """Before 0.2.1: two lists per task; plus tests count on top of base tests."""
    tasks = json.loads(path.read_text())["eval"]
    return counted(
        (task, base[0] == plus[0] == "success")
        for task, results in tasks.items()
        for base, plus in zip(results["base"], results["plus"], strict=True)
    )


def verifiers_id(path: Path) -> Counts:
    """`id` is not that of a problem: prompt, answer and info are."""
    return counted(
        ((json.dumps(row["prompt"]), row["answer"], json.dumps(row["info"])), row["reward"] >= 1) for row in rows(path)
    )


def nemo_gym(path: Path) -> Counts:
    return counted((row["_ng_task_index"], row["reward"] >= 1) for row in rows(path))


def helm(folder: Path) -> Counts:
    """Exact matches of the instances as they are, without their perturbed copies."""
    return counted(
        (entry["instance_id"], stat["mean"] >= 1)
        for entry in json.loads((folder / "per_instance_stats.json").read_text())
        for stat in entry["stats"]
        if stat["name"]["name"] == "exact_match" and "perturbation" not in entry
    )


def opencompass(folder: Path) -> Counts:
    details = json.loads((folder / "results/tiny/pick.json").read_text())["details"]
    return counted((detail["example_abbr"], correct) for detail in details for correct in detail["correct"])


def opencompass_numbered(path: Path) -> Counts:
    details = json.loads(path.read_text())["details"]
    return counted((key, detail["correct"]) for key, detail in details.items() if key != "type")


def lighteval_two_kinds(path: Path) -> Counts:
    """Only rows of one sample have a verdict."""
    return counted(
        ((row["example"], row["gold"][0]), row["metrics"]["extractive_match"] >= 1)
        for row in pl.read_parquet(path).to_dicts()
        if len(row["predictions"]) == 1
    )


def inspect_json(path: Path) -> Counts:
    """Ids are those of problems, epochs those of samples; a sample without a score ended in an error."""
    samples = json.loads(path.read_text())["samples"]
    return counted((one["id"], one["scores"]["includes"]["value"] == "C") for one in samples if one.get("scores"))
