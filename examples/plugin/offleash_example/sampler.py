"""coin: says `yes` with a given probability and `no` otherwise, to any question: coin:0.25."""

from collections.abc import Iterator, Sequence

import numpy as np

from offleash.errors import OffleashError
from offleash.samplers.registry import Model
from offleash.samplers.sampler import FINISHED, About, Request, Sample, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds, uniform


class Coin:
    """A sampler of two words."""

    def __init__(self, model: Model, chance: float) -> None:
        self._about, self._chance = About("coin", model.name, raw=model.raw), chance
        self.concurrency, self.batch_size, self.forwarded = 1, 1024, None  # threads, samples per call, tokens (unknown)

    @property
    def about(self) -> About:
        return self._about

    def rendered_prompt(self, prompt: str) -> str | None:
        return prompt

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for request in requests:
            seed_N = sample_seeds(request.seed, request.first, request.size)
            yes_N = uniform(seed_N, 0) < self._chance
            log_2 = np.log([1 - self._chance, self._chance])
            yield SampleChunk(
                request,
                tuple(
                    Sample(request.first + i, ("no", "yes")[yes], 1, FINISHED, int(seed_N[i]), float(log_2[yes]))
                    for i, yes in enumerate(yes_N.astype(int).tolist())
                ),
            )

    def forget(self, problem: str) -> None:
        """Nothing is kept per problem."""

    def close(self) -> None:
        """There is nothing to free."""


def open_sampler(model: Model) -> Coin:
    """The sampler for coin:PROBABILITY."""
    try:
        chance = float(model.name)
    except ValueError:
        chance = float("nan")
    if not 0 < chance < 1:
        raise OffleashError(f"coin:{model.name} is not a probability between 0 and 1; write for example coin:0.25.")
    return Coin(model, chance)
