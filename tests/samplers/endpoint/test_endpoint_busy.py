"""The endpoint sampler against busy servers (status 429): waited for as they ask, and left where that is of no use."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from offleash.errors import OffleashError
from offleash.samplers.endpoint import sampler
from offleash.samplers.endpoint import sampler as endpoint
from offleash.samplers.endpoint.http import EndpointClient
from offleash.samplers.endpoint.rate_limit import RateLimiter
from tests.samplers.endpoint.chunks import drawn, opened, texts, wanted
from tests.samplers.endpoint.server import Answer, Call, World, chat, serving, trouble


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sampler, "FIRST_PAUSE", 0.01)


def test_all_threads_wait_for_a_busy_server() -> None:
    first, started, lock = threading.Event(), [], threading.Lock()

    def reply(call: Call) -> Answer:
        if not first.is_set():
            first.set()
            return trouble(429, "slow down", Retry_After="1")
        with lock:
            started.append(time.monotonic())
        return World()(call)

    with serving(reply) as server:
        sampler = opened(server, tries=1)
        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            busy = pool.submit(drawn, sampler, wanted(2))
            assert first.wait(60)
            time.sleep(0.2)
            rest = [pool.submit(drawn, sampler, wanted(2, first=2 * i)) for i in range(1, 8)]
            for future in (busy, *rest):
                texts(future.result())
    assert min(started) - begun >= 0.95


def test_a_server_that_stays_busy_ends_the_draw_with_what_to_do() -> None:
    with (
        serving(lambda call: trouble(429, "quota", Retry_After="90000")) as server,
        pytest.raises(OffleashError) as error,
    ):
        drawn(opened(server), wanted())
    for word in ("90,000 seconds", "quota", "rate=", "are kept"):
        assert word in str(error.value)
    assert len(server.calls) == 1


def test_a_server_that_lets_no_request_through_is_left_by_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "GIVE_UP_AFTER", 0.6)
    with serving(lambda call: trouble(429, "busy", Retry_After="0.1")) as server:
        sampler, begun = opened(server, n=1, concurrency=8), time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(drawn, sampler, wanted(8, first=8 * i)) for i in range(4)]
            messages = [str(future.exception()) for future in futures]
        assert 0.5 < time.monotonic() - begun < 60
        count = len(server.calls)
    assert count < 40
    for word in ("status 429 busy", "refused for 1 seconds", "concurrency= (now 8)", "rate=", "are kept"):
        assert all(word in message for message in messages)


def test_a_server_that_answers_one_long_request_is_not_left_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "GIVE_UP_AFTER", 0.4)
    answering = threading.Lock()

    def reply(call: Call) -> Answer:
        if not answering.acquire(blocking=False):
            return trouble(429, "one at a time", Retry_After="0.05")
        try:
            time.sleep(0.9)
            return World()(call)
        finally:
            answering.release()

    with serving(reply) as server:
        assert len(set(texts(drawn(opened(server, n=1, tries=99), wanted(2))))) == 2


def test_a_request_that_is_never_taken_is_left_while_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "GIVE_UP_AFTER", 0.3)
    large = trouble(429, "Request too large for the tokens of a minute", Retry_After="0.02")
    stop = threading.Event()
    with serving(lambda call: large if "large" in str(call.body) else World()(call)) as server:
        sampler = opened(server, tries=1)

        def others() -> int:
            first = 0
            while not stop.is_set():
                try:
                    first += len(drawn(sampler, wanted(2, first=first)).samples)
                except OffleashError:  # the draw has ended
                    break
            return first

        with ThreadPoolExecutor(1) as pool:
            passed = pool.submit(others)
            with pytest.raises(OffleashError, match="too large"):
                drawn(sampler, wanted(2, problem="large"))
            stop.set()
            assert passed.result() > 4


def test_the_wait_that_a_server_names_is_obeyed_and_requests_come_closer_again() -> None:
    times: list[float] = []

    def reply(call: Call) -> Answer:
        times.append(time.monotonic())
        return trouble(429, "x", Retry_After="0.1") if call.number % 3 == 0 else chat("A")

    with serving(reply) as server:
        client = EndpointClient(server.url, "NONE", 5, 10_000)
        limiter = RateLimiter(3, 30.0)  # 30: its own wait would not end
        gaps = []
        for _ in range(12):
            limiter.call(lambda: client.request("models"))
            gaps.append(limiter.gap)
    assert max(gaps) < 0.06  # as after the first refusal: it does not add up
    waits = [after - at for number, (at, after) in enumerate(pairwise(times)) if number % 3 == 0]
    assert 0.1 <= min(waits) < 5
    with serving(lambda call: trouble(429, "x", Retry_After="0.03") if call.number < 9 else chat("A")) as server:
        client = EndpointClient(server.url, "NONE", 5, 10_000)
        limiter = RateLimiter(3, 30.0)
        for _ in range(12):
            limiter.call(lambda: client.request("models"))
            assert limiter.gap <= 0.03  # never further apart than the server asks for
    assert limiter.gap == 0


def test_requests_keep_to_a_rate() -> None:
    with serving(World()) as server:
        begun = time.monotonic()
        texts(drawn(opened(server, rate=600, n=1), wanted(6)))  # one in 0.1 seconds
        assert time.monotonic() - begun >= 0.5
