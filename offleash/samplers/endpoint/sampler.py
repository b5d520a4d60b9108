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

from offleash.errors import OffleashError, unknown
from offleash.samplers.endpoint.http import Cause, EndpointClient, ServerRefusedError, TryAgainError, safe, short
from offleash.samplers.endpoint.protocol import ChatReply, Choice, ServerProfile, alike, read_reply, too_long
from offleash.samplers.endpoint.rate_limit import RateLimiter, RequestPool, listed, models, only_model
from offleash.samplers.registry import Model
from offleash.samplers.sampler import About, DrawnChunk, Request, Sample, Sampler, SamplingParams
from offleash.samplers.seeds import chunk_seed, seed_of

LARGEST = 1 << 30  # bytes of a response that are read
PAUSE = 1.0  # seconds before the second try; doubled after each
ENDURED = 300.0  # seconds in which a busy server may let no request through
CONFIRMING = 32  # samples of the request that settles whether a server returns copies
RESUME = "What was drawn is kept: the same command goes on from there."


class _TroubleError(Exception):
    """Trouble of one problem; others may be drawn."""


@dataclass(frozen=True)
class Settings:
    """--set NAME=VALUE."""

    concurrency: int = 16  # requests at a time
    timeout: float = 600.0  # seconds a request may take
    tries: int = 5
    key: str = "OPENAI_API_KEY"  # name of the environment variable that holds the key
    n: int = 256  # samples that a request may ask for
    logprobs: bool = True
    rate: float = 0.0  # requests a minute; 0: as many as the server takes


def open_sampler(model: Model) -> Sampler:
    """The sampler of URL#MODEL; without #MODEL, of the one model that the server has."""
    url, _, name = model.name.partition("#")
    settings = settings_of(model.settings)
    if "key" in model.settings and not os.environ.get(settings.key, "").strip():
        # not named here: it may be the key itself, given by mistake
        raise OffleashError("The environment variable that --set key= names is not set; put the key into it.")
    server = EndpointClient(url, settings.key, settings.timeout, LARGEST)
    pace = RateLimiter(settings.tries, PAUSE, settings.rate, ENDURED)
    return Endpoint(server, name or only_model(server, pace), model.raw, settings, pace)


def settings_of(given: Mapping[str, str]) -> Settings:
    """The settings of an endpoint, checked."""
    readers: dict[str, tuple[Callable[[str], object], str]] = {
        "concurrency": (_count, "a whole number of requests, 1 or more"),
        "timeout": (_seconds, "seconds, above 0"),
        "tries": (_count, "a whole number, 1 or more"),
        "key": (_variable, "the name of an environment variable that holds the key, never the key itself"),
        "n": (_count, "a whole number of samples, 1 or more"),
        "logprobs": ({"auto": True, "off": False}.__getitem__, "auto or off"),
        "rate": (_seconds, "requests a minute, above 0"),
    }
    found: dict[str, object] = {}
    for name, value in given.items():
        if name not in readers:
            raise unknown("setting of endpoint:", name, readers)
        read, what = readers[name]
        try:
            found[name] = read(value)
        except (ValueError, KeyError):
            shown = "" if name == "key" else f"; found {value!r}"
            raise OffleashError(f"--set {name}= takes {what}{shown}.") from None
    return replace(Settings(), **found)  # type: ignore[arg-type]


