"""HTTP requests to a server: one attempt with a deadline, the API key, and what an error response means.

The connections are httpx2's, shared by all threads of a draw. The key is read from the environment for every request
and appears nowhere else: not in the object, not in an error, not on another host (redirects are refused). What may be
secret in an address is decided in offleash/credentials.py. What to retry
is decided here, when to retry by the caller: rate_limit.py for draws, chat.py for the model judge.
"""

import errno
import json
import logging
import os
import re
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from random import SystemRandom
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from tenacity import RetryCallState

from offleash.credentials import public_url, server_address
from offleash.errors import OffleashError

# Statuses after which the same request may succeed. Beside the usual ones: 409 and 425 (OpenAI's own client retries
# them), 52x (Cloudflare could not reach the server behind it) and 529 (overloaded).
RETRIED_STATUSES = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
QUOTED_BYTES = 1 << 16  # bytes of a response that are searched for the key: a key cut in half would not be recognised
LONGEST_MESSAGE = 4000  # characters of an error response that are searched for field names; far fewer are shown
# Idle connections are closed before the server does it (uvicorn, hence vLLM, after 5 seconds): a request that is sent
# into a connection being closed is lost.
KEEPALIVE = 4.0  # seconds
# At DEBUG it logs the headers of responses, and a server may repeat the key in them.
logging.getLogger("httpcore2").setLevel(logging.INFO)
_UNREACHABLE_ERRNOS = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}


class Cause(StrEnum):
    """Why an attempt failed."""

    DOWN = "down"  # nobody listens there
    BUSY = "busy"  # the server asks for fewer requests (status 429)
    SLOW = "slow"
    LARGE = "large"
    OTHER = "other"


class TryAgainError(Exception):
    """A failure that may pass; `wait` is the server's own Retry-After in seconds, where it sent one."""

    def __init__(self, reason: str, wait: float | None = None, cause: Cause = Cause.OTHER) -> None:
        super().__init__(reason)
        self.wait = wait
        self.cause = cause


class ServerRefusedError(Exception):
    """The server answered with a status that a retry would not change.

    Attributes:
        message: the server's message, long enough to search it for names of fields.
        summary: the same, short enough to show.
        field: the field of the request that the server blames ("param" in OpenAI's errors), or "".
        location: where a redirect points to, or "".
    """

    def __init__(self, code: int, message: str, field: str = "", location: str = "") -> None:
        self.summary = shorten(message.strip().removesuffix("."))
        super().__init__(f"status {code}: {self.summary}")
        self.code = code
        self.message = message
        self.field = field
        self.location = location


