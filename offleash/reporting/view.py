"""The server of `offleash view`: the page and every sample behind it, on a loopback port for this machine only.

The first part maps addresses to documents and knows nothing of sockets; tests call `answer` directly. The second part
is the HTTP server. Samples may be confidential, and any web page that is open in the same browser can send requests to
127.0.0.1, so everything is refused but plain GETs that a browser attributes to this page itself.
"""

import errno
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qsl

from offleash.comparing.compare import Comparison
from offleash.data.shards import READ_ERRORS, first_line
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.render.escape import script_json
from offleash.render.json import Json
from offleash.reporting.samples import (
    RUNS,
    UNVERIFIED_WORD,
    SampleStore,
    problem_document,
    samples_document,
    text_document,
)
from offleash.reporting.show import problem_row

# Routes: what each address returns. No address names a file: rows and indices are numbers, and checked.


ALL = "all"
VERDICTS = (*(verdict.value for verdict in Verdict), UNVERIFIED_WORD, ALL)
SAMPLES_AT_ONCE, CHARACTERS_AT_ONCE = 100, 100_000  # most that one request may fetch
MAX_INDEX = 2**32 - 1  # index: the column is UInt32
HTML, JSON = "text/html; charset=utf-8", "application/json; charset=utf-8"


@dataclass(frozen=True)
class HttpResponse:
    """What is sent back: a status, a body and its content type."""

    status: int
    body: bytes
    kind: str = JSON


class BadRequestError(Exception):
    """A request that is refused; the message says what would be accepted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(stores: Sequence[SampleStore], page: bytes, target: str) -> HttpResponse:
    """The response to one request.

    Args:
        stores: where samples are read from: one per comparison that the page shows, the last by default.
        page: the HTML page, which is served at `/`.
        target: path and query as the browser sent them.
    """
    path, _, query = target.partition("?")  # compared undecoded: an encoded dot is no dot
    if path == "/":
        return HttpResponse(200, page, HTML)
    if path == "/favicon.ico":  # browsers ask for it by themselves
        return HttpResponse(204, b"")
    try:
        if path not in ROUTES:
            raise BadRequestError(404, f"Not found: {path[:80]!r}. Known paths: /, {', '.join(ROUTES)}.")
        route = ROUTES[path]
        parameters = _parsed_query(query, (*route.names, "comparison"))
        store = stores[_number(parameters, "comparison", 0, len(stores) - 1, len(stores) - 1)]
        return HttpResponse(200, script_json(route.document(store, parameters)).encode())
    except BadRequestError as error:
        return refusal(error.status, str(error))
    except READ_ERRORS as error:
        reason = f"The samples cannot be read ({first_line(error)}). Was the run folder moved or deleted?"
        return refusal(500, reason)


def refusal(status: int, message: str) -> HttpResponse:
    """An error as JSON: what is wrong, and what would be accepted."""
    return HttpResponse(status, script_json({"error": message}).encode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class Route:
    """A document, and the names that its query may have."""

    document: Callable[[SampleStore, Mapping[str, str]], Json]
    names: tuple[str, ...]


def _problem(store: SampleStore, query: Mapping[str, str]) -> Json:
    """One problem: question, gold answer, and the answers of both runs with a few samples."""
    return problem_document(store, _row(store, query))


def _samples(store: SampleStore, query: Mapping[str, str]) -> Json:
    """A page of samples of one problem and run, of one verdict or of all."""
    row, r = _row(store, query), _number(query, "run", RUNS[0], RUNS[-1])
    verdict = query.get("verdict", ALL)
    if verdict not in VERDICTS:
        raise BadRequestError(400, str(unknown("verdict", verdict[:40], VERDICTS)))
    start = _number(query, "start", 0, MAX_INDEX, 0)
    size = _number(query, "size", 1, SAMPLES_AT_ONCE, 20)
    return samples_document(store, row, r, None if verdict == ALL else verdict, start, size)


def _text(store: SampleStore, query: Mapping[str, str]) -> Json:
    """A part of one text: a long one is fetched in pieces."""
    row, r = _row(store, query), _number(query, "run", RUNS[0], RUNS[-1])
    index = _number(query, "index", 0, MAX_INDEX)
    start = _number(query, "start", 0, MAX_INDEX, 0)
    part = text_document(store, row, r, index, start, CHARACTERS_AT_ONCE)
    if part is None:
        name = store.run(r).name
        raise BadRequestError(
            404, f"{name!r} has no text for sample {index} of this problem. /api/samples lists the samples."
        )
    return part


def problem_fragment(comparison: Comparison, problem: str) -> str:
    """The end of an address that opens the page at a problem (render/assets/problem.js: openFragment)."""
    runs = f"{comparison.change.before} and {comparison.change.after}"
    return f"#problem={problem_row(problem, comparison.counted.problems['problem'].to_list(), runs)}"


# a route lists its parameters, so that a misspelt one is an error and not silently the default
ROUTES: dict[str, Route] = {
    "/api/problem": Route(_problem, ("row",)),
    "/api/samples": Route(_samples, ("row", "run", "verdict", "start", "size")),
    "/api/text": Route(_text, ("row", "run", "index", "start")),
}


def _parsed_query(query: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """The parameters of a query; an unknown or repeated name is refused, so that a typo is not ignored."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise BadRequestError(400, f"The query has more than 20 parameters. Known: {', '.join(names)}.") from None
    for name, _ in pairs:
        if name not in names:
            raise BadRequestError(400, str(unknown("query parameter", name[:40], names)))
    if len(dict(pairs)) < len(pairs):
        raise BadRequestError(400, f"A query parameter is repeated: {query[:80]!r}. Pass each one once.")
    return dict(pairs)


