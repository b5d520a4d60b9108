"""A world in which pass@1 rises, pass@k falls, and the tilt could not have done it."""

from dataclasses import dataclass

import numpy as np

from offleash.analyses.theory.dynamics import Measured, Recipe, train
from offleash.analyses.theory.exact import Level, Support, pass_at_k, success_rates, support
from offleash.analyses.theory.mechanisms import EPSILON, RECIPES, SEEDS, start, world_of_seed
from offleash.analyses.theory.policy import tied
from offleash.analyses.theory.statements.search import Search, search
from offleash.analyses.theory.tilt import matched_beta, tilt, tilted_rates
from offleash.analyses.theory.world import Float, World, random_world

CURVE_BUDGETS = tuple(2**power for power in range(15))
LARGE = 1024  # the k whose pass@k is watched
BETAS = np.concatenate([np.linspace(0, 20, 201), [float("inf")]])
TRIES = 150
EXACT = Recipe("reinforce", group=None, rate=1.0, steps=100)
RARELY = Measured(k_K=(1,), every=1_000)
CLEARLY = 0.05  # what pass@1 must rise and pass@64 must fall by, in the search for the smallest


@dataclass(frozen=True)
class Leash:
    """Base, trained policy and the tilt of the same pass@1 in one world: exact pass@k curves, and the table."""

    world: World
    seed: tuple[int, int, int]  # of numpy.random.default_rng
    tried: int  # worlds of the table up to this one
    trained_XY: Float
    beta: float  # of the tilt
    tilted_XY: Float
    k_K: tuple[int, ...]
    curves: dict[str, Float]  # base, trained, tilt
    best_fall: float  # the largest fall of pass@k that any beta brings about, at any k: 0 or rounding
    trained: dict[Level, Support]  # against the base, at EPSILON
    smallest: Search  # the smallest world in which expected updates of shared parameters do it


def leash(seed: int = 0) -> Leash:
    """The first world of the table's cell `both` (GRPO) in which pass@1 rises and pass@k falls."""
    found = None
    for i in range(SEEDS):
        world, rng = world_of_seed(seed, i)
        final = train(start(world, True, rng), world, RECIPES["grpo"], rng, RARELY).final
        found = world, final.probability_XY, i
        before, after = (pass_at_k(success_rates(p, world.correct_XY), (1, LARGE)) for p in (world.base_XY, found[1]))
        if after[0] > before[0] and after[1] < before[1]:
            break
    assert found is not None, "there are seeds"
    world, trained_XY, i = found
    base_X, trained_X = (success_rates(p_XY, world.correct_XY) for p_XY in (world.base_XY, trained_XY))
    beta = matched_beta(world, float(trained_X.mean()))
    tilted_XY = tilt(world, beta)
    rates = {"base": base_X, "trained": trained_X, "tilt": success_rates(tilted_XY, world.correct_XY)}
    curves = {name: pass_at_k(rate_X, CURVE_BUDGETS) for name, rate_X in rates.items()}
    fall = max(float((curves["base"] - pass_at_k(tilted_rates(base_X, b), CURVE_BUDGETS)).max()) for b in BETAS)
    return Leash(
        world=world,
        seed=(seed, 9, i),
        tried=i + 1,
        trained_XY=trained_XY,
        beta=beta,
        tilted_XY=tilted_XY,
        k_K=CURVE_BUDGETS,
        curves=curves,
        best_fall=fall,
        trained={level: support(world.base_XY, trained_XY, world.correct_XY, EPSILON, level) for level in Level},
        smallest=search(crosses, _make, seed, TRIES),
    )


def crosses(world: World) -> float:
    """Above 0 where expected updates of shared parameters raise pass@1 and lower pass@64, both clearly."""
    final = train(tied(world), world, EXACT, np.random.default_rng(0), RARELY).final
    before, after = (
        pass_at_k(success_rates(p_XY, world.correct_XY), (1, 64)) for p_XY in (world.base_XY, final.probability_XY)
    )
    return float(min(after[0] - before[0], before[1] - after[1])) - CLEARLY


def _make(rng: np.random.Generator) -> World:
    return random_world(rng, problems=3, answers=4, correct=0.0)  # one correct answer each
