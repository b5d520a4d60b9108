"""The `hf:` sampler: any causal language model of transformers, on a CPU or a GPU.

Requests are drawn together by the shared-prefix engine (prefix_sampling.py), as many as fit in memory; models and
prompts that it cannot run are drawn by generate.py.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import UnsupportedError
from offleash.samplers.huggingface.forward import Network, open_network
from offleash.samplers.huggingface.generate import generated
from offleash.samplers.huggingface.loading import LoadedModel, load, settings_of
from offleash.samplers.huggingface.prefix_sampling import Walk, WalkLimits
from offleash.samplers.huggingface.prefix_tree import FinishedSamples, Tree
from offleash.samplers.huggingface.text import PromptEncoder, stop_finder, texts_of
from offleash.samplers.registry import Model, fingerprint
from offleash.samplers.sampler import About, Request, Sample, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds

CALL = 30.0  # seconds that a call should take: what is in work is lost by a kill
MOST = 16384  # samples in a call
HELD = 1 << 29  # bytes of tokens that a call may hold while its chunks are not whole


def open_sampler(model: Model) -> "HuggingFace":
    """The model, loaded."""
    settings = settings_of(model)
    found = _loaded(model, settings)
    limits = WalkLimits(
        memory=int(float(settings["memory"]) * 2**30),
        rows=int(float(settings["rows"])),
        merge=settings["merge"] == "on",
    )
    shared, why = _shared(found, settings["engine"])
    kept = {"dtype": str(found.model.dtype).removeprefix("torch.")}  # the one setting that changes samples
    about = About("hf", model.name, model.revision, model.adapter, _fingerprint(model), model.raw, kept, found.versions)
    return HuggingFace(about, found, shared, PromptEncoder(found.tokenizer, found.processor, model.raw), limits, why)


@dataclass
class HuggingFace:
    """A model of transformers as a sampler."""

    about: About
    loaded: LoadedModel
    network: Network | None  # None: the model's attention is of a kind that only its own code does
    prompt_encoder: PromptEncoder
    limits: WalkLimits
    why_generate: str = ""
    concurrency: int = 1
    batch_size: int = 1024
    _trees: dict[str, Tree] = field(default_factory=dict)
    _generated: int = 0

    @property
    def forwarded(self) -> int:
        return self._generated + (self.network.forwarded if self.network else 0)

    def rendered_prompt(self, prompt: str) -> str | None:
        return self.prompt_encoder.render(prompt).text

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        """Every request, as its last sample ends. Samples that share a prefix share its forward pass."""
        started = time.monotonic()
        for wave, limited in self._waves(requests, decoding):
            if isinstance(wave, SampleChunk):
                yield wave
            else:
                yield from self._drawn(wave, limited)
        seconds, samples = max(time.monotonic() - started, 1e-3), sum(request.size for request in requests)
        least, most = min(64, self.batch_size), min(MOST, 4 * self.batch_size)
        self.batch_size = int(np.clip(samples * CALL / seconds, least, most))

    def forget(self, problem: str) -> None:
        self._trees.pop(problem, None)

    def close(self) -> None:
        self._trees.clear()
        self.network = None

    def _waves(
        self, requests: Sequence[Request], decoding: SamplingParams
    ) -> Iterator[tuple[list[tuple[Request, list[int]]] | SampleChunk, SamplingParams]]:
        """Requests that are drawn together; those whose prompt is too long come back as they are."""
        by_room: dict[int, list[tuple[Request, list[int]]]] = {}
        for request in requests:
            tokens, trouble = self.prompt_encoder.encode(request)
            room = decoding.max_tokens if self.loaded.context is None else self.loaded.context - len(tokens)
            if not trouble and room < 1:
                trouble = f"the prompt has {len(tokens)} tokens and the model reads {self.loaded.context}"
            if trouble:
                yield SampleChunk(request, error=trouble), decoding
            else:
                by_room.setdefault(min(room, decoding.max_tokens), []).append((request, tokens))
        for room, all_of_them in by_room.items():
            wave: list[tuple[Request, list[int]]] = []
            for one in all_of_them:
                if wave and not self._fit([*wave, one], room):
                    yield wave, replace(decoding, max_tokens=room)
                    wave = []
                wave.append(one)
            yield wave, replace(decoding, max_tokens=room)

    def _fit(self, wave: list[tuple[Request, list[int]]], room: int) -> bool:
        """Whether a wave can be held: the tokens of its samples until chunks are whole, and its prompts, twice."""
        samples = sum(request.size for request, _ in wave)
        if samples > max(256, min(MOST, HELD // (4 * room))):
            return False
        each = self.network.bytes_a_token if self.network else 0
        prompts = len({request.problem for request, _ in wave}) * max(len(tokens) for _, tokens in wave)
        return 2 * prompts * each <= self.limits.memory

    def _drawn(self, wave: list[tuple[Request, list[int]]], decoding: SamplingParams) -> Iterator[SampleChunk]:
        if self.network is None or any(request.images for request, _ in wave):
            for request, tokens in wave:
                self._generated += len(tokens)
                samples = generated(self.loaded, request, tokens, decoding, self.limits.rows)
                self._generated += sum(sample.tokens or 0 for sample in samples)
                yield SampleChunk(request, samples)
            return
        trees, tree_N, spare = self._planted(wave)
        seeds = np.concatenate([sample_seeds(request.seed, request.first, request.size) for request, _ in wave])
        stops = stop_finder(self.loaded.tokenizer, decoding.stop) if decoding.stop else None
        ends = np.array(self.loaded.ends, np.int64)
        walk = Walk(self.network, decoding, ends, trees, tree_N, seeds, self.limits, stops, spare)
        collecting = _Collecting([request for request, _ in wave], seeds, walk.sums_N4)
        for ended in walk.run():
            yield from collecting.add(ended, texts_of(self.loaded.tokenizer, ended, decoding.stop))

    def _planted(self, wave: list[tuple[Request, list[int]]]) -> tuple[list[Tree], NDArray[np.int64], int]:
        """The trees of a wave, kept ones and new ones for prompts that are read now; and bytes that nodes may take."""
        assert self.network is not None
        places = {problem: place for place, problem in enumerate(dict.fromkeys(one.problem for one, _ in wave))}
        new = {request.problem: tokens for request, tokens in wave if request.problem not in self._trees}
        for problem, (layers, logits) in zip(new, self.network.read(list(new.values())), strict=True):
            self._trees[problem] = Tree(new[problem], layers, logits[None].float())
        for request, _ in wave:
            self._trees[request.problem].keep = request.more_expected and self.limits.merge
        trees, each = [self._trees[problem] for problem in places], self.network.bytes_a_token
        spare = self.limits.memory - sum(tree.bytes(each) for tree in self._trees.values())
        for problem in [one for one in self._trees if one not in places]:
            if spare < self.limits.memory // 2:  # what is asked for now comes first
                spare += self._trees.pop(problem).bytes(each)
        for request, _ in wave:
            if not request.more_expected:
                self._trees.pop(request.problem, None)
        sizes = [request.size for request, _ in wave]
        return trees, np.repeat([places[request.problem] for request, _ in wave], sizes), spare // 2  # buffers double


@dataclass
class _Collecting:
    """Chunks that fill up: a chunk is given back when its last sample has ended."""

    requests: list[Request]
    seed_N: NDArray[np.uint64]
    sums_N4: NDArray[np.float64]

    def __post_init__(self) -> None:
        sizes = [request.size for request in self.requests]
        self._request_N = np.repeat(np.arange(len(sizes)), sizes)
        self._first = np.cumsum(sizes) - sizes
        self._first_index = np.array([request.first for request in self.requests])
        self._open = np.array(sizes)
        self._samples: list[list[Sample]] = [[] for _ in sizes]

    def add(self, ended: FinishedSamples, texts: list[str]) -> Iterator[SampleChunk]:
        tokens, finish, request_N = ended.token_ET.shape[1], ended.finish, self._request_N[ended.sample_N]
        index_N = self._first_index[request_N] + ended.sample_N - self._first[request_N]
        columns = (request_N, index_N, ended.sequence_N, self.seed_N[ended.sample_N], self.sums_N4[ended.sample_N])
        for place, index, sequence, seed, sums in zip(*(column.tolist() for column in columns), strict=True):
            self._samples[place].append(Sample(index, texts[sequence], tokens, finish, seed, *sums))
        counts = np.bincount(request_N, minlength=len(self._open))
        self._open -= counts
        for place in np.flatnonzero((self._open == 0) & (counts > 0)).tolist():
            samples = sorted(self._samples[place], key=lambda sample: sample.index)
            self._samples[place] = []
            yield SampleChunk(self.requests[place], tuple(samples))


def _shared(found: LoadedModel, wanted: str) -> tuple[Network | None, str]:
    """The fast engine where it gives the model's own logits, else why not."""
    if wanted == "generate" or found.processor is not None:
        return None, "as asked" if wanted == "generate" else "the model sees images"
    try:
        return open_network(found.model), ""
    except UnsupportedError as error:
        return None, str(error)


def _loaded(model: Model, settings: Mapping[str, str]) -> LoadedModel:
    """The model, loaded; where it is neither a folder nor known to the hub, both are said."""
    try:
        return load(model, settings)
    except OffleashError as error:
        path = Path(model.name).expanduser()
        if path.exists():
            raise
        near = _near(path)
        hint = f" Did you mean hf:{near}?" if near else ""
        if not isinstance(error.__context__, OSError):  # it is a path, and the message says that it is none
            raise OffleashError(f"{error}{hint}") from None
        raise OffleashError(
            f"There is no folder {model.name} here.{hint} Asked as a name on the hub: {error}"
        ) from None


def _near(path: Path) -> Path | None:
    """The folder beside a path that is called almost as it is."""
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_dir()]
    except OSError:
        return None
    found = get_close_matches(path.name, names, n=1)
    return path.with_name(found[0]) if found else None


def _fingerprint(model: Model) -> str:
    return " ".join(filter(None, (fingerprint(model.name), fingerprint(model.adapter) if model.adapter else "")))
