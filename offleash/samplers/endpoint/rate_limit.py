"""When requests to a server start: a pool of threads, retries, and a common slowdown while the server is busy.

Two kinds of failure are treated apart. A request that fails (status 500, a broken connection) is retried by tenacity, a
fixed number of times, and concerns this request alone. A request that is turned away (status 429) says something about
all of them: every thread waits, requests then start further apart, and the server is given up only when none has passed
for minutes. At the end of the file: the list of models that a server has.
"""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from random import SystemRandom
from threading import Lock, Thread
from typing import Generic, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from offleash.credentials import public_url
from offleash.errors import OffleashError
from offleash.samplers.endpoint.http import (
    Cause,
    EndpointClient,
    ServerRefusedError,
    TryAgainError,
    address,
    backoff,
    wait_backoff,
)

LONGEST_WAIT = 600.0  # seconds; a server that names a longer wait (a daily quota) is given up
PATIENCE = 4  # times as many attempts where a server is merely busy
FIRST_GAP, MAX_GAP = 0.05, 10.0  # seconds between the starts of two requests: after the first 429, and at most
# Factors of the gap at a 429 and at a success. Where one request in three is turned away the gap stays put, since
# 1.5 x 0.8 x 0.8 is just below 1: the pace settles where most requests pass.
GAP_GROWTH, GAP_DECAY = 1.5, 0.8
# Share of `give_up_after` by which a request is known to be generating: a 429 comes at once, an answer takes its time.
ANSWERING_SHARE = 0.1

T = TypeVar("T")


@dataclass
class _Refusals:
    """How often one request was turned away, and when it was first (0: never)."""

    count: int = 0
    first: float = 0.0


class RateLimiter:
    """When the next request may start, for all threads that share a server."""

    def __init__(self, tries: int, pause: float, rate: float = 0.0, give_up_after: float = 300.0) -> None:
        """Start at full speed, or at `rate`.

        Args:
            tries: attempts of a request that fails; one that is turned away has `PATIENCE` times as many.
            pause: seconds before the second attempt; doubled after each.
            rate: requests per minute that are never exceeded; 0 sets no limit.
            give_up_after: seconds in which a busy server may let no request through.
        """
        self.tries, self._pause, self._give_up_after = tries, pause, give_up_after
        self._min_gap = 60.0 / rate if rate else 0.0
        self.gap = self._min_gap  # seconds between the starts of two requests
        self._next_start = 0.0
        self._slowed_at = 0.0  # when the gap last grew
        self._busy_since: float | None = None  # the first refusal after the last success
        self.waited = 0.0  # seconds that a busy server had been waited for when it was given up
        self._final_error: TryAgainError | None = None  # why no more requests are made
        self._open_request_starts: list[float] = []  # when the requests began that have no answer yet
        self._lock = Lock()

    def wait(self) -> None:
        """Block until a request may start; raise once the server was given up."""
        while True:
            with self._lock:
                if self._final_error:  # the other threads need not each find out for themselves
                    raise TryAgainError(str(self._final_error), self._final_error.wait, self._final_error.cause)
                now = time.monotonic()
                if now >= self._next_start:
                    # the slot is taken under the lock: threads that wake together start one gap apart
                    self._next_start = now + self.gap
                    return
                remaining = self._next_start - now
            time.sleep(remaining + SystemRandom().uniform(0.0, min(0.1 * remaining, 1.0)))

    def call(self, send: Callable[[], T]) -> T:
        """The result of `send`, attempted as often as is worth it; the last TryAgainError when all attempts fail."""
        refusals = _Refusals()
        retrying = Retrying(
            # a busy server that `_until_accepted` gave up stays given up, and what is too large stays too large
            retry=retry_if_exception(
                lambda error: isinstance(error, TryAgainError) and error.cause not in (Cause.BUSY, Cause.LARGE)
            ),
            stop=stop_after_attempt(self.tries),
            wait=wait_backoff(self._pause, LONGEST_WAIT),
            reraise=True,
        )
        result: T = retrying(self._until_accepted, send, refusals)
        with self._lock:
            self._busy_since = None
            # below 10 ms a gap limits nothing: it is dropped, or it would shrink forever
            self.gap = max(self._min_gap, GAP_DECAY * self.gap if self.gap > 0.01 else 0.0)
        return result

    def _until_accepted(self, send: Callable[[], T], refusals: _Refusals) -> T:
        """Send at the common pace, again and again while the server answers with 429."""
        while True:
            self.wait()
            started = time.monotonic()
            with self._lock:
                self._open_request_starts.append(started)
            try:
                return send()
            except TryAgainError as error:
                if error.cause is not Cause.BUSY:
                    raise
                refusal = error
            finally:
                with self._lock:
                    self._open_request_starts.remove(started)
            refusals.count += 1
            refusals.first = refusals.first or time.monotonic()
            self._slow_down(refusal, started, refusals)

    def _slow_down(self, error: TryAgainError, started: float, refusals: _Refusals) -> None:
        """Stop all threads for a while, or for good where waiting is of no use."""
        seconds = backoff(self._pause, min(refusals.count - 1, 5), error.wait, LONGEST_WAIT)
        with self._lock:
            now = time.monotonic()
            self._busy_since = self._busy_since or now
            # a server at its limit may be busy with our own long request: then it is not stuck
            still_answering = any(
                start < now - ANSWERING_SHARE * self._give_up_after for start in self._open_request_starts
            )
            # some requests are never accepted (more tokens than the quota of a minute), while others pass
            never_accepted = refusals.count >= self.tries * PATIENCE and now - refusals.first >= self._give_up_after
            timed_out = now - self._busy_since >= self._give_up_after and not still_answering
            if never_accepted or timed_out or (error.wait or 0.0) > LONGEST_WAIT:
                self.waited, self._final_error = now - (refusals.first if never_accepted else self._busy_since), error
                raise error
            self._next_start = max(self._next_start, now + seconds)
            # requests that were under way together are turned away together: they widen the gap once
            if started >= self._slowed_at:
                self._slowed_at = now
                # the wait that the server names is enough between any two requests
                max_gap = min(MAX_GAP, error.wait or MAX_GAP)
                self.gap = max(self._min_gap, min(max(GAP_GROWTH * self.gap, FIRST_GAP), max_gap))


