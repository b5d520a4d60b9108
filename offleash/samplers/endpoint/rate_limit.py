"""Pacing of requests to a server: a thread pool, retries, and a common slowdown of all threads while it is busy.

At the end, the list of models that a server has.
"""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue
from random import SystemRandom
from threading import Lock, Thread
from typing import Generic, TypeVar

from offleash.errors import OffleashError
from offleash.samplers.endpoint.http import (
    Cause,
    EndpointClient,
    ServerRefusedError,
    TryAgainError,
    address,
    backoff,
    safe,
)

LONGEST_WAIT = 600.0  # seconds; a server that names a longer wait is left
PATIENCE = 4  # times as many tries where a server is merely busy
GAP, WIDEST = 0.05, 10.0  # seconds between the starts of two requests, once a server was busy
# factors of the gap at a refusal and at a success: where one request in three is refused, it does not grow
WIDER, NARROWER = 1.5, 0.8
REFUSING = 0.1  # of the time that a busy server is waited for: no refusal takes as long, an answer may

T = TypeVar("T")


class RateLimiter:
    """When the next request may start. A busy server stops all threads, and then sees requests further apart; where it
    lets none through for `endured` seconds, it is left."""

    def __init__(self, tries: int, pause: float, rate: float = 0.0, endured: float = 300.0) -> None:
        self.tries, self._pause, self._endured = tries, pause, endured
        self._least = 60.0 / rate if rate else 0.0  # rate: requests a minute
        self.gap = self._least  # seconds between the starts of two requests
        self._next = self._held = 0.0
        self._busy_since: float | None = None  # the first refusal after the last success
        self.waited = 0.0  # seconds that a busy server had been waited for when it was left
        self._left: TryAgainError | None = None  # why no more requests are made
        self._under_way: list[float] = []  # when the requests began that have no answer yet
        self._lock = Lock()

    def wait(self) -> None:
        """Until a request may start."""
        while True:
            with self._lock:
                if self._left:  # the other threads need not find out each for itself
                    raise TryAgainError(str(self._left), self._left.wait, self._left.cause)
                now = time.monotonic()
                if now >= self._next:
                    self._next = now + self.gap
                    return
                left = self._next - now
            time.sleep(left + SystemRandom().uniform(0.0, min(0.1 * left, 1.0)))

    def patiently(self, ask: Callable[[], T]) -> T:
        """What asking gives, with as many tries as are worth making; the last trouble when there is nothing."""
        failed = busy = 0
        first = 0.0  # when this request was turned away for the first time
        while True:
            self.wait()
            begun = time.monotonic()
            try:
                given = self._asked(ask, begun)
            except TryAgainError as again:
                if again.cause is Cause.BUSY:
                    busy, first = busy + 1, first or time.monotonic()
                    self._turned_away(again, begun, busy, first)
                    continue
                failed += 1
                if failed >= self.tries or again.cause is Cause.LARGE:  # what is too large stays so
                    raise
                time.sleep(backoff(self._pause, failed - 1, again.wait, LONGEST_WAIT))
            else:
                with self._lock:
                    self._busy_since = None
                    self.gap = max(self._least, NARROWER * self.gap if self.gap > 0.01 else 0.0)
                return given

    def _asked(self, ask: Callable[[], T], begun: float) -> T:
        with self._lock:
            self._under_way.append(begun)
        try:
            return ask()
        finally:
            with self._lock:
                self._under_way.remove(begun)

    def _turned_away(self, again: TryAgainError, begun: float, busy: int, first: float) -> None:
        """Stop all threads for a while, or for good where waiting is of no use."""
        seconds = backoff(self._pause, min(busy - 1, 5), again.wait, LONGEST_WAIT)
        with self._lock:
            now = time.monotonic()
            self._busy_since = self._busy_since or now
            answering = any(one < now - REFUSING * self._endured for one in self._under_way)
            # some requests are never taken, being too large for what a minute may cost, while others pass
            never = busy >= self.tries * PATIENCE and now - first >= self._endured
            none = now - self._busy_since >= self._endured and not answering
            if never or none or (again.wait or 0.0) > LONGEST_WAIT:
                self.waited, self._left = now - (first if never else self._busy_since), again
                raise again
            self._next = max(self._next, now + seconds)
            if begun >= self._held:  # requests that were under way together are turned away together: that counts once
                self._held = now
                # what the server asks to wait is enough between any two
                widest = min(WIDEST, again.wait or WIDEST)
                self.gap = max(self._least, min(max(WIDER * self.gap, GAP), widest))


class RequestPool(Generic[T]):
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


# The models that a server lists.


LISTING = 30.0  # seconds that a list of models may take
KNOCKS = 2  # tries where nobody listens: at the start an address is likelier wrong than a server slow to come up


def only_model(server: EndpointClient, pace: RateLimiter) -> str:
    """The name of a server's one model."""
    url, where = safe(server.url), safe(address(server.url, "models"))
    how = f"name the model: endpoint:{url}#MODEL"
    tries = 0

    def ask() -> list[str]:
        nonlocal tries
        tries += 1
        try:
            return models(server)
        except TryAgainError as again:
            if again.cause is Cause.DOWN and tries >= KNOCKS:
                raise _unreached(where, tries, again) from None
            raise

    try:
        names = pace.patiently(ask)
    except ServerRefusedError as refused:
        if refused.code in (401, 403):
            raise server.mended(refused, "", "models") from None
        raise OffleashError(f"{where} lists no models ({refused}); {how}.") from None
    except TryAgainError as again:
        if again.cause is Cause.DOWN:
            raise _unreached(where, tries, again) from None
        raise OffleashError(
            f"{where} gave no list of models (tries: {tries}): {again}. Is the server up, and its address right? If "
            f"it has no such list, {how}."
        ) from None
    except ValueError as error:
        raise OffleashError(
            f"{where} answered with {error}. Is {url} the address of an OpenAI-compatible server, such as "
            f"http://localhost:8000/v1? If it is, and has no such list, {how}."
        ) from None
    if len(names) != 1:
        example = f", for example endpoint:{url}#{names[0]}" if names else ""
        raise OffleashError(f"{url} serves {listed(names)}; {how}{example}.")
    return names[0]


def models(server: EndpointClient) -> list[str]:
    """The names of a server's models; a ValueError where the response holds none."""
    body = replace(server, timeout=min(server.timeout, LISTING)).ask("models")
    try:
        return [str(one["id"]) for one in json.loads(body)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = body[:1000].decode("utf-8", "replace")
        page = "a web page" if start.lstrip().startswith("<") else "a response"
        raise ValueError(f"{page} that is no list of models: {server.quoted(start)!r}") from None


def listed(names: Sequence[str]) -> str:
    """Names for a message: not all of the hundreds that a hosted server has."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "no model") + more


def _unreached(where: str, tries: int, again: TryAgainError) -> OffleashError:
    return OffleashError(
        f"{where} could not be reached (tries: {tries}): {again}. Start the server, or wait until it has loaded its "
        "model; then check the address, its port above all."
    )
