"""Which mechanism shrinks support: finite groups, shared parameters, both or neither, in worlds of several seeds.

Then a world in which pass@1 rises and pass@k falls, and `examine`, which runs all of `offleash theory`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.analyses.theory.dynamics import Dynamics, History, MeasurementSettings, train
from offleash.analyses.theory.exact import Level, SupportCounts, pass_at_k, success_rates, support
from offleash.analyses.theory.policy import (
    SharedPolicy,
    TabularPolicy,
    matched_beta,
    shared,
    tabular,
    tied,
    tilt,
    tilted_rates,
)
from offleash.analyses.theory.statements.registry import STATEMENTS
from offleash.analyses.theory.statements.statement import CounterexampleSearch, Statement, StatementResult, search
from offleash.analyses.theory.world import Float, Integer, TheoryWorld, method_world, random_world

# The configuration, the same in all four cells. It was chosen after eight had been tried on worlds of other seeds,
# because the cells differ clearly in it, and fixed before the table was made. In four of the eight the answers of
# different problems had nothing in common: there REINFORCE and GRPO lowered the mean pass@k in no cell, NSR a little.
PROBLEMS, ANSWERS, CORRECT, LOGIT_SPREAD, POPULARITY = 32, 24, 3, 2.0, 1.0
WIDTH, SHARED_FEATURES = (
    4,
    0.5,
)  # shared directions, and how much of its features a problem has in common with all others
GROUP = 8
SEEDS = 20
BUDGETS = (1, 8, 64, 256, 1024)
EPSILON = float(-np.log(0.05) / BUDGETS[-1])  # that of the largest budget, as everywhere in the package
TARGET_PASS_AT_1 = 0.5  # where the cells are also compared: a cell that learns faster has more time to lose
MEASUREMENTS = MeasurementSettings(BUDGETS, EPSILON, every=10)
RECIPES = {
    "reinforce": Dynamics("reinforce", GROUP, rate=0.2, steps=400),
    "grpo": Dynamics("grpo", GROUP, rate=0.1, steps=400),
}
CELLS = {  # name: finite groups, shared parameters
    "neither": (False, False),
    "finite groups": (True, False),
    "shared parameters": (False, True),
    "both": (True, True),
}


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its 95% interval (Student's t); a seed is a world and its training."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, object]:
        """As every estimate in the JSON: the value, and the ends of its interval as a pair."""
        return {"value": self.value, "interval": (self.low, self.high)}


@dataclass(frozen=True)
class Mechanism:
    """One cell of the table: what training did, over seeds, and what the tilt does at the same pass@1."""

    method: str
    name: str
    finite: bool
    shared: bool
    before: dict[str, Mean]  # pass@1, pass@k
    after: dict[str, Mean]  # the same, and the shares of problems and of answers above epsilon that were kept
    change: dict[str, Mean]  # pass@1, pass@k, entropy: after minus before, paired
    tilt: dict[str, Mean]  # pass@k of the tilt that has the pass@1 of the end; it keeps every answer and problem
    matched: dict[str, Mean]  # pass@k and the shares kept at TARGET_PASS_AT_1, over the seeds that get there
    matched_change: Mean  # of pass@k at that moment against the base, paired
    matched_seeds: int
    fell: int  # seeds in which pass@k fell
    step_S: Integer
    training_curves: dict[str, Float]  # along training: name to (seeds by moments)


@dataclass(frozen=True)
class Effect:
    """What one part adds to pass@k and to the shares kept at the end, paired over seeds."""

    method: str
    name: str
    on: dict[str, Mean]


def world_of_seed(seed: int, i: int) -> tuple[TheoryWorld, np.random.Generator]:
    """World i of a seed, and the generator that then trains in it: all four cells see the same worlds."""
    rng = np.random.default_rng([seed, 9, i])
    return method_world(rng, PROBLEMS, ANSWERS, CORRECT, LOGIT_SPREAD, POPULARITY), rng


def start(world: TheoryWorld, is_shared: bool, rng: np.random.Generator) -> TabularPolicy | SharedPolicy:
    """The base of a world before training, as a cell of the table has it."""
    return shared(world, WIDTH, rng, SHARED_FEATURES) if is_shared else tabular(world)


def mechanism(method: str, name: str, seed: int = 0, seeds: int = SEEDS) -> Mechanism:
    """One cell: `seeds` worlds, each trained once."""
    finite, is_shared = CELLS[name]
    recipe = RECIPES[method] if finite else _with_exact_gradient(RECIPES[method])
    histories: list[History[TabularPolicy | SharedPolicy]] = []
    tilted = []
    for i in range(seeds):
        world, rng = world_of_seed(seed, i)
        # Finite and infinite groups start from the same world and features; only the rollouts draw from rng after that.
        policy = start(world, is_shared, rng)
        trained = train(policy, world, recipe, rng, MEASUREMENTS)
        histories.append(trained)
        tilted.append(_tilt_with_pass(world, float(trained.pass_SK[-1, 0])))
    training_curves = {
        "pass@1": np.array([history.pass_SK[:, 0] for history in histories]),
        f"pass@{BUDGETS[-1]}": np.array([history.pass_SK[:, -1] for history in histories]),
        "problems kept": np.array([history.problems_retained_S for history in histories]),
        "answers kept": np.array([history.answers_retained_S for history in histories]),
        "entropy": np.array([history.entropy_S for history in histories]),
    }
    # cells differ in speed: besides the end of training they are compared where pass@1 first reaches the same target
    most, reached_target_N, first_N = f"pass@{BUDGETS[-1]}", *_first_at_target(training_curves["pass@1"])
    change = {
        measure: training_curves[measure][:, -1] - training_curves[measure][:, 0]
        for measure in ("pass@1", most, "entropy")
    }
    return Mechanism(
        method=method,
        name=name,
        finite=finite,
        shared=is_shared,
        before={measure: mean(training_curves[measure][:, 0]) for measure in ("pass@1", most)},
        after={
            measure: mean(training_curves[measure][:, -1])
            for measure in ("pass@1", most, "problems kept", "answers kept")
        },
        change={measure: mean(value) for measure, value in change.items()},
        tilt={most: mean(np.array(tilted))},
        matched={
            measure: mean(training_curves[measure][reached_target_N, first_N[reached_target_N]])
            for measure in ("pass@1", most, "problems kept", "answers kept")
        },
        matched_change=mean(
            (training_curves[most][np.arange(seeds), first_N] - training_curves[most][:, 0])[reached_target_N]
        ),
        matched_seeds=int(reached_target_N.sum()),
        fell=int((change[most] < -1e-9).sum()),  # a smaller fall is rounding
        step_S=histories[0].step_S,
        training_curves=training_curves,
    )


def effects(cells: list[Mechanism]) -> list[Effect]:
    """What finite groups add (averaged over both policies), what sharing adds, and what they add only together.

    The contrasts of a 2 x 2 design: two main effects and their interaction, paired over the worlds.
    """
    result = []
    for method in RECIPES:
        by_name = {cell.name: cell for cell in cells if cell.method == method}
        if len(by_name) < len(CELLS):
            continue
        weights = {
            "finite groups": {"neither": -0.5, "finite groups": 0.5, "shared parameters": -0.5, "both": 0.5},
            "shared parameters": {"neither": -0.5, "finite groups": -0.5, "shared parameters": 0.5, "both": 0.5},
            "interaction": {"neither": 1.0, "finite groups": -1.0, "shared parameters": -1.0, "both": 1.0},
        }
        for name, weight in weights.items():
            on = {
                measure: mean(
                    np.sum(
                        [factor * by_name[cell].training_curves[measure][:, -1] for cell, factor in weight.items()],
                        axis=0,
                    )
                )
                for measure in (f"pass@{BUDGETS[-1]}", "problems kept", "answers kept")
            }
            result.append(Effect(method, name, on))
    return result


def mean(value_N: Float) -> Mean:
    """Mean over seeds and its 95% interval; NaN ends where fewer than two seeds give no spread."""
    if len(value_N) < 2:
        return Mean(float(value_N.mean()) if len(value_N) else float("nan"), float("nan"), float("nan"))
    mean_value = float(value_N.mean())
    half = _student_quantile_95(len(value_N) - 1) * float(value_N.std(ddof=1)) / float(np.sqrt(len(value_N)))
    return Mean(mean_value, mean_value - half, mean_value + half)


def _student_quantile_95(degrees_of_freedom: int) -> float:
    """Student's t at 97.5% by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5); 1% off at 3."""
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(degrees_of_freedom) ** power for power, term in enumerate(terms, 1))


