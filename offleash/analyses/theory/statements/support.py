"""C.1 and C.2: does on-policy training keep the support, and with it the ceiling of pass@k, inside the base's?"""

from collections.abc import Callable
from functools import cache

import numpy as np

from offleash.analyses.theory.dynamics import Measured, Recipe, train
from offleash.analyses.theory.exact import pass_at_k, success_rates
from offleash.analyses.theory.policy import Shared, Tabular, nucleus, shared, tabular, tied
from offleash.analyses.theory.slopes import METHODS
from offleash.analyses.theory.statements.search import Search, search
from offleash.analyses.theory.statements.statement import Counterexample, Evidence, Finding, Ruling, Statement
from offleash.analyses.theory.world import Float, World, random_world

WORLDS = 50  # with exact zeros, each trained six ways
TRIES = 150
EPSILON = 0.01
TOP_P = 0.95  # the decoding of arXiv:2507.14843
CEILING = float("inf")
RARELY = Measured(k_K=(1,), every=1_000)  # the checks look at the end, not along the way
TRAINING = Recipe("reinforce", group=8, rate=1.0, steps=40)
CUT = Recipe("reinforce", group=None, rate=1.0, steps=60, top_p=TOP_P)

Start = Callable[[World], Tabular | Shared]


def check_support(seed: int) -> Finding:
    """Zeros of the policy stay; an answer that is never drawn, or that top-p cuts, does not stay where it was."""
    mass, _ = _trained_with_zeros(seed)
    rising = search(undrawn_rise, _make, seed, TRIES)
    alone = search(lambda world: undrawn_rise(world, tabular), _make, seed, TRIES, starts=0)
    cut = search(cut_answer_returns, _make_cut, seed, TRIES)
    words = (
        f"answers of probability exactly 0 kept it in all {WORLDS * 6} trainings of {WORLDS} random worlds (3 methods, "
        f"tabular and shared parameters; largest mass {mass:g}). But a softmax without -inf has no zeros. With shared "
        f"parameters a correct answer that was never drawn rose from epsilon = {EPSILON:g} or less to more than "
        f"twice that in {rising.refuting} of {rising.tried} worlds (with a table, where only the normaliser moves "
        f"it, in {alone.refuting}); and an answer that top-p {TOP_P:g} cuts from the base, so that it is exactly 0 and "
        f"never drawn, came back in {cut.refuting} of {cut.tried}"
    )
    told = (
        (rising, f"a correct answer at or below epsilon is never drawn, yet rises to {rising.value + 2 * EPSILON:.3f}"),
        (cut, f"top-p cuts a correct answer from the base; trained on what is left, it returns with {cut.value:.3f}"),
    )
    numbers = {
        "mass_on_zeros": mass,
        "undrawn_rise": float(rising.refuting),
        "undrawn_rise_tabular": float(alone.refuting),
    }
    numbers |= {"cut_answers_return": float(cut.refuting)}
    condition = "the zeros are zeros of the policy itself (-inf logits), which no softmax network has"
    return _finding(mass, condition, Evidence(words, WORLDS + 2 * TRIES, mass, numbers, _examples(told)))


def check_ceiling(seed: int) -> Finding:
    """As the support goes, so does the limit of pass@k for k to infinity."""
    _, excess = _trained_with_zeros(seed)
    broken = search(ceiling_rise, _make_cut, seed, 3 * TRIES)
    words = (
        f"with exact zeros the limit of pass@k stayed at or below the base's in all {WORLDS * 6} trainings (largest "
        f"excess {excess:g}). A softmax without -inf has the limit 1 before and after, so the ceiling says nothing of "
        f"it; under top-p {TOP_P:g}, where the limit means something, shared parameters raised it in {broken.refuting} "
        f"of {broken.tried} worlds"
    )
    told = ((broken, f"the limit of pass@k under top-p {TOP_P:g} rises by {broken.value:.2g}"),)
    numbers = {"largest_excess": excess, "ceiling_broken": float(broken.refuting)}
    condition = "as C.1; for a softmax network both sides are 1"
    return _finding(excess, condition, Evidence(words, WORLDS + 3 * TRIES, excess, numbers, _examples(told)))


