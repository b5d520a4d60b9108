"""A server on this machine that speaks as OpenAI's does, and whose ways a test can choose."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

LOGPROB = -0.5  # of every token that a world's model writes, and of its end


@dataclass(frozen=True)
class Call:
    """A request as the server got it."""

    number: int
    path: str
    body: dict[str, Any]  # empty for a GET
    headers: dict[str, str]
    port: int = 0  # of the client: a connection has one of its own


@dataclass(frozen=True)
class Answer:
    """What the server sends for one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0


@dataclass
class Served:
    """A server at work: its address, and every request it got."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    most: int = 0  # requests under way at a time

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [call.body for call in self.calls if call.body]


@contextmanager
def serving(reply: Callable[[Call], Answer], version: str = "HTTP/1.0") -> Iterator[Served]:
    """A server that answers every request with `reply(call)`; with HTTP/1.1 it keeps connections open."""
    lock, released, served, under_way = threading.Lock(), threading.Event(), Served(), [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = version

        def do_GET(self) -> None:
            self.respond({})

        def do_POST(self) -> None:
            self.respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def respond(self, body: dict[str, Any]) -> None:
            with lock:
                call = Call(len(served.calls), self.path, body, dict(self.headers), self.client_address[1])
                served.calls.append(call)
                under_way[0] += 1
                served.most = max(served.most, under_way[0])
            try:
                answer = reply(call)
                if answer.hang and released.wait(answer.hang):
                    return
            finally:
                with lock:
                    under_way[0] -= 1
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """A client that has gone away is no news."""

    listener = Listener(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        released.set()
        listener.shutdown()
        thread.join()
        listener.server_close()


@dataclass(frozen=True)
class World:
    """A server with a model of its own: a sentence of words drawn by seed and place, as a good server does it."""

    words: int = 6  # in a sample
    vocabulary: int = 50
    most: int | None = None  # choices a request may ask for; more are refused
    ignores_n: bool = False
    copies: bool = False
    gives_logprobs: bool = True  # where they are requested
    gives_ids: bool = True  # the tokens' ids, where they are requested
    gives_end: bool = True  # the end is among the tokens
    refuses: tuple[str, ...] = ()
    thinks: str = ""  # name of the field that holds the reasoning
    usage: bool = True

    def __call__(self, call: Call) -> Answer:
        body, raw = call.body, not call.path.endswith("/chat/completions")
        for name in self.refuses:
            if name in body:
                return trouble(400, f"Unrecognized request argument supplied: {name}")
        n = int(body.get("n", 1))
        if self.most is not None and n > self.most:
            return trouble(400, f"n must be at most {self.most}, got {n}.")
        places = [0] * n if self.copies else list(range(1 if self.ignores_n else n))
        choices = [self._choice(body, raw, index, place) for index, place in enumerate(places)]
        tokens = sum(len(choice.pop("steps")) for choice in choices)
        document = {"model": "world-1", "choices": choices}
        return good(document | ({"usage": {"completion_tokens": tokens}} if self.usage else {}))

    def _choice(self, body: dict[str, Any], raw: bool, index: int, place: int) -> dict[str, Any]:
        random = Random(f"{body.get('seed', Random().random())}/{place}")
        finish = "length" if self.words > body.get("max_tokens", math.inf) else "stop"
        words = [f" word{random.randrange(self.vocabulary)}" for _ in range(min(self.words, body["max_tokens"]))]
        steps = words + (["<end>"] if finish == "stop" and self.gives_end else [])
        choice: dict[str, Any] = {"index": index, "finish_reason": finish, "steps": steps, "logprobs": None}
        text = "".join(words)
        if raw:
            choice["text"] = text
        else:
            choice["message"] = {"role": "assistant", "content": text}
            if self.thinks:
                choice["message"][self.thinks] = "a thought"
        if self.gives_logprobs and "logprobs" in body:
            choice["logprobs"] = (
                {"tokens": steps, "token_logprobs": [LOGPROB] * len(steps)}
                if raw
                else {"content": [{"token": step, "logprob": LOGPROB} for step in steps]}
            )
        if self.gives_ids and body.get("return_token_ids"):
            choice["token_ids"] = list(range(len(steps)))
        return choice


def good(document: object) -> Answer:
    return Answer(body=json.dumps(document).encode())


def chat(*texts: object, finish: str | None = "stop") -> Answer:
    """A chat completion with these contents."""
    return good({"choices": [{"message": {"content": text}, "finish_reason": finish} for text in texts]})


def trouble(status: int, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps({"error": {"message": message}}).encode(), named)
