"""Time and memory of `offleash compare` on large run folders, and how they grow with the number of samples.

python benchmarks/comparing.py [--small]
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.run import Budget
from offleash.data.run_folder import create_run
from offleash.data.tables import VERDICT, question_hash

SIZES = {"500 x 16,384 x 2": (500, 16_384), "3,404 x 8,192 x 2": (3_404, 8_192)}
LIMITS = {"500 x 16,384 x 2": (10.0, 1.0), "3,404 x 8,192 x 2": (60.0, 2.0)}  # seconds, GB
SHARD = 1 << 20


def main() -> None:
    small = "--small" in sys.argv
    sizes = {"100 x 1,024 x 2": (100, 1_024)} if small else {"500 x 2,048 x 2": (500, 2_048), **SIZES}
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (problems, samples) in sizes.items():
            folder = Path(scratch) / name.replace(" ", "").replace(",", "")
            for number, run in enumerate(("base", "rl")):
                write_run(folder / run, run, problems, samples, number)
            seconds, gigabytes = compare(folder)
            loop = python_loop(folder, samples)
            verdicts = 2 * problems * samples
            print(f"{name}: {seconds:.1f} s, {gigabytes:.2f} GB, {verdicts / seconds / 1e6:.1f} million verdicts/s")
            ratios.append(f"ratio counting loop over offleash compare, {name}: {loop * verdicts / seconds:.1f}")
            if name in LIMITS:
                most_seconds, most_memory = LIMITS[name]
                ratios.append(f"ratio allowed over used seconds, {name}: {most_seconds / seconds:.1f}")
                ratios.append(f"ratio allowed over used memory, {name}: {most_memory / gigabytes:.1f}")
    print("\n".join(ratios))


def write_run(folder: Path, name: str, problems: int, samples: int, seed: int) -> None:
    """A run whose rates spread from 0 to 1 and whose answers repeat, as a model's do."""
    rng = np.random.default_rng([16_384, seed])
    rate_P = np.random.default_rng(7).beta(0.2, 1.0, problems)
    rate_P = np.where(rate_P > 0.01, np.minimum(2 * rate_P, 0.98), 0.2 * rate_P) if seed else rate_P
    ids = [f"problem-{number:05d}" for number in range(problems)]
    asked = pl.DataFrame({"problem": ids, "question": [f"What is {one}?" for one in ids]}).with_columns(
        hash=pl.Series([question_hash(f"What is {one}?") for one in ids]), gold=pl.lit("0")
    )
    each = max(1, SHARD // samples)
    with create_run(folder, name, asked, {"model": name}, Budget(samples)) as run:
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


def compare(folder: Path) -> tuple[float, float]:
    """Seconds and peak memory of the command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    started = time.perf_counter()
    command = [sys.executable, "-c", "from offleash.cli.main import main; main()", "compare"]
    done = subprocess.run(
        [*command, str(folder / "base"), str(folder / "rl"), "--json"], capture_output=True, check=True
    )
    seconds = time.perf_counter() - started
    assert json.loads(done.stdout)["support"]["P"] > 0
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak > before, "children are measured from the smallest to the largest"
    return seconds, peak / 1e6


def python_loop(folder: Path, samples: int) -> float:
    """Seconds a verdict of the loop that evaluation scripts run: one row at a time into a dict, counts alone."""
    shard = sorted((folder / "base" / "verdicts" / "simulated@1").glob("*.parquet"))[0]
    rows = pl.read_parquet(shard, columns=["problem", "verdict"]).head(20 * samples)
    started = time.perf_counter()
    counts: dict[str, list[int]] = {}
    for row in rows.iter_rows(named=True):
        count = counts.setdefault(row["problem"], [0, 0])
        count[0] += 1
        count[1] += row["verdict"] == "correct"
    return (time.perf_counter() - started) / rows.height


if __name__ == "__main__":
    main()