def undrawn_rise(world: World, start: Start = tied) -> float:
    """How far above 2 epsilon a correct answer rises that started at or below epsilon and was not drawn until then."""
    drawn_XY = np.zeros(world.base_XY.shape, dtype=bool)
    low_XY = world.correct_XY & (world.base_XY <= EPSILON) & (world.base_XY > 0)
    most = [0.0]

    def watch(_: int, now_XY: Float, share_XY: Float) -> None:
        drawn_XY[share_XY > 0] = True
        most.append(float(np.where(low_XY & ~drawn_XY, now_XY - 2 * EPSILON, 0.0).max()))

    if low_XY.any():
        train(start(world), world, TRAINING, np.random.default_rng(0), RARELY, watch=watch)
    return max(most)


def cut_answer_returns(world: World) -> float:
    """The largest mass under top-p, after training a table, of a correct answer that top-p had cut from the base."""
    cut_XY = world.correct_XY & (nucleus(world.base_XY, TOP_P) == 0)
    if not cut_XY.any():
        return 0.0
    final = train(tabular(world), world, CUT, np.random.default_rng(0), RARELY).final
    return float(np.where(cut_XY, nucleus(final.probability_XY, TOP_P), 0.0).max())


def ceiling_rise(world: World) -> float:
    """By how much the limit of pass@k under top-p rises when problems share their parameters."""
    before = _ceiling(nucleus(world.base_XY, TOP_P), world)
    if before == 1:
        return 0.0
    final = train(tied(world), world, CUT, np.random.default_rng(0), RARELY).final
    return _ceiling(nucleus(final.probability_XY, TOP_P), world) - before


@cache
def _trained_with_zeros(seed: int) -> tuple[float, float]:
    """Largest mass on the base's zeros, and largest excess of the ceiling, after training worlds that have zeros."""
    mass, excess = 0.0, -np.inf
    for i in range(WORLDS):
        rng = np.random.default_rng([seed, 1, i])
        world = random_world(rng, 3, 6, zeros=0.4)
        ceiling = _ceiling(world.base_XY, world)
        for method in METHODS:
            for start in (tabular(world), shared(world, 2, rng)):
                recipe = Recipe(method, group=8, rate=0.5, steps=20)
                p_XY = train(start, world, recipe, rng, RARELY).final.probability_XY
                mass = max(mass, float(np.where(world.base_XY == 0, p_XY, 0.0).max()))
                excess = max(excess, _ceiling(p_XY, world) - ceiling)
    return mass, excess


def _ceiling(probability_XY: Float, world: World) -> float:
    return float(pass_at_k(success_rates(probability_XY, world.correct_XY), CEILING)[0])


def _finding(violation: float, condition: str, evidence: Evidence) -> Finding:
    if violation > 0:
        return Finding(Ruling.FAILS, "", evidence)
    return (
        Finding(Ruling.ONLY_IF, condition, evidence)
        if evidence.counterexamples
        else Finding(Ruling.HOLDS, "", evidence)
    )


def _examples(told: tuple[tuple[Search, str], ...]) -> tuple[Counterexample, ...]:
    return tuple(
        Counterexample(one.smallest, words, one.seed, one.value)
        for one, words in told
        if one.smallest is not None and one.seed is not None
    )


def _make(rng: np.random.Generator) -> World:
    return random_world(rng, problems=3, answers=4)


def _make_cut(rng: np.random.Generator) -> World:
    return random_world(rng, problems=3, answers=5)


SUPPORT = Statement(
    "C.1",
    "on-policy updates keep the support of the trained policy inside that of the base",
    ("the base gives some answers with probability exactly 0", "updates use the policy's own rollouts only"),
    check_support,
)
CEILING_STATEMENT = Statement(
    "C.2",
    "for k to infinity pass@k of the trained policy cannot exceed that of the base",
    ("as C.1",),
    check_ceiling,
)
