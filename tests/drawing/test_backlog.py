"""What waits between samplers, judge and writer is bounded in bytes, and samples are the same however slow each is."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import RunFolder
from offleash.drawing import backlog, workers
from offleash.drawing.backlog import Backlog, text_bytes
from offleash.drawing.draw import DrawRequest, draw
from offleash.errors import OffleashError
from offleash.samplers.sampler import FINISHED, Request, Sample, SampleChunk, Sampler, SamplingParams
from offleash.verifying.verify import judge_rows
from tests.drawing.drawn_world import PLAIN, QUIET, RATES, drawn, problems, sampler_of, samples, script


def chunk(first: int, text: str = "x" * 1000, count: int = 4) -> SampleChunk:
    request = Request("p", "", first, count, 0)
    return SampleChunk(request, tuple(Sample(first + i, text, 1, FINISHED, 0) for i in range(count)))


def test_a_chunk_counts_until_all_its_holders_have_released_it() -> None:
    waiting = Backlog(holders=2)
    waiting.add(chunk(0))
    waiting.add(chunk(4))
    assert waiting.bytes == 2 * text_bytes(chunk(0)) >= 8000
    waiting.release(chunk(0).request)
    assert waiting.bytes == 2 * text_bytes(chunk(0))
    waiting.release(chunk(0).request)
    assert waiting.bytes == text_bytes(chunk(0))


def test_characters_count_with_the_bytes_that_they_take() -> None:
    assert text_bytes(chunk(0, "数" * 1000)) > 1.9 * text_bytes(chunk(0, "x" * 1000))


def test_a_sampler_waits_at_the_limit_and_passes_when_there_is_room_or_the_draw_ends() -> None:
    for end in ("release", "close"):
        waiting = Backlog(limit=1)
        waiting.add(chunk(0))  # larger than the limit, and passes
        passed = threading.Event()
        thread = threading.Thread(target=lambda w=waiting, p=passed: (w.add(chunk(4)), p.set()), daemon=True)
        thread.start()
        while not waiting.should_flush(1):
            time.sleep(0.001)
        assert not passed.is_set()
        waiting.release(chunk(0).request) if end == "release" else waiting.close()
        thread.join(10)
        assert passed.is_set()


def test_threads_wait_before_they_draw_where_all_together_would_hold_too_much() -> None:
    size = text_bytes(chunk(0)) // 4
    waiting = Backlog()
    waiting.add(chunk(0))  # shows how long samples are
    samples = backlog.DRAWING_LIMIT // size // 3  # three threads fit
    lock, drawing, most, ended = threading.Lock(), 0, 0, 0

    def draw_chunks() -> None:
        nonlocal drawing, most, ended
        for _ in range(3):
            waiting.begin_drawing(samples, max_tokens=10**9)
            with lock:
                drawing += 1
                most = max(most, drawing)
            time.sleep(0.01)
            with lock:
                drawing -= 1
            waiting.end_drawing()
        with lock:
            ended += 1

    threads = [threading.Thread(target=draw_chunks, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, ended) == (3, 16)


def test_before_the_first_chunk_samples_are_expected_to_be_as_long_as_they_may_be() -> None:
    waiting, passed = Backlog(), threading.Event()
    waiting.begin_drawing(256, max_tokens=10**6)  # beyond the limit alone, and passes

    def draw_another() -> None:
        waiting.begin_drawing(256, max_tokens=10**6)
        passed.set()

    threading.Thread(target=draw_another, daemon=True).start()
    assert not passed.wait(0.1)
    waiting.add(chunk(0))  # they are short
    assert passed.wait(60)


class Counted:
    """A scripted sampler that counts the bytes that are drawn and not yet written, or not yet judged."""

    def __init__(self, inner: Sampler) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.drawn = self.written = self.judged = self.most = self.largest = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for answer in self._inner.sample(requests, decoding):
            size = sum(len(sample.text) for sample in answer.samples)
            with self._lock:
                self.drawn += size
                self.largest = max(self.largest, size)
                self.most = max(self.most, self.drawn - min(self.written, self.judged))
            yield answer


@pytest.mark.parametrize("slow", ["writer", "judge"])
def test_what_waits_is_bounded_though_writer_or_judge_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    width, limit = 2, 400_000
    long = "long " * 1000
    chances = {f"p{i}": {f"{long} {place} \\boxed{{{i}}}": 0.01 for place in range(100)} for i in range(50)}
    (tmp_path / "long.json").write_text(json.dumps({"problems": chances}))
    counted = Counted(sampler_of(tmp_path / "long.json", width=str(width), appetite="64"))
    write_samples = RunFolder.write_samples

    def write(run: RunFolder, frame: pl.DataFrame) -> str:
        time.sleep(0.05 if slow == "writer" else 0)
        name = write_samples(run, frame)
        counted.written += int(frame["text"].str.len_chars().sum())
        return name

    def judge(*arguments: object) -> pl.DataFrame:
        time.sleep(0.05 if slow == "judge" else 0)
        verdicts = judge_rows(*arguments)  # type: ignore[arg-type]
        frame = arguments[2]
        assert isinstance(frame, pl.DataFrame)
        counted.judged += int(frame["text"].str.len_chars().sum())
        return verdicts

    monkeypatch.setattr(RunFolder, "write_samples", write)
    monkeypatch.setattr(workers, "judge_rows", judge)
    monkeypatch.setattr(backlog, "LIMIT", limit, raising=False)
    monkeypatch.setattr(workers, "TOGETHER_BYTES", limit // 4, raising=False)
    options = DrawRequest(f"scripted:{tmp_path / 'long.json'}", 20, 20)
    draw(tmp_path / "run", problems(50), counted, PLAIN, options, QUIET)  # type: ignore[arg-type]
    assert counted.drawn > 5 * limit
    # the limit, the chunk that reached it, and one in the hand of every thread: all fit into what may be drawn
    assert counted.most <= limit + (width + 1) * counted.largest
    monkeypatch.undo()
    drawn(tmp_path / "idle", tmp_path / "long.json", 20, 20, count=50)
    assert samples(tmp_path / "run").equals(samples(tmp_path / "idle"))


@pytest.mark.parametrize("until", [0, 3])
def test_chunks_larger_than_the_limit_pass_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    base = script(tmp_path / "base.json", RATES)
    drawn(tmp_path / "whole", base, 400, until)
    monkeypatch.setattr(backlog, "LIMIT", 1)
    drawn(tmp_path / "run", base, 400, until, settings={"width": "4", "appetite": "50"})
    assert samples(tmp_path / "run").equals(samples(tmp_path / "whole"))


class Failing(Counted):
    """A sampler that fails after some requests."""

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for answer in super().sample(requests, decoding):
            if self.drawn > 6000:
                raise OffleashError("The server is down.")
            yield answer


@pytest.mark.parametrize("until", [0, 3])
def test_samples_of_threads_that_wait_are_written_when_the_draw_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    base = script(tmp_path / "base.json", RATES)
    monkeypatch.setattr(backlog, "LIMIT", 1)
    failing = Failing(sampler_of(base, width="4", appetite="20"))
    options = DrawRequest(f"scripted:{base}", 400, until)
    started = time.monotonic()
    with pytest.raises(OffleashError, match="down"):
        draw(tmp_path / "run", problems(len(RATES)), failing, PLAIN, options, QUIET)  # type: ignore[arg-type]
    assert time.monotonic() - started < 60
    assert samples(tmp_path / "run").height > 0
    drawn(tmp_path / "run", base, 400, until)
    drawn(tmp_path / "whole", base, 400, until)
    assert samples(tmp_path / "run").equals(samples(tmp_path / "whole"))


# A draw of 1.3 GB of text in a process of its own, with the writer ten times as slow, or the judge by two seconds per
# chunk.
CHILD = """
import sys, time
slow = sys.argv.pop(1)
from offleash.data.run_folder import RunFolder
from offleash.drawing import workers
write_samples, judge_rows = RunFolder.write_samples, workers.judge_rows
def write(run, frame):
    started = time.monotonic()
    name = write_samples(run, frame)
    time.sleep(9 * (time.monotonic() - started))
    return name
