"""The `endpoint:` sampler: models behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp, hosted), as URL#MODEL.

What a server accepts is found out while drawing (`ServerProfile` in protocol.py): how many samples a request may ask
for, which fields it refuses. Either way a request returns exactly its samples, each part drawn with a seed of its own.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from threading import Lock

from offleash.credentials import public_url
from offleash.errors import OffleashError, unknown
from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions
from offleash.samplers.endpoint.http import Cause, EndpointClient, ServerRefusedError, TryAgainError, shorten
from offleash.samplers.endpoint.protocol import ChatReply, Choice, ServerProfile, all_equal, read_reply, too_long
from offleash.samplers.endpoint.rate_limit import RateLimiter, RequestPool, list_names, models, only_model
from offleash.samplers.registry import Model
from offleash.samplers.sampler import About, Request, Sample, SampleChunk, Sampler, SamplingParams
from offleash.samplers.seeds import chunk_seed, seed_of

MAX_BYTES = 1 << 30  # of a response: 256 samples of 32,768 tokens, about 100 bytes each with log-probabilities
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled after each
GIVE_UP_AFTER = 300.0  # seconds in which a busy server may let no request through
LONGEST_FINISH = 80  # characters of a finish_reason that are stored
CONFIRMATION_SAMPLES = 32  # samples of the request that settles whether a server returns copies
RESUME_HINT = "Samples drawn so far are kept: run the same command to resume."


class _ProblemError(Exception):
    """A failure that concerns one problem: the others can still be drawn."""


@dataclass(frozen=True)
class Settings:
    """--set NAME=VALUE."""

    concurrency: int = 16  # requests at a time
    timeout: float = 600.0  # seconds a request may take
    tries: int = 5
    key: str = "OPENAI_API_KEY"  # name of the environment variable that holds the key
    n: int = 256  # largest number of samples per request
    logprobs: bool = True
    rate: float = 0.0  # requests per minute; 0: as many as the server accepts


def open_sampler(model: Model) -> Sampler:
    """The sampler of URL#MODEL; without #MODEL, of the one model that the server has."""
    url, _, name = model.name.partition("#")
    settings = settings_of(model.settings)
    if "key" in model.settings and not os.environ.get(settings.key, "").strip():
        # not named here: it may be the key itself, given by mistake
        raise OffleashError("The environment variable that --set key= names is not set. Put the key into it.")
    server = EndpointClient(url, settings.key, settings.timeout, MAX_BYTES)
    limiter = RateLimiter(settings.tries, FIRST_PAUSE, settings.rate, GIVE_UP_AFTER)
    return Endpoint(server, name or only_model(server, limiter), model.raw, settings, limiter, model.chat)


def settings_of(texts: Mapping[str, str]) -> Settings:
    """The settings of an endpoint, checked."""
    parsers: dict[str, tuple[Callable[[str], object], str]] = {
        "concurrency": (_count, "a whole number of requests, 1 or more"),
        "timeout": (_seconds, "seconds, above 0"),
        "tries": (_count, "a whole number, 1 or more"),
        "key": (_variable, "the name of an environment variable that holds the key, never the key itself"),
        "n": (_count, "a whole number of samples, 1 or more"),
        "logprobs": ({"auto": True, "off": False}.__getitem__, "auto or off"),
        "rate": (_seconds, "requests per minute, above 0"),
    }
    values: dict[str, object] = {}
    for name, text in texts.items():
        if name not in parsers:
            raise unknown("setting for endpoint:", name, parsers)
        parse, expected = parsers[name]
        try:
            values[name] = parse(text)
        except (ValueError, KeyError):
            value_text = "" if name == "key" else f"; found {text!r}"  # it may be the key itself
            raise OffleashError(f"--set {name}= takes {expected}{value_text}.") from None
    return replace(Settings(), **values)  # type: ignore[arg-type]


