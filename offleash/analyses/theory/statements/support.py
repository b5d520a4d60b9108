"""Statements C.1 to C.3: does on-policy training keep the support, and so the ceiling of pass@k, inside the base's?"""

from collections.abc import Callable
from functools import cache

import numpy as np

from offleash.analyses.theory.dynamics import Dynamics, MeasurementSettings, train
from offleash.analyses.theory.exact import pass_at_k, success_rates
from offleash.analyses.theory.policy import METHODS, SharedPolicy, TabularPolicy, nucleus, shared, tabular, tied
from offleash.analyses.theory.statements.statement import (
    CheckEvidence,
    Counterexample,
    CounterexampleSearch,
    Ruling,
    Statement,
    StatementResult,
    search,
)
from offleash.analyses.theory.world import Float, TheoryWorld, random_world

WORLDS = 50  # with exact zeros, each trained six ways
SEARCHED_WORLDS = 150
EPSILON = 0.01
TOP_P = 0.95  # the decoding of arXiv:2507.14843
CEILING = float("inf")
FINAL_MEASUREMENT = MeasurementSettings(k_K=(1,), every=1_000)  # the checks look at the end, not along the way
TRAINING = Dynamics("reinforce", group=8, rate=1.0, steps=40)
TOP_P_RUN = Dynamics("reinforce", group=None, rate=1.0, steps=60, top_p=TOP_P)

MakePolicy = Callable[[TheoryWorld], TabularPolicy | SharedPolicy]


def check_support(seed: int) -> StatementResult:
    """C.1: exact zeros stay, but an answer that is never drawn, or that top-p cuts, can still become more likely.

    An on-policy update multiplies probabilities, so a zero stays zero. A softmax network has no zeros: what its answers
    share parameters with moves them too, drawn or not.
    """
    mass, _ = _trained_with_zeros(seed)
    rise_search = search(undrawn_rise, _make_world, seed, SEARCHED_WORLDS)
    alone = search(lambda world: undrawn_rise(world, tabular), _make_world, seed, SEARCHED_WORLDS, max_starts=0)
    cut = search(cut_answer_returns, _make_cut_world, seed, SEARCHED_WORLDS)
    words = (
        f"answers of probability exactly 0 stayed there in all {WORLDS * 6} training runs in {WORLDS} random worlds (3 "
        f"methods, tabular and shared parameters; largest mass {mass:g}). But a softmax without -inf has no zeros. "
        f"With shared parameters a correct answer that was never drawn rose from epsilon = {EPSILON:g} or less to more "
        f"than twice that in {rise_search.refuting} of {rise_search.tried} worlds (with a tabular policy, where only "
        f"the normaliser moves it, in {alone.refuting}); and an answer that top-p {TOP_P:g} cuts from the base, so "
        f"that it is exactly 0 and never drawn, came back in {cut.refuting} of {cut.tried}"
    )
    examples = (
        (
            rise_search,
            "a correct answer at or below epsilon is never drawn, yet it rises to "
            f"{rise_search.value + 2 * EPSILON:.3f}",
        ),
        (cut, f"top-p cuts a correct answer from the base; trained on what is left, it returns with {cut.value:.3f}"),
    )
    numbers = {
        "mass_on_zeros": mass,
        "undrawn_rise": float(rise_search.refuting),
        "undrawn_rise_tabular": float(alone.refuting),
    }
    numbers |= {"cut_answers_return": float(cut.refuting)}
    condition = "the zeros are zeros of the policy itself (-inf logits), which no softmax network has"
    return _finding(
        mass, condition, CheckEvidence(words, WORLDS + 2 * SEARCHED_WORLDS, mass, numbers, _examples(examples))
    )


def check_ceiling(seed: int) -> StatementResult:
    """C.2: the limit of pass@k for k to infinity is the share of problems with a correct answer in the support."""
    _, excess = _trained_with_zeros(seed)
    ceiling_search = search(ceiling_rise, _make_cut_world, seed, 3 * SEARCHED_WORLDS)
    words = (
        f"with exact zeros the limit of pass@k stayed at or below the base's in all {WORLDS * 6} training runs "
        f"(largest excess {excess:g}). A softmax without -inf has the limit 1 before and after, so the ceiling says "
        f"nothing there; under top-p {TOP_P:g}, where the limit means something, shared parameters raised it in "
        f"{ceiling_search.refuting} of {ceiling_search.tried} worlds"
    )
    examples = ((ceiling_search, f"the limit of pass@k under top-p {TOP_P:g} rises by {ceiling_search.value:.2g}"),)
    numbers = {"largest_excess": excess, "ceiling_broken": float(ceiling_search.refuting)}
    condition = "same as C.1; for a softmax network both sides are 1"
    return _finding(
        excess, condition, CheckEvidence(words, WORLDS + 3 * SEARCHED_WORLDS, excess, numbers, _examples(examples))
    )