def judge(*arguments):
    time.sleep(0.5)
    return judge_rows(*arguments)
if slow == "writer":
    RunFolder.write_samples = write
if slow == "judge":
    workers.judge_rows = judge
from offleash.cli.main import main
main()
"""
BUSY = "while True: sum(range(10_000))"


@pytest.mark.slow
@pytest.mark.parametrize("load", ["idle", "busy", "writer", "judge", "threads"])
def test_the_memory_of_a_draw_of_long_samples_is_bounded_whatever_the_load(tmp_path: Path, load: str) -> None:
    long = " ".join(f"{word:x}" for word in range(40_000))  # cut at the token limit, so that each text is its own
    chances = {"*": {f"{start} {long}": 0.02 for start in range(50)}}
    (tmp_path / "long.json").write_text(json.dumps({"problems": chances}))
    row = {"problem": "p0", "question": "Say all you know.", "gold": "0", "verifier": "string"}
    (tmp_path / "problems.jsonl").write_text(json.dumps(row) + "\n")
    words = [str(tmp_path / "problems.jsonl"), f"scripted:{tmp_path / 'long.json'}", "-k", "8192", "--json"]
    words += ["--max-tokens", "32768", "-o", str(tmp_path / "run"), "--set", f"width={16 if load == 'threads' else 2}"]
    words += ["--until", "9000"] if load == "judge" else []
    with ExitStack() as stack:
        for _ in range(8 if load == "busy" else 0):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(process.kill)
        run = subprocess.run([sys.executable, "-c", CHILD, load, "draw", *words], capture_output=True, check=True)
    result = json.loads(run.stdout)
    assert (result["samples"], result["truncated"]) == (8192, 8192)
    text = 8192 * len(long) * 32768 / 40_000
    print(f"{load}: {text / 1e6:,.0f} MB of text, peak {result['peak_memory_mb']:,.0f} MB, {result['seconds']:,.0f} s")
    assert result["peak_memory_mb"] < 600
