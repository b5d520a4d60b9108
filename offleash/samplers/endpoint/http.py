"""HTTP requests to a server: one attempt with a deadline, the API key, and what an error response means.

Standard library only. Proxies are those of the environment, as urllib reads them. The key is read from the environment
on every call and appears nowhere else: not in the object, nor in an error, nor on another host (redirects are refused).
Retries are up to the caller: rate_limit.py for draws, chat.py for the model judge.
"""

import errno
import http.client
import json
import os
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from random import SystemRandom
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from offleash.errors import OffleashError

AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
WORDS = 4000  # characters of a refusal that are looked at; far fewer are shown
_NOBODY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}


class Cause(StrEnum):
    """Why a try failed."""

    DOWN = "down"  # nobody listens there
    BUSY = "busy"  # the server asks for fewer requests
    SLOW = "slow"
    LARGE = "large"
    OTHER = "other"


class TryAgainError(Exception):
    """Trouble that may pass, and the seconds to wait when the server named them."""

    def __init__(self, reason: str, wait: float | None = None, cause: Cause = Cause.OTHER) -> None:
        super().__init__(reason)
        self.wait = wait
        self.cause = cause


class ServerRefusedError(Exception):
    """The server answered, and would answer the same again: its status, its words, and the field it names."""

    def __init__(self, code: int, words: str, field: str = "", location: str = "") -> None:
        self.said = short(words.strip().removesuffix("."))
        super().__init__(f"status {code}: {self.said}")
        self.code = code
        self.words = words
        self.field = field
        self.location = location


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host, and turn the question into a GET."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class EndpointClient:
    """Where to ask, and how long to wait. Threads may share it: it holds no connection."""

    url: str  # with or without /v1
    key_variable: str  # the environment variable that holds the key; unset: none is sent
    timeout: float  # seconds a try may take
    largest: int  # bytes of a response that are read

    def __post_init__(self) -> None:
        if not is_address(self.url):
            raise OffleashError(
                f"{safe(self.url)!r} is not the address of a server. Give one such as http://localhost:8000/v1."
            )
        if "@" in urlsplit(self.url).netloc:
            raise OffleashError(
                f"The address {safe(self.url)} holds a password. Leave it out, and put the key into the environment "
                f"variable {self.key_variable}."
            )

    def ask(self, what: str, body: Mapping[str, object] | None = None) -> bytes:
        """One try: the response to a body, or to none; a TryAgainError or a ServerRefusedError where there is none."""
        content = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(
            address(self.url, what),
            None if body is None else json.dumps(body).encode(),
            {"User-Agent": "offleash", **content, **self._key()},  # some hosts turn urllib's own name away
        )
        deadline = time.monotonic() + self.timeout
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=self.timeout) as response:
                return _read(response, deadline, self.largest)
        except HTTPError as error:
            with error:
                raise self._refusal(error, deadline) from None
        except TimeoutError:
            raise TryAgainError(f"no answer within {self.timeout:g} seconds", cause=Cause.SLOW) from None
        except URLError as error:
            raise TryAgainError(short(str(error.reason)), cause=_cause(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise TryAgainError(short(f"{type(error).__name__}: {error}")) from None

    def mended(self, refused: ServerRefusedError, model: str, what: str) -> OffleashError:
        """The error for a refusal, with what the user can do about it."""
        steps = {
            401: f"Put a valid key into the environment variable {self.key_variable}.",
            403: f"The key in the environment variable {self.key_variable} may not use this model.",
            404: f"Asked for model {model!r} at {safe(address(self.url, what))}: check both.",
        }
        if 300 <= refused.code < 400:
            steps[refused.code] = f"It redirects to {safe(refused.location)!r}: give that address."
        step = steps.get(refused.code, "The server refuses the request as it stands.")
        said = refused.said or "no message"
        return OffleashError(f"{safe(self.url)} answered with status {refused.code}: {said}. {step}")

    def quoted(self, text: str) -> str:
        """A server's words for an error: short, and without the key should it repeat it."""
        return short(self._masked(text))

    def _masked(self, text: str) -> str:
        key = os.environ.get(self.key_variable, "").strip()
        return text.replace(key, "[key]") if key else text

    def _key(self) -> dict[str, str]:
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            return {}
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            # the header's own error would print the key
            raise OffleashError(f"{self.key_variable} holds characters that no key has. Set it again.")
        return {"Authorization": f"Bearer {key}"}

    def _refusal(self, error: HTTPError, deadline: float) -> Exception:
        """What an error status means: another try, or not."""
        words, field = self._said(error, deadline)
        if error.code in AGAIN:
            cause = Cause.BUSY if error.code == 429 else Cause.OTHER
            return TryAgainError(f"status {error.code} {short(words)}".strip(), _retry_after(error), cause)
        return ServerRefusedError(error.code, words, field, error.headers.get("Location") or "")

    def _said(self, error: HTTPError, deadline: float) -> tuple[str, str]:
        """The server's own message, and the field of the request that it names."""
        try:
            text = _read(error.fp, deadline, self.largest).decode("utf-8", "replace")
        except (TryAgainError, OSError, http.client.HTTPException):
            return "", ""
        field: object = None
        try:
            document = json.loads(text)
            inner = document.get("error", document) if isinstance(document, dict) else text
            text = str(inner.get("message", inner) if isinstance(inner, dict) else inner)
            field = inner.get("param") if isinstance(inner, dict) else None
        except (ValueError, RecursionError):
            pass
        return self._masked(text)[:WORDS], field if isinstance(field, str) else ""


def address(url: str, what: str) -> str:
    """Where a server takes `what` (chat/completions, completions, models): below /v1, or what its address says."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    base = re.sub(r"(?:/chat)?/completions$", "", path)
    if base == path and not re.search(r"/v[0-9]+[a-z0-9]*(?:/|$)", path):
        base += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, f"{base}/{what}", parts.query, ""))


def backoff(pause: float, attempt: int, named: float | None, longest: float) -> float:
    """Seconds to wait after a failed attempt: those that the server named; if it named none, doubled each time."""
    jitter = SystemRandom().uniform(0.5, 1.5)  # clients that failed together must not return together
    return min(named or pause * 2.0**attempt * jitter, longest)


def is_address(url: str) -> bool:
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        return False


def safe(url: str) -> str:
    """An address without what may be secret in it."""
    return re.sub(r"//[^/]*@", "//", url.partition("?")[0].partition("#")[0])[:200]


def short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 200 else f"{words[:200]}..."


def _read(response: IO[bytes], deadline: float, largest: int) -> bytes:
    """A response's bytes, at most `largest` of them, and none after the deadline: a server may send them one by one."""
    chunks, size = [], 0
    while (
        chunk := response.read1(1 << 16) if isinstance(response, http.client.HTTPResponse) else response.read(1 << 16)
    ):
        chunks.append(chunk)
        size += len(chunk)
        if size > largest:
            raise TryAgainError(f"the response is longer than {largest:,} bytes", cause=Cause.LARGE)
        if time.monotonic() > deadline:
            raise TryAgainError("the response came too slowly", cause=Cause.SLOW)
    return b"".join(chunks)


def _cause(reason: object) -> Cause:
    """Why no connection was made: nobody there, a name that does not resolve, a certificate that does not hold."""
    if isinstance(reason, TimeoutError):
        return Cause.SLOW
    if isinstance(reason, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError):
        return Cause.DOWN
    return Cause.DOWN if isinstance(reason, OSError) and reason.errno in _NOBODY else Cause.OTHER


def _retry_after(error: HTTPError) -> float | None:
    """Seconds that the server asks to wait: a number, or a date."""
    value = (error.headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)
