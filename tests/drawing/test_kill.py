"""A draw that is killed at any moment: nothing is lost beyond the shard in flight, nothing is there twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from offleash.drawing.fsck import fsck
from offleash.verifying.verify import verify
from tests.drawing.drawn_world import QUIET, RATES, drawn, problems_file, samples, script

COMMAND = [sys.executable, "-c", "from offleash.cli.main import main; main()"]


def command(folder: Path, run: Path, *more: str) -> list[str]:
    words = ["draw", str(folder / "problems.jsonl"), f"scripted:{folder / 'base.json'}", "-o", str(run), "--jobs", "1"]
    return [*COMMAND, *words, "--no-cache", "--set", "width=2", "--set", "appetite=300", *more]


def start(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def killed(words: list[str], seconds: float, begun: bool, how: int = signal.SIGKILL) -> bool:
    """Start a draw and end it after a while, counted from its first word where it has `begun`; whether it was ended."""
    process = start(words)
    assert process.stderr is not None
    if begun:
        process.stderr.readline()
    time.sleep(seconds)
    alive = process.poll() is None
    process.send_signal(how)
    process.wait()
    process.stderr.close()
    return alive


def kept(run: Path) -> pl.DataFrame:
    shards = sorted((run / "samples").glob("*.parquet"))
    empty = pl.DataFrame(schema={"problem": pl.String, "index": pl.UInt32})
    return pl.concat([empty, *(pl.read_parquet(shard, columns=["problem", "index"]) for shard in shards)])


def survive(folder: Path, kills: int, k: int, until: int, seed: int, delay: str = "0.01") -> int:
    """Kill a draw many times and let it finish; compare with an uninterrupted one. How many kills hit."""
    chance = random.Random(seed)
    script(folder / "base.json", RATES)
    problems_file(folder / "problems.jsonl", len(RATES))
    run, hits = folder / "run", 0
    words = command(folder, run, "-k", str(k), "--until", str(until), "--set", f"delay={delay}")
    for number in range(kills):
        before = kept(run) if run.exists() else None
        begun = number % 4 != 3
        hits += killed(words, chance.uniform(0, 1.2), begun)
        after = kept(run)
        assert after.n_unique() == after.height, "a sample is there twice"
        if before is not None:
            assert before.join(after, on=["problem", "index"], how="anti").height == 0, "a written sample was lost"
    subprocess.run(words, check=True, capture_output=True)
    drawn(folder / "whole", folder / "base.json", k, until)
    columns = ("problem", "index", "text", "seed")
    assert samples(run, *columns).equals(samples(folder / "whole", *columns))
    result = fsck(run)
    assert result.good, result.findings
    assert not result.findings
    if until:
        assert verify(run, QUIET).judged == 0
    return hits


@pytest.mark.parametrize("until", [pytest.param(0, marks=pytest.mark.slow), 4])
def test_a_draw_that_is_killed_four_times_equals_an_uninterrupted_one(tmp_path: Path, until: int) -> None:
    assert survive(tmp_path, 4, 2500, until, seed=until) > 0


@pytest.mark.slow
@pytest.mark.parametrize("until", [0, 4])
def test_a_draw_that_is_killed_fifty_times_equals_an_uninterrupted_one(tmp_path: Path, until: int) -> None:
    hits = survive(tmp_path, 50, 20_000, until, seed=50 + until, delay="0.05")
    assert hits >= 40
    print(f"until {until}: {hits} of 50 kills hit a draw at work")


def test_what_is_held_is_written_at_an_interrupt(tmp_path: Path) -> None:
    script(tmp_path / "base.json", RATES)
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    process = start(command(tmp_path, tmp_path / "run", "-k", "100000", "--set", "delay=0.01"))
    assert process.stderr is not None
    process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait() == 130
    process.stderr.close()
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert kept(tmp_path / "run").height > 0
    assert fsck(tmp_path / "run").shards


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from offleash.cli.main import main
main()
"""


def test_a_disk_that_is_full_leaves_what_was_written_good(tmp_path: Path) -> None:
    texts = {f"p{i}": " ".join(f"{chr(97 + i)}{word}" for word in range(2000)) for i in range(len(RATES))}
    chances = {name: {text[start:]: 0.01 for start in range(100)} for name, text in texts.items()}
    (tmp_path / "base.json").write_text(json.dumps({"problems": chances}))
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    words = command(tmp_path, tmp_path / "run", "-k", "300", "--max-tokens", "9000")
    for limit, code in ((20_000, 2), (1 << 30, 0)):
        limited = [sys.executable, "-c", LIMITED, str(limit), *words[3:]]
        run = subprocess.run(limited, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert run.returncode == code, run.stderr
        assert "Traceback" not in run.stderr
        if code:
            assert "could not be written" in run.stderr
            assert not list((tmp_path / "run").rglob("*.writing"))
            assert fsck(tmp_path / "run").good
    assert kept(tmp_path / "run").height == 300 * len(RATES)
    assert fsck(tmp_path / "run").good


def test_a_second_draw_into_the_same_run_is_refused(tmp_path: Path) -> None:
    script(tmp_path / "base.json", RATES)
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    words = command(tmp_path, tmp_path / "run", "-k", "100000", "--set", "delay=0.01")
    first = start(words)
    assert first.stderr is not None
    first.stderr.readline()
    second = subprocess.run(words, capture_output=True, text=True)
    first.kill()
    first.wait()
    first.stderr.close()
    assert second.returncode == 2
    assert "Another process is writing" in second.stderr
