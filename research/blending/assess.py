"""From the counts of the cells to contrasts with intervals over problems and seeds, as plan.py fixed them."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from research.blending.measure import file_of
from research.blending.plan import (
    AGAIN,
    BASE,
    LONGER,
    PLAIN,
    SEEDS,
    STEPS,
    STOPPED,
    TEMPERATURES,
    WEIGHTS,
    Cell,
    blend_name,
)

REPLICATES, BOOTSTRAP_SEED = 10_000, 23
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outcomes:
    """What a model did on P problems, by S training seeds: success rates, and whether it was reached."""

    rate_SP: Array
    reached_SP: Array


@dataclass(frozen=True)
class Weights:
    """How often each seed and each problem counts: once in the estimate, at random in a replicate."""

    seed_S: Array
    problem_P: Array


@dataclass(frozen=True)
class Contrast:
    """A difference with its interval and its p-value, before and after Holm's correction."""

    name: str
    value: float
    low: float
    high: float
    p: float
    corrected: float


class Block:
    """All cells of one split and decoding."""

    def __init__(self, split: str, decoding: str) -> None:
        self.split, self.decoding = split, decoding
        self._read: dict[str, Outcomes] = {}

    def __getitem__(self, model: str) -> Outcomes:
        """The outcomes of a model; a base is the same for every training seed. KeyError: a cell was not run."""
        if model not in self._read:
            self._read[model] = self._outcomes(model)
        return self._read[model]

    def _outcomes(self, model: str) -> Outcomes:
        seeds = [None] * len(SEEDS) if model in (BASE, AGAIN) else list(SEEDS)
        rates = []
        for seed in seeds:
            file = file_of(Cell(self.split, self.decoding, seed, model))
            if not file.is_file():
                raise KeyError(model)
            stored = json.loads(file.read_text(encoding="utf-8"))
            rates.append(np.array(stored["correct"]) / np.array(stored["drawn"]))
        rate_SP = np.array(rates)
        return Outcomes(rate_SP, (rate_SP > 0).astype(float))


def pass_1(model: Outcomes, weights: Weights) -> Array:
    """pass@1 of each seed."""
    means: Array = model.rate_SP @ weights.problem_P / weights.problem_P.sum()
    return means


def retention(model: Outcomes, base: Outcomes, weights: Weights) -> Array:
    """SRR of each seed: the share of the problems reached by the base that the model reaches."""
    old_P = base.reached_SP[0] * weights.problem_P
    kept: Array = model.reached_SP @ old_P / old_P.sum()
    return kept


def line_at(block: Block, steps: int, at_S: Array, weights: Weights) -> Array:
    """SRR of the line from the base to a model, at a pass@1 of each seed, by linear interpolation."""
    models = [block[AGAIN], *(block[blend_name(steps, weight)] for weight in WEIGHTS), block[f"step-{steps}"]]
    pass_MS = np.array([pass_1(model, weights) for model in models])
    kept_MS = np.array([retention(model, block[BASE], weights) for model in models])
    return np.array(
        [
            np.interp(at, pass_MS[order, s], kept_MS[order, s])
            for s, at in enumerate(at_S)
            for order in [np.argsort(pass_MS[:, s])]
        ]
    )


def _against_line(block: Block, models: list[str], steps: int) -> Callable[[Weights], Array]:
    def difference(weights: Weights) -> Array:
        gaps = []
        for name in models:
            model = block[name]
            gaps.append(line_at(block, steps, pass_1(model, weights), weights) - retention(model, block[BASE], weights))
        return np.mean(gaps, axis=0)  # type: ignore[no-any-return]

    return difference


def _half(block: Block) -> Callable[[Weights], Array]:
    def difference(weights: Weights) -> Array:
        models = (block[blend_name(STEPS, 0.5)], block[f"step-{STEPS}"])
        blend, rl = (retention(model, block[BASE], weights) for model in models)
        return blend - rl

    return difference


def _concavity(block: Block) -> Callable[[Weights], Array]:
    def difference(weights: Weights) -> Array:
        half, base, rl = (pass_1(block[name], weights) for name in (blend_name(STEPS, 0.5), BASE, f"step-{STEPS}"))
        return half - (base + rl) / 2

    return difference


def contrasts(split: str, decoding: str, replicates: int = REPLICATES) -> tuple[list[Contrast], list[str]]:
    """The contrasts of a split and decoding whose cells are all there, and the names of the others."""
    block = Block(split, decoding)
    statistics = {
        "stopping": _against_line(block, [f"step-{steps}" for steps in STOPPED], STEPS),
        **(
            {"temperature": _against_line(block, [f"hot-{t:g}" for t in TEMPERATURES], STEPS)}
            if decoding == PLAIN
            else {}
        ),
        "longer": _against_line(block, [f"step-{STEPS}"], LONGER),
        "half": _half(block),
        "concavity": _concavity(block),
    }
    if decoding != PLAIN:
        del statistics["temperature"]  # no such cells: that decoding has its own
    problems = block[BASE].rate_SP.shape[1]
    whole, results, missing = Weights(np.ones(len(SEEDS)), np.ones(problems)), {}, []
    for name, statistic in statistics.items():
        try:
            estimate = float(statistic(whole).mean())
        except KeyError:
            missing.append(name)
            continue
        rng = np.random.default_rng(BOOTSTRAP_SEED)  # the same replicates for every contrast
        values = []
        for _ in range(replicates):
            seed_S = rng.multinomial(len(SEEDS), np.full(len(SEEDS), 1 / len(SEEDS)))
            problem_P = rng.multinomial(problems, np.full(problems, 1 / problems)).astype(float)
            values.append(statistic(Weights(seed_S.astype(float), problem_P)) @ seed_S / len(SEEDS))
        spread = float(np.std(values, ddof=1))
        freedom = len(SEEDS) - 1
        half_width = float(stdtrit(freedom, 0.975)) * spread
        p = 2 * float(stdtr(freedom, -abs(estimate) / spread)) if spread else float(estimate == 0)
        results[name] = (estimate, estimate - half_width, estimate + half_width, p)
    return _corrected(results), missing


def _corrected(results: dict[str, tuple[float, float, float, float]]) -> list[Contrast]:
    """Holm's step-down correction over the contrasts of a family."""
    largest, corrected = 0.0, {}
    for rank, name in enumerate(sorted(results, key=lambda name: results[name][3])):
        largest = max(largest, min(1.0, (len(results) - rank) * results[name][3]))
        corrected[name] = largest
    return [Contrast(name, *values, corrected[name]) for name, values in results.items()]