def undrawn_rise(world: TheoryWorld, start: MakePolicy = tied) -> float:
    """How far above 2 epsilon a correct answer rises that started at or below epsilon and was not drawn until then."""
    drawn_XY = np.zeros(world.base_XY.shape, dtype=bool)
    low_XY = world.correct_XY & (world.base_XY <= EPSILON) & (world.base_XY > 0)
    most = [0.0]

    def on_step(_: int, current_XY: Float, share_XY: Float) -> None:
        # Rollouts of this step are marked before the new probabilities are read: an answer drawn just now is out.
        drawn_XY[share_XY > 0] = True
        most.append(float(np.where(low_XY & ~drawn_XY, current_XY - 2 * EPSILON, 0.0).max()))

    if low_XY.any():
        train(start(world), world, TRAINING, np.random.default_rng(0), FINAL_MEASUREMENT, on_step=on_step)
    return max(most)


def cut_answer_returns(world: TheoryWorld) -> float:
    """The largest mass under top-p, after training a table, of a correct answer that top-p had cut from the base."""
    cut_XY = world.correct_XY & (nucleus(world.base_XY, TOP_P) == 0)
    if not cut_XY.any():
        return 0.0
    # A table is enough: wrong answers lose mass, the normaliser lifts the cut one, and it re-enters the nucleus.
    final = train(tabular(world), world, TOP_P_RUN, np.random.default_rng(0), FINAL_MEASUREMENT).final
    return float(np.where(cut_XY, nucleus(final.probability_XY, TOP_P), 0.0).max())


def ceiling_rise(world: TheoryWorld) -> float:
    """By how much the limit of pass@k under top-p rises when problems share their parameters."""
    before = _ceiling(nucleus(world.base_XY, TOP_P), world)
    if before == 1:
        return 0.0
    final = train(tied(world), world, TOP_P_RUN, np.random.default_rng(0), FINAL_MEASUREMENT).final
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
                recipe = Dynamics(method, group=8, rate=0.5, steps=20)
                p_XY = train(start, world, recipe, rng, FINAL_MEASUREMENT).final.probability_XY
                mass = max(mass, float(np.where(world.base_XY == 0, p_XY, 0.0).max()))
                excess = max(excess, _ceiling(p_XY, world) - ceiling)
    return mass, excess


def _ceiling(probability_XY: Float, world: TheoryWorld) -> float:
    return float(pass_at_k(success_rates(probability_XY, world.correct_XY), CEILING)[0])


def _finding(violation: float, condition: str, evidence: CheckEvidence) -> StatementResult:
    if violation > 0:
        return StatementResult(Ruling.FAILS, "", evidence)
    return (
        StatementResult(Ruling.ONLY_IF, condition, evidence)
        if evidence.counterexamples
        else StatementResult(Ruling.HOLDS, "", evidence)
    )


def _examples(searches: tuple[tuple[CounterexampleSearch, str], ...]) -> tuple[Counterexample, ...]:
    return tuple(
        Counterexample(outcome.smallest, words, outcome.seed, outcome.value)
        for outcome, words in searches
        if outcome.smallest is not None and outcome.seed is not None
    )


def _make_world(rng: np.random.Generator) -> TheoryWorld:
    return random_world(rng, problems=3, answers=4)


def _make_cut_world(rng: np.random.Generator) -> TheoryWorld:
    return random_world(rng, problems=3, answers=5)


SUPPORT_STATEMENT = Statement(
    "C.1",
    "on-policy updates keep the support of the trained policy inside that of the base",
    ("the base gives some answers with probability exactly 0", "updates use the policy's own rollouts only"),
    check_support,
)
CEILING_STATEMENT = Statement(
    "C.2",
    "as k goes to infinity, pass@k of the trained policy cannot exceed that of the base",
    ("same as C.1",),
    check_ceiling,
)

# C.3: does finite training keep an answer at or below epsilon there, and does the printed bound say so?


DRIFT_WORLDS = 100
DRIFT_EPSILON = 3.66e-4  # of 8,192 samples at 95%
RATE, STEPS, LARGEST_PUSH = 1e-6, 2_000, 32_768  # a language model: see the words of the check
GROUP_RUN = Dynamics("reinforce", group=8, rate=0.5, steps=60)
EXACT_RUN = Dynamics("reinforce", group=None, rate=1.0, steps=150)
SEARCH_EPSILON = 0.01  # the epsilon of the search: a world of few answers has none at 3.66e-4


