"""Rescoring: log-probabilities of given token sequences under a decoding, by the engine that draws and certifies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.sampler import TRUNCATED, Decoding, Request, Sampler
from offleash.stats.binomials import Float

if TYPE_CHECKING:
    from offleash.samplers.huggingface.forcing import Given
    from offleash.samplers.huggingface.sampler import HuggingFace

TOGETHER = 200_000  # tokens that are read at a time


@dataclass(frozen=True)
class Tokens:
    """A completion as tokens, without the one that ends it."""

    problem: str
    ids: tuple[int, ...]
    finish: str


@dataclass
class Rescorer:
    """A model that says how probable sequences of tokens are: never by way of their text, which may read otherwise."""

    sampler: "HuggingFace"
    _prompts: dict[str, list[int]] = field(default_factory=dict)
    _stop: tuple[str, ...] = ()

    @classmethod
    def of(cls, sampler: Sampler) -> "Rescorer":
        from offleash.samplers.huggingface.sampler import HuggingFace

        assert isinstance(sampler, HuggingFace), "expander_of has checked it"
        return cls(sampler)

    def ask(self, problems: pl.DataFrame, stop: tuple[str, ...]) -> None:
        """The problems whose completions are to be read, and the texts that ended some of them."""
        self._stop = stop
        for problem, prompt, images in problems.select("problem", "prompt", "images").iter_rows():
            tokens, trouble = self.sampler.asking.tokens(Request(problem, prompt, 0, 1, 0, tuple(images or ())))
            if trouble:
                raise OffleashError(f"Problem {problem!r} cannot be asked: {trouble}.")
            self._prompts[problem] = tokens

    def logprobs(self, some: Sequence[Tokens], decoding: Decoding) -> Float:
        """Log-probability of each, its end included; -inf where the decoding sets one of its tokens to zero.

        Which of several end tokens ended a completion makes no difference: their probabilities are added.
        """
        from offleash.samplers.huggingface.forcing import Given

        numbers = {problem: number for number, problem in enumerate(self._prompts)}
        given: list[Given] = []
        owner: list[int] = []  # whose each of them is: one has a row for every end token
        sure: list[int] = []
        for place, (one, ended) in enumerate(zip(some, self._ended(some), strict=True)):
            for ending in [(end,) for end in self.sampler.loaded.ends] if ended else [()]:
                token_T = np.array([*one.ids, *ending], np.int64)
                if len(token_T):
                    given.append(Given(len(owner), numbers[one.problem], token_T))
                    owner.append(place)
                else:  # nothing was said, and nothing ended it: a text of no token is certain
                    sure.append(place)
        sums_N4 = self._forced(given, decoding)
        out = np.full(len(some), -np.inf)
        np.logaddexp.at(out, np.array(owner, np.int64), sums_N4[:, 2])
        out[sure] = 0.0
        return out

    def _ended(self, some: Sequence[Tokens]) -> list[bool]:
        """Whether an end token follows: not after what was cut at the limit, nor after a stop text."""
        from offleash.samplers.huggingface.text import decoded

        open_ended = [one.finish != TRUNCATED for one in some]
        if not self._stop:
            return open_ended
        # a completion that an end token ended holds no stop text, or it would have ended there
        texts = decoded(self.sampler.loaded.tokenizer, [list(one.ids) for one in some])
        return [
            by_itself and not any(stop in text for stop in self._stop)
            for by_itself, text in zip(open_ended, texts, strict=True)
        ]

    def _forced(self, given: "Sequence[Given]", decoding: Decoding) -> Float:
        from offleash.samplers.huggingface.forcing import Summing, force

        sampler = self.sampler
        assert sampler.network is not None, "expander_of has checked it"
        offset_N = np.cumsum([0, *(one.length for one in given)])
        ends, cells, sums_N4 = sampler.loaded.ends, sampler.limits.cells, np.zeros((len(given), 4))
        summing = Summing(decoding, ends, cells, sums_N4, np.zeros(int(offset_N[-1]), np.float32), offset_N[:-1])
        prompts = list(self._prompts.values())
        start = 0
        while start < len(given):
            stop, tokens = start, 0
            while stop < len(given) and (stop == start or tokens < TOGETHER):
                tokens += given[stop].length
                stop += 1
            force(sampler.network, sampler.limits, sampler.loaded.context, prompts, given[start:stop], summing)
            start = stop
        return summing.sums_N4