class EndpointClient:
    """One server: where it is, and how long to wait for it. Threads may share it, and with it its connections."""

    def __init__(self, url: str, key_variable: str, timeout: float, max_bytes: int) -> None:
        """Check the address; nothing is sent yet.

        Args:
            url: the server's address, with or without /v1.
            key_variable: the environment variable that holds the API key; where it is unset, none is sent.
            timeout: seconds that one attempt may take.
            max_bytes: bytes of a response that are read before it is given up.
        """
        self._address = server_address(url, key_variable)
        if not is_address(url):
            raise OffleashError(
                f"{public_url(url)!r} is not a server address. Give one such as http://localhost:8000/v1."
            )
        self._address.secrets()  # an unset variable is an error now, not at the first request
        self.url, self.key_variable, self.timeout, self.max_bytes = url, key_variable, timeout, max_bytes
        self._transport = _transport(url)
        # whoever drops a client (a judge has no close) leaves no open sockets behind
        self.close: Callable[[], object] = weakref.finalize(self, self._transport.close)

    def request(self, route: str, body: Mapping[str, object] | None = None, timeout: float | None = None) -> bytes:
        """Send one request, once, and return the body of its response.

        Args:
            route: below /v1, such as "chat/completions".
            body: sent as JSON by POST; None is a GET.
            timeout: seconds, where they differ from the client's own.

        Raises:
            TryAgainError: it may succeed when repeated.
            ServerRefusedError: it would fail again.
        """
        timeout = timeout or self.timeout
        deadline = time.monotonic() + timeout
        request = httpx2.Request(
            "GET" if body is None else "POST",
            address(self._address.full(), route),
            headers={
                "User-Agent": "offleash",
                "Accept-Encoding": "identity",  # a small compressed response could unpack to more than max_bytes
                **({} if body is None else {"Content-Type": "application/json"}),
                **self._authorization(),
            },
            # ASCII by json's escapes: a model's name from the command line may hold bytes that are no UTF-8
            content=None if body is None else json.dumps(body).encode(),
            extensions={"timeout": httpx2.Timeout(timeout).as_dict()},
        )
        try:
            response = self._transport.handle_request(request)
            try:
                if response.is_success:
                    return self._read(response, deadline)
                raise self._refusal(response, deadline)
            finally:
                response.close()  # a body that was not read to its end costs the connection
        except httpx2.TimeoutException:
            raise TryAgainError(f"no answer within {timeout:g} seconds", cause=Cause.SLOW) from None
        except httpx2.ConnectError as error:
            raise TryAgainError(shorten(self.masked(str(error))), cause=_cause_of_connect_error(error)) from None
        except (httpx2.HTTPError, OSError) as error:  # one about a malformed response quotes it
            raise TryAgainError(shorten(self.masked(f"{type(error).__name__}: {error}"))) from None

    def explain(self, error: ServerRefusedError, model: str, route: str) -> OffleashError:
        """The error for a refusal, with what the user can do about it."""
        steps = {
            401: f"Put a valid key into the environment variable {self.key_variable}.",
            403: f"The key in the environment variable {self.key_variable} has no access to this model.",
            404: f"Requested model {model!r} at {public_url(address(self.url, route))}: check both.",
        }
        if 300 <= error.code < 400:
            steps[error.code] = f"It redirects to {public_url(error.location)!r}: use that address."
        step = steps.get(error.code, "The server does not accept this request.")
        summary = error.summary or "no message"
        return OffleashError(f"{public_url(self.url)} answered with status {error.code}: {summary}. {step}")

    def quote(self, body: bytes) -> str:
        """The start of a response for an error message: short, and without the key, which some servers repeat."""
        return shorten(self.masked(body[:QUOTED_BYTES].decode("utf-8", "replace")))

    def masked(self, text: str) -> str:
        """A server's text without the key, and without what is secret in the address."""
        return self._address.masked(text, os.environ.get(self.key_variable, "").strip())

    def _authorization(self) -> dict[str, str]:
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            return {}
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            # the HTTP library's own error would print the key
            raise OffleashError(f"{self.key_variable} contains characters that a key cannot have. Set it again.")
        return {"Authorization": f"Bearer {key}"}

    def _read(self, response: httpx2.Response, deadline: float) -> bytes:
        """The body, up to `max_bytes` and the deadline: the library's timeout is per read, and a server may send a byte
        at a time."""
        chunks, size = [], 0
        for chunk in response.iter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > self.max_bytes:
                raise TryAgainError(f"the response is longer than {self.max_bytes:,} bytes", cause=Cause.LARGE)
            if time.monotonic() > deadline:
                raise TryAgainError("the response arrived too slowly", cause=Cause.SLOW)
        return b"".join(chunks)

    def _refusal(self, response: httpx2.Response, deadline: float) -> Exception:
        """What an error status means: worth a retry, or not."""
        code, (message, field) = response.status_code, self._error_message(response, deadline)
        if code in RETRIED_STATUSES:
            cause = Cause.BUSY if code == 429 else Cause.OTHER
            wait = _retry_after(response.headers.get("Retry-After", ""))
            return TryAgainError(f"status {code} {shorten(message)}".strip(), wait, cause)
        return ServerRefusedError(code, message, field, self.masked(response.headers.get("Location", "")))

    def _error_message(self, response: httpx2.Response, deadline: float) -> tuple[str, str]:
        """The server's own message, and the field of the request that it names; the status counts without them."""
        try:
            text = self._read(response, deadline).decode("utf-8", "replace")
        except (TryAgainError, httpx2.HTTPError, OSError):
            return "", ""
        field: object = None
        try:
            document = json.loads(text)
            # OpenAI: {"error": {"message", "param"}}; others: {"error": text}, {"message": text}, or plain text
            error_object = document.get("error", document) if isinstance(document, dict) else text
            text = str(error_object.get("message", error_object) if isinstance(error_object, dict) else error_object)
            field = error_object.get("param") if isinstance(error_object, dict) else None
        except (ValueError, RecursionError):
            pass
        return self.masked(text)[:LONGEST_MESSAGE], field if isinstance(field, str) else ""


