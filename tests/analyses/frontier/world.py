"""A world of known rates: base and RL, blends on the line between them, a checkpoint and a temperature, as counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from offleash.analyses.frontier.search import Candidate, Family, Grid, Measure, Part, Search, search
from offleash.data.tally import Tally, tally_of_counts
from offleash.stats.binomials import Float

K = 64
BASE, RL = Candidate("base", Family.BASE, 0.0), Candidate("rl", Family.RL, 1.0)
STEP = Candidate("step", Family.CHECKPOINT)
GRID = Grid(BASE, RL, (STEP,), (0.25, 0.5, 0.75), (1.2,), 2)
POPULATION = 100_000


@dataclass(frozen=True)
class Problems:
    """Log-odds of the base on some problems, and which of them RL unlearns: a quarter."""

    odds_P: Float
    unlearned_P: np.ndarray

    def rates(self, weight: float) -> Float:
        """Rates of a blend: with RL's weight three quarters become easier and a quarter harder."""
        return np.asarray(1 / (1 + np.exp(-(self.odds_P + weight * np.where(self.unlearned_P, -4.0, 1.5)))))

    def of(self, candidate: Candidate) -> Float:
        if candidate.family is Family.TEMPERATURE:
            return 0.7 * self.rates(1.0)
        return self.rates(0.6 if candidate.weight is None else candidate.weight)


def problems(size: int, rng: np.random.Generator) -> Problems:
    return Problems(rng.normal(-3.0, 2.0, size), rng.random(size) < 0.25)


@cache
def true_retention(candidate: Candidate) -> float:
    """Retention over all problems of the world."""
    world = problems(POPULATION, np.random.default_rng(99))
    base_P, reach_P = (1 - (1 - rate_P) ** K for rate_P in (world.rates(0.0), world.of(candidate)))
    return float((base_P * reach_P).sum() / (base_P**2).sum())


def measure_of(parts: dict[Part, Problems], seed: int, changed: bool = True) -> Measure:
    """Counts drawn from the rates, each candidate once; unchanged, all of them have the rates of the base."""
    drawn: dict[tuple[Part, str], np.ndarray] = {}

    def measure(candidates: Sequence[Candidate], part: Part) -> Tally:
        sizes = [2 * K if candidate.family is Family.BASE else K for candidate in candidates]
        for candidate, size in zip(candidates, sizes, strict=True):
            if (part, candidate.label) not in drawn:
                rng = np.random.default_rng([seed, len(drawn)])
                rate_P = parts[part].of(candidate) if changed else parts[part].rates(0.0)
                drawn[part, candidate.label] = rng.binomial(size, rate_P)
        count_PR = np.stack([drawn[part, candidate.label] for candidate in candidates], axis=1)
        names = tuple(candidate.label for candidate in candidates)
        return tally_of_counts([sizes] * len(count_PR), count_PR, runs=names)

    return measure


def simulated_search(seed: int, size: int = 200, changed: bool = True) -> Search:
    """A frontier on problems drawn from the world, half of them held out."""
    rng = np.random.default_rng([7, seed])
    parts = {part: problems(size // 2, rng) for part in Part}
    return search(GRID, measure_of(parts, seed, changed), K, 0.95)


def chosen(result: Search) -> Candidate:
    point = result.recommended
    assert point is not None
    return Candidate(point.label, point.family, point.weight, point.temperature)