class RequestPool(Generic[T]):
    """At most `width` requests at a time, whichever threads bring them.

    Not a ThreadPoolExecutor: its threads are joined at exit, and a request of ten minutes would keep an interrupted
    draw from ending. These are daemons.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._queue: SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = SimpleQueue()
        self._started = 0
        self._lock = Lock()

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all calls, in order; the first exception cancels those that have not begun."""
        futures: list[Future[T]] = [Future() for _ in calls]
        self._start(len(calls))
        for pair in zip(futures, calls, strict=True):
            self._queue.put(pair)
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Let the threads end once the queue is empty."""
        with self._lock:
            for _ in range(self._started):
                self._queue.put(None)
            self._started = 0

    def _start(self, thread_count: int) -> None:
        with self._lock:
            while self._started < self._width and thread_count:
                Thread(target=self._run, daemon=True).start()
                self._started, thread_count = self._started + 1, thread_count - 1

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            future, call = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # raised where the result is waited for
                future.set_exception(error)


# The models that a server lists.


LISTING_TIMEOUT = 30.0  # seconds
DOWN_TRIES = 2  # where nobody listens: at the start, a wrong address is likelier than a server slow to come up


def only_model(server: EndpointClient, limiter: RateLimiter) -> str:
    """The name of the one model that a server has; an OffleashError where it has several, or does not say."""
    url, models_url = public_url(server.url), public_url(address(server.url, "models"))
    step = f"name the model: endpoint:{url}#MODEL"
    tries = 0

    def names_or_down() -> list[str]:
        nonlocal tries
        tries += 1
        try:
            return models(server)
        except TryAgainError as error:
            if error.cause is Cause.DOWN and tries >= DOWN_TRIES:
                raise _unreachable_error(models_url, tries, error) from None
            raise

    try:
        names = limiter.call(names_or_down)
    except ServerRefusedError as refused:
        if refused.code in (401, 403):
            raise server.explain(refused, "", "models") from None
        raise OffleashError(f"{models_url} lists no models ({refused}); {step}.") from None
    except TryAgainError as error:
        if error.cause is Cause.DOWN:
            raise _unreachable_error(models_url, tries, error) from None
        raise OffleashError(
            f"{models_url} returned no list of models after {tries} attempts: {error}. Check that the server is up and "
            f"its address is correct. If it does not list its models, {step}."
        ) from None
    except ValueError as error:
        raise OffleashError(
            f"{models_url} answered with {error}. Is {url} the address of an OpenAI-compatible server, such as "
            f"http://localhost:8000/v1? If so, and it does not list its models, {step}."
        ) from None
    if len(names) != 1:
        example = f", for example endpoint:{url}#{names[0]}" if names else ""
        raise OffleashError(f"{url} serves {list_names(names)}; {step}{example}.")
    return names[0]


def models(server: EndpointClient) -> list[str]:
    """The names of a server's models; a ValueError where the response holds none."""
    body = server.request("models", timeout=min(server.timeout, LISTING_TIMEOUT))
    try:
        return [server.masked(str(model["id"])) for model in json.loads(body)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = body[:1000].decode("utf-8", "replace")
        page = "a web page" if start.lstrip().startswith("<") else "a response"
        raise ValueError(f"{page} that is not a list of models: {server.quote(body)!r}") from None


def list_names(names: Sequence[str]) -> str:
    """Names for a message: the first 20 of the hundreds that a hosted server may have."""
    more_text = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "no model") + more_text


def _unreachable_error(server_url: str, tries: int, error: TryAgainError) -> OffleashError:
    return OffleashError(
        f"{server_url} could not be reached after {tries} attempts: {error}. Start the server, or wait until it has "
        "loaded its "
        "model. If it is up, check the address, especially the port."
    )
