"""Score given texts under a model: log-probability and entropy, every token forced and none drawn.

A text is tokenized on its own, separately from its prompt. Special tokens that it spells out are read as plain
characters: texts are written by models, and none of them can forge an end. Texts beyond the context are read in
windows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.data.scores import Sums, Trace
from offleash.render.escape import valid_utf8
from offleash.samplers.huggingface.attention import Layer, Prompts, Slots
from offleash.samplers.huggingface.forward import Network
from offleash.samplers.huggingface.prefix_sampling import WalkLimits, distribution
from offleash.samplers.huggingface.sampler import HuggingFace
from offleash.samplers.sampler import About, Request, Sampler, SamplingParams

# Forcing: texts through the shared-prefix engine, in pieces that bound the memory of logits, keys and values.


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
END = -1  # stands for the end of a text, whichever of the model's ends that is
PIECE = 256  # tokens of a row in one forward pass: beyond it longer pieces are no faster
SHARE = 4  # parts of the memory: prompts may take one (while they are stacked, two), rows two


@dataclass(frozen=True)
class TargetText:
    """A text to be read after one of several prompts."""

    place: int  # of its sums
    prompt: int
    token_T: Ints  # at least one; END at most as the last
    start: int = 0  # tokens of the text before these, where it is read in windows

    @property
    def length(self) -> int:
        return len(self.token_T)


@dataclass(frozen=True)
class ScoreSums:
    """Sums over the tokens of N texts, which grow as logits come by: columns as in Sums."""

    decoding: SamplingParams
    ends: tuple[int, ...]
    cells: int
    sums_N4: Floats
    entropy_F: NDArray[np.float32]  # of every token of all texts, one after the other, by the model's own distribution
    offset_N: Ints  # where each text begins in it

    def add(self, logits_MV: Tensor, token_M: Ints, place_M: Ints, at_M: Ints) -> None:
        """Add what M distributions say of the tokens that follow: token number `at` of the text `place`."""
        most = max(1, self.cells // SHARE // logits_MV.shape[1])  # sorting for top-p takes several copies
        for start in range(0, len(token_M), most):
            part = slice(start, start + most)
            found = distribution(logits_MV[part], self.decoding)
            token = torch.from_numpy(token_M[part]).to(logits_MV.device)
            four = [
                self._foretold(found.raw_RV, token),
                found.entropy_raw_R,
                self._foretold(found.sampled_RV, token),
                found.entropy_sampled_R,
            ]
            four_M4 = torch.stack(four, 1).double().cpu().numpy()
            np.add.at(self.sums_N4, place_M[part], four_M4)
            self.entropy_F[self.offset_N[place_M[part]] + at_M[part]] = four_M4[:, 1]

    def _foretold(self, logprob_RV: Tensor, token_R: Tensor) -> Tensor:
        """Log-probability of the tokens that follow; of an end, that of any of the model's ends: a text ends in all."""
        row = torch.arange(len(token_R), device=token_R.device)
        found = logprob_RV[row, token_R.clamp(min=0)]
        if not self.ends or not bool((token_R == END).any()):
            return found
        return torch.where(token_R == END, logprob_RV[:, list(self.ends)].logsumexp(-1), found)


