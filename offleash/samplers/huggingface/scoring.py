"""Score given texts under a model by teacher forcing: log-probability and entropy of every token, none drawn.

A text is tokenized on its own, separately from its prompt. Special tokens that it spells out are read as plain
characters: texts are written by models, and none of them can forge an end. Texts beyond the context are read in
windows. In all of this file a token is scored by the logits after the token before it: the first token of a text by the
logits after its prompt, and the last token is never read itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.data.scores import ScoredSample, Trace
from offleash.render.escape import valid_utf8
from offleash.samplers.huggingface.attention import Layer, Prompts, Slots
from offleash.samplers.huggingface.forward import Network
from offleash.samplers.huggingface.prefix_sampling import WalkLimits, distribution
from offleash.samplers.huggingface.sampler import HuggingFace
from offleash.samplers.sampler import About, Request, Sampler, SamplingParams

# Teacher forcing in the shared-prefix engine, in pieces that bound the memory of logits, keys and values.


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
END_PLACEHOLDER = -1  # a placeholder for the end of a text, whichever of the model's end tokens it is
TOKENS_PER_PASS = 256  # tokens of a row in one forward pass: longer pieces are no faster
MEMORY_QUARTERS = 4  # quarters of the memory: prompts may take one (two while they are stacked), rows two


@dataclass(frozen=True)
class TargetText:
    """Tokens to be scored after one of several prompts."""

    trace_row: int  # the row of its sums
    prompt: int  # the number of the prompt
    token_T: Ints  # at least one; END_PLACEHOLDER can only be the last
    start: int = 0  # tokens of the text before these, where it is read in windows

    @property
    def length(self) -> int:
        """Tokens to score."""
        return len(self.token_T)


@dataclass(frozen=True)
class ScoreSums:
    """Sums over the tokens of N texts, which grow as logits are computed: columns as in Sums."""

    decoding: SamplingParams
    ends: tuple[int, ...]
    cells: int  # of logits that may be in work
    sums_N4: Floats
    entropy_F: NDArray[np.float32]  # of every token of all texts, one after the other, by the model's own distribution
    offset_N: Ints  # where each text begins in it

    def add(self, logits_MV: Tensor, token_M: Ints, trace_M: Ints, at_M: Ints) -> None:
        """Score M tokens by the logits before them: token number `at` of the text `trace`."""
        step = max(1, self.cells // MEMORY_QUARTERS // logits_MV.shape[1])  # sorting for top-p takes several copies
        for start in range(0, len(token_M), step):
            part = slice(start, start + step)
            next_token = distribution(logits_MV[part], self.decoding)
            token = torch.from_numpy(token_M[part]).to(logits_MV.device)
            columns = [
                self._token_logprob(next_token.raw_RV, token),
                next_token.entropy_raw_R,
                self._token_logprob(next_token.sampled_RV, token),
                next_token.entropy_sampled_R,
            ]
            added_M4 = torch.stack(columns, 1).double().cpu().numpy()
            np.add.at(self.sums_N4, trace_M[part], added_M4)  # not +=: a text may have several tokens in one part
            self.entropy_F[self.offset_N[trace_M[part]] + at_M[part]] = added_M4[:, 1]

    def _token_logprob(self, logprob_RV: Tensor, token_R: Tensor) -> Tensor:
        """Log-probability of one token per row; END_PLACEHOLDER has the probability of all end tokens together,
        since a text does not say which of them ended it."""
        row = torch.arange(len(token_R), device=token_R.device)
        logprob_R = logprob_RV[row, token_R.clamp(min=0)]
        if not self.ends or not bool((token_R == END_PLACEHOLDER).any()):
            return logprob_R
        return torch.where(token_R == END_PLACEHOLDER, logprob_RV[:, list(self.ends)].logsumexp(-1), logprob_R)


def score_targets(
    network: Network,
    limits: WalkLimits,
    context: int | None,
    prompts: Sequence[list[int]],
    targets: Sequence[TargetText],
    sums: ScoreSums,
) -> None:
    """Score every target after its prompt; the results are added to `sums`. Their order does not matter.

    Prompts are read once each, and shared by their targets as in sampling.
    """
    by_prompt: dict[int, list[TargetText]] = {}
    for target in targets:
        by_prompt.setdefault(target.prompt, []).append(target)
    layers, logits = network.prefill([prompts[next(iter(by_prompt))][:1]])[0]  # one token, to see the shapes
    shape = _Shape(Slots.allocate_like(layers, 0, 0).bytes_per_token, len(logits), _heads(network), len(layers))
    # a wave: prompts whose keys and values fit in memory together
    for wave in _waves(prompts, list(by_prompt), limits, shape):
        texts = [target for prompt in wave for target in by_prompt[prompt]]
        stacked, length_G, logits_GV = _prefill(network, [prompts[prompt] for prompt in wave])
        # the first token of every text, by the logits after its prompt: no further forward pass
        row_N = np.array([wave.index(target.prompt) for target in texts])
        first_N, trace_N = (
            np.array([target.token_T[0] for target in texts]),
            np.array([target.trace_row for target in texts]),
        )
        start_N = np.array([target.start for target in texts])
        for start in range(0, len(texts), max(1, limits.cells // shape.vocabulary)):
            part = slice(start, start + max(1, limits.cells // shape.vocabulary))
            rows = torch.from_numpy(row_N[part]).to(network.device)
            sums.add(logits_GV[rows], first_N[part], trace_N[part], start_N[part])
        continued_targets = [
            (target, row) for target, row in zip(texts, row_N.tolist(), strict=True) if target.length > 1
        ]
        for batch, piece in _batches(
            continued_targets, [len(prompts[prompt]) for prompt in wave], limits, context, shape
        ):
            _score_batch(network, stacked, length_G, batch, piece, sums)


@dataclass(frozen=True)
class _Shape:
    """What bounds a forward pass."""

    bytes_per_token: int  # of keys and values
    vocabulary: int
    heads: int
    layers: int

    def positions(self, cells: int, cached_tokens: int) -> int:
        """New tokens per pass, bounded by their logits and by one layer's attention over `cached_tokens` tokens."""
        return max(1, min(cells // self.vocabulary, MEMORY_QUARTERS * cells // (self.heads * cached_tokens)))

    def rows(self, memory: int, own_tokens: int, cached_tokens: int) -> int:
        """Rows whose keys and values fit, with the copies that one layer at a time makes of all it sees."""
        return max(
            1,
            memory
            // MEMORY_QUARTERS
            * 2
            // (self.bytes_per_token * (own_tokens + 3 * cached_tokens // self.layers + 1)),
        )


def _waves(
    prompts: Sequence[list[int]], prompt_rows: list[int], limits: WalkLimits, shape: _Shape
) -> Iterator[list[int]]:
    """Prompts that are held together, of similar length since they are padded to the longest."""
    wave: list[int] = []
    for prompt in sorted(prompt_rows, key=lambda number: len(prompts[number])):
        size = (len(wave) + 1) * len(prompts[prompt]) * shape.bytes_per_token
        if wave and (size > limits.memory // MEMORY_QUARTERS or (len(wave) + 1) * shape.vocabulary > limits.cells):
            yield wave
            wave = []
        wave.append(prompt)
    if wave:
        yield wave


def _batches(
    texts: list[tuple[TargetText, int]], prompt_G: list[int], limits: WalkLimits, context: int | None, shape: _Shape
) -> Iterator[tuple[list[tuple[TargetText, int]], int]]:
    """Rows that go together, longest first, and the tokens of each in one forward pass.

    Longest first, so that a batch holds rows of similar length and a row that has ended is always behind those that
    have not: a pass then runs over the first rows alone.
    """
    ordered = sorted(texts, key=lambda pair: -pair[0].length)
    while ordered:
        longest_text, prompt = ordered[0][0].length - 1, max(prompt_G)
        positions = shape.positions(limits.cells, longest_text + prompt)
        piece = min(longest_text, TOKENS_PER_PASS, positions)
        max_rows = min(limits.rows, positions // piece, shape.rows(limits.memory, longest_text, longest_text + prompt))
        batch: list[tuple[TargetText, int]] = []
        longest = 0
        for target, row in ordered[: max(1, max_rows)]:
            longest = max(longest, prompt_G[row])
            # padding has positions too, and a model with a table of positions has none beyond its context
            if batch and context is not None and longest + longest_text > context:
                break
            batch.append((target, row))
        yield batch, piece
        ordered = ordered[len(batch) :]


def _score_batch(
    network: Network,
    stacked: list[Layer],
    length_G: Tensor,
    batch: list[tuple[TargetText, int]],
    piece: int,
    sums: ScoreSums,
) -> None:
    """Rows, longest first, piece by piece; a row that has come to its end is read no further."""
    length_R = np.array([target.length for target, _ in batch]) - 1  # the last token is scored and not read
    token_RT = np.zeros((len(batch), length_R[0] + 1), np.int64)
    for row, (target, _) in enumerate(batch):
        token_RT[row, : target.length] = target.token_T
    trace_R, start_R = np.array([(target.trace_row, target.start) for target, _ in batch]).T
    prompt_R = torch.tensor([row for _, row in batch], device=network.device)
    slots = Slots.allocate_like(stacked, len(batch), int(length_R[0]))
    for cached in range(0, int(length_R[0]), piece):
        rows, stop = int((length_R > cached).sum()), min(cached + piece, int(length_R[0]))
        # END_PLACEHOLDER is no token of the model: as the last of its row it is padding here, whose logits are
        # dropped below
        new = torch.from_numpy(np.maximum(token_RT[:rows, cached:stop], 0)).to(network.device)
        prompts = Prompts.of(stacked, length_G, prompt_R[:rows])
        logits = network.run(slots, 0, rows, cached, new, prompts, every=True)
        real_RT = np.arange(cached, stop) < length_R[:rows, None]
        row_M, column_M = np.nonzero(real_RT)
        target_logits = logits[torch.from_numpy(real_RT).to(network.device)]
        at_M = start_R[row_M] + cached + 1 + column_M  # logits after token t score token t + 1
        sums.add(target_logits, token_RT[:rows, cached + 1 : stop + 1][real_RT], trace_R[row_M], at_M)


def _prefill(network: Network, prompts: list[list[int]]) -> tuple[list[Layer], Tensor, Tensor]:
    """Keys and values of prompts in one buffer per layer, padded to the longest; their lengths; logits after each."""
    prefilled = network.prefill(prompts)
    length_G = torch.tensor([len(prompt) for prompt in prompts], device=network.device)
    logits_GV = torch.stack([logits for _, logits in prefilled])
    if len(prefilled) == 1:
        return prefilled[0][0], length_G, logits_GV
    stacked = Slots.allocate_like(prefilled[0][0], len(prompts), int(length_G.max())).layers
    for index, layer in enumerate(stacked):
        for row, (layers, _) in enumerate(prefilled):
            layer.append(row, row + 1, 0, layers[index].keys, layers[index].values)
    return stacked, length_G, logits_GV


def _heads(network: Network) -> int:
    from transformers import PreTrainedModel

    assert isinstance(network.model, PreTrainedModel)
    return int(getattr(network.model.config.get_text_config(), "num_attention_heads", 1))


# The scorer: tokenizes texts, then runs them through `score_targets` or the model's own forward pass.


PASS_TOKENS = 8192  # in a forward pass of the plain engine
ENCODED_LETTERS = 1 << 20  # tokenized at a time
LOGITS_TO_KEEP = "logits_to_keep"  # an argument of `forward` in most models: logits of the last tokens only


@dataclass(frozen=True)
class TextScore:
    """The score of a text: its sums, and the entropy of each of its tokens (none where it has no sums)."""

    sums: ScoredSample
    entropy_T: NDArray[np.float32]  # by the model's own distribution


@dataclass
class Scorer:
    """A model that says how probable texts are."""

    sampler: HuggingFace

    @classmethod
    def for_sampler(cls, sampler: Sampler) -> "Scorer":
        """The scorer of an `hf:` sampler; callers have refused the others."""
        assert isinstance(sampler, HuggingFace)
        return cls(sampler)

    @property
    def about(self) -> About:
        """Which model scores."""
        return self.sampler.about

    def rendered_prompt(self, prompt: str) -> str | None:
        """The text that the model reads before a scored text."""
        return self.sampler.rendered_prompt(prompt)

    def close(self) -> None:
        """Free the model."""
        self.sampler.close()

    def score(self, traces: Sequence[Trace], decoding: SamplingParams) -> list[ScoredSample]:
        """The sums of every trace, in their order; equal traces are read once."""
        return [score.sums for score in self.score_traces(traces, decoding)]

    def score_traces(self, traces: Sequence[Trace], decoding: SamplingParams) -> list[TextScore]:
        """As `score`, with the entropy of every token."""
        distinct = {trace: trace_row for trace_row, trace in enumerate(dict.fromkeys(traces))}
        prompts = {trace.prompt: self._encode_prompt(trace.prompt) for trace in distinct}
        texts = self._encode_texts(list(distinct))
        contexts = [tokens for tokens, _ in prompts.values()]  # what targets are read after: prompts, and histories
        numbers = {prompt: number for number, prompt in enumerate(prompts)}
        errors, window_counts, targets = [], [], []
        for (trace, trace_row), text in zip(distinct.items(), texts, strict=True):
            prompt, error = prompts[trace.prompt]
            errors.append(error or self._length_error(prompt))
            spans = windows(len(prompt), len(text), self.sampler.loaded.context) if not errors[-1] else []
            window_counts.append(len(spans))
            for span in spans:
                number = numbers[trace.prompt]
                if span.history is not None:  # a later window: what is before it is its prompt
                    number = len(contexts)
                    contexts.append([*prompt, *text[: span.start].tolist()][-span.history :])
                targets.append(TargetText(trace_row, number, text[span.start : span.stop], span.start))
        limits, loaded = self.sampler.limits, self.sampler.loaded
        size_N = np.array([len(text) for text in texts], np.int64)
        entropy_F, offset_N = np.zeros(int(size_N.sum()), np.float32), np.cumsum(size_N) - size_N
        sums = ScoreSums(decoding, loaded.ends, limits.cells, np.zeros((len(distinct), 4)), entropy_F, offset_N)
        if targets and self.sampler.network is not None:
            score_targets(self.sampler.network, limits, loaded.context, contexts, targets, sums)
        elif targets:
            self._score_without_sharing(contexts, targets, sums)
        entropies = np.split(entropy_F, offset_N[1:])
        rows = zip(size_N.tolist(), window_counts, errors, sums.sums_N4, entropies, strict=True)
        scores = [_text_score(*row) for row in rows]
        return [scores[distinct[trace]] for trace in traces]

    def _encode_prompt(self, prompt: str) -> tuple[list[int], str]:
        """Its tokens, or none and why."""
        return self.sampler.prompt_encoder.encode(Request("", valid_utf8(prompt), 0, 1, 0))

    def _encode_texts(self, traces: list[Trace]) -> list[Ints]:
        """Tokens of the texts alone, never merged with the prompt's: the boundary is where the model began to write."""
        ending, texts = ([END_PLACEHOLDER] if self.sampler.loaded.ends else []), []
        for part in _trace_batches(traces):
            encoded = self.sampler.loaded.tokenizer(
                [valid_utf8(trace.text) for trace in part],
                add_special_tokens=False,
                split_special_tokens=True,
                return_attention_mask=False,
                verbose=False,
            )["input_ids"]
            for tokens, trace in zip(encoded, part, strict=True):
                texts.append(np.array([*tokens, *(ending if trace.ended else [])], np.int64))
        return texts

    def _length_error(self, prompt: list[int]) -> str:
        """Why no text can be read after a prompt; "" where it can."""
        context = self.sampler.loaded.context
        if context is None or len(prompt) <= context:
            return ""
        return f"the prompt is longer than the model's context of {context:,} tokens"

    def _score_without_sharing(self, prompts: list[list[int]], targets: list[TargetText], sums: ScoreSums) -> None:
        """As `score_targets`, by the model's own forward pass, where the shared engine cannot run the model."""
        vocabulary = int(self.sampler.loaded.model.config.get_text_config().vocab_size)
        positions = max(1, self.sampler.limits.cells // vocabulary)
        ordered = sorted(targets, key=lambda target: (target.prompt, -target.length))
        while ordered:
            prompt, longest = ordered[0].prompt, ordered[0].length
            piece = min(longest, positions)
            tokens = len(prompts[prompt]) + longest
            max_rows = max(1, min(self.sampler.limits.rows, positions // piece, PASS_TOKENS // tokens))
            batch = [target for target in ordered[:max_rows] if target.prompt == prompt]
            ordered = ordered[len(batch) :]
            for start in range(0, longest, piece):
                unfinished = [target for target in batch if target.length > start]
                self._score_rows(prompts[prompt], unfinished, start, min(start + piece, longest), sums)

    def _score_rows(self, prompt: list[int], batch: list[TargetText], start: int, stop: int, sums: ScoreSums) -> None:
        """Score tokens [start, stop) of rows of one prompt; what follows the last of them is not read.

        Without a cache, which has many kinds in transformers, so a long text is read again for each of its pieces.
        """
        model: Any = self.sampler.loaded.model
        token_RT = np.zeros((len(batch), stop), np.int64)
        for row, target in enumerate(batch):
            token_RT[row, : target.length] = target.token_T[:stop]
        prompt_rows = np.tile(np.array(prompt, np.int64), (len(batch), 1))
        # rows are padded behind their end, where a causal model cannot see it from the tokens that count
        token_tensor = torch.from_numpy(np.maximum(np.concatenate([prompt_rows, token_RT[:, : stop - 1]], 1), 0)).to(
            model.device
        )
        keep = {LOGITS_TO_KEEP: stop - start} if LOGITS_TO_KEEP in signature(model.forward).parameters else {}
        with torch.inference_mode():
            logits = model(
                input_ids=token_tensor, attention_mask=torch.ones_like(token_tensor), use_cache=False, **keep
            ).logits
        real_RT = np.arange(start, stop) < np.array([target.length for target in batch])[:, None]
        row_M, column_M = np.nonzero(real_RT)
        trace_R, start_R = np.array([(target.trace_row, target.start) for target in batch]).T
        target_logits = logits[:, start - stop :][torch.from_numpy(real_RT).to(model.device)]
        sums.add(target_logits, token_RT[:, start:][real_RT], trace_R[row_M], start_R[row_M] + start + column_M)


def _trace_batches(traces: list[Trace]) -> Iterator[list[Trace]]:
    """Traces that are tokenized together: the tokenizer's result takes many times the memory of a text."""
    part: list[Trace] = []
    letters = 0
    for trace in traces:
        part.append(trace)
        letters += len(trace.text)
        if letters > ENCODED_LETTERS:
            yield part
            part, letters = [], 0
    if part:
        yield part


def _text_score(
    tokens: int, window_count: int, error: str, sums: NDArray[np.float64], entropy_T: NDArray[np.float32]
) -> TextScore:
    """The score of one text, or the reason why it has none."""
    if not error and np.isnan(sums).any():
        error = "the model returned NaN; try --set dtype=float32"
    if error:
        return TextScore(ScoredSample(tokens, reason=error), entropy_T[:0])
    raw, entropy_raw, sampled, entropy_sampled = sums.tolist()
    return TextScore(ScoredSample(tokens, raw, entropy_raw, sampled, entropy_sampled, max(window_count, 1)), entropy_T)


@dataclass(frozen=True)
class ContextWindow:
    """Tokens [start, stop) of a text that are scored together; the last one is scored and not read."""

    start: int
    stop: int
    history: int | None  # tokens before `start`, of the prompt and the text, that are read; None: the full prompt


def windows(prompt: int, text: int, context: int | None) -> list[ContextWindow]:
    """The windows of a text of so many tokens; one where all fits, none where the text is empty.

    Every token is scored once. From the second window on, half of the context is what comes before it: the prompt
    itself is then out of sight once the text is long enough, as it would be for any model with a sliding context.

    >>> [(window.start, window.stop, window.history) for window in windows(prompt=3, text=12, context=8)]
    [(0, 6, None), (6, 11, 4), (11, 12, 4)]
    """
    if not text:
        return []
    # the last token of a window is not read, so it needs no position: hence + 1
    first = text if context is None else min(text, context - prompt + 1)
    spans = [ContextWindow(0, first, None)]
    while context is not None and spans[-1].stop < text:
        start = spans[-1].stop
        history = min(max(1, context // 2), prompt + start)
        spans.append(ContextWindow(start, min(text, start + context - history + 1), history))
    return spans
