"""CPU time and memory of `offleash compare` on large run folders, and how they grow with the number of samples.

    python benchmarks/comparing.py [--small]

CPU time is user plus system time of the child process, all threads: unlike wall time it hardly depends on what else the
machine does. Beside it stands the loop that evaluation scripts run, one row at a time into a dict, counts alone.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from offleash.data.run import Budget
from offleash.data.run_folder import create_run
from offleash.data.tables import VERDICT, question_hash

# problems, samples per problem, and the limits that the project set itself: CPU seconds and GB of peak memory
SIZES = {
    "500 x 2,048 x 2": (500, 2_048, 3.0, 1.0),
    "500 x 16,384 x 2": (500, 16_384, 6.0, 1.0),
    "3,404 x 8,192 x 2": (3_404, 8_192, 30.0, 1.0),
}
SMALL = {"50 x 512 x 2": (50, 512, 3.0, 1.0), "100 x 1,024 x 2": (100, 1_024, 3.0, 1.0)}
COUNTS = ("examples/counts/base.csv", "examples/counts/rl.csv")
COUNTS_SECONDS = 1.0
SHARD = 1 << 20


class Cost(NamedTuple):
    seconds: float  # CPU, user and system
    gigabytes: float  # peak memory


def main() -> None:
    sizes = SMALL if "--small" in sys.argv else SIZES
    # the fastest of three: other processes on the machine make CPU time, too, longer by a third. And first of all,
    # since the peak memory of children is that of the largest so far
    compare(*COUNTS, "--json")  # compiles what has no bytecode yet, which an installed package has
    counts = min(compare(*COUNTS) for _ in range(3))
    print(f"two CSV files of counts, in the terminal: {counts.seconds:.2f} s of CPU, {counts.gigabytes:.2f} GB")
    ratios = [f"ratio allowed over used CPU seconds, counts: {COUNTS_SECONDS / counts.seconds:.2f}"]
    spent: dict[str, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (problems, samples, most_seconds, most_memory) in sizes.items():
            folder = Path(scratch) / name.replace(" ", "").replace(",", "")
            for number, run in enumerate(("base", "rl")):
                write_run(folder / run, run, problems, samples, number)
            verdicts = 2 * problems * samples
            shown = compare(str(folder / "base"), str(folder / "rl"))
            cost = compare(str(folder / "base"), str(folder / "rl"), "--json")
            loop = python_loop(folder, samples) * verdicts
            print(f"{name}, in the terminal: {shown.seconds:.2f} s of CPU")
            print(
                f"{name}, --json: {cost.seconds:.2f} s of CPU, {cost.gigabytes:.2f} GB, "
                f"{verdicts / cost.seconds / 1e6:.1f} million verdicts per second; plain counting loop {loop:.2f} s"
            )
            spent[name] = verdicts, cost.seconds
            ratios += [
                f"ratio counting loop over offleash compare, {name}: {loop / cost.seconds:.2f}",
                f"ratio allowed over used CPU seconds, {name}, terminal: {most_seconds / shown.seconds:.2f}",
                f"ratio allowed over used CPU seconds, {name}, --json: {most_seconds / cost.seconds:.2f}",
                f"ratio allowed over used memory, {name}: {most_memory / cost.gigabytes:.2f}",
            ]
    for (name, (few, before)), (other, (many, after)) in pairwise(spent.items()):
        print(f"growth from {name} to {other}: {many / few:.1f} times the verdicts, {after / before:.1f} times the CPU")
    print("\n".join(ratios))


def write_run(folder: Path, name: str, problems: int, samples: int, seed: int) -> None:
    """A run whose rates spread from 0 to 1 and whose answers repeat, as a model's do."""
    rng = np.random.default_rng([16_384, seed])
    rate_P = np.random.default_rng(7).beta(0.2, 1.0, problems)
    rate_P = np.where(rate_P > 0.01, np.minimum(2 * rate_P, 0.98), 0.2 * rate_P) if seed else rate_P
    ids = [f"problem-{number:05d}" for number in range(problems)]
    table = pl.DataFrame({"problem": ids, "question": [f"What is {name}?" for name in ids]}).with_columns(
        hash=pl.Series([question_hash(f"What is {name}?") for name in ids]), gold=pl.lit("0")
    )
    each = max(1, SHARD // samples)
    with create_run(folder, name, table, {"model": name}, Budget(samples)) as run:
        for start in range(0, problems, each):
            some = slice(start, min(start + each, problems))
            correct = rng.random((len(ids[some]), samples)) < rate_P[some, None]
            wrong = 1 + np.minimum(rng.geometric(0.05, correct.shape), 400)
            answer = np.where(correct, 0, wrong).ravel()
            frame = pl.DataFrame(
                {
                    "problem": np.repeat(np.array(ids[some]), samples),
                    "index": np.tile(np.arange(samples, dtype=np.uint32), len(ids[some])),
                    "verdict": pl.Series(np.where(correct.ravel(), "correct", "wrong")).cast(VERDICT),
                    "answer": pl.Series(answer).cast(pl.String),
                }
            )
            run.write_verdicts("simulated@1", frame)


def compare(*words: str) -> Cost:
    """CPU seconds and peak memory of the command in a process of its own."""
    command = [sys.executable, "-c", "from offleash.cli.main import main; main()", "compare", *words]
    # bytecode is kept, as where the package is installed: compiling ours takes a fifth of a second
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "--json" in words:
        assert json.loads(done.stdout)["support"]["P"] > 0
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(seconds, after.ru_maxrss / 1e6)


def python_loop(folder: Path, samples: int) -> float:
    """CPU seconds per verdict of the loop that evaluation scripts run: one row at a time into a dict, counts alone."""
    shard = sorted((folder / "base" / "verdicts" / "simulated@1").glob("*.parquet"))[0]
    rows = pl.read_parquet(shard, columns=["problem", "verdict"]).head(20 * samples)
    started = time.process_time()
    counts: dict[str, list[int]] = {}
    for row in rows.iter_rows(named=True):
        count = counts.setdefault(row["problem"], [0, 0])
        count[0] += 1
        count[1] += row["verdict"] == "correct"
    return (time.process_time() - started) / rows.height


if __name__ == "__main__":
    main()