def _row(store: SampleStore, query: Mapping[str, str]) -> int:
    """The row of a problem: an index into the comparison, never an id or a path from the request."""
    return _number(query, "row", 0, store.comparison.counted.problems.height - 1)


def _number(query: Mapping[str, str], name: str, low: int, high: int, usual: int | None = None) -> int:
    """A whole number of the query between two bounds; without `usual` it must be there."""
    text = query.get(name)
    if text is None and usual is not None:
        return usual
    expected = f"{name} must be a whole number from {low:,} to {high:,}"
    if text is None:
        raise BadRequestError(400, f"{expected}; it is missing.")
    # int() also takes signs, spaces, underscores and digits of other scripts, and long texts slowly
    if not re.fullmatch("[0-9]{1,12}", text):
        raise BadRequestError(400, f"{expected}; found {text[:40]!r}.")
    if not low <= int(text) <= high:
        raise BadRequestError(404, f"{expected}; found {int(text):,}.")
    return int(text)


# The server: on the loopback interface, for GET and HEAD, closed to pages of other sites.


LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 60  # that a connection may be silent
METHODS = "GET, HEAD"
OTHER_SITES = ("cross-site", "same-site")  # what a browser calls a page that is not ours; another port is same-site
BODY_HEADERS = (
    "Content-Length",
    "Transfer-Encoding",
)  # what follows a GET is not read, least of all as the next request
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
PAGE_POLICY = {HTML: "frame-ancestors 'none'"}  # the page has its own policy in a meta tag as well
API_POLICY = "default-src 'none'; frame-ancestors 'none'"


