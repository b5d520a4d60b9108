"""The chat client against a real local server: good replies, trouble that passes, trouble that does not."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from offleash.errors import OffleashError
from offleash.samplers.endpoint import chat
from offleash.samplers.endpoint.chat import Chat
from offleash.samplers.endpoint.http import address, backoff


@dataclass
class Answer:
    """What the server sends for one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0


def good(text: object) -> Answer:
    return Answer(body=json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode())


def trouble(status: int, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps({"error": {"message": message}}).encode(), named)


@dataclass
class Server:
    url: str
    bodies: list[dict[str, Any]]  # the bodies of all requests
    headers: list[dict[str, str]]
    paths: list[str]

    def chat(self, **settings: Any) -> Chat:
        return Chat(self.url, "judge", **{"timeout": 5.0, "tries": 3, "pause": 0.01, **settings})


@contextmanager
def serving(reply: Callable[[int, dict[str, Any]], Answer]) -> Iterator[Server]:
    """A server on this machine that answers the n-th request with `reply(n, body)`."""
    lock = threading.Lock()
    released = threading.Event()
    server = Server("", [], [], [])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(server.bodies)
                server.bodies.append(body)
                server.headers.append(dict(self.headers))
                server.paths.append(self.path)
            answer = reply(number, body)
            if answer.hang:
                released.wait(answer.hang)
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        released.set()
        listener.shutdown()
        thread.join()
        listener.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_prompt_is_sent_once_at_temperature_zero_and_its_reply_returned() -> None:
    with serving(lambda number, body: good("Paris ✓")) as server:
        assert server.chat(tokens=7)("Capital of France? \ud800") == "Paris ✓"
    assert server.bodies == [
        {
            "model": "judge",
            "messages": [{"role": "user", "content": "Capital of France? ?"}],
            "temperature": 0,
            "max_tokens": 7,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:8000", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/", "http://h:8000/v1/chat/completions"),
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("https://h/api/v1", "https://h/api/v1/chat/completions"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("https://h/proxy", "https://h/proxy/v1/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1?api-version=2", "https://h/v1/chat/completions?api-version=2"),
    ],
)
def test_the_address_may_be_given_with_or_without_its_version(url: str, expected: str) -> None:
    assert address(url, "chat/completions") == expected


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_a_failure_that_may_pass_is_retried(status: int) -> None:
    with serving(lambda number, body: trouble(status, "busy") if number < 2 else good("A")) as server:
        assert server.chat()("?") == "A"
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    "bad", [b"<html>", b"", b"[]", b'{"choices": []}', b'{"choices": [{"message": {}}]}', b"[" * 100_000, b"\xff"]
)
def test_a_response_that_is_no_completion_is_retried_and_then_reported(bad: bytes) -> None:
    with serving(lambda number, body: Answer(body=bad) if number < 1 else good("A")) as server:
        assert server.chat()("?") == "A"
    with (
        serving(lambda number, body: Answer(body=bad)) as server,
        pytest.raises(OffleashError, match="not a chat completion"),
    ):
        server.chat()("?")


def test_a_reply_without_text_is_reported() -> None:
    with serving(lambda number, body: good(None)) as server, pytest.raises(OffleashError, match="has no text"):
        server.chat()("?")


def test_a_response_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MAX_BYTES", 1000)
    with serving(lambda number, body: good("A" * 2000)) as server, pytest.raises(OffleashError, match="longer than"):
        server.chat()("?")


def test_retry_after_is_waited_for_in_seconds_or_until_a_date() -> None:
    for kind in ("seconds", "date"):
        value = "1" if kind == "seconds" else formatdate(time.time() + 2, usegmt=True)
        with serving(lambda n, body, v=value: trouble(429, "slow", Retry_After=v) if n < 1 else good("A")) as server:  # type: ignore[misc]
            started = time.monotonic()
            assert server.chat()("?") == "A"
            assert time.monotonic() - started >= 0.9


