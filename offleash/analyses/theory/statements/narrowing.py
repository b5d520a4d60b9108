"""C.6: does the entropy of the answers fall under the tilt?"""

from functools import partial

import numpy as np

from offleash.analyses.theory.exact import entropy, success_rates
from offleash.analyses.theory.statements.search import search
from offleash.analyses.theory.statements.statement import Counterexample, Evidence, Finding, Ruling, Statement
from offleash.analyses.theory.tilt import tilt
from offleash.analyses.theory.world import Float, World, random_world

NARROWING_BETAS = (0.5, 1.0, 2.0, 5.0)
CLEARLY = 0.05  # nats of rise that count as a counterexample
TRIES = 400
EXAMPLE = World(np.array([[0.9] + [0.01] * 10]), np.array([[False] + [True] * 10]))  # of the specification, beta = 5


def rise(world: World, betas: tuple[float, ...] = NARROWING_BETAS) -> float:
    """By how many nats above `CLEARLY` the mean entropy rises, at the beta where it rises most."""
    before = entropy(world.base_XY).mean()
    return max(float(entropy(tilt(world, beta)).mean() - before) for beta in betas) - CLEARLY


def check_narrowing(seed: int) -> Finding:
    """Random worlds at several beta, the worked example, and the condition under which the entropy does fall."""
    found = search(rise, _make, seed, TRIES)
    at_limit = search(partial(rise, betas=(float("inf"),)), _make, seed, TRIES)
    before, after = (float(entropy(p_XY)[0]) for p_XY in (EXAMPLE.base_XY, tilt(EXAMPLE, 5.0)))
    wrong, problems = _condition_errors(seed)
    words = (
        f"with q = 0.9 on one wrong answer and 0.01 on each of ten correct ones: {before:.4f} -> {after:.4f} nats at "
        f"beta = 5; it rises by more than {CLEARLY} in {found.refuting} of {found.tried} random worlds at some beta, "
        f"and in {at_limit.refuting} at beta = infinity. It falls at every beta exactly when ln(p/(1-p)) >= H(right) - "
        f"H(wrong), p the base's success rate and H the entropy within: {wrong} exceptions in {problems:,} problems"
    )
    told = ((found, "at some beta up to 5"), (at_limit, "at beta = infinity"))
    examples = tuple(
        Counterexample(
            one.smallest, f"entropy rises by {one.value + CLEARLY:.3f} nats {where}", one.seed, one.value + CLEARLY
        )
        for one, where in told
        if one.smallest is not None and one.seed is not None
    )
    numbers = {"example_before": before, "example_after": after, "refuting": float(found.refuting)}
    numbers |= {"refuting_at_limit": float(at_limit.refuting), "condition_exceptions": float(wrong)}
    ruling = Ruling.FAILS if examples or after > before else Ruling.HOLDS
    return Finding(ruling, "", Evidence(words, found.tried, found.value + CLEARLY, numbers, examples))


def _condition_errors(seed: int) -> tuple[int, int]:
    """Problems where the entropy's fall along a fine path of beta and the condition disagree."""
    world = random_world(np.random.default_rng([seed, 6]), 2_000, 6)
    rate_X = success_rates(world.base_XY, world.correct_XY)
    split_X = (rate_X > 1e-6) & (rate_X < 1 - 1e-6)
    world = World(world.base_XY[split_X], world.correct_XY[split_X])
    rate_X = rate_X[split_X]
    right_X, wrong_X = (_within(world, flags_XY) for flags_XY in (world.correct_XY, ~world.correct_XY))
    margin_X = np.log(rate_X / (1 - rate_X)) - (right_X - wrong_X)
    path_BX = np.array([entropy(tilt(world, beta)) for beta in np.linspace(0, 1, 26)])
    falls_X = (np.diff(path_BX, axis=0) <= 1e-12).all(axis=0)
    clear_X = np.abs(margin_X) > 0.05  # the path has steps: at the edge it cannot tell
    return int(((margin_X >= 0) != falls_X)[clear_X].sum()), int(clear_X.sum())


def _within(world: World, flags_XY: np.ndarray) -> Float:
    """Entropy of the answers given that they are among the flagged ones."""
    part_XY = np.where(flags_XY, world.base_XY, 0.0)
    return entropy(part_XY / part_XY.sum(axis=1, keepdims=True))


def _make(rng: np.random.Generator) -> World:
    return random_world(rng, problems=3, answers=6)


NARROWING = Statement(
    "C.6",
    "the entropy of the answers falls under the tilt",
    ("as C.4",),
    check_narrowing,
)