def log_bound(rate: float, steps: int, push: float) -> float:
    """Logarithm of exp(2 eta T K): what T steps that move every logit by at most eta K can do to a probability."""
    return 2 * rate * steps * push


def check(seed: int) -> StatementResult:
    """C.3: the bound against trained tables, its size at real scales, and answers that rise above epsilon."""
    max_excess, drift = -np.inf, 0.0
    for i in range(DRIFT_WORLDS):
        rng = np.random.default_rng([seed, 3, i])
        world = random_world(rng, 3, 6)
        p_XY = train(tabular(world), world, GROUP_RUN, rng, FINAL_MEASUREMENT).final.probability_XY
        # K = 1: an advantage is within [-1, 1] and shares sum to 1, so a step moves no logit by more than the rate.
        ratio = float(np.log((p_XY / world.base_XY).max()))
        max_excess, drift = max(max_excess, ratio - log_bound(GROUP_RUN.rate, GROUP_RUN.steps, 1.0)), max(drift, ratio)
    left = search(leaves, _make_world, seed, SEARCHED_WORLDS)
    size = log_bound(RATE, STEPS, LARGEST_PUSH) / np.log(10)
    least = -np.log(DRIFT_EPSILON) / (2 * RATE * STEPS)
    allowed = log_bound(GROUP_RUN.rate, GROUP_RUN.steps, 1.0)
    words = (
        f"the bound epsilon exp(2 eta T K) held for {DRIFT_WORLDS} trained tables (K = 1: no step moves a logit by "
        f"more than eta), where it allows a factor e^{allowed:.0f} and the largest seen was e^{drift:.1f}. At "
        f"realistic scales it is vacuous: eta = {RATE:g}, T = {STEPS:,} and K = {LARGEST_PUSH:,} (each of 32,768 "
        f"tokens can move the log-probability of a sample by eta) allow 10^{size:.0f} times epsilon = "
        f"{DRIFT_EPSILON:g}; any K above {least:,.0f} allows probability 1. And the support at epsilon is not "
        f"preserved: a correct answer rises above {SEARCH_EPSILON:g} within {EXACT_RUN.steps} exact steps of rate "
        f"{EXACT_RUN.rate:g} in {left.refuting} of {left.tried} worlds"
    )
    numbers = {"excess": max_excess, "largest_drift": drift, "bound_log10": size, "vacuous_from_K": float(least)}
    numbers |= {"eta": RATE, "T": float(STEPS), "K": float(LARGEST_PUSH), "leave_epsilon": float(left.refuting)}
    examples: tuple[Counterexample, ...] = ()
    if left.smallest is not None and left.seed is not None:
        description = (
            f"a correct answer at or below {SEARCH_EPSILON:g} ends {left.value:.3f} above it after "
            f"{EXACT_RUN.steps} exact steps"
        )
        examples = (Counterexample(left.smallest, description, left.seed, left.value),)
    evidence = CheckEvidence(words, DRIFT_WORLDS + SEARCHED_WORLDS, max_excess, numbers, examples)
    if max_excess > 1e-9:
        return StatementResult(Ruling.FAILS, "", evidence)
    condition = (
        f"the answer starts below epsilon exp(-2 eta T K), which is 10^-{size:.0f} epsilon at realistic scales; the "
        f"bound says nothing once 2 eta T K > ln(1/epsilon) = {-np.log(DRIFT_EPSILON):.1f}"
    )
    return StatementResult(Ruling.ONLY_IF, condition, evidence)


def leaves(world: TheoryWorld) -> float:
    """How far above epsilon training lifts a correct answer that the base gives at or below it."""
    low_XY = world.correct_XY & (world.base_XY <= SEARCH_EPSILON) & (world.base_XY > 0)
    if not low_XY.any():
        return 0.0
    p_XY = train(tabular(world), world, EXACT_RUN, np.random.default_rng(0), FINAL_MEASUREMENT).final.probability_XY
    return float(np.where(low_XY, p_XY - SEARCH_EPSILON, 0.0).max()) - 1e-6


DRIFT_STATEMENT = Statement(
    "C.3",
    "the support at epsilon is preserved in finitely many steps: an answer at or below epsilon stays there, up to the "
    "factor exp(2 eta T K)",
    ("a step of size eta moves no logit by more than eta K", "T is finite"),
    check,
)