class ViewServer:
    """Serves a page and the samples of its comparisons on 127.0.0.1 until it is closed."""

    def __init__(self, stores: Sequence[SampleStore], page: str, port: int = 0) -> None:
        check_port(port)
        try:
            self._listener = _Listener(stores, page.encode(), port)
        except OSError as error:
            raise _port_error(port, error) from None
        self._started = False

    @property
    def url(self) -> str:
        """The address of the page, with the port that was chosen."""
        return f"http://{LOOPBACK}:{self._listener.server_port}/"

    def serve(self) -> None:
        """Answer requests until Ctrl-C, or until another thread closes the server."""
        self._started = True
        with suppress(KeyboardInterrupt):
            self._listener.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop answering and free the port."""
        if self._started:
            self._listener.shutdown()
        self._listener.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_port(port: int) -> None:
    """Refuse a port that cannot be opened, before minutes are spent on a page for it."""
    if not 0 <= port <= 65_535:
        raise OffleashError(f"--port is a number from 0 (any free one) to 65535. Found {port}.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        # without this a port that a viewer used a moment ago would count as taken
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
            trial.listen()
        except OSError as error:
            raise _port_error(port, error) from None


def _port_error(port: int, error: OSError) -> OffleashError:
    """The error for a port that is taken or forbidden."""
    why = "is already in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
    return OffleashError(f"Port {port} of {LOOPBACK} {why}. Choose another with --port, or any free one with --port 0.")


class _Listener(ThreadingHTTPServer):
    """The listening socket: one thread per connection, bound to the loopback interface only."""

    daemon_threads = True
    block_on_close = False  # a browser keeps connections open; Ctrl-C does not wait for it
    allow_reuse_port = False

    def __init__(self, stores: Sequence[SampleStore], page: bytes, port: int) -> None:
        self.stores, self.page = stores, page
        super().__init__((LOOPBACK, port), _Request)
        names = (LOOPBACK, "localhost")
        # browsers omit the port from the Host header only where it is the default one
        self.hosts = {f"{name}:{self.server_port}" for name in names} | (
            set(names) if self.server_port == 80 else set()
        )

    def server_bind(self) -> None:
        """Bind without asking the name service for the name of this machine, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected; print one line for anything else."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"offleash: a request failed ({type(error).__name__}: {error}).", file=sys.stderr)


class _Request(BaseHTTPRequestHandler):
    """One request; only GET and HEAD, only under our own name, and never anything but the page and its documents."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # of a line without one: else the answer would go without headers
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True  # otherwise a body waits for the acknowledgement of its headers, 40 ms per request

    def parse_request(self) -> bool:
        """Refuse other names in the Host header at once: in DNS rebinding a foreign name resolves to 127.0.0.1."""
        if not super().parse_request():
            return False
        hosts, host_headers = cast(_Listener, self.server).hosts, self.headers.get_all("Host", [])
        if len(host_headers) != 1 or host_headers[0].strip().lower() not in hosts:
            self._send(refusal(421, f"This server accepts requests to {' and '.join(sorted(hosts))} only."), close=True)
            return False
        return True

    def do_GET(self) -> None:
        """Serve the page or a document, unless a page of another site sent the request."""
        listener = cast(_Listener, self.server)
        if self.path != "/" and self.headers.get("Sec-Fetch-Site", "") in OTHER_SITES:
            self._send(refusal(403, "This request came from another site. Open the address directly."), close=True)
            return
        # a body that is left unread on an open connection would be parsed as the next request (request smuggling)
        more = any(name in self.headers for name in BODY_HEADERS)
        self._send(answer(listener.stores, listener.page, self.path), close=more)

    def do_HEAD(self) -> None:
        """The headers of the same GET; `_send` leaves out the body."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library finds wrong with a request, in our form; a method it does not know is 405."""
        if code == 501:
            code, message = 405, f"Only {METHODS} are supported; found {str(self.command)[:40]!r}."
        self._send(refusal(code, message or "Malformed request."), close=True)

    def _send(self, reply: HttpResponse, close: bool = False) -> None:
        """Write a response with the headers that keep other sites out."""
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        if reply.status != 204:  # a response without content must not have a length (RFC 9110, 8.6)
            self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Content-Security-Policy", PAGE_POLICY.get(reply.kind, API_POLICY))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if reply.status == 405:
            self.send_header("Allow", METHODS)
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def version_string(self) -> str:
        """The Server header, without the Python version that the standard library would add."""
        return "offleash"

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal is for the address, not for a log of what was viewed."""
