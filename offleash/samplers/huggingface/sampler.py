"""The `hf:` sampler: any causal language model of transformers, on a CPU or a GPU.

Requests are drawn together by the shared-prefix engine (prefix_sampling.py), as many as fit in memory; models and
prompts that it cannot run are drawn by generate.py.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import UnsupportedError
from offleash.samplers.huggingface.forward import Network, open_network
from offleash.samplers.huggingface.generate import generate
from offleash.samplers.huggingface.loading import LoadedModel, load, settings_of, similar_folder
from offleash.samplers.huggingface.prefix_sampling import Walk, WalkLimits
from offleash.samplers.huggingface.prefix_tree import FinishedSamples, Tree
from offleash.samplers.huggingface.text import PromptEncoder, stop_finder, texts_of
from offleash.samplers.registry import Model, fingerprint
from offleash.samplers.sampler import About, Request, Sample, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds

CALL_SECONDS = 30.0  # that a call should take: a kill loses what is in work
MAX_SAMPLES = 16384  # in a call
TOKEN_BYTES = 1 << 29  # of tokens that a call may hold while its chunks are incomplete

Wave = list[tuple[Request, list[int]]]  # requests that are drawn together, each with the tokens of its prompt


def open_sampler(model: Model) -> "HuggingFace":
    """Load a model as a sampler."""
    settings = settings_of(model)
    loaded = _load(model, settings)
    limits = WalkLimits(
        memory=int(float(settings["memory"]) * 2**30),
        rows=int(float(settings["rows"])),
        merge=settings["merge"] == "on",
    )
    network, fallback_reason = _open_engine(loaded, settings["engine"])
    stored_settings = {"dtype": str(loaded.model.dtype).removeprefix("torch.")}  # the one setting that changes samples
    weights = _fingerprint(model)
    about = About(
        "hf",
        model.name,
        model.revision,
        model.adapter,
        weights,
        model.raw,
        stored_settings,
        loaded.versions,
        model.chat.system,
        model.chat.kwargs or None,
    )
    prompt_encoder = PromptEncoder(loaded.tokenizer, loaded.processor, model.raw, model.chat)
    if model.chat:
        prompt_encoder.render("What is 1 + 1?")  # refuses now what its template cannot do
    return HuggingFace(about, loaded, network, prompt_encoder, limits, fallback_reason)


@dataclass
class HuggingFace:
    """A model of transformers as a sampler."""

    about: About
    loaded: LoadedModel
    network: Network | None  # None: the model runs by transformers' generate
    prompt_encoder: PromptEncoder
    limits: WalkLimits
    fallback_reason: str = ""  # the reason, where it does
    concurrency: int = 1
    batch_size: int = 1024
    _trees: dict[str, Tree] = field(default_factory=dict)  # of problems that more samples are expected of
    _generated_tokens: int = 0

    @property
    def forwarded(self) -> int:
        """Tokens through the model so far."""
        return self._generated_tokens + (self.network.forwarded if self.network else 0)

    def rendered_prompt(self, prompt: str) -> str | None:
        """The prompt in the model's chat template."""
        return self.prompt_encoder.render(prompt).text

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        """Every request, as its last sample ends. Samples that share a prefix share its forward pass.

        The batch size follows the speed: the next call should take `CALL_SECONDS`, with at most four times the samples
        of this one, since a call with few samples says little about a large one.
        """
        started = time.monotonic()
        for wave, wave_decoding in self._waves(requests, decoding):
            if isinstance(wave, SampleChunk):
                yield wave
            else:
                yield from self._draw_wave(wave, wave_decoding)
        seconds, samples = max(time.monotonic() - started, 1e-3), sum(request.size for request in requests)
        min_samples, max_samples = min(64, self.batch_size), min(MAX_SAMPLES, 4 * self.batch_size)
        self.batch_size = int(np.clip(samples * CALL_SECONDS / seconds, min_samples, max_samples))

    def forget(self, problem: str) -> None:
        """Free the prefixes of a problem."""
        self._trees.pop(problem, None)

    def close(self) -> None:
        """Free the trees and the buffers; the weights go with the object."""
        self._trees.clear()
        self.network = None

    def _waves(
        self, requests: Sequence[Request], decoding: SamplingParams
    ) -> Iterator[tuple[Wave | SampleChunk, SamplingParams]]:
        """Requests that are drawn together, with the decoding cut to what the context leaves; failed ones as chunks.

        A walk has one token limit, so prompts near the end of the context are drawn apart from the others.
        """
        waves_by_limit: dict[int, Wave] = {}
        for request in requests:
            tokens, error = self.prompt_encoder.encode(request)
            available_tokens = decoding.max_tokens if self.loaded.context is None else self.loaded.context - len(tokens)
            if not error and available_tokens < 1:
                error = f"the prompt has {len(tokens)} tokens, but the model's context is {self.loaded.context}"
            if error:
                yield SampleChunk(request, error=error), decoding
            else:
                waves_by_limit.setdefault(min(available_tokens, decoding.max_tokens), []).append((request, tokens))
        for max_tokens, encoded_requests in waves_by_limit.items():
            wave: Wave = []
            for pair in encoded_requests:
                if wave and not self._fits([*wave, pair], max_tokens):
                    yield wave, replace(decoding, max_tokens=max_tokens)
                    wave = []
                wave.append(pair)
            yield wave, replace(decoding, max_tokens=max_tokens)

    def _fits(self, wave: Wave, max_tokens: int) -> bool:
        """Whether a wave can be held: the tokens of its samples until chunks are complete (4 bytes each), and its
        prompts twice, in their trees and stacked."""
        samples = sum(request.size for request, _ in wave)
        if samples > max(256, min(MAX_SAMPLES, TOKEN_BYTES // (4 * max_tokens))):
            return False
        token_bytes = self.network.bytes_per_token if self.network else 0
        prompts = len({request.problem for request, _ in wave}) * max(len(tokens) for _, tokens in wave)
        return 2 * prompts * token_bytes <= self.limits.memory

    def _draw_wave(self, wave: Wave, decoding: SamplingParams) -> Iterator[SampleChunk]:
        if self.network is None or any(request.images for request, _ in wave):
            for request, tokens in wave:
                self._generated_tokens += len(tokens)
                samples = generate(
                    self.loaded, request, tokens, decoding, self.limits.rows, self.prompt_encoder.options
                )
                self._generated_tokens += sum(sample.tokens or 0 for sample in samples)
                yield SampleChunk(request, samples)
            return
        trees, tree_N, node_bytes = self._trees_of(wave)
        seeds = np.concatenate([sample_seeds(request.seed, request.first, request.size) for request, _ in wave])
        stops = stop_finder(self.loaded.tokenizer, decoding.stop) if decoding.stop else None
        ends = np.array(self.loaded.ends, np.int64)
        walk = Walk(self.network, decoding, ends, trees, tree_N, seeds, self.limits, stops, node_bytes)
        chunks = _ChunkCollector([request for request, _ in wave], seeds, walk.sums_N4)
        for finished in walk.run():
            yield from chunks.add(finished, texts_of(self.loaded.tokenizer, finished, decoding.stop))

    def _trees_of(self, wave: Wave) -> tuple[list[Tree], NDArray[np.int64], int]:
        """The trees of a wave, kept ones and new ones for prompts that are read now; which tree each sample belongs to;
        and bytes that new nodes may take."""
        assert self.network is not None
        problems = dict.fromkeys(request.problem for request, _ in wave)
        numbers = {problem: number for number, problem in enumerate(problems)}
        new = {request.problem: tokens for request, tokens in wave if request.problem not in self._trees}
        for problem, (layers, logits) in zip(new, self.network.prefill(list(new.values())), strict=True):
            self._trees[problem] = Tree(new[problem], layers, logits[None].float())
        for request, _ in wave:
            self._trees[request.problem].keep = request.more_expected and self.limits.merge
        trees, token_bytes = [self._trees[problem] for problem in numbers], self.network.bytes_per_token
        free_bytes = self.limits.memory - sum(tree.bytes(token_bytes) for tree in self._trees.values())
        for problem in [problem for problem in self._trees if problem not in numbers]:
            if free_bytes < self.limits.memory // 2:  # the problems of this wave come first; the oldest trees go first
                free_bytes += self._trees.pop(problem).bytes(token_bytes)
        for request, _ in wave:
            if not request.more_expected:
                self._trees.pop(request.problem, None)
        sizes = [request.size for request, _ in wave]
        return (
            trees,
            np.repeat([numbers[request.problem] for request, _ in wave], sizes),
            free_bytes // 2,
        )  # buffers double


@dataclass
class _ChunkCollector:
    """Puts samples, which end in any order, together by request; a chunk is complete when its last sample has ended."""

    requests: list[Request]
    seed_N: NDArray[np.uint64]
    sums_N4: NDArray[np.float64]

    def __post_init__(self) -> None:
        sizes = [request.size for request in self.requests]
        self._request_N = np.repeat(np.arange(len(sizes)), sizes)
        self._first = np.cumsum(sizes) - sizes
        self._first_index = np.array([request.first for request in self.requests])
        self._open = np.array(sizes)  # samples that have not ended
        self._samples: list[list[Sample]] = [[] for _ in sizes]

    def add(self, finished: FinishedSamples, texts: list[str]) -> Iterator[SampleChunk]:
        """Take samples that ended, with the texts of their sequences; the chunks that they complete."""
        tokens, finish, request_N = finished.token_ET.shape[1], finished.finish, self._request_N[finished.sample_N]
        index_N = self._first_index[request_N] + finished.sample_N - self._first[request_N]
        columns = (
            request_N,
            index_N,
            finished.sequence_N,
            self.seed_N[finished.sample_N],
            self.sums_N4[finished.sample_N],
        )
        for request_row, index, sequence, seed, sums in zip(*(column.tolist() for column in columns), strict=True):
            self._samples[request_row].append(Sample(index, texts[sequence], tokens, finish, seed, *sums))
        counts = np.bincount(request_N, minlength=len(self._open))
        self._open -= counts
        for request_row in np.flatnonzero((self._open == 0) & (counts > 0)).tolist():
            samples = sorted(self._samples[request_row], key=lambda sample: sample.index)
            self._samples[request_row] = []
            yield SampleChunk(self.requests[request_row], tuple(samples))


def _open_engine(loaded: LoadedModel, engine: str) -> tuple[Network | None, str]:
    """The shared-prefix engine where it gives the model's own logits, else None and why not."""
    if engine == "generate" or loaded.processor is not None:
        return None, "as requested" if engine == "generate" else "the model takes images"
    try:
        return open_network(loaded.model), ""
    except UnsupportedError as error:
        return None, str(error)


def _load(model: Model, settings: Mapping[str, str]) -> LoadedModel:
    """Load a model; the error for a name that is neither a folder nor on the hub says both."""
    try:
        return load(model, settings)
    except OffleashError as error:
        path = Path(model.name).expanduser()
        if path.exists():
            raise
        if not isinstance(error.__context__, OSError):  # not the hub's error: the name looked like a path
            raise
        similar = similar_folder(path)
        hint = f" Did you mean hf:{similar}?" if similar else ""
        raise OffleashError(f"There is no folder {model.name} here.{hint} As a name on the hub: {error}") from None


def _fingerprint(model: Model) -> str:
    return " ".join(filter(None, (fingerprint(model.name), fingerprint(model.adapter) if model.adapter else "")))