def _first_at_target(pass_NS: Float) -> tuple[NDArray[np.bool_], Integer]:
    """Which seeds get to the target, and the moment when each first does."""
    at_target_NS = pass_NS >= TARGET_PASS_AT_1
    # argmax of a row without any is 0: such seeds are masked by the first array
    return np.asarray(at_target_NS.any(axis=1)), np.asarray(at_target_NS.argmax(axis=1))


def _with_exact_gradient(recipe: Dynamics) -> Dynamics:
    return Dynamics(recipe.method, None, recipe.rate, recipe.steps)


def _tilt_with_pass(world: TheoryWorld, pass_at_1: float) -> float:
    """pass@k, at the largest k, of the tilt that has this pass@1."""
    p_XY = tilt(world, matched_beta(world, pass_at_1))
    return float(pass_at_k(success_rates(p_XY, world.correct_XY), BUDGETS[-1])[0])


# A world in which pass@1 rises, pass@k falls, and the tilt could not have done it.


CURVE_BUDGETS = tuple(2**power for power in range(15))
REPORTED_K = 1024  # the k whose pass@k is watched
BETAS = np.concatenate([np.linspace(0, 20, 201), [float("inf")]])
SEARCHED_WORLDS = 150
EXACT_DYNAMICS = Dynamics("reinforce", group=None, rate=1.0, steps=100)
FINAL_MEASUREMENT = MeasurementSettings(k_K=(1,), every=1_000)
MIN_PASS_CHANGE = 0.05  # what pass@1 must rise and pass@64 must fall by, in the search for the smallest world


