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

from offleash.samplers.engine.forcing import END, Given, Summing, force
from offleash.samplers.http import whole
from offleash.samplers.huggingface import HuggingFace
from offleash.samplers.sampler import About, Decoding, Request, Sampler
from offleash.tables.scores import Sums, Trace

Ints = NDArray[np.int64]
TOGETHER = 8192  # tokens in a forward pass of the plain engine
LETTERS = 1 << 20  # encoded at a time
KEEP = "logits_to_keep"


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
        distinct = {trace: place for place, trace in enumerate(dict.fromkeys(traces))}
        prompts = {trace.prompt: self._prompt(trace.prompt) for trace in distinct}
        numbers = {prompt: number for number, prompt in enumerate(prompts)}
        texts = self._texts(list(distinct))
        troubles = [self._trouble(*prompts[one.prompt], text) for one, text in zip(distinct, texts, strict=True)]
        given = [
            Given(place, numbers[trace.prompt], text)
            for (trace, place), text, trouble in zip(distinct.items(), texts, troubles, strict=True)
            if not trouble and len(text)
        ]
        limits, loaded = self.sampler.limits, self.sampler.loaded
        summing = Summing(decoding, loaded.ends, limits.cells, np.zeros((len(distinct), 4)))
        tokens = [found for found, _ in prompts.values()]
        if given and self.sampler.network is not None:
            force(self.sampler.network, limits, loaded.context, tokens, given, summing)
        elif given:
            self._force_plainly(tokens, given, summing)
        rows = zip(texts, troubles, summing.sums_N4, strict=True)
        found = [_sums(len(text), trouble, sums) for text, trouble, sums in rows]
        return [found[distinct[trace]] for trace in traces]

    def _prompt(self, prompt: str) -> tuple[list[int], str]:
        return self.sampler.asking.tokens(Request("", whole(prompt), 0, 1, 0))

    def _texts(self, traces: list[Trace]) -> list[Ints]:
        """Tokens of the texts alone: the seam to the prompt is where the model began to write."""
        ending, found = ([END] if self.sampler.loaded.ends else []), []
        for part in _parts(traces):
            encoded = self.sampler.loaded.tokenizer(
                [whole(trace.text) for trace in part],
                add_special_tokens=False,
                split_special_tokens=True,
                return_attention_mask=False,
                verbose=False,
            )["input_ids"]
            for tokens, trace in zip(encoded, part, strict=True):
                found.append(np.array([*tokens, *(ending if trace.ended else [])], np.int64))
        return found

    def _trouble(self, prompt: list[int], trouble: str, text: Ints) -> str:
        """Why a text cannot be read after its prompt; the last token is foretold and not read."""
        context = self.sampler.loaded.context
        if trouble or context is None or len(prompt) + len(text) - 1 <= context:
            return trouble
        return f"prompt and text are longer than the {context:,} tokens that the model reads"

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
        row_M, _ = np.nonzero(real_RT)
        place_M = np.array([one.place for one in batch])[row_M]
        wanted = logits[:, start - stop :][torch.from_numpy(real_RT).to(model.device)]
        summing.add(wanted, token_RT[:, start:][real_RT], place_M)


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


def _sums(tokens: int, trouble: str, sums: NDArray[np.float64]) -> Sums:
    if not trouble and np.isnan(sums).any():
        trouble = "the model gave no numbers (NaN); try --set dtype=float32"
    return Sums(tokens, reason=trouble) if trouble else Sums(tokens, *sums.tolist())
