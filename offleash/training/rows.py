"""Rows: samples as tokens behind their prompts, the form in which a model reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from offleash.training.method import Flags, Ints


@dataclass(frozen=True)
class Rows:
    """N samples of several prompts, tokens padded behind; samples of one prompt stand together."""

    prompts: Sequence[Sequence[int]]
    prompt_N: Ints  # ascending
    token_NT: Ints
    length_N: Ints

    @property
    def real_NT(self) -> Flags:
        flags: Flags = np.arange(self.token_NT.shape[1]) < self.length_N[:, None]
        return flags

    def part(self, samples: Ints) -> "Rows":
        """Some of the samples, which must be in order."""
        used, prompt_N = np.unique(self.prompt_N[samples], return_inverse=True)
        prompts = [self.prompts[place] for place in used]
        return Rows(prompts, prompt_N, self.token_NT[samples], self.length_N[samples])

    def parts(self, tokens: int) -> Iterator[Ints]:
        """Samples by runs that hold at most so many tokens."""
        size_N = self.length_N + np.array([len(self.prompts[place]) for place in self.prompt_N], np.int64)
        start, held = 0, 0
        for place, size in enumerate(size_N.tolist()):
            if place > start and held + size > tokens:
                yield np.arange(start, place)
                start, held = place, 0
            held += size
        yield np.arange(start, len(size_N))
