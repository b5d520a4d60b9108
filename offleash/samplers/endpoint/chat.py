"""One prompt in, one reply out, from an OpenAI-compatible chat endpoint: the model behind verifiers/model_judge.py.

Replies are drawn at temperature 0 where the model accepts it; a failed request is retried with doubling waits.
"""

import json
import re
import time
from dataclasses import dataclass

from offleash.errors import OffleashError
from offleash.render.escape import valid_utf8
from offleash.samplers.endpoint.http import EndpointClient, ServerRefusedError, TryAgainError, address, backoff, safe

LARGEST = 4 << 20  # bytes of a response that are read
LONGEST_WAIT = 60.0  # seconds between two tries, whatever Retry-After says
COMPLETIONS = "chat/completions"


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
        self._server()  # refuses what is no address
        if self.tries < 1 or self.timeout <= 0 or self.tokens < 1:
            raise OffleashError("A chat needs at least one try, one token and a timeout above 0.")

    def __call__(self, prompt: str) -> str:
        """The model's reply to one prompt, at temperature 0; an OffleashError when there is none."""
        server = self._server()
        limits: dict[str, int] = {"temperature": 0, "max_tokens": self.tokens}
        trouble, attempt = "", 0
        while attempt < self.tries:
            body = {"model": self.model, "messages": [{"role": "user", "content": valid_utf8(prompt)}], **limits}
            try:
                return _content(server, server.ask(COMPLETIONS, body))
            except ServerRefusedError as refused:
                if "max_tokens" not in limits or not _names_its_limits_otherwise(refused):
                    raise server.mended(refused, self.model, COMPLETIONS) from None
                limits = {"max_completion_tokens": self.tokens}
            except TryAgainError as again:
                trouble, attempt = str(again), attempt + 1
                if attempt < self.tries:
                    time.sleep(self._wait(attempt - 1, again.wait))
        raise OffleashError(
            f"{self.model} at {safe(self.url)} gave no reply in {self.tries} tries: {trouble}. Is the server up, and "
            "its address right? Run again when it is: nothing that was decided is lost."
        )

    def _server(self) -> EndpointClient:
        return EndpointClient(self.url, self.key_variable, self.timeout, LARGEST)

    def _wait(self, attempt: int, named: float | None) -> float:
        return backoff(self.pause, attempt, named, LONGEST_WAIT)


def completions_url(url: str) -> str:
    """Where a server takes chats: `/v1/chat/completions`, or what its address already says of that."""
    return address(url, COMPLETIONS)


def _names_its_limits_otherwise(refused: ServerRefusedError) -> bool:
    """The model takes no temperature, and names its longest reply otherwise, as OpenAI's thinking models do."""
    return refused.code == 400 and bool(re.search("max_tokens|max_completion|temperature", refused.words))


def _content(server: EndpointClient, body: bytes) -> str:
    """The reply's text, out of a response whose form is checked."""
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = server.quoted(body[:1000].decode("utf-8", "replace"))
        raise TryAgainError(f"the response is no chat completion: {start!r}") from None
    if not isinstance(content, str):
        raise TryAgainError("the response holds no text (a thinking model may need more tokens)")
    return content