class Endpoint:
    """One model of one server. Threads may share it."""

    def __init__(
        self,
        server: EndpointClient,
        model: str,
        raw: bool,
        settings: Settings,
        limiter: RateLimiter,
        chat: ChatOptions = NO_OPTIONS,
    ) -> None:
        self._chat = chat
        self._server, self._model, self._raw, self._settings, self._limiter = server, model, raw, settings, limiter
        self._profile = ServerProfile(settings.n, settings.logprobs)
        self._threads: RequestPool[tuple[Choice, ...]] = RequestPool(settings.concurrency)
        self._probe_lock = Lock()
        self._server_names: dict[str, str] = {}  # what replies call the model and its version
        self._route = "completions" if raw else "chat/completions"

    @property
    def about(self) -> About:
        """The model. Settings are left out: they say how fast to ask, not what is drawn, so a run may be resumed with
        others."""
        versions = {**self._server_names, **self._profile.notes()}
        return About(
            "endpoint",
            f"{public_url(self._server.url)}#{self._model}",
            raw=self._raw,
            versions=versions,
            system=self._chat.system,
            chat_kwargs=self._chat.kwargs or None,
        )

    @property
    def concurrency(self) -> int:
        return self._settings.concurrency

    @property
    def batch_size(self) -> int:
        return self._settings.n

    @property
    def forwarded(self) -> int | None:
        return None

    def rendered_prompt(self, prompt: str) -> str | None:
        return prompt if self._raw else None

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        _check(decoding)
        for request in requests:
            if self._raw and request.images:
                raise OffleashError(
                    f"Problem {request.problem!r} has images, which need a chat template. Draw without --raw."
                )
            try:
                yield SampleChunk(request, self._samples(request, decoding))
            except _ProblemError as error:
                yield SampleChunk(request, error=str(error))

    def forget(self, problem: str) -> None:
        """Nothing is kept of a problem."""

    def close(self) -> None:
        self._threads.close()
        self._server.close()

    def _samples(self, request: Request, decoding: SamplingParams) -> tuple[Sample, ...]:
        """Exactly the samples of a request, in as many parts as the server needs.

        A part may come back short (the server gives fewer choices, or copies): what is missing is requested again, in
        parts of the size that the server was seen to give, until every place is filled.
        """
        chunk = chunk_seed(request.seed, request.first, request.size)
        samples: dict[int, Sample] = {}  # by their place in the request
        while len(samples) < request.size:
            missing_parts = _missing_parts(samples, request.size, self._profile.largest)
            # the seed of a part follows from its place in the request: no two parts share one (their samples would be
            # equal), and a repeated draw sends the same
            seeds = [seed_of(chunk, start) >> 1 if start else chunk for start, _ in missing_parts]
            calls = [
                partial(self._part, request, decoding, n, seed)
                for (_, n), seed in zip(missing_parts, seeds, strict=True)
            ]
            for (start, n), seed, choices in zip(missing_parts, seeds, self._threads.run(calls), strict=True):
                for number, choice in enumerate(choices[:n], start):
                    samples[number] = _sample(request.first + number, choice, seed, decoding)
        return tuple(samples[number] for number in range(request.size))

    def _part(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        """At least one and at most n samples: as many as the server gives that are no copies."""
        choices = self._choices(request, decoding, n, seed)
        if len(choices) > 1 and self._profile.may_be_copies(choices, decoding):
            with self._probe_lock:  # one thread at a time: the others wait for its finding
                if self._profile.probe() and self._returns_copies(request, decoding, choices[0], seed):
                    self._profile.record_copies()
        return choices[:1] if self._profile.copies else choices

    def _returns_copies(self, request: Request, decoding: SamplingParams, choice: Choice, seed: int) -> bool:
        """Whether the server answers n > 1 with copies of one sample, after n choices were all equal to `choice`."""
        (other, *_) = self._choices(request, decoding, 1, seed_of(seed, "another") >> 1)
        if other.text == choice.text:
            return False  # another seed gives the same text: the model has but one answer
        # chance alone makes two or three samples equal; not this many
        confirmation = self._choices(request, decoding, CONFIRMATION_SAMPLES, seed_of(seed, "many") >> 1)
        return len(confirmation) > 1 and all_equal(confirmation)

    def _choices(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        try:
            return self._limiter.call(lambda: self._reply(request, decoding, n, seed))
        except ServerRefusedError as refused:
            raise self._refusal(refused, decoding) from None
        except TryAgainError as error:
            raise self._failure(error) from None

    def _reply(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        """One attempt, in which the request is changed until the server accepts its form.

        A later attempt sends the same request with the same seed. With another seed, replies that took longer than the
        timeout would be redrawn until they are short, and the samples would no longer follow the model's distribution.
        """
        while True:
            n = min(n, self._profile.largest)
            body = self._profile.body(self._model, self._raw, request, decoding, n, seed, self._chat)
            try:
                reply = self._read(self._server.request(self._route, body))
            except ServerRefusedError as refused:
                if too_long(refused) or not self._profile.learn_from_refusal(refused, body):
                    raise
            except TryAgainError as error:
                # llama.cpp refuses n > 1 with status 500, which elsewhere is worth a retry
                if not self._profile.learn_from_refusal(ServerRefusedError(500, str(error)), body):
                    raise
            else:
                names = {name: self._server.masked(value) for name, value in reply.server_names.items()}
                self._server_names.update(names)
                self._profile.observe_reply(reply, body)
                # stored beside the text: a server may write anything there, the key too
                return tuple(
                    replace(choice, finish=self._server.masked(choice.finish)[:LONGEST_FINISH])
                    for choice in reply.choices[:n]
                )
            self._limiter.wait()

    def _read(self, body: bytes) -> ChatReply:
        try:
            return read_reply(body)
        except ValueError as error:
            start = self._server.quote(body)
            raise TryAgainError(f"the response is not a completion ({shorten(str(error))}): {start!r}") from None

    def _refusal(self, refused: ServerRefusedError, decoding: SamplingParams) -> Exception:
        """A refusal as the error of one problem, or of the whole draw."""
        if too_long(refused):
            return _ProblemError(
                f"The prompt and {decoding.max_tokens} more tokens do not fit the model's context: "
                f"{refused.summary}. Lower --max-tokens, or serve the model with a longer context."
            )
        error = self._server.explain(refused, self._model, self._route)
        if refused.code in (400, 413, 422):  # about this prompt, as far as a status says: others may pass
            return _ProblemError(str(error))
        return OffleashError(f"{error}{self._available_models()}") if refused.code == 404 else error

    def _available_models(self) -> str:
        """Which models the server has, after a 404; "" where it does not say."""
        try:
            names = models(self._server)
        except (TryAgainError, ServerRefusedError, ValueError):
            return ""
        close_matches = get_close_matches(self._model, names, n=1)
        return (f" Did you mean {close_matches[0]!r}?" if close_matches else "") + f" It serves {list_names(names)}."

    def _failure(self, error: TryAgainError) -> Exception:
        """What it means that all attempts failed: an error of the draw where no other request would pass either."""
        model_text, tries = f"{self._model} at {public_url(self._server.url)}", self._settings.tries
        if error.cause is Cause.DOWN:
            return OffleashError(
                f"{model_text} could not be reached after {tries} attempts: {error}. Is it up? {RESUME_HINT}"
            )
        if error.cause is Cause.BUSY:
            waited = self._limiter.waited
            detail = f"refused for {waited:,.0f} seconds" if waited else f"asks to wait {error.wait or 0:,.0f} seconds"
            return OffleashError(
                f"{model_text} is not accepting more requests right now: {error} ({detail}). Resume later, with a "
                f"smaller --set concurrency= (now {self._settings.concurrency}) or --set rate= (requests per minute). "
                f"{RESUME_HINT}"
            )
        step = ""
        if error.cause in (Cause.SLOW, Cause.LARGE):
            longer_timeout = "a larger --set timeout= or " if error.cause is Cause.SLOW else ""
            step = f" Draw with {longer_timeout}a smaller --set n= (now {self._profile.largest})."
        attempts_text = "" if error.cause is Cause.LARGE else f" after {tries} attempts"
        return _ProblemError(f"{model_text} gave no reply{attempts_text}: {error}.{step}")


def _check(decoding: SamplingParams) -> None:
    if decoding.min_p and decoding.top_p < 1:
        raise OffleashError(
            f"Servers apply min-p and top-p in different orders (vLLM min-p first), so they may not draw from the "
            f"distribution of min_p={decoding.min_p:g} after top_p={decoding.top_p:g}. Set one of the two, or draw "
            "with hf:."
        )


def _sample(index: int, choice: Choice, seed: int, decoding: SamplingParams) -> Sample:
    # Some servers return log-probabilities of the model, some those after temperature and truncation, and none says
    # which. They are kept only where both are the same.
    logprob = choice.logprob if decoding.is_plain else None
    return Sample(index, choice.text, choice.tokens, choice.finish, seed, logprob, logprob)


def _missing_parts(samples: Mapping[int, Sample], size: int, largest: int) -> list[tuple[int, int]]:
    """(first place, size) of the runs of places without a sample, each at most `largest` long."""
    parts: list[tuple[int, int]] = []
    for number in range(size):
        if number in samples:
            continue
        if parts and sum(parts[-1]) == number and parts[-1][1] < largest:
            parts[-1] = (parts[-1][0], parts[-1][1] + 1)
        else:
            parts.append((number, 1))
    return parts


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise ValueError(text)
    return value


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError
    return text
