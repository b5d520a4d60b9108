"""The server of `offleash view`: whom it answers, and what it refuses."""

import json
import socket

import pytest

from offleash.reporting.view import ViewServer
from tests.reporting.view_world import ask, port_of, raw


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("/api/problem", 400, "row must be a whole number from 0 to 1; it is missing."),
        ("/api/problem?row=", 400, "found ''"),
        ("/api/problem?row=-1", 400, "from 0 to 1; found '-1'"),
        ("/api/problem?row=2", 404, "from 0 to 1; found 2"),
        ("/api/problem?row=one", 400, "found 'one'"),
        ("/api/problem?row=1.0", 400, "found '1.0'"),
        ("/api/problem?row=%D9%A1", 400, "whole number"),
        ("/api/problem?row=" + "9" * 5000, 400, "whole number"),
        ("/api/problem?row=999999999999", 404, "found 999,999,999,999"),
        ("/api/problem?row=../../run.json", 400, "whole number"),
        ("/api/problem?row=0&row=1", 400, "is repeated"),
        ("/api/problem?rwo=1", 400, "Did you mean 'row'?"),
        ("/api/problem?" + "&".join(["row=0"] * 30), 400, "more than 20 parameters"),
        ("/api/samples?row=0", 400, "run must be a whole number from 0 to 1"),
        ("/api/samples?row=0&run=2", 404, "found 2"),
        ("/api/samples?row=0&run=0&verdict=corect", 400, "Did you mean 'correct'?"),
        ("/api/samples?row=0&run=0&size=101", 404, "from 1 to 100"),
        ("/api/samples?row=0&run=0&size=0", 404, "from 1 to 100"),
        ("/api/samples?row=0&run=0&start=99999999999", 404, "start must be a whole number"),
        ("/api/text?row=0&run=0", 400, "index must be a whole number"),
        ("/api/text?row=0&run=0&index=152", 404, "has no text for sample 152"),
        ("/api/text?row=0&run=0&index=99999999999", 404, "index must be a whole number"),
    ],
)
def test_a_query_that_is_wrong_is_told_what_is_right(server: ViewServer, target: str, status: int, words: str) -> None:
    response, body = ask(server, target)
    assert response.status == status
    assert words in json.loads(body)["error"]


@pytest.mark.parametrize(
    "target",
    [
        "/..",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "/api",
        "/api/",
        "/api/problem/",
        "/api/../api/problem?row=0",
        "/api/%70roblem?row=0",
        "/samples/000000.parquet",
        "/index.html",
        "/run.json",
        "http://127.0.0.1/api/problem?row=0",
        "file:///etc/passwd",
        "C:\\Windows",
        "*",
    ],
)
def test_no_path_leads_to_a_file(server: ViewServer, target: str) -> None:
    response, body = ask(server, target, Host=f"127.0.0.1:{port_of(server)}")
    assert response.status == 404
    assert "Known paths: /, /api/problem" in json.loads(body)["error"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}", "0:{port}", ""],
)
def test_a_request_under_another_name_gets_nothing(server: ViewServer, host: str) -> None:
    for target in ("/", "/api/problem?row=0"):
        response, body = ask(server, target, Host=host.format(port=port_of(server)))
        assert response.status == 421
        assert set(json.loads(body)) == {"error"}


def test_a_request_with_no_name_or_with_two_gets_nothing(server: ViewServer) -> None:
    ours = f"Host: 127.0.0.1:{port_of(server)}\r\n"
    for headers in ("", ours + ours, ours + "Host: evil.example\r\n"):
        assert raw(server, f"GET / HTTP/1.1\r\n{headers}\r\n".encode()).startswith(b"HTTP/1.1 421 ")
    assert b" 421 " in raw(server, b"GET /\r\n\r\n")


def test_localhost_is_our_name_too(server: ViewServer) -> None:
    assert ask(server, "/", Host=f"LocalHost:{port_of(server)}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "ANY"])
def test_only_get_and_head_are_answered(server: ViewServer, method: str) -> None:
    response, body = ask(server, "/api/problem?row=0", method)
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
    assert method in json.loads(body)["error"]


def test_head_has_the_headers_of_get_and_no_body(server: ViewServer) -> None:
    for target in ("/", "/api/problem?row=0", "/nothing"):
        plain, body = ask(server, target)
        response, nothing = ask(server, target, "HEAD")
        assert nothing == b""
        assert response.status == plain.status
        assert response.headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET /api/problem?row=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://evil.example\r\n\r\n",
        b"GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example:%d\r\n\r\n",
        b"GET /\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"nonsense %d\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)
def test_every_answer_forbids_what_it_can(server: ViewServer, sent: bytes) -> None:
    head, _, _ = raw(server, sent % port_of(server)).partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0].startswith("http/1.1 ")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    html = headers["content-type"].startswith("text/html")
    assert html == (lines[0].endswith("200 ok") and b"/api" not in sent)
    policy = "frame-ancestors 'none'" if html else "default-src 'none'; frame-ancestors 'none'"
    assert headers["content-security-policy"] == policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control-") for name in headers)


def test_another_sites_page_is_refused_before_anything_is_read(server: ViewServer) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(server, "/api/problem?row=0", Sec_Fetch_Site=site)[0].status == 403
    for site in ("same-origin", "none"):
        assert ask(server, "/api/problem?row=0", Sec_Fetch_Site=site)[0].status == 200


def test_the_body_of_a_request_is_not_read_as_the_next_request(server: ViewServer) -> None:
    host = f"Host: 127.0.0.1:{port_of(server)}\r\n"
    hidden = f"GET /api/problem?row=1 HTTP/1.1\r\n{host}\r\n"
    found = raw(server, f"GET /nothing HTTP/1.1\r\n{host}Content-Length: {len(hidden)}\r\n\r\n{hidden}".encode())
    assert found.count(b"HTTP/1.1 ") == 1


def test_the_server_is_heard_on_the_loopback_address_alone(server: ViewServer) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port_of(server)), timeout=5)  # any other address of this machine
