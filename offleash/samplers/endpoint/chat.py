"""One prompt in, one reply out, from an OpenAI-compatible chat endpoint: the model behind verifiers/model_judge.py.

Replies are drawn at temperature 0 where the model accepts it; a failed request is retried with doubling waits.
"""

import json
import re
from dataclasses import dataclass, field

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from offleash.credentials import public_url, refuse_credentials
from offleash.errors import OffleashError
from offleash.render.escape import valid_utf8
from offleash.samplers.endpoint.http import (
    EndpointClient,
    ServerRefusedError,
    TryAgainError,
    address,
    wait_backoff,
)

MAX_BYTES = 4 << 20  # of a response; a reply of 1,024 tokens is a few kilobytes
LONGEST_WAIT = 60.0  # seconds between two attempts, whatever Retry-After says
ROUTE = "chat/completions"


@dataclass(frozen=True)
class Chat:
    """`Chat("http://localhost:8000", "Qwen/Qwen2.5-7B-Instruct")("2 + 2?")` is the reply. Threads may share it."""

    url: str  # of the server, with or without /v1
    model: str
    key_variable: str = "OPENAI_API_KEY"  # the environment variable that holds the key; unset: none is sent
    timeout: float = 60.0  # seconds that an attempt may take
    tries: int = 5
    pause: float = 1.0  # seconds before the second attempt; doubled after each
    tokens: int = 1024  # longest reply
    _server: EndpointClient = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tries < 1 or self.timeout <= 0 or self.tokens < 1:
            raise OffleashError(
                "A judge model needs tries and tokens of 1 or more, and a timeout above 0; found "
                f"tries={self.tries}, tokens={self.tokens}, timeout={self.timeout:g}."
            )
        refuse_credentials(self.model, {})
        object.__setattr__(self, "_server", EndpointClient(self.url, self.key_variable, self.timeout, MAX_BYTES))

    def __call__(self, prompt: str) -> str:
        """The model's reply to one prompt; an OffleashError when there is none."""
        limits: dict[str, int] = {"temperature": 0, "max_tokens": self.tokens}

        def reply() -> str:
            nonlocal limits
            body = {"model": self.model, "messages": [{"role": "user", "content": valid_utf8(prompt)}]}
            try:
                return _content(self._server, self._server.request(ROUTE, {**body, **limits}))
            except ServerRefusedError as refused:
                if "max_tokens" not in limits or not _limit_name_refused(refused):
                    raise
            limits = {"max_completion_tokens": self.tokens}  # kept for further attempts, and no attempt is spent
            return _content(self._server, self._server.request(ROUTE, {**body, **limits}))

        retrying = Retrying(
            retry=retry_if_exception_type(TryAgainError),
            stop=stop_after_attempt(self.tries),
            wait=wait_backoff(self.pause, LONGEST_WAIT),
            reraise=True,
        )
        try:
            return retrying(reply)
        except ServerRefusedError as refused:
            raise self._server.explain(refused, self.model, ROUTE) from None
        except TryAgainError as error:
            raise OffleashError(
                f"{self.model} at {public_url(self.url)} gave no reply after {self.tries} attempts: {error}. Check "
                "that the server is up and its address is correct, then run again: finished verdicts are kept."
            ) from None


def completions_url(url: str) -> str:
    """Where a server takes chats: `/v1/chat/completions`, or what its address already says of that."""
    return address(url, ROUTE)


def _limit_name_refused(error: ServerRefusedError) -> bool:
    """Whether the model accepts no temperature and calls its limit max_completion_tokens, as OpenAI's reasoning models
    do."""
    return error.code == 400 and bool(re.search("max_tokens|max_completion|temperature", error.message))


def _content(server: EndpointClient, body: bytes) -> str:
    """The text of a chat completion; a TryAgainError where the response is something else."""
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = server.quote(body)
        raise TryAgainError(f"the response is not a chat completion: {start!r}") from None
    if not isinstance(content, str):
        raise TryAgainError("the response has no text (a reasoning model may need more tokens)")
    return server.masked(content)  # reasons of verdicts quote it
