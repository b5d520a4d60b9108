"""How fast logs are read: megabytes per second of each format against a plain read, and a training of 300 files.

    python benchmarks/logs.py [--small]

The plain read is `json.loads` of every line, or `polars.read_parquet`: what a script does before it counts anything.
Each format's log is its fixture, repeated until it is large. CPU seconds of this process; of the training, those of
`offleash compare --split-by step` in a process of its own.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from benchmarks.comparing import compare
from offleash.logs.format import Options
from offleash.logs.registry import open_log

FIXTURES = Path(__file__).parents[1] / "tests" / "logs" / "fixtures"
LINES = {
    "lm_eval": "lm_eval/samples_tiny_one_2026-01-31T12-00-00.jsonl",
    "nemo_skills": "nemo_skills/output-rs0.jsonl",
    "verl": "verl/10.jsonl",
    "verifiers": "verifiers/results.jsonl",
    "prime_rl": "prime_rl/old_traces.jsonl",
    "qwen_math": "qwen_math/test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl",
    "generic": "generic/samples.jsonl",
}
TABLES = {"lighteval": "lighteval/details_one.parquet", "trl": "trl/completions_00001.parquet"}
FILES, ROWS = 300, 64  # of the training: steps, and samples per step
ALLOWED = 3.0  # CPU seconds for all steps of the training


def main() -> None:
    size = (1 if "--small" in sys.argv else 20) * 1_000_000
    files = 30 if "--small" in sys.argv else FILES
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, fixture in {**LINES, **TABLES}.items():
            source = FIXTURES / fixture
            if not source.exists():
                print(f"{name}: no fixture {fixture}")
                continue
            path = Path(scratch) / source.name
            plain = repeat_table(source, path, size) if name in TABLES else repeat_lines(source, path, size)
            megabytes = path.stat().st_size / 1e6
            ours = cpu(lambda path=path: [frame.height for frame in open_log(path, Options()).frames])  # type: ignore[misc]
            theirs = cpu(plain)
            print(f"{name}: {megabytes / ours:.0f} MB/s, plain read {megabytes / theirs:.0f} MB/s ({megabytes:.0f} MB)")
            ratios.append(f"ratio plain read over offleash, CPU seconds, {name}: {theirs / ours:.2f}")
        folder = Path(scratch) / "training"
        folder.mkdir()
        for step in range(files):
            write_step(folder / f"{step}.jsonl", step)
        steps = ("--split-by", "step", "--before", "0", "--json")
        few = compare(f"{folder}/[0-9].jsonl", *steps, "--after", "9").seconds
        every = compare(f"{folder}/*.jsonl", *steps, "--after", str(files - 1)).seconds
        loaded = cpu(lambda: load_training(folder))
        print(
            f"first against last step: 10 files {few:.2f} s, {files} files {every:.2f} s of CPU, reading {loaded:.2f} s"
        )
        ratios.append(f"ratio allowed over used CPU seconds, --split-by over {files} files: {ALLOWED / every:.2f}")
    print("\n".join(ratios))


def load_training(folder: Path) -> int:
    """The runs of the training, one per step."""
    from offleash.loading.load import LoadOptions, load

    return len(load(f"{folder}/*.jsonl", options=LoadOptions(Options(split_by="step", texts=False))))


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of the faster of two calls: the first imports what it needs."""
    spent = []
    for _ in range(2):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def repeat_lines(source: Path, path: Path, size: int) -> Callable[[], object]:
    lines = source.read_text(encoding="utf-8").rstrip("\n") + "\n"
    path.write_text(lines * (size // len(lines) + 1), encoding="utf-8")

    def plain() -> object:
        with path.open(encoding="utf-8") as file:
            return sum(len(json.loads(line)) for line in file)

    return plain


def repeat_table(source: Path, path: Path, size: int) -> Callable[[], object]:
    frame = pl.read_parquet(source)
    times = size // max(1, frame.estimated_size()) + 1
    pl.concat([frame] * int(times)).write_parquet(path, compression="uncompressed")
    return lambda: pl.read_parquet(path).rows()


def write_step(path: Path, step: int) -> None:
    """The rollouts of one step, as verl dumps them: 8 samples of each of 8 problems."""
    rows = [
        {
            "input": f"user\nWhat is {number % 8} times 7?\nassistant\n",
            "output": f"It is {number}. " * 20,
            "gts": str(number % 8 * 7),
            "score": float((number * 7 + step) % 3 == 0),
            "step": step,
        }
        for number in range(ROWS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
