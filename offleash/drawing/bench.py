"""The bench of a draw: one thread that judges samples as they come, while others are drawn."""

import contextlib
import queue
import threading
import time
from collections.abc import Sequence

import polars as pl

from offleash.drawing.workers import Broken, Event, Judged
from offleash.samplers.sampler import Drawn
from offleash.verifying.judge import Judge
from offleash.verifying.verify import Subjects, judged_rows

TOGETHER = 2_000  # samples judged at a time: their distinct answers are decided side by side


class Bench:
    """One thread that judges what was drawn, as it comes."""

    def __init__(self, judge: Judge, subjects: Subjects, opened: bool, events: queue.Queue[Event]) -> None:
        self._judge, self._subjects, self._opened, self._events = judge, subjects, opened, events
        self._waiting: queue.SimpleQueue[tuple[Drawn, int] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self.backlog = 0  # bytes of text that wait
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="offleash-judge", daemon=True)
        self._thread.start()

    def give(self, drawn: Drawn) -> None:
        size = sum(len(sample.text) for sample in drawn.samples)
        with self._lock:
            self.backlog += size
        self._waiting.put((drawn, size))

    def stop(self, patience: float) -> None:
        """End the thread; verdicts that nobody took are given again when the draw goes on."""
        self._stopping.set()
        self._waiting.put(None)
        limit = time.monotonic() + patience
        while self._thread.is_alive() and time.monotonic() < limit:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=0.02)  # it may be waiting to be heard

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None and not self._stopping.is_set():
            some = [first]
            while sum(len(drawn.samples) for drawn, _ in some) < TOGETHER and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    return
                some.append(more)
            try:
                frames = self._verdicts([drawn for drawn, _ in some])
            except BaseException as caught:  # it belongs to the caller's thread
                self._events.put(Broken(caught))
                return
            for (drawn, size), frame in zip(some, frames, strict=True):
                with self._lock:
                    self.backlog -= size
                self._events.put(Judged(drawn.request, frame))

    def _verdicts(self, some: Sequence[Drawn]) -> list[pl.DataFrame]:
        whole = judged_rows(self._judge, self._subjects, pl.concat([rows_of(drawn) for drawn in some]), self._opened)
        frames, start = [], 0
        for drawn in some:
            frames.append(whole.slice(start, len(drawn.samples)))
            start += len(drawn.samples)
        return frames


def rows_of(drawn: Drawn) -> pl.DataFrame:
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
