"""A model behind an OpenAI-compatible chat endpoint, asked one prompt at a time: what a referee is handed.

Standard library only. Proxies are those of the environment, as urllib reads them. The key is read from the environment
at every call and appears nowhere else: not in the object, nor in an error, nor on another host (redirects are refused).
"""

import http.client
import json
import os
import re
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import SystemRandom
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit

from offleash.errors import OffleashError

LARGEST = 4 << 20  # bytes of a response that are read
LONGEST_WAIT = 60.0  # seconds between two tries, whatever Retry-After says
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}


class _TryAgainError(Exception):
    """Trouble that may pass, and the seconds to wait when the server named them."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _OtherLimitsError(Exception):
    """The model takes no temperature, and names its longest reply otherwise, as OpenAI's thinking models do."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host, and turn the question into a GET."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class Chat:
    """`Chat("http://localhost:8000", "Qwen/Qwen2.5-7B-Instruct")("2 + 2?")` is the reply. Threads may share it."""

    url: str  # of the server, with or without /v1
    model: str
    key_variable: str = "OPENAI_API_KEY"  # the environment variable that holds the key; unset: none is sent
    timeout: float = 60.0  # seconds a try may take
    tries: int = 5
    pause: float = 1.0  # seconds before the second try; doubled after each
    tokens: int = 1024  # at most, in a reply

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise OffleashError(
                f"{_safe(self.url)!r} is not the address of a server. Give one such as http://localhost:8000/v1."
            )
        if "@" in urlsplit(self.url).netloc:
            raise OffleashError(
                f"The address {_safe(self.url)} holds a password. Leave it out, and put the key into the environment "
                f"variable {self.key_variable}."
            )
        if self.tries < 1 or self.timeout <= 0 or self.tokens < 1:
            raise OffleashError("A chat needs at least one try, one token and a timeout above 0.")

    def __call__(self, prompt: str) -> str:
        """The model's reply to one prompt, at temperature 0; an OffleashError when there is none."""
        limits: dict[str, int] = {"temperature": 0, "max_tokens": self.tokens}
        trouble, attempt = "", 0
        while attempt < self.tries:
            try:
                return self._content(self._post(prompt, limits))
            except _OtherLimitsError:
                limits = {"max_completion_tokens": self.tokens}
            except _TryAgainError as again:
                trouble, attempt = str(again), attempt + 1
                if attempt < self.tries:
                    time.sleep(self._wait(attempt - 1, again.wait))
        raise OffleashError(
            f"{self.model} at {_safe(self.url)} gave no reply in {self.tries} tries: {trouble}. Is the server up, and "
            "its address right? Run again when it is: nothing that was decided is lost."
        )

    def _wait(self, attempt: int, named: float | None) -> float:
        jitter = SystemRandom().uniform(0.5, 1.5)  # clients that failed together must not return together
        return min(max(self.pause * 2.0**attempt * jitter, named or 0.0), LONGEST_WAIT)

    def _post(self, prompt: str, limits: dict[str, int]) -> bytes:
        # a lone surrogate, which a model can write, is no UTF-8 and servers refuse it
        text = prompt.encode("utf-8", "replace").decode()
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], **limits}
        request = urllib.request.Request(
            completions_url(self.url), json.dumps(body).encode(), {"Content-Type": "application/json", **self._key()}
        )
        deadline = time.monotonic() + self.timeout
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=self.timeout) as response:
                return _read(response, deadline)
        except HTTPError as error:
            with error:
                raise self._refusal(error, deadline, limits) from None
        except TimeoutError:
            raise _TryAgainError(f"no answer within {self.timeout:g} seconds") from None
        except URLError as error:
            raise _TryAgainError(_short(str(error.reason))) from None
        except (OSError, http.client.HTTPException) as error:
            raise _TryAgainError(_short(f"{type(error).__name__}: {error}")) from None

    def _key(self) -> dict[str, str]:
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            return {}
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            # the header's own error would print the key
            raise OffleashError(f"{self.key_variable} holds characters that no key has. Set it again.")
        return {"Authorization": f"Bearer {key}"}

    def _refusal(self, error: HTTPError, deadline: float, limits: dict[str, int]) -> Exception:
        """What an error status means: another try, or something for the user to mend."""
        said = self._said(error, deadline)
        if error.code == 400 and "max_tokens" in limits and re.search("max_tokens|max_completion|temperature", said):
            return _OtherLimitsError()
        if error.code in AGAIN:
            return _TryAgainError(f"status {error.code} {said}".strip(), _retry_after(error))
        steps = {
            401: f"Put a valid key into the environment variable {self.key_variable}.",
            403: f"The key in the environment variable {self.key_variable} may not use this model.",
            404: f"Asked for model {self.model!r} at {_safe(completions_url(self.url))}: check both.",
        }
        if 300 <= error.code < 400:
            steps[error.code] = f"It redirects to {_safe(error.headers.get('Location') or '')!r}: give that address."
        step = steps.get(error.code, "The server refuses the request as it stands.")
        return OffleashError(f"{_safe(self.url)} answered with status {error.code}: {said or 'no message'}. {step}")

    def _said(self, error: HTTPError, deadline: float) -> str:
        """The server's own message."""
        try:
            text = _read(error.fp, deadline).decode("utf-8", "replace")
        except (_TryAgainError, OSError, http.client.HTTPException):
            return ""
        try:
            document = json.loads(text)
            inner = document.get("error", document) if isinstance(document, dict) else text
            text = str(inner.get("message", inner) if isinstance(inner, dict) else inner)
        except (ValueError, RecursionError):
            pass
        return self._quoted(text)

    def _content(self, body: bytes) -> str:
        """The reply's text, out of a response whose form is checked."""
        try:
            content = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            start = self._quoted(body[:1000].decode("utf-8", "replace"))
            raise _TryAgainError(f"the response is no chat completion: {start!r}") from None
        if not isinstance(content, str):
            raise _TryAgainError("the response holds no text (a thinking model may need more tokens)")
        return content

    def _quoted(self, text: str) -> str:
        """A server's words for an error: short, and without the key should it repeat it."""
        key = os.environ.get(self.key_variable, "").strip()
        return _short(text.replace(key, "[key]") if key else text)


def completions_url(url: str) -> str:
    """Where a server takes chats: `/v1/chat/completions`, or what its address already says of that."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        versioned = re.search(r"/v[0-9]+[a-z0-9]*(?:/|$)", path)
        path += "/chat/completions" if versioned else "/v1/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _read(response: IO[bytes], deadline: float) -> bytes:
    """A response's bytes, at most LARGEST of them, and none after the deadline: a server may send them one by one."""
    chunks, size = [], 0
    while (
        chunk := response.read1(1 << 16) if isinstance(response, http.client.HTTPResponse) else response.read(1 << 16)
    ):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise _TryAgainError(f"the response is longer than {LARGEST:,} bytes")
        if time.monotonic() > deadline:
            raise _TryAgainError("the response came too slowly")
    return b"".join(chunks)


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


def _is_address(url: str) -> bool:
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        return False


def _safe(url: str) -> str:
    """An address without what may be secret in it."""
    return re.sub(r"//[^/]*@", "//", url.partition("?")[0].partition("#")[0])[:200]


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 200 else f"{words[:200]}..."
