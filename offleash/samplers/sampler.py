"""The protocol of all samplers: requests in, chunks of samples out, the decoding always explicit.

Also the named decodings (DECODINGS) and a decoding in words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Protocol

from offleash.errors import OffleashError, unknown
from offleash.options import Decoding

FINISHED, TRUNCATED = "stop", "length"  # OpenAI's finish reasons, which vLLM and other servers use too


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
            ("stop", all(self.stop), "strings that are not empty"),
        )
        for name, valid, expected in checks:
            if not valid:
                raise OffleashError(f"{name} must be {expected}; found {getattr(self, name)!r}.")

    @property
    def is_plain(self) -> bool:
        """Whether samples come from the model's own distribution, unchanged."""
        return self.temperature == 1 and self.top_p == 1 and self.top_k == 0 and self.min_p == 0

    def document(self) -> dict[str, object]:
        """The decoding as run.json stores it, and `decoding_of` reads it."""
        return {**asdict(self), "stop": list(self.stop)}


DECODINGS: dict[str, SamplingParams] = {
    "plain": SamplingParams(),  # the model's own distribution
    "paper": SamplingParams(temperature=0.6, top_p=0.95, max_tokens=32768),  # arXiv:2507.14843, section 3.1
}


def sampling_params(decoding: Decoding) -> SamplingParams:
    """A decoding as a user gives it, in full: what is not given is that of the decoding named."""
    preset = DECODINGS[decoding.decoding]
    return SamplingParams(
        temperature=preset.temperature if decoding.temperature is None else decoding.temperature,
        top_p=preset.top_p if decoding.top_p is None else decoding.top_p,
        top_k=preset.top_k if decoding.top_k is None else decoding.top_k,
        min_p=preset.min_p if decoding.min_p is None else decoding.min_p,
        max_tokens=preset.max_tokens if decoding.max_tokens is None else decoding.max_tokens,
        stop=tuple(decoding.stop) or preset.stop,
    )


def decoding_of(document: Mapping[str, object]) -> SamplingParams:
    """A decoding as it was stored."""
    known = {field.name for field in fields(SamplingParams)}
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
    seed: int  # of the problem in its run, 64 bits; seeds.py derives those of samples and chunks from it
    images: tuple[str, ...] = ()  # data: addresses
    more_expected: bool = False  # more samples of the problem may be requested: a sampler may keep what they share


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
    entropy_raw: float | None = None  # nats, of the distributions that the tokens were drawn from; as for logprobs
    entropy_sampled: float | None = None


@dataclass(frozen=True)
class SampleChunk:
    """The outcome of a request: all its samples, ordered by index, or none and the reason."""

    request: Request
    samples: tuple[Sample, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class About:
    """Which model answers, as it is stored with a run; a run is never resumed with another."""

    sampler: str  # hf, vllm, endpoint, scripted
    model: str
    revision: str = ""
    adapter: str = ""
    fingerprint: str = ""  # of the weights, where they can be seen
    raw: bool = False  # prompts go in without a chat template
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)  # recorded, but free to change between resumptions
    system: str | None = None  # the system message; None, here and below: not given, and not stored
    chat_kwargs: Mapping[str, object] | None = None  # variables of the chat template


class Sampler(Protocol):
    """What every engine provides: requests in, chunks of samples out.

    A sample must follow from its request's seed and its own index alone, not from what is drawn beside it: then a run
    that was killed and resumed holds the samples that it would have held, and chunks may be of any size. `sample_seeds`
    and `uniform` (seeds.py) give the random numbers.

    >>> from offleash.samplers.sampler import FINISHED, About, Request, Sample, SampleChunk, SamplingParams
    >>> from offleash.samplers.seeds import sample_seeds, uniform
    >>> class Coin:
    ...     about = About("coin", "fair")
    ...     concurrency, batch_size, forwarded = 1, 1024, None
    ...     def rendered_prompt(self, prompt):
    ...         return prompt
    ...     def sample(self, requests, decoding):
    ...         for request in requests:
    ...             seeds = sample_seeds(request.seed, request.first, request.size)
    ...             heads = uniform(seeds, position=0) < 0.5
    ...             yield SampleChunk(request, tuple(
    ...                 Sample(request.first + i, "heads" if heads[i] else "tails", 1, FINISHED, int(seeds[i]))
    ...                 for i in range(request.size)))
    ...     def forget(self, problem):
    ...         pass
    ...     def close(self):
    ...         pass
    >>> chunk, = Coin().sample([Request("p", "Heads or tails?", first=0, size=5, seed=7)], SamplingParams())
    >>> [sample.text for sample in chunk.samples]
    ['tails', 'tails', 'heads', 'tails', 'tails']
    >>> later, = Coin().sample([Request("p", "Heads or tails?", first=3, size=2, seed=7)], SamplingParams())
    >>> later.samples == chunk.samples[3:]
    True
    """

    @property
    def about(self) -> About:
        """Which model this is. Everything that changes its samples belongs here: a resumed run must find it equal."""
        ...

    @property
    def concurrency(self) -> int:
        """Threads that may call `sample` at the same time; 1 where the engine batches by itself."""
        ...

    @property
    def batch_size(self) -> int:
        """Samples that one call of `sample` should hold: enough to keep the engine busy, and few enough that a kill
        loses little. Read before every call, so it may change."""
        ...

    @property
    def forwarded(self) -> int | None:
        """Tokens that have gone through the model so far; None where the engine does not say."""
        ...

    def rendered_prompt(self, prompt: str) -> str | None:
        """The text that the model reads for a prompt, its chat template included.

        A run stores that of a probe, and is not resumed with another template.

        Args:
            prompt: the user's message.

        Returns:
            The full text, or None where a server renders it unseen.
        """
        ...

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        """Draw every request, and give each back as soon as it is complete.

        Args:
            requests: chunks of one or several problems, about `batch_size` samples in all.
            decoding: how tokens are drawn; engines must not add options of their own.

        Returns:
            An iterator over one chunk per request, in any order. Where a single request fails (its prompt is too long),
            its chunk holds the error and no samples.

        Raises:
            OffleashError: no request could succeed (no server, no memory, a decoding that the engine does not have).
        """
        ...

    def forget(self, problem: str) -> None:
        """Free what is kept of a problem: no more of its samples will be requested.

        Args:
            problem: its name, as in the requests.
        """
        ...

    def close(self) -> None:
        """Free the model. Called once, also after an error."""
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
