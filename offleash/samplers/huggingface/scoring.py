"""Scoring: log-probability and entropy of given texts under a model, every token forced and none drawn.

A text is read as tokens of its own after those of its prompt. Special tokens that it spells are letters like others:
texts are written by models, and none of them can forge an end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from offleash.data.scores import Sums, Trace
from offleash.render.escape import valid_utf8
from offleash.samplers.huggingface.forcing import END, Given, Summing, force
from offleash.samplers.huggingface.sampler import HuggingFace
from offleash.samplers.huggingface.windows import windows
from offleash.samplers.sampler import About, Decoding, Request, Sampler

Ints = NDArray[np.int64]
TOGETHER = 8192  # tokens in a forward pass of the plain engine
LETTERS = 1 << 20  # encoded at a time
KEEP = "logits_to_keep"


@dataclass(frozen=True)
class Read:
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

    def asked(self, prompt: str) -> str | None:
        return self.sampler.asked(prompt)

    def close(self) -> None:
        self.sampler.close()

    def score(self, traces: Sequence[Trace], decoding: Decoding) -> list[Sums]:
        """The sums of every trace, in their order; traces that are alike are read once."""
        return [one.sums for one in self.read(traces, decoding)]

    def read(self, traces: Sequence[Trace], decoding: Decoding) -> list[Read]:
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
                given.append(Given(place, number, text[one.start : one.stop], one.start))
        limits, loaded = self.sampler.limits, self.sampler.loaded
        size_N = np.array([len(text) for text in texts], np.int64)
        entropy_F, offset_N = np.zeros(int(size_N.sum()), np.float32), np.cumsum(size_N) - size_N
        summing = Summing(decoding, loaded.ends, limits.cells, np.zeros((len(distinct), 4)), entropy_F, offset_N)
        if given and self.sampler.network is not None:
            force(self.sampler.network, limits, loaded.context, tokens, given, summing)
        elif given:
            self._force_plainly(tokens, given, summing)
        rows = zip(size_N.tolist(), parts, troubles, summing.sums_N4, np.split(entropy_F, offset_N[1:]), strict=True)
        found = [_text_score(*row) for row in rows]
        return [found[distinct[trace]] for trace in traces]

    def _prompt(self, prompt: str) -> tuple[list[int], str]:
        return self.sampler.asking.tokens(Request("", valid_utf8(prompt), 0, 1, 0))

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

    def _force_plainly(self, prompts: list[list[int]], given: list[Given], summing: Summing) -> None:
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

    def _pass(self, prompt: list[int], batch: list[Given], start: int, stop: int, summing: Summing) -> None:
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
) -> Read:
    if not trouble and np.isnan(sums).any():
        trouble = "the model gave no numbers (NaN); try --set dtype=float32"
    if trouble:
        return Read(Sums(tokens, reason=trouble), entropy_T[:0])
    raw, entropy_raw, sampled, entropy_sampled = sums.tolist()
    return Read(Sums(tokens, raw, entropy_raw, sampled, entropy_sampled, max(parts, 1)), entropy_T)