class Endpoint:
    """One model of one server. Threads may share it."""

    def __init__(self, server: EndpointClient, model: str, raw: bool, settings: Settings, pace: RateLimiter) -> None:
        self._server, self._model, self._raw, self._settings, self._pace = server, model, raw, settings, pace
        self._habits = ServerProfile(settings.n, settings.logprobs)
        self._crew: RequestPool[tuple[Choice, ...]] = RequestPool(settings.concurrency)
        self._probing = Lock()
        self._words: dict[str, str] = {}
        self._what = "completions" if raw else "chat/completions"

    @property
    def about(self) -> About:
        """Settings say how fast to ask, not what is drawn: a run may go on with others."""
        versions = {**self._words, **self._habits.notes()}
        return About("endpoint", f"{safe(self._server.url)}#{self._model}", raw=self._raw, versions=versions)

    @property
    def width(self) -> int:
        return self._settings.concurrency

    @property
    def appetite(self) -> int:
        return self._settings.n

    @property
    def forwarded(self) -> int | None:
        return None

    def asked(self, prompt: str) -> str | None:
        return prompt if self._raw else None

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[DrawnChunk]:
        _check(decoding)
        for request in requests:
            if self._raw and request.images:
                raise OffleashError(
                    f"Problem {request.problem!r} has images, which go only into a chat; draw without --raw."
                )
            try:
                yield DrawnChunk(request, self._samples(request, decoding))
            except _TroubleError as trouble:
                yield DrawnChunk(request, trouble=str(trouble))

    def forget(self, problem: str) -> None:
        """Nothing is kept of a problem."""

    def close(self) -> None:
        self._crew.close()

    def _samples(self, request: Request, decoding: SamplingParams) -> tuple[Sample, ...]:
        """Exactly the samples of a request, in as many parts as the server needs."""
        chunk = chunk_seed(request.seed, request.first, request.size)
        found: dict[int, Sample] = {}
        while len(found) < request.size:
            parts = _parts(found, request.size, self._habits.largest)
            # a part is told by its place in the chunk, so that its seed is its own and the same in every draw
            seeds = [seed_of(chunk, start) >> 1 if start else chunk for start, _ in parts]
            work = [partial(self._part, request, decoding, n, seed) for (_, n), seed in zip(parts, seeds, strict=True)]
            for (start, n), seed, choices in zip(parts, seeds, self._crew.each(work), strict=True):
                for place, choice in enumerate(choices[:n], start):
                    found[place] = _sample(request.first + place, choice, seed, decoding)
        return tuple(found[place] for place in range(request.size))

    def _part(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        """At least one of n samples: fewer are given where the server gives fewer."""
        choices = self._choices(request, decoding, n, seed)
        if len(choices) > 1 and self._habits.may_be_copies(choices, decoding):
            with self._probing:  # one at a time: the others wait for what it finds
                if self._habits.probe() and self._copied(request, decoding, choices[0], seed):
                    self._habits.found_copies()
        return choices[:1] if self._habits.copies else choices

    def _copied(self, request: Request, decoding: SamplingParams, choice: Choice, seed: int) -> bool:
        """Whether the server returns n copies of one sample, since all n were this one."""
        (other, *_) = self._choices(request, decoding, 1, seed_of(seed, "another") >> 1)
        if other.text == choice.text:
            return False  # the model has but one answer
        # chance alone makes two or three samples equal; not this many
        many = self._choices(request, decoding, CONFIRMING, seed_of(seed, "many") >> 1)
        return len(many) > 1 and alike(many)

    def _choices(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        try:
            return self._pace.patiently(lambda: self._reply(request, decoding, n, seed))
        except ServerRefusedError as refused:
            raise self._refusal(refused, decoding) from None
        except TryAgainError as again:
            raise self._trouble(again) from None

    def _reply(self, request: Request, decoding: SamplingParams, n: int, seed: int) -> tuple[Choice, ...]:
        """One try, in which the request is put as the server wants it. A later try asks the same with the same seed:
        with another, replies that took too long would be drawn anew until they are short."""
        while True:
            n = min(n, self._habits.largest)
            body = self._habits.body(self._model, self._raw, request, decoding, n, seed)
            try:
                reply = self._read(self._server.ask(self._what, body))
            except ServerRefusedError as refused:
                if too_long(refused) or not self._habits.learn(refused, body):
                    raise
            except TryAgainError as again:
                if not self._habits.learn(ServerRefusedError(500, str(again)), body):
                    raise
            else:
                self._words.update(reply.words)
                self._habits.heed(reply, body)
                return reply.choices[:n]
            self._pace.wait()

    def _read(self, body: bytes) -> ChatReply:
        try:
            return read_reply(body)
        except ValueError as error:
            start = self._server.quoted(body[:1000].decode("utf-8", "replace"))
            raise TryAgainError(f"the response is no completion ({short(str(error))}): {start!r}") from None

    def _refusal(self, refused: ServerRefusedError, decoding: SamplingParams) -> Exception:
        """A refusal as trouble of one problem, or of all."""
        if too_long(refused):
            return _TroubleError(
                f"The prompt and {decoding.max_tokens} more tokens do not fit the model's context: "
                f"{refused.said}. Draw fewer tokens (max_tokens), or serve the model with a longer context."
            )
        error = self._server.mended(refused, self._model, self._what)
        if refused.code in (400, 413, 422):  # of this prompt, as far as one can tell: others may pass
            return _TroubleError(str(error))
        return OffleashError(f"{error}{self._served()}") if refused.code == 404 else error

    def _served(self) -> str:
        """What the server has instead of a model that it has not, where it says so."""
        try:
            names = models(self._server)
        except (TryAgainError, ServerRefusedError, ValueError):
            return ""
        near = get_close_matches(self._model, names, n=1)
        return (f" Did you mean {near[0]!r}?" if near else "") + f" It serves {listed(names)}."

    def _trouble(self, again: TryAgainError) -> Exception:
        """What it means that all tries failed."""
        where, tries = f"{self._model} at {safe(self._server.url)}", self._settings.tries
        if again.cause is Cause.DOWN:
            return OffleashError(f"{where} could not be reached in {tries} tries: {again}. Is it up? {RESUME}")
        if again.cause is Cause.BUSY:
            waited = self._pace.waited
            found = f"refused for {waited:,.0f} seconds" if waited else f"asks to wait {again.wait or 0:,.0f} seconds"
            return OffleashError(
                f"{where} takes no more requests for now: {again} ({found}). Go on later, with a smaller --set "
                f"concurrency= (now {self._settings.concurrency}) or with --set rate= (requests a minute). {RESUME}"
            )
        step = ""
        if again.cause in (Cause.SLOW, Cause.LARGE):
            time = "a larger --set timeout= or " if again.cause is Cause.SLOW else ""
            step = f" Draw with {time}a smaller --set n= (now {self._habits.largest})."
        tried = "" if again.cause is Cause.LARGE else f" in {tries} tries"
        return _TroubleError(f"{where} gave no reply{tried}: {again}.{step}")


def _check(decoding: SamplingParams) -> None:
    if decoding.min_p and decoding.top_p < 1:
        raise OffleashError(
            f"Servers apply min-p and top-p in orders of their own (vLLM min-p first), so that what they draw from may "
            f"be another distribution than min_p={decoding.min_p:g} after top_p={decoding.top_p:g}. Set one of the "
            "two, or draw with hf:."
        )


def _sample(index: int, choice: Choice, seed: int, decoding: SamplingParams) -> Sample:
    # servers tell the log-probabilities of the model or those after temperature and cuts, and do not say which;
    # only where both are the same are they known
    logprob = choice.logprob if decoding.plain else None
    return Sample(index, choice.text, choice.tokens, choice.finish, seed, logprob, logprob)


def _parts(found: Mapping[int, Sample], size: int, largest: int) -> list[tuple[int, int]]:
    """(first place, samples) of the parts that are missing, each at most as large as the server takes."""
    parts: list[tuple[int, int]] = []
    for place in range(size):
        if place in found:
            continue
        if parts and sum(parts[-1]) == place and parts[-1][1] < largest:
            parts[-1] = (parts[-1][0], parts[-1][1] + 1)
        else:
            parts.append((place, 1))
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
