"""The threads of a draw: sampler workers, and one judge thread that verifies samples as they arrive.

Both report through one bounded queue of events to drawing/loop.py. What waits there, for the writer or for the judge
is bounded in bytes (drawing/backlog.py), so slow writing and slow judging make samplers wait.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from offleash.drawing.backlog import Backlog, free_long_texts_at_once, text_bytes
from offleash.errors import OffleashError
from offleash.samplers.sampler import Request, Sample, SampleChunk, Sampler, SamplingParams
from offleash.verifying.cases import CasesByProblem
from offleash.verifying.judge import Judge
from offleash.verifying.verify import judge_rows

MAX_PENDING_EVENTS = 4  # that may wait for the writer before samplers and judge wait too


@dataclass(frozen=True)
class BatchDone:
    """A thread has done its batch; with the error that ended it, where there was one."""

    error: BaseException | None = None


@dataclass(frozen=True)
class VerdictsReady:
    """The verdicts (VERDICTS) on the samples of a request."""

    request: Request
    verdicts: pl.DataFrame


@dataclass(frozen=True)
class JudgingFailed:
    """Judging ended with an error."""

    error: BaseException


Event = SampleChunk | VerdictsReady | BatchDone | JudgingFailed


class SamplerWorkers:
    """Up to `sampler.concurrency` batches at once; their results come through `events`."""

    def __init__(self, sampler: Sampler, decoding: SamplingParams, backlog: Backlog) -> None:
        self._sampler, self._decoding, self._backlog = sampler, decoding, backlog
        self._width = max(1, sampler.concurrency)
        self._batches: queue.SimpleQueue[tuple[list[Request], list[str]] | None] = queue.SimpleQueue()
        self.events: queue.Queue[Event] = queue.Queue(MAX_PENDING_EVENTS)
        self._busy = 0
        self._stopping = threading.Event()
        self._problems_to_forget: list[str] = []
        free_long_texts_at_once()
        self._threads = [
            threading.Thread(target=self._work, name=f"offleash-draw-{number}", daemon=True)
            for number in range(self._width)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def idle(self) -> int:
        """Threads without a batch."""
        return self._width - self._busy

    @property
    def busy(self) -> int:
        """Threads with a batch."""
        return self._busy

    def submit(self, requests: list[Request]) -> None:
        """Give a batch to the next idle thread; call it only while `idle` is not 0."""
        self._busy += 1
        self._batches.put((requests, self._problems_to_forget))
        self._problems_to_forget = []

    def forget(self, problem: str) -> None:
        """Have the sampler drop what it caches of a closed problem: before its next batch, from its own thread."""
        self._problems_to_forget.append(problem)

    def next_event(self, seconds: float) -> Event | None:
        """The next event; None when none comes in time."""
        try:
            event = self.events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, BatchDone):
            self._busy -= 1
        return event

    def stop(self, max_wait: float) -> list[SampleChunk]:
        """End the threads and return what the sampler still gave; a thread that takes too long is left behind."""
        self._stopping.set()
        self._backlog.close()  # threads that wait have samples in hand
        for _ in self._threads:
            self._batches.put(None)
        late_chunks: list[SampleChunk] = []
        limit = time.monotonic() + max_wait
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < limit:
            event = self.next_event(0.02)
            if isinstance(event, SampleChunk):
                late_chunks.append(event)
        while (event := self.next_event(0)) is not None:
            if isinstance(event, SampleChunk):
                late_chunks.append(event)
        if not any(thread.is_alive() for thread in self._threads):
            for problem in self._problems_to_forget:
                self._sampler.forget(problem)
        return late_chunks

    def _work(self) -> None:
        """The loop of a thread; it must never die silently, or the draw would wait for it for ever."""
        while (batch := self._batches.get()) is not None:
            error: BaseException | None = None
            try:
                self._answer(*batch)
            except BaseException as caught:  # reported to the thread that draws, which raises it
                error = caught
            finally:
                self._backlog.end_drawing()
            self.events.put(BatchDone(error))

    def _answer(self, requests: list[Request], problems_to_forget: list[str]) -> None:
        for problem in problems_to_forget:
            self._sampler.forget(problem)
        left = {(request.problem, request.first): request for request in requests}
        self._backlog.begin_drawing(max(request.size for request in requests), self._decoding.max_tokens)
        self._backlog.wait()
        for drawn in self._sampler.sample(requests, self._decoding):
            request = left.pop((drawn.request.problem, drawn.request.first), None)
            if request is None:
                raise OffleashError(
                    f"{self._sampler.about.sampler} answered a request twice, or one that was never sent: sample "
                    f"{drawn.request.first} of problem {drawn.request.problem!r}. This is a bug in the sampler."
                )
            self._put_chunk(check_chunk(request, drawn))
            if self._stopping.is_set():
                return
            del drawn  # or this thread would hold its texts while it draws the next
            self._backlog.wait()
        for request in left.values():
            self._put_chunk(SampleChunk(request, error="the sampler returned nothing"))

    def _put_chunk(self, drawn: SampleChunk) -> None:
        if not drawn.error:
            self._backlog.add(drawn)
        self.events.put(drawn)


def check_chunk(request: Request, drawn: SampleChunk) -> SampleChunk:
    """An answer whose samples are those that were asked for, with texts that can be written; else its trouble."""
    if drawn.error:
        return replace(drawn, request=request)
    samples = sorted(drawn.samples, key=lambda sample: sample.index)
    indices = [sample.index for sample in samples]
    if indices != list(range(request.first, request.first + request.size)):
        return SampleChunk(request, error=f"the sampler returned {len(indices)} samples instead of {request.size}")
    return SampleChunk(request, tuple(_encodable(sample) for sample in samples))


def _encodable(sample: Sample) -> Sample:
    """A sample whose text can be written as UTF-8: servers may cut a token, and send half of a surrogate pair."""
    try:
        sample.text.encode("utf-8")
    except UnicodeEncodeError:
        return replace(sample, text=sample.text.encode("utf-8", "replace").decode("utf-8"))
    return sample


# The judge thread: verifies samples as they arrive, while others are drawn.


# Samples judged at a time: their distinct answers are decided in parallel. More would delay the rounds that wait for
# these verdicts.
CASES_PER_CALL = 2_000
BYTES_PER_CALL = 16 << 20  # of their texts, which judging copies twice


class JudgeQueue:
    """One thread that judges samples as they are drawn."""

    def __init__(
        self, judge: Judge, cases: CasesByProblem, opened: bool, events: queue.Queue[Event], backlog: Backlog
    ) -> None:
        self._judge, self._cases, self._opened_run, self._events, self._backlog = judge, cases, opened, events, backlog
        self._waiting: queue.SimpleQueue[SampleChunk | None] = queue.SimpleQueue()  # bounded by the backlog
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="offleash-judge", daemon=True)
        self._thread.start()

    def put(self, drawn: SampleChunk) -> None:
        self._waiting.put(drawn)

    def stop(self, max_wait: float) -> None:
        """End the thread. Verdicts that were not written are made again when the draw is resumed."""
        self._stopping.set()
        self._waiting.put(None)
        limit = time.monotonic() + max_wait
        while self._thread.is_alive() and time.monotonic() < limit:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=0.02)  # the queue is bounded: it may be waiting to put an event

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None and not self._stopping.is_set():
            chunks = [first]
            del first  # the texts of a chunk are freed when it is judged
            while not _batch_is_full(chunks) and not self._waiting.empty():
                next_chunk = self._waiting.get()
                if next_chunk is None:
                    return
                chunks.append(next_chunk)
            try:
                frames = self._verdicts(chunks)
            except BaseException as caught:  # reported to the thread that draws, which raises it
                self._events.put(JudgingFailed(caught))
                return
            requests = [drawn.request for drawn in chunks]
            del chunks
            for request, frame in zip(requests, frames, strict=True):
                self._backlog.release(request)
                self._events.put(VerdictsReady(request, frame))

    def _verdicts(self, chunks: Sequence[SampleChunk]) -> list[pl.DataFrame]:
        """The verdicts on every chunk; a chunk of long texts is judged in parts, which bounds their copies."""
        if len(chunks) == 1 and text_bytes(chunks[0]) > BYTES_PER_CALL:
            return [pl.concat([self._judge_rows(rows) for rows in _frames_of_chunk(chunks[0])])]
        judged_rows = self._judge_rows(pl.concat([rows_of(drawn) for drawn in chunks]))
        frames, start = [], 0
        for drawn in chunks:
            frames.append(judged_rows.slice(start, len(drawn.samples)))
            start += len(drawn.samples)
        return frames

    def _judge_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        return judge_rows(self._judge, self._cases, rows, self._opened_run)


def _batch_is_full(chunks: Sequence[SampleChunk]) -> bool:
    """Whether these chunks are judged before any more are looked at."""
    samples = sum(len(drawn.samples) for drawn in chunks)
    return samples >= CASES_PER_CALL or sum(text_bytes(drawn) for drawn in chunks) >= BYTES_PER_CALL


def _frames_of_chunk(drawn: SampleChunk) -> Iterator[pl.DataFrame]:
    """The rows of a chunk in parts of about BYTES_PER_CALL."""
    size = max(1, len(drawn.samples) * BYTES_PER_CALL // text_bytes(drawn))
    for start in range(0, len(drawn.samples), size):
        yield rows_of(replace(drawn, samples=drawn.samples[start : start + size]))


def rows_of(drawn: SampleChunk) -> pl.DataFrame:
    """What is needed to judge samples: problem, index, text and finish."""
    return pl.DataFrame(
        {
            "problem": [drawn.request.problem] * len(drawn.samples),
            "index": [sample.index for sample in drawn.samples],
            "text": [sample.text for sample in drawn.samples],
            "finish": [sample.finish for sample in drawn.samples],
        },
        schema={"problem": pl.String, "index": pl.UInt32, "text": pl.String, "finish": pl.String},
    )
