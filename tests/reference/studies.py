"""Random studies by seed: counts of two runs, written as a user would have them, and nothing of the package.

A study has 1 to 60 problems with 1 to 300 samples of each run. Budgets are equal, differ between the runs, or differ
between problems too; rates are 0, 1, rare, or anything; a third of the studies are logs with the order of the samples.
"""

import csv
import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

BUDGETS = ("equal", "by run", "ragged", "ragged in one run")
FORMS = ("csv", "json", "log")
FLOORS = (0.0, 0.25, 0.001, 0.5)


@dataclass(frozen=True)
class Record:
    """The samples of one problem in one run: which of them, in order, are correct.

    With `until`, the run stopped the problem at that success, or at the budget; what was drawn after it does not count.
    """

    outcomes: tuple[bool, ...]
    until: int = 0
    budget: int = 0

    @property
    def n(self) -> int:
        return len(self.outcomes)

    @property
    def c(self) -> int:
        return sum(self.outcomes)

    def first(self, k: int) -> "Record":
        """The first k samples."""
        return Record(self.outcomes[:k])


@dataclass(frozen=True)
class Problem:
    """A problem with its samples in the run before and in the run after."""

    name: str
    benchmark: str
    floor: float | None
    before: Record
    after: Record

    def first(self, k: int) -> "Problem":
        """The same problem with the first k samples of each run."""
        return Problem(self.name, self.benchmark, self.floor, self.before.first(k), self.after.first(k))


@dataclass(frozen=True)
class Study:
    """Two runs on the same problems."""

    seed: int
    budgets: str
    form: str
    problems: tuple[Problem, ...]

    @cached_property
    def k(self) -> int:
        """The fewest samples that any problem has in either run: the budget of the table."""
        return min(min(problem.before.n, problem.after.n) for problem in self.problems)

    @property
    def thinned(self) -> bool:
        """Some problem has more samples than the table is at."""
        return any(problem.before.n > self.k or problem.after.n > self.k for problem in self.problems)

    @cached_property
    def benchmarks(self) -> dict[str, list[Problem]]:
        """Problems by benchmark."""
        parts: dict[str, list[Problem]] = {}
        for problem in self.problems:
            parts.setdefault(problem.benchmark, []).append(problem)
        return parts

    def write(self, folder: Path) -> tuple[str, str]:
        """Both runs as files; returns NAME=PATH of each."""
        return self._write(folder, "before"), self._write(folder, "after")

    def _write(self, folder: Path, run: str) -> str:
        rows = []
        for problem in self.problems:
            record: Record = getattr(problem, run)
            row: dict[str, object] = {"problem_id": problem.name, "benchmark": problem.benchmark}
            if problem.floor is not None:
                row["guess"] = problem.floor
            if self.form == "log":
                row["correct"] = list(record.outcomes)
            else:
                row |= {"n": record.n, "c": record.c}
            rows.append(row)
        path = folder / f"{run}.{'jsonl' if self.form == 'log' else self.form}"
        if self.form == "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        elif self.form == "json":
            path.write_text(json.dumps(rows))
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return f"{run}={path}"


@cache
def study(seed: int) -> Study:
    """The random study of this seed."""
    rng = np.random.default_rng([20, seed])
    size = int(rng.choice([rng.integers(1, 8), rng.integers(8, 31), rng.integers(31, 61)], p=[0.2, 0.4, 0.4]))
    budgets, form = BUDGETS[seed % 4], FORMS[(seed // 4) % 3]
    n_PR = _budgets(rng, budgets, size)
    before_P = _rates(rng, size)
    after_P = _changed(rng, before_P)
    parts = int(rng.integers(1, 5))
    floors = rng.random() < 0.4
    problems = []
    for index in range(size):
        records = [
            Record(tuple(bool(hit) for hit in rng.random(n) < rate))
            for n, rate in zip(n_PR[index], (before_P[index], after_P[index]), strict=True)
        ]
        floor = float(rng.choice(FLOORS)) if floors else None
        problems.append(Problem(f"q{index:03}", f"part{rng.integers(parts)}", floor, *records))
    return Study(seed, budgets, form, tuple(problems))


def _budgets(rng: np.random.Generator, budgets: str, size: int) -> np.ndarray:
    """Samples per problem and run; small budgets as often as large ones."""

    def budget() -> int:
        return int(np.exp(rng.uniform(0, np.log(300.99))))

    def ragged() -> np.ndarray:
        low, high = sorted((budget(), budget()))
        return rng.integers(low, high + 1, size)

    if budgets == "equal":
        return np.full((size, 2), budget())
    if budgets == "by run":
        return np.tile([budget(), budget()], (size, 1))
    if budgets == "ragged":
        return np.stack([ragged(), ragged()], axis=1)
    return np.stack([np.full(size, budget()), ragged()], axis=1)


def _rates(rng: np.random.Generator, size: int) -> np.ndarray:
    """Rates of the run before: never, always, rarely, and anything."""
    kinds = [np.zeros(size), np.ones(size), rng.beta(0.3, 8, size), rng.beta(0.5, 0.5, size)]
    return np.choose(rng.choice(4, size, p=[0.2, 0.1, 0.4, 0.3]), kinds)


def _changed(rng: np.random.Generator, rate_P: np.ndarray) -> np.ndarray:
    """Rates of the run after: the same model, sharpened, some problems lost and some gained, or all at random."""
    size = len(rate_P)
    lost_P, gained_P = rng.random((2, size)) < 0.25
    kinds = [
        rate_P,
        1 - (1 - rate_P) ** 4,
        np.where(lost_P, 0.0, np.where(gained_P, np.maximum(rate_P, rng.beta(2, 4, size)), rate_P)),
        _rates(rng, size),
    ]
    return np.asarray(kinds[int(rng.integers(4))])
