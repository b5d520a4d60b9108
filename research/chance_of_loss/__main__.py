"""python -m research.chance_of_loss: which solved problems does a training lose, and can the base's counts say so?

The demo's training, seed by seed: the base and the trained model drawn on held-out problems. The law of
stats/groups.py is fitted on four seeds and judged on a fifth one and on another world.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.optimize import minimize

import offleash as ol
from offleash.cli.main import run_guarded
from offleash.lab.demo import QUICK, DemoSize, recipe_of
from offleash.lab.pretrain import base_of
from offleash.lab.registry import world as named_world
from offleash.lab.registry import write_problems
from offleash.stats.groups import RateShift, chance_lost, rate_posterior, shifted_counts
from offleash.training.loop import train

PROBLEMS = 120  # held-out ones, which are drawn
FITTED, JUDGED = ("countdown-1", "countdown-2", "countdown-3", "countdown-4"), ("countdown-0", "chain_sum-0")


@dataclass(frozen=True)
class PairCounts:
    """One training: correct ones of k samples per problem, of the base and of the trained model."""

    name: str
    k: int
    base_P: np.ndarray
    rl_P: np.ndarray


@dataclass(frozen=True)
class LossScores:
    """Brier scores on the problems that the base solved; smaller is better."""

    name: str
    solved: int
    lost: int
    expected_by_chance: float  # lost problems, if the base were drawn again
    expected: float  # lost problems by the fitted law
    brier: float  # of the fitted law
    brier_constant: float  # of the share that the fitted trainings lost
    brier_redraw: float  # of the chance that the base drawn again would not solve the problem
    auc: float | None  # of the fitted law; None where nothing was lost


def main(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the study.")],
    k: Annotated[int, typer.Option("-k", metavar="K", min=16, help="Samples per problem.")] = 128,
    full: Annotated[bool, typer.Option("--full", help="The whole demo's training, not that of demo --quick.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only train and draw, such as countdown-0.")
    ] = None,
) -> None:
    """Train, draw, fit on four seeds of the demo, judge on another seed and on another world."""
    for name in only or (*FITTED, *JUDGED):
        draw_pair(name, k, out, full)
    if only:
        return
    fitted = [counts_of(name, k, out) for name in FITTED]
    shift = fit(fitted)
    constant = np.concatenate([_lost(pair) for pair in fitted]).mean()
    scores = [judge(counts_of(name, k, out), shift, float(constant)) for name in (*FITTED, *JUDGED)]
    print(
        json.dumps(
            {"k": k, "shift": asdict(shift), "constant": constant, "trainings": [asdict(s) for s in scores]}, indent=2
        )
    )


def draw_pair(name: str, k: int, out: Path, full: bool) -> None:
    """The demo's training of a world and a seed, and its two draws; what is there already is not done again."""
    world_name, _, seed = name.rpartition("-")
    world, plan, folder = named_world(world_name), replace(DemoSize() if full else QUICK, seed=int(seed)), out / name
    for part, size in (("train", plan.pool), ("test", PROBLEMS)):
        write_problems(world, part, size, plan.seed, folder / "problems" / f"{part}.jsonl")
    trained = train(recipe_of(world, plan, folder), folder / "training")
    base, test, decoding = (
        f"hf:{base_of(world.name)}",
        folder / "problems" / "test.jsonl",
        ol.Decoding(max_tokens=world.longest),
    )
    for run, model, draw_seed in (("base", base, 10), ("rl", f"hf:{trained.model}", 12)):
        ol.draw(test, model, k=k, out=folder / run, seed=draw_seed, decoding=decoding)


def counts_of(name: str, k: int, out: Path) -> PairCounts:
    """The counts of a training's two draws."""
    tally = ol.tally({run: ol.load(out / name / run) for run in ("base", "rl")})
    assert (tally.drawn_PR == k).all(), f"{name} was drawn with another k"
    return PairCounts(name, k, *tally.correct_PR.T)


def fit(pairs: Sequence[PairCounts]) -> RateShift:
    """The law with the largest likelihood of the trained models' counts."""
    posteriors = [rate_posterior(np.full(len(pair.base_P), pair.k), pair.base_P) for pair in pairs]

    def loss(parameters: np.ndarray) -> float:
        shift = RateShift(float(parameters[0]), float(parameters[1]), float(np.exp(parameters[2])))
        return -sum(
            float(np.log(shifted_counts(posterior, shift, pair.k, pair.rl_P)).sum())
            for pair, posterior in zip(pairs, posteriors, strict=True)
        )

    # corners far apart: the method's own first steps from 0 are too small to leave it
    corners = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.5, 0.0], [0.0, 1.0, 1.0]])
    best = minimize(
        loss,
        corners[0],
        method="Nelder-Mead",
        options={"initial_simplex": corners, "xatol": 1e-2, "fatol": 1e-1},
    )
    return RateShift(*(round(float(value), 3) for value in (best.x[0], best.x[1], np.exp(best.x[2]))))


def _lost(pair: PairCounts) -> np.ndarray:
    """Of the problems that the base solved: whether the trained model solves none of k."""
    return np.asarray((pair.rl_P == 0)[pair.base_P > 0])


def judge(pair: PairCounts, shift: RateShift, constant: float) -> LossScores:
    """Brier scores of a training."""
    solved_P = pair.base_P > 0
    lost = _lost(pair)
    posterior = rate_posterior(np.full(len(pair.base_P), pair.k), pair.base_P)
    chance = chance_lost(posterior, shift, pair.k)[solved_P]
    redraw = chance_lost(posterior, RateShift(0.0, 1.0, 0.0), pair.k)[solved_P]
    return LossScores(
        pair.name,
        int(solved_P.sum()),
        int(lost.sum()),
        round(float(redraw.sum()), 1),
        round(float(chance.sum()), 1),
        round(float(((chance - lost) ** 2).mean()), 4),
        round(float(((constant - lost) ** 2).mean()), 4),
        round(float(((redraw - lost) ** 2).mean()), 4),
        _auc(chance, lost),
    )


def _auc(chance: np.ndarray, lost: np.ndarray) -> float | None:
    """How often a lost problem has the higher chance than a kept one; ties count half."""
    if lost.all() or not lost.any():
        return None
    difference = chance[lost][:, None] - chance[~lost]
    return round(float(((difference > 0) + 0.5 * (difference == 0)).mean()), 3)


if __name__ == "__main__":
    run_guarded(lambda: typer.run(main))
