"""How fast a server is asked: so many requests at a time, and all of them slower when it says so."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from random import SystemRandom
from threading import Lock, Thread
from typing import Generic, TypeVar

from offleash.samplers.http import Cause, TryAgainError, backoff

LONGEST_WAIT = 600.0  # seconds; a server that names a longer wait is left
PATIENCE = 4  # times as many tries where a server is merely busy
GAP, WIDEST = 0.05, 10.0  # seconds between the starts of two requests, once a server was busy

T = TypeVar("T")


class Pace:
    """When the next request may start. A busy server stops all threads, and then sees requests further apart."""

    def __init__(self, tries: int, pause: float, rate: float = 0.0) -> None:
        self.tries, self._pause = tries, pause
        self._least = 60.0 / rate if rate else 0.0  # rate: requests a minute
        self._gap = self._least
        self._next = 0.0
        self._lock = Lock()

    def wait(self) -> None:
        """Until a request may start."""
        while True:
            with self._lock:
                now = time.monotonic()
                if now >= self._next:
                    self._next = now + self._gap
                    return
                left = self._next - now
            time.sleep(left + SystemRandom().uniform(0.0, min(0.1 * left, 1.0)))

    def patiently(self, ask: Callable[[], T]) -> T:
        """What asking gives, with as many tries as are worth making; the last trouble when there is nothing."""
        failed = busy = 0
        while True:
            self.wait()
            try:
                given = ask()
            except TryAgainError as again:
                if again.cause is Cause.BUSY:
                    busy += 1
                    if busy >= self.tries * PATIENCE or (again.wait or 0.0) > LONGEST_WAIT:
                        raise
                    self._hold(backoff(self._pause, min(busy - 1, 5), again.wait, LONGEST_WAIT))
                    continue
                failed += 1
                if failed >= self.tries or again.cause is Cause.LARGE:  # what is too large stays so
                    raise
                time.sleep(backoff(self._pause, failed - 1, again.wait, LONGEST_WAIT))
            else:
                with self._lock:
                    self._gap = max(self._least, 0.9 * self._gap if self._gap > 0.01 else 0.0)
                return given

    def _hold(self, seconds: float) -> None:
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)
            self._gap = max(self._least, min(max(2 * self._gap, GAP), WIDEST))


class Crew(Generic[T]):
    """Threads that do at most `width` pieces of work at a time, whoever brings them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._work: SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = SimpleQueue()
        self._started = 0
        self._lock = Lock()

    def each(self, pieces: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all pieces, in order; the first trouble ends those that have not begun."""
        futures: list[Future[T]] = [Future() for _ in pieces]
        self._start(len(pieces))
        for pair in zip(futures, pieces, strict=True):
            self._work.put(pair)
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        with self._lock:
            for _ in range(self._started):
                self._work.put(None)
            self._started = 0

    def _start(self, wanted: int) -> None:
        with self._lock:
            while self._started < self._width and wanted:
                # of no weight at the end: a request under way must not keep an interrupted draw from ending
                Thread(target=self._run, daemon=True).start()
                self._started, wanted = self._started + 1, wanted - 1

    def _run(self) -> None:
        while (piece := self._work.get()) is not None:
            future, work = piece
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # it belongs to whoever waits for the result
                future.set_exception(error)
