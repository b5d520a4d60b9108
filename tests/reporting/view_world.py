"""A server of `offleash view` over texts that mean harm, and a client for it."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import polars as pl

from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.data.run_folder import create_run
from offleash.reporting.samples import SampleStore
from offleash.reporting.view import ViewServer

PAGE = "<!doctype html><title>stand-in</title>" + "x" * 4_000_000
HOSTILE = (
    "</script><script>alert('1')</script> & \"quotes\" \u202eRTL\u202c \u2028\u2029 NUL\0 $\\frac{1}{2}$ `rm -rf` 🙂"
)
LONG = "".join(f"{number:08d}\n" for number in range(5_000_000 // 9))
QUESTION = "What is <b>1</b>?" + "?" * 30_000
TEXTS = {"a": [HOSTILE, LONG, *(f"text {i}" for i in range(150))], "b": ["only one"]}


def write_run(folder: Path) -> Path:
    problems = pl.DataFrame({"problem": ["a", "b"], "question": [QUESTION, None], "gold": [HOSTILE, "2"]})
    rows = [(problem, index, text) for problem, some in TEXTS.items() for index, text in enumerate(some)]
    frame = pl.DataFrame(rows, schema=["problem", "index", "text"], orient="row")
    said = {"verdict": pl.lit("wrong"), "answer": pl.col("text").str.head(2_000), "reason": pl.lit(HOSTILE)}
    verdicts = frame.with_columns(**said).with_columns(
        verdict=pl.when(pl.col("index") == 0).then(pl.lit("correct")).otherwise("verdict")
    )
    with create_run(folder, folder.name, problems, {}) as run:
        for shard in range(2):
            run.write_samples(frame.gather_every(2, shard))
        run.write_verdicts("known", verdicts.drop("text"))
    return folder


def shelf_of(*arguments: Path) -> SampleStore:
    comparisons, _ = compare_inputs([str(one) for one in arguments], question=question(replicates=100))
    return SampleStore(comparisons[-1])


@contextmanager
def serving(store: SampleStore) -> Iterator[ViewServer]:
    with ViewServer([store], PAGE) as server:
        thread = Thread(target=server.serve)
        thread.start()
        yield server
    thread.join(5)
    assert not thread.is_alive()


def port_of(server: ViewServer) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


def ask(server: ViewServer, target: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port_of(server), timeout=20)
    connection.putrequest(method, target, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def get(server: ViewServer, path: str, **query: object) -> Any:
    response, body = ask(server, f"/api/{path}?{urlencode(query)}")
    assert response.status == 200, body
    return json.loads(body)


def raw(server: ViewServer, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as one:
        one.sendall(sent)
        one.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: one.recv(1 << 16), b""))


def shelf_in(folder: Path) -> SampleStore:
    """Two runs of the same texts, written into a folder and compared."""
    return shelf_of(write_run(folder / "base"), write_run(folder / "rl"))
