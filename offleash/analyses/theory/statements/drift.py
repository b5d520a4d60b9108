"""C.3: is an answer at or below epsilon kept there by a finite training, and does the printed bound say so?"""

import numpy as np

from offleash.analyses.theory.dynamics import Measured, Recipe, train
from offleash.analyses.theory.policy import tabular
from offleash.analyses.theory.statements.search import search
from offleash.analyses.theory.statements.statement import Counterexample, Evidence, Finding, Ruling, Statement
from offleash.analyses.theory.world import World, random_world

DRIFT_WORLDS = 100
TRIES = 150
DRIFT_EPSILON = 3.66e-4  # of 8,192 samples at 95%
RATE, STEPS, LARGEST_PUSH = 1e-6, 2_000, 32_768  # a language model: see the words of the check
TABLE = Recipe("reinforce", group=8, rate=0.5, steps=60)
SMALL = Recipe("reinforce", group=None, rate=1.0, steps=150)
LOOSE = 0.01  # the epsilon of the search: a world of few answers has none at 3.66e-4
RARELY = Measured(k_K=(1,), every=1_000)


def log_bound(rate: float, steps: int, push: float) -> float:
    """Logarithm of exp(2 eta T K): what T steps that move every logit by at most eta K can do to a probability."""
    return 2 * rate * steps * push


def check(seed: int) -> Finding:
    """The bound against trained tables, its size at real scales, and answers that leave epsilon behind."""
    over, drift = -np.inf, 0.0
    for i in range(DRIFT_WORLDS):
        rng = np.random.default_rng([seed, 3, i])
        world = random_world(rng, 3, 6)
        p_XY = train(tabular(world), world, TABLE, rng, RARELY).final.probability_XY
        ratio = float(np.log((p_XY / world.base_XY).max()))
        over, drift = max(over, ratio - log_bound(TABLE.rate, TABLE.steps, 1.0)), max(drift, ratio)
    left = search(leaves, _make, seed, TRIES)
    size = log_bound(RATE, STEPS, LARGEST_PUSH) / np.log(10)
    least = -np.log(DRIFT_EPSILON) / (2 * RATE * STEPS)
    allowed = log_bound(TABLE.rate, TABLE.steps, 1.0)
    words = (
        f"the bound epsilon exp(2 eta T K) was kept by {DRIFT_WORLDS} trained tables (K = 1: no step moves a logit by "
        f"more than eta), where it allows a factor e^{allowed:.0f} and the largest seen was e^{drift:.1f}. At real "
        f"scales it is vacuous: eta = {RATE:g}, T = {STEPS:,} and K = {LARGEST_PUSH:,} (each of 32,768 tokens can move "
        f"the log-probability of a sample by eta) allow 10^{size:.0f} times epsilon = {DRIFT_EPSILON:g}; any K above "
        f"{least:,.0f} allows probability 1. And the support at epsilon is not preserved: a correct answer rises above "
        f"{LOOSE:g} within {SMALL.steps} exact steps of rate {SMALL.rate:g} in {left.refuting} of {left.tried} worlds"
    )
    numbers = {"excess": over, "largest_drift": drift, "bound_log10": size, "vacuous_from_K": float(least)}
    numbers |= {"eta": RATE, "T": float(STEPS), "K": float(LARGEST_PUSH), "leave_epsilon": float(left.refuting)}
    examples: tuple[Counterexample, ...] = ()
    if left.smallest is not None and left.seed is not None:
        told = f"a correct answer at or below {LOOSE:g} ends {left.value:.3f} above it after {SMALL.steps} exact steps"
        examples = (Counterexample(left.smallest, told, left.seed, left.value),)
    evidence = Evidence(words, DRIFT_WORLDS + TRIES, over, numbers, examples)
    if over > 1e-9:
        return Finding(Ruling.FAILS, "", evidence)
    condition = (
        f"the answer starts below epsilon exp(-2 eta T K), which is 10^-{size:.0f} epsilon at real scales; the bound "
        f"says nothing once 2 eta T K > ln(1/epsilon) = {-np.log(DRIFT_EPSILON):.1f}"
    )
    return Finding(Ruling.ONLY_IF, condition, evidence)


def leaves(world: World) -> float:
    """How far above epsilon training lifts a correct answer that the base gives at or below it."""
    low_XY = world.correct_XY & (world.base_XY <= LOOSE) & (world.base_XY > 0)
    if not low_XY.any():
        return 0.0
    p_XY = train(tabular(world), world, SMALL, np.random.default_rng(0), RARELY).final.probability_XY
    return float(np.where(low_XY, p_XY - LOOSE, 0.0).max()) - 1e-6


def _make(rng: np.random.Generator) -> World:
    return random_world(rng, problems=3, answers=4)


DRIFT = Statement(
    "C.3",
    "the support at epsilon is preserved in finitely many steps: an answer at or below epsilon stays there, up to the "
    "factor exp(2 eta T K)",
    ("a step of size eta moves no logit by more than eta K", "T is finite"),
    check,
)