@dataclass(frozen=True)
class LeashWorld:
    """Base, trained policy and the tilt of the same pass@1 in one world: exact pass@k curves, and the table."""

    world: TheoryWorld
    seed: tuple[int, int, int]  # of numpy.random.default_rng
    tried: int  # worlds of the table up to this one
    trained_XY: Float
    beta: float  # of the tilt
    tilted_XY: Float
    k_K: tuple[int, ...]
    curves: dict[str, Float]  # base, trained, tilt
    best_fall: float  # the largest fall of pass@k that any beta brings about, at any k: 0 or rounding
    trained: dict[Level, SupportCounts]  # against the base, at EPSILON
    smallest: CounterexampleSearch  # the smallest world in which expected updates of shared parameters do it


def leash(seed: int = 0) -> LeashWorld:
    """The first world of the table's cell `both` (GRPO) in which pass@1 rises and pass@k falls."""
    candidate = None
    for i in range(SEEDS):
        world, rng = world_of_seed(seed, i)
        final = train(start(world, True, rng), world, RECIPES["grpo"], rng, FINAL_MEASUREMENT).final
        candidate = world, final.probability_XY, i
        before, after = (
            pass_at_k(success_rates(p, world.correct_XY), (1, REPORTED_K)) for p in (world.base_XY, candidate[1])
        )
        if after[0] > before[0] and after[1] < before[1]:
            break
    assert candidate is not None, "there are seeds"
    world, trained_XY, i = candidate
    base_X, trained_X = (success_rates(p_XY, world.correct_XY) for p_XY in (world.base_XY, trained_XY))
    beta = matched_beta(world, float(trained_X.mean()))
    tilted_XY = tilt(world, beta)
    rates = {"base": base_X, "trained": trained_X, "tilt": success_rates(tilted_XY, world.correct_XY)}
    curves = {name: pass_at_k(rate_X, CURVE_BUDGETS) for name, rate_X in rates.items()}
    # no shrinkage (C.4): every tilt, not only the matched one, has pass@k at or above the base
    fall = max(float((curves["base"] - pass_at_k(tilted_rates(base_X, b), CURVE_BUDGETS)).max()) for b in BETAS)
    return LeashWorld(
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
        smallest=search(crossing_margin, _make_world, seed, SEARCHED_WORLDS),
    )


def crossing_margin(world: TheoryWorld) -> float:
    """Above 0 where expected updates of shared parameters raise pass@1 and lower pass@64, both clearly."""
    final = train(tied(world), world, EXACT_DYNAMICS, np.random.default_rng(0), FINAL_MEASUREMENT).final
    before, after = (
        pass_at_k(success_rates(p_XY, world.correct_XY), (1, 64)) for p_XY in (world.base_XY, final.probability_XY)
    )
    return float(min(after[0] - before[0], before[1] - after[1])) - MIN_PASS_CHANGE


def _make_world(rng: np.random.Generator) -> TheoryWorld:
    return random_world(rng, problems=3, answers=4, correct=0.0)  # one correct answer each


# All of `offleash theory`: the statements, the mechanisms, and the world in which pass@k falls, with one seed.


@dataclass(frozen=True)
class TheoryReport:
    """The results of `offleash theory`."""

    seed: int
    statements: tuple[tuple[Statement, StatementResult], ...]
    mechanisms: tuple[Mechanism, ...]
    effects: tuple[Effect, ...]
    leash: LeashWorld
    seconds: float


def examine(seed: int = 0, progress: Callable[[str], None] = lambda _: None) -> TheoryReport:
    """Check all statements, run the table of mechanisms, and find the world; about half a minute on one core."""
    start_time = time.monotonic()
    checked = []
    for statement in STATEMENTS.values():
        progress(f"checking {statement.name}: {statement.says}")
        checked.append((statement, statement.check(seed)))
    cells: list[Mechanism] = []
    for number, (method, name) in enumerate([(method, name) for method in RECIPES for name in CELLS], 1):
        progress(f"training, {method}, {name} ({number} of {len(RECIPES) * len(CELLS)})")
        cells.append(mechanism(method, name, seed))
    progress("looking for a world in which pass@1 rises and pass@k falls")
    leash_world = leash(seed)
    return TheoryReport(
        seed, tuple(checked), tuple(cells), tuple(effects(cells)), leash_world, time.monotonic() - start_time
    )