def test_no_server_can_ask_for_a_wait_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_WAIT", 0.05)
    values = ["999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "-5", "1e9"]
    with serving(lambda n, body: trouble(503, "x", Retry_After=values[n]) if n < 5 else good("A")) as server:
        started = time.monotonic()
        assert server.chat(tries=6)("?") == "A"
        assert time.monotonic() - started < 60


def test_waits_grow_and_are_spread() -> None:
    waits = [[backoff(1.0, attempt, None, chat.LONGEST_WAIT) for _ in range(50)] for attempt in range(8)]
    assert all(0.5 * 2**i <= wait <= 1.5 * 2**i or wait == 60 for i, row in enumerate(waits) for wait in row)
    assert len(set(waits[0])) > 40
    assert max(waits[7]) == 60


def test_a_server_that_is_down_is_reported_with_its_address_and_the_next_step() -> None:
    with serving(lambda number, body: good("A")) as server:
        pass
    with pytest.raises(OffleashError) as error:
        server.chat()("?")
    for word in ("judge", server.url, "3 attempts", "refused", "Check that the server is up"):
        assert word in str(error.value)


def test_a_server_that_hangs_is_left_after_the_timeout() -> None:
    with serving(lambda number, body: Answer(hang=600)) as server:
        started = time.monotonic()
        with pytest.raises(OffleashError, match="no answer within"):
            server.chat(timeout=0.2, tries=2)("?")
        assert time.monotonic() - started < 120
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, ["401", "no such key", "environment variable MY_KEY"]),
        (403, ["403", "environment variable MY_KEY"]),
        (404, ["404", "'judge'", "/v1/chat/completions"]),
        (400, ["400", "no such key"]),
        (422, ["422", "no such key"]),
    ],
)
def test_a_refusal_is_not_retried_and_says_what_to_do(status: int, words: list[str]) -> None:
    refusing = serving(lambda number, body: trouble(status, "no such key"))
    with refusing as server, pytest.raises(OffleashError) as error:
        server.chat(key_variable="MY_KEY")("?")
    assert len(server.bodies) == 1
    for word in words:
        assert word in str(error.value)


def test_a_model_with_other_names_for_its_limits_gets_them() -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with serving(lambda n, body: trouble(400, said) if "max_tokens" in body else good("A")) as server:
        assert server.chat(tries=1)("?") == "A"
    with serving(lambda n, body: trouble(400, said)) as server, pytest.raises(OffleashError, match="400"):
        server.chat()("?")
    assert len(server.bodies) == 2


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_KEY", f" {secret}\n")
    for status in (401, 500, 200):
        with serving(lambda n, body, s=status: trouble(s, f"{'x' * 170} bad key {secret} given")) as server:  # type: ignore[misc]
            client = server.chat(key_variable="MY_KEY")
            with pytest.raises(OffleashError) as error:
                client("?")
        assert server.headers[0]["Authorization"] == f"Bearer {secret}"
        assert secret not in str(error.value) + repr(error.value) + repr(client)
        assert error.value.__cause__ is None


def test_a_key_that_no_header_can_carry_is_reported_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret\r\nX: y")
    with pytest.raises(OffleashError, match="MY_KEY") as error:
        Chat("http://127.0.0.1:9", "m", key_variable="MY_KEY")("?")
    assert "secret" not in str(error.value)


def test_a_redirect_is_not_followed_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with serving(lambda n, body: good("A")) as other:
        moved = Answer(307, b"", {"Location": f"{other.url}/v1/chat/completions"})
        with serving(lambda n, body: moved) as server, pytest.raises(OffleashError, match="redirects to"):
            server.chat()("?")
    assert not other.bodies


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost:8000", "file:///etc/passwd", "ftp://h", "http://", "http://[::1", "http://h:x", "http://ho st",
        "http://é",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(OffleashError, match="http://localhost:8000/v1"):
        Chat(url, "m")


def test_a_password_in_the_address_is_refused_without_showing_it() -> None:
    with pytest.raises(OffleashError, match="contains a password") as error:
        Chat("http://me:hunter2@h", "m")
    assert "hunter2" not in str(error.value)


def test_threads_share_one_client() -> None:
    with serving(lambda n, body: trouble(500, "x") if n % 5 == 0 else good(body["messages"][0]["content"])) as server:
        client = server.chat(tries=8)
        with ThreadPoolExecutor(8) as pool:
            prompts = [f"prompt {i}" for i in range(60)]
            assert list(pool.map(client, prompts)) == prompts