def wait_backoff(pause: float, longest: float) -> Callable[[RetryCallState], float]:
    """A tenacity wait: what the server asks for, else `pause` doubled with every attempt; never above `longest`."""

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        requested_wait = error.wait if isinstance(error, TryAgainError) else None
        return backoff(pause, state.attempt_number - 1, requested_wait, longest)

    return wait


def backoff(pause: float, attempt: int, requested_wait: float | None, longest: float) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 0)."""
    jitter = SystemRandom().uniform(0.5, 1.5)  # clients that failed together must not return together
    return min(requested_wait or pause * 2.0**attempt * jitter, longest)


def address(url: str, route: str) -> str:
    """The full URL of a route (chat/completions, completions, models): below /v1, or below the version in `url`.

    >>> address("http://localhost:8000", "models")
    'http://localhost:8000/v1/models'
    >>> address("https://host/v1beta/openai/chat/completions", "models")
    'https://host/v1beta/openai/models'
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    base = re.sub(r"(?:/chat)?/completions$", "", path)
    if base == path and not re.search(r"/v[0-9]+[a-z0-9]*(?:/|$)", path):
        base += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, f"{base}/{route}", parts.query, ""))


def is_address(url: str) -> bool:
    """Whether a text is an http:// or https:// URL with a host."""
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        return False
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:  # brackets that do not close, a port that is no number
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and parts.port != 0


def shorten(text: str) -> str:
    """A text on one line, cut at 200 characters."""
    single_spaced = " ".join(text.split())
    return single_spaced if len(single_spaced) <= 200 else f"{single_spaced[:200]}..."


def _transport(url: str) -> httpx2.HTTPTransport:
    """Connections to a server, through the proxy that the environment names for it.

    A transport, not a `Client`: a client keeps cookies, and a load balancer's would send all requests to one replica;
    it logs addresses with their query, which may be secret; and it fails on a SOCKS proxy in ALL_PROXY even where
    NO_PROXY excludes the host.
    """
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        return httpx2.HTTPTransport(
            # http:// needs no certificates, and reading the system's takes longer than a request
            verify=parts.scheme == "https",
            proxy=proxy,
            # bounded by the number of threads; httpx2's own bounds would let further requests wait unseen
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE),
        )
    except (ImportError, ValueError, httpx2.InvalidURL):  # SOCKS without socksio, an unknown scheme
        raise OffleashError(
            f"The proxy {public_url(proxy or '')!r} from the environment cannot be used. Set "
            f"{parts.scheme}_proxy to an http:// proxy (SOCKS needs pip install socksio), or no_proxy={parts.hostname}."
        ) from None


def _cause_of_connect_error(error: BaseException) -> Cause:
    """Whether nobody is there: refused, unreachable, no such name, or a certificate of somebody else.

    The socket's own error is in the chain of contexts; httpx2 and httpcore2 wrap it and keep only its text.
    """
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError):
            return Cause.DOWN
        if isinstance(reason, OSError) and reason.errno in _UNREACHABLE_ERRNOS:
            return Cause.DOWN
        reason = reason.__context__
    return Cause.OTHER


def _retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header: a number or a date (RFC 9110); None for anything else."""
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value):
        return float(value)
    try:
        retry_at = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    retry_at = retry_at if retry_at.tzinfo else retry_at.replace(tzinfo=UTC)
    return max((retry_at - datetime.now(UTC)).total_seconds(), 0.0)
