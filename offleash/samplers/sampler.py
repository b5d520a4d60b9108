"""The protocol of all samplers: requests in, chunks of samples out, the decoding always explicit.

Also the named decodings (DECODINGS) and a decoding in words.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Protocol

from offleash.errors import OffleashError, unknown
from offleash.options import Decoding

ExpansionProgress = Callable[[int, int, float], None]  # depth, prefixes at it, mass found and cut off so far


def no_progress(_: int, __: int, ___: float) -> None:
    """An expansion that nobody watches."""


FINISHED, TRUNCATED = "stop", "length"


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn: temperature first, then top-k, top-p and min-p, each on what the one before it left."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all tokens
    min_p: float = 0.0  # tokens less probable than this share of the most probable one are left out
    max_tokens: int = 4096
    stop: tuple[str, ...] = ()  # texts that end a sample; they are not part of it

    def __post_init__(self) -> None:
        checks = (
            ("temperature", 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("top_k", self.top_k >= 0, "0 (all tokens) or more"),
            ("min_p", 0 <= self.min_p < 1, "0 or more and below 1"),
            ("max_tokens", self.max_tokens >= 1, "1 or more"),
            ("stop", all(self.stop), "a text that is not empty"),
        )
        for name, good, what in checks:
            if not good:
                raise OffleashError(f"{name} is {what}; found {getattr(self, name)!r}.")

    @property
    def plain(self) -> bool:
        """Whether samples come from the model's own distribution, unchanged."""
        return self.temperature == 1 and self.top_p == 1 and self.top_k == 0 and self.min_p == 0

    def document(self) -> dict[str, object]:
        return {**asdict(self), "stop": list(self.stop)}


DECODINGS: dict[str, SamplingParams] = {
    "plain": SamplingParams(),  # the model's own distribution
    "paper": SamplingParams(temperature=0.6, top_p=0.95, max_tokens=32768),  # arXiv:2507.14843, section 3.1
}


def sampling_params(given: Decoding) -> SamplingParams:
    """A decoding as a user gives it, in full: what is not given is that of the decoding named."""
    named = DECODINGS[given.decoding]
    return SamplingParams(
        temperature=named.temperature if given.temperature is None else given.temperature,
        top_p=named.top_p if given.top_p is None else given.top_p,
        top_k=named.top_k if given.top_k is None else given.top_k,
        min_p=named.min_p if given.min_p is None else given.min_p,
        max_tokens=named.max_tokens if given.max_tokens is None else given.max_tokens,
        stop=tuple(given.stop) or named.stop,
    )


def decoding_of(document: Mapping[str, object]) -> SamplingParams:
    """A decoding as it was stored."""
    known = {one.name for one in fields(SamplingParams)}
    for name in document:
        if name not in known:
            raise unknown("decoding option", name, known)
    stop = document.get("stop") or ()
    assert isinstance(stop, list | tuple)
    return SamplingParams(**{**document, "stop": tuple(stop)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Request:
    """A chunk to draw: samples first, first + 1, ..., first + size - 1 of one problem."""

    problem: str
    prompt: str  # the message, before any chat template
    first: int
    size: int
    seed: int  # of the problem in its run, 64 bits; `seeds` says how samples and chunks derive theirs from it
    images: tuple[str, ...] = ()  # data: addresses
    again: bool = False  # more samples of the problem may be asked for: what helps with them is worth keeping


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion. The sums run over its tokens, its end included; None where a backend cannot say."""

    index: int
    text: str
    tokens: int | None
    finish: str  # FINISHED or TRUNCATED
    seed: int
    logprob_raw: float | None = None  # under the model's own distribution
    logprob_sampled: float | None = None  # under the distribution that was drawn from
    entropy_raw: float | None = None
    entropy_sampled: float | None = None


@dataclass(frozen=True)
class DrawnChunk:
    """What became of a request: all its samples, by index, or none and why."""

    request: Request
    samples: tuple[Sample, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class About:
    """Who answers, as it is stored with a run; a run is never continued with another."""

    sampler: str  # hf, vllm, endpoint, scripted
    model: str
    revision: str = ""
    adapter: str = ""
    fingerprint: str = ""  # of the weights, where they can be seen
    raw: bool = False  # prompts go in without a chat template
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)  # told, but free to change


class Sampler(Protocol):
    """Who answers. `sample` may be called from `width` threads at a time, each with about `appetite` samples."""

    @property
    def about(self) -> About: ...

    @property
    def width(self) -> int: ...

    @property
    def appetite(self) -> int: ...

    @property
    def forwarded(self) -> int | None:
        """Tokens that have gone through the model so far; None where the backend does not say."""
        ...

    def asked(self, prompt: str) -> str | None:
        """The whole text that the model reads for a prompt; None where a server makes it."""
        ...

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[DrawnChunk]:
        """Every request once, in any order, as each is done. Trouble of one request is told in its Drawn; trouble
        that every request would have (no server, no memory) is an OffleashError."""
        ...

    def forget(self, problem: str) -> None:
        """No more samples of this problem will be asked for."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...


def decoding_text(decoding: SamplingParams) -> str:
    """A decoding in words; what is off is left out."""
    parts = [f"temperature {decoding.temperature:g}"]
    parts += [f"top-p {decoding.top_p:g}"] if decoding.top_p < 1 else []
    parts += [f"top-k {decoding.top_k}"] if decoding.top_k else []
    parts += [f"min-p {decoding.min_p:g}"] if decoding.min_p else []
    parts += [f"at most {decoding.max_tokens:,} tokens"]
    parts += [f"stopped by {', '.join(map(repr, decoding.stop))}"] if decoding.stop else []
    return ", ".join(parts)