def score_targets(
    network: Network,
    limits: WalkLimits,
    context: int | None,
    prompts: Sequence[list[int]],
    given: Sequence[TargetText],
    summing: ScoreSums,
) -> None:
    """Read every text after its prompt and add up its sums. Their order does not matter."""
    of_prompt: dict[int, list[TargetText]] = {}
    for one in given:
        of_prompt.setdefault(one.prompt, []).append(one)
    layers, logits = network.read([prompts[next(iter(of_prompt))][:1]])[0]
    shape = _Shape(Slots.like(layers, 0, 0).bytes_a_token, len(logits), _heads(network), len(layers))
    for wave in _waves(prompts, list(of_prompt), limits, shape):
        texts = [one for prompt in wave for one in of_prompt[prompt]]
        stacked, length_G, logits_GV = _prefill(network, [prompts[prompt] for prompt in wave])
        row_N = np.array([wave.index(one.prompt) for one in texts])
        first_N, place_N = np.array([one.token_T[0] for one in texts]), np.array([one.place for one in texts])
        start_N = np.array([one.start for one in texts])
        for start in range(0, len(texts), max(1, limits.cells // shape.vocabulary)):
            part = slice(start, start + max(1, limits.cells // shape.vocabulary))
            rows = torch.from_numpy(row_N[part]).to(network.device)
            summing.add(logits_GV[rows], first_N[part], place_N[part], start_N[part])
        longer = [(one, row) for one, row in zip(texts, row_N.tolist(), strict=True) if one.length > 1]
        for batch, piece in _batches(longer, [len(prompts[prompt]) for prompt in wave], limits, context, shape):
            _force_batch(network, stacked, length_G, batch, piece, summing)


@dataclass(frozen=True)
class _Shape:
    """What bounds a forward pass."""

    bytes_a_token: int  # of keys and values
    vocabulary: int
    heads: int
    layers: int

    def positions(self, cells: int, seen: int) -> int:
        """New tokens in a pass: by their logits, and by the scores of one layer's attention over `seen` tokens."""
        return max(1, min(cells // self.vocabulary, SHARE * cells // (self.heads * seen)))

    def rows(self, memory: int, own: int, seen: int) -> int:
        """Rows whose keys and values fit, with the copies that one layer at a time makes of all it sees."""
        return max(1, memory // SHARE * 2 // (self.bytes_a_token * (own + 3 * seen // self.layers + 1)))


def _waves(prompts: Sequence[list[int]], wanted: list[int], limits: WalkLimits, shape: _Shape) -> Iterator[list[int]]:
    """Prompts that are held together, of similar length since they are padded to the longest."""
    wave: list[int] = []
    for prompt in sorted(wanted, key=lambda one: len(prompts[one])):
        size = (len(wave) + 1) * len(prompts[prompt]) * shape.bytes_a_token
        if wave and (size > limits.memory // SHARE or (len(wave) + 1) * shape.vocabulary > limits.cells):
            yield wave
            wave = []
        wave.append(prompt)
    if wave:
        yield wave


def _batches(
    texts: list[tuple[TargetText, int]], prompt_G: list[int], limits: WalkLimits, context: int | None, shape: _Shape
) -> Iterator[tuple[list[tuple[TargetText, int]], int]]:
    """Rows that go together, longest first, and the tokens of each in one forward pass."""
    ordered = sorted(texts, key=lambda one: -one[0].length)
    while ordered:
        own, prompt = ordered[0][0].length - 1, max(prompt_G)
        positions = shape.positions(limits.cells, own + prompt)
        piece = min(own, PIECE, positions)
        most = min(limits.rows, positions // piece, shape.rows(limits.memory, own, own + prompt))
        batch: list[tuple[TargetText, int]] = []
        longest = 0
        for one in ordered[: max(1, most)]:
            longest = max(longest, prompt_G[one[1]])
            # padding has positions too, and a model with a table of them reads none beyond its context
            if batch and context is not None and longest + own > context:
                break
            batch.append(one)
        yield batch, piece
        ordered = ordered[len(batch) :]


def _force_batch(
    network: Network,
    stacked: list[Layer],
    length_G: Tensor,
    batch: list[tuple[TargetText, int]],
    piece: int,
    summing: ScoreSums,
) -> None:
    """Rows, longest first, piece by piece; a row that has come to its end is read no further."""
    length_R = np.array([one.length for one, _ in batch]) - 1  # the last token is foretold and not read
    token_RT = np.zeros((len(batch), length_R[0] + 1), np.int64)
    for row, (one, _) in enumerate(batch):
        token_RT[row, : one.length] = one.token_T
    place_R, start_R = np.array([(one.place, one.start) for one, _ in batch]).T
    prompt_R = torch.tensor([row for _, row in batch], device=network.device)
    slots = Slots.like(stacked, len(batch), int(length_R[0]))
    for have in range(0, int(length_R[0]), piece):
        rows, stop = int((length_R > have).sum()), min(have + piece, int(length_R[0]))
        new = torch.from_numpy(np.maximum(token_RT[:rows, have:stop], 0)).to(network.device)
        prompts = Prompts.of(stacked, length_G, prompt_R[:rows])
        logits = network.run(slots, 0, rows, have, new, prompts, every=True)
        real_RT = np.arange(have, stop) < length_R[:rows, None]
        row_M, column_M = np.nonzero(real_RT)
        wanted = logits[torch.from_numpy(real_RT).to(network.device)]
        at_M = start_R[row_M] + have + 1 + column_M
        summing.add(wanted, token_RT[:rows, have + 1 : stop + 1][real_RT], place_R[row_M], at_M)


def _prefill(network: Network, prompts: list[list[int]]) -> tuple[list[Layer], Tensor, Tensor]:
    """Keys and values of prompts in one buffer a layer, padded to the longest; their lengths; logits after each."""
    read = network.read(prompts)
    length_G = torch.tensor([len(prompt) for prompt in prompts], device=network.device)
    logits_GV = torch.stack([logits for _, logits in read])
    if len(read) == 1:
        return read[0][0], length_G, logits_GV
    stacked = Slots.like(read[0][0], len(prompts), int(length_G.max())).layers
    for place, layer in enumerate(stacked):
        for row, (layers, _) in enumerate(read):
            layer.append(row, row + 1, 0, layers[place].keys, layers[place].values)
    return stacked, length_G, logits_GV


def _heads(network: Network) -> int:
    from transformers import PreTrainedModel

    assert isinstance(network.model, PreTrainedModel)
    return int(getattr(network.model.config.get_text_config(), "num_attention_heads", 1))


# The scorer: tokenizes texts, then runs them through `force` or the model's own forward pass.


TOGETHER = 8192  # tokens in a forward pass of the plain engine
LETTERS = 1 << 20  # encoded at a time
KEEP = "logits_to_keep"


@dataclass(frozen=True)
class TextScore:
    """A text that was read: its sums, and the entropy of each of its tokens (none where it has no sums)."""

    sums: Sums
    entropy_T: NDArray[np.float32]  # by the model's own distribution


@dataclass
class Scorer:
    """A model that says how probable texts are."""

    sampler: HuggingFace

    @classmethod
    def of(cls, sampler: Sampler) -> "Scorer":
        assert isinstance(sampler, HuggingFace)
        return cls(sampler)

    @property
    def about(self) -> About:
        return self.sampler.about

    def rendered_prompt(self, prompt: str) -> str | None:
        return self.sampler.rendered_prompt(prompt)

    def close(self) -> None:
        self.sampler.close()

    def score(self, traces: Sequence[Trace], decoding: SamplingParams) -> list[Sums]:
        """The sums of every trace, in their order; traces that are alike are read once."""
        return [one.sums for one in self.read(traces, decoding)]

    def read(self, traces: Sequence[Trace], decoding: SamplingParams) -> list[TextScore]:
        """As `score`, with the entropy of every token."""
        distinct = {trace: place for place, trace in enumerate(dict.fromkeys(traces))}
        prompts = {trace.prompt: self._prompt(trace.prompt) for trace in distinct}
        texts = self._texts(list(distinct))
        tokens = [found for found, _ in prompts.values()]
        numbers = {prompt: number for number, prompt in enumerate(prompts)}
        troubles, parts, given = [], [], []
        for (trace, place), text in zip(distinct.items(), texts, strict=True):
            asked, trouble = prompts[trace.prompt]
            troubles.append(trouble or self._trouble(asked))
            wins = windows(len(asked), len(text), self.sampler.loaded.context) if not troubles[-1] else []
            parts.append(len(wins))
            for one in wins:
                number = numbers[trace.prompt]
                if one.history is not None:  # a later window: what stands before it is its prompt
                    number = len(tokens)
                    tokens.append([*asked, *text[: one.start].tolist()][-one.history :])
                given.append(TargetText(place, number, text[one.start : one.stop], one.start))
        limits, loaded = self.sampler.limits, self.sampler.loaded
        size_N = np.array([len(text) for text in texts], np.int64)
        entropy_F, offset_N = np.zeros(int(size_N.sum()), np.float32), np.cumsum(size_N) - size_N
        summing = ScoreSums(decoding, loaded.ends, limits.cells, np.zeros((len(distinct), 4)), entropy_F, offset_N)
        if given and self.sampler.network is not None:
            score_targets(self.sampler.network, limits, loaded.context, tokens, given, summing)
        elif given:
            self._force_plainly(tokens, given, summing)
        rows = zip(size_N.tolist(), parts, troubles, summing.sums_N4, np.split(entropy_F, offset_N[1:]), strict=True)
        found = [_text_score(*row) for row in rows]
        return [found[distinct[trace]] for trace in traces]

    def _prompt(self, prompt: str) -> tuple[list[int], str]:
        return self.sampler.prompt_encoder.encode(Request("", valid_utf8(prompt), 0, 1, 0))

    def _texts(self, traces: list[Trace]) -> list[Ints]:
        """Tokens of the texts alone: the seam to the prompt is where the model began to write."""
        ending, found = ([END] if self.sampler.loaded.ends else []), []
        for part in _parts(traces):
            encoded = self.sampler.loaded.tokenizer(
                [valid_utf8(trace.text) for trace in part],
                add_special_tokens=False,
                split_special_tokens=True,
                return_attention_mask=False,
                verbose=False,
            )["input_ids"]
            for tokens, trace in zip(encoded, part, strict=True):
                found.append(np.array([*tokens, *(ending if trace.ended else [])], np.int64))
        return found

    def _trouble(self, prompt: list[int]) -> str:
        """Why no text can be read after a prompt."""
        context = self.sampler.loaded.context
        if context is None or len(prompt) <= context:
            return ""
        return f"the prompt is longer than the {context:,} tokens that the model reads"

    def _force_plainly(self, prompts: list[list[int]], given: list[TargetText], summing: ScoreSums) -> None:
        """As `force`, by the model's own forward pass: for attention of a kind that the shared engine does not do."""
        vocabulary = int(self.sampler.loaded.model.config.get_text_config().vocab_size)
        positions = max(1, self.sampler.limits.cells // vocabulary)
        ordered = sorted(given, key=lambda one: (one.prompt, -one.length))
        while ordered:
            prompt, longest = ordered[0].prompt, ordered[0].length
            piece = min(longest, positions)
            tokens = len(prompts[prompt]) + longest
            most = max(1, min(self.sampler.limits.rows, positions // piece, TOGETHER // tokens))
            batch = [one for one in ordered[:most] if one.prompt == prompt]
            ordered = ordered[len(batch) :]
            for start in range(0, longest, piece):
                reading = [one for one in batch if one.length > start]
                self._pass(prompts[prompt], reading, start, min(start + piece, longest), summing)

    def _pass(self, prompt: list[int], batch: list[TargetText], start: int, stop: int, summing: ScoreSums) -> None:
        """Foretell tokens [start, stop) of rows of one prompt; what follows the last of them need not be read.

        Without a cache, whose kinds are as many as models, so a long text is read anew for each of its pieces.
        """
        model: Any = self.sampler.loaded.model
        token_RT = np.zeros((len(batch), stop), np.int64)
        for row, one in enumerate(batch):
            token_RT[row, : one.length] = one.token_T[:stop]
        head = np.tile(np.array(prompt, np.int64), (len(batch), 1))
        read = torch.from_numpy(np.maximum(np.concatenate([head, token_RT[:, : stop - 1]], 1), 0)).to(model.device)
        keep = {KEEP: stop - start} if KEEP in signature(model.forward).parameters else {}
        with torch.inference_mode():
            logits = model(input_ids=read, attention_mask=torch.ones_like(read), use_cache=False, **keep).logits
        real_RT = np.arange(start, stop) < np.array([one.length for one in batch])[:, None]
        row_M, column_M = np.nonzero(real_RT)
        place_R, start_R = np.array([(one.place, one.start) for one in batch]).T
        wanted = logits[:, start - stop :][torch.from_numpy(real_RT).to(model.device)]
        summing.add(wanted, token_RT[:, start:][real_RT], place_R[row_M], start_R[row_M] + start + column_M)


def _parts(traces: list[Trace]) -> Iterator[list[Trace]]:
    """Traces that are encoded together: the tokenizer's own notes take many times the room of a text."""
    part: list[Trace] = []
    letters = 0
    for trace in traces:
        part.append(trace)
        letters += len(trace.text)
        if letters > LETTERS:
            yield part
            part, letters = [], 0
    if part:
        yield part


def _text_score(
    tokens: int, parts: int, trouble: str, sums: NDArray[np.float64], entropy_T: NDArray[np.float32]
) -> TextScore:
    if not trouble and np.isnan(sums).any():
        trouble = "the model gave no numbers (NaN); try --set dtype=float32"
    if trouble:
        return TextScore(Sums(tokens, reason=trouble), entropy_T[:0])
    raw, entropy_raw, sampled, entropy_sampled = sums.tolist()
    return TextScore(Sums(tokens, raw, entropy_raw, sampled, entropy_sampled, max(parts, 1)), entropy_T)


@dataclass(frozen=True)
class ContextWindow:
    """Tokens [start, stop) of a text, foretold from what stands before them; the last one is foretold and not read."""

    start: int
    stop: int
    history: int | None  # tokens before `start`, of the prompt and the text, that are read; None: the prompt whole


def windows(prompt: int, text: int, context: int | None) -> list[ContextWindow]:
    """The windows of a text of so many tokens; one where all fits, none where the text is empty.

    Every token is foretold once. From the second window on, half of the context is what stands before it: the prompt
    itself is then out of sight once the text is long enough, as it would be for any model with a sliding context.
    """
    if not text:
        return []
    first = text if context is None else min(text, context - prompt + 1)
    found = [ContextWindow(0, first, None)]
    while context is not None and found[-1].stop < text:
        start = found[-1].stop
        history = min(max(1, context // 2), prompt + start)
        found.append(ContextWindow(start, min(text, start + context - history + 1), history))
    return found
