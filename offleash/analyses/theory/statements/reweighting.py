"""C.4, C.5 and what follows from them: the tilt is the best policy under a KL leash, and it never shrinks support."""

import numpy as np

from offleash.analyses.theory.exact import divergence, pass_at_k, success_rates
from offleash.analyses.theory.statements.statement import Evidence, Finding, Ruling, Statement
from offleash.analyses.theory.tilt import tilt
from offleash.analyses.theory.world import Float, World, random_world

WORLDS = 10_000
PROBLEMS, ANSWERS = 4, 12
BETAS = (0.1, 1.0, 5.0, 20.0, float("inf"))
BUDGETS = (1, 2, 8, 64, 1024, 16384)
EPSILONS = (0.0, 1e-6, 3.66e-4, 1e-2, 0.1)
ROUNDING = 1e-9
RIVALS = 20


def check_best(seed: int) -> Finding:
    """Against rival policies the objective falls short by exactly KL(rival || pi*) / beta."""
    rng = np.random.default_rng([seed, 4])
    world, beta = random_world(rng, 2_000, 8), 2.0
    best_XY = tilt(world, beta)
    top_X = _objective(world, best_XY, beta)
    gap, least = 0.0, np.inf
    for _ in range(RIVALS):
        rival_XY = rng.dirichlet(np.full(world.answers, 0.5), world.problems)
        near_XY = 0.99 * best_XY + 0.01 * rival_XY  # a rival that is far away would prove little
        for other_XY in (rival_XY, near_XY):
            other_XY = np.where(world.base_XY > 0, other_XY, 0.0)
            other_XY /= other_XY.sum(axis=1, keepdims=True)
            short_X = top_X - _objective(world, other_XY, beta)
            gap = max(gap, float(np.abs(short_X - divergence(other_XY, best_XY) / beta).max()))
            least = min(least, float(short_X.min()))
    words = (
        f"against {2 * RIVALS} rival policies in each of {world.problems:,} random worlds (beta = {beta:g}) none does "
        f"better (the closest falls short by {least:.1e}), and each falls short by KL(rival || pi*)/beta, to {gap:.0e}"
    )
    good = gap < 1e-8 and least > -ROUNDING
    numbers = {"rivals": 2.0 * RIVALS, "least_shortfall": least, "identity_error": gap}
    return Finding(Ruling.HOLDS if good else Ruling.FAILS, "", Evidence(words, world.problems, gap, numbers))


def check_limit(seed: int) -> Finding:
    """The distance to the base restricted to its correct answers is (1-p)/(1-p+p e^beta), which goes to 0."""
    rng = np.random.default_rng([seed, 5])
    world = random_world(rng, 2_000, 8, zeros=0.3)
    rate_X = success_rates(world.base_XY, world.correct_XY)
    solvable_X = rate_X > 0
    limit_XY = tilt(world, float("inf"))
    error, last = 0.0, 0.0
    for beta in (1.0, 5.0, 20.0, 700.0):
        apart_X = np.abs(tilt(world, beta) - limit_XY).sum(axis=1)[solvable_X] / 2
        odds_X = (1 - rate_X) * np.exp(-beta)
        error = max(error, float(np.abs(apart_X - (odds_X / (odds_X + rate_X))[solvable_X]).max()))
        last = float(apart_X.max())
    without = int((~solvable_X).sum())
    words = (
        f"in {world.problems:,} random problems the distance to the limit follows (1-p)/(1-p+p e^beta) to {error:.0e} "
        f"and is {last:.0e} at beta = 700; {without} of them have no correct answer in the base, and there the limit "
        "does not exist (the tilt leaves such a base as it is)"
    )
    good = error < 1e-8 and last < 1e-6
    numbers = {"identity_error": error, "largest_distance": last, "problems_without_limit": float(without)}
    return Finding(Ruling.HOLDS if good else Ruling.FAILS, "", Evidence(words, world.problems, error, numbers))


def check_never_shrinks(seed: int) -> Finding:
    """Every correct answer gains: pi*/q = e^beta/Z >= 1, so nothing is lost at any epsilon and pass@k never falls."""
    world = random_world(np.random.default_rng([seed, 45]), WORLDS * PROBLEMS, ANSWERS, zeros=0.2)
    least, fall, lost = np.inf, 0.0, 0
    before_WK = _pass_of_worlds(world, world.base_XY)
    target_XY = world.correct_XY & (world.base_XY > 0)
    for beta in BETAS:
        after_XY = tilt(world, beta)
        least = min(least, float((after_XY[target_XY] / world.base_XY[target_XY]).min()))
        fall = max(fall, float((before_WK - _pass_of_worlds(world, after_XY)).max()))
        # rounding must not decide at the edge of epsilon: an answer counts as lost when it is clearly below it
        lost += sum(int((target_XY & (world.base_XY > eps) & (after_XY <= eps * (1 - 1e-9))).sum()) for eps in EPSILONS)
    words = (
        f"in {WORLDS:,} random worlds of {PROBLEMS} problems, at {len(BETAS)} values of beta up to infinity, no "
        f"correct answer became less likely (smallest pi*/q = {least:.9f}), {lost} left the support at any of "
        f"{len(EPSILONS)} epsilons, and pass@k fell nowhere at k = 1 to {BUDGETS[-1]} (largest fall {fall:.1g})"
    )
    good = least > 1 - ROUNDING and lost == 0 and fall < ROUNDING
    numbers = {"smallest_ratio": least, "answers_lost": float(lost), "largest_fall": fall}
    return Finding(Ruling.HOLDS if good else Ruling.FAILS, "", Evidence(words, WORLDS, fall, numbers))


def _pass_of_worlds(world: World, probability_XY: Float) -> Float:
    """pass@k of each world of a few problems: W worlds by K budgets."""
    rate_X = success_rates(probability_XY, world.correct_XY)
    return pass_at_k(rate_X.reshape(-1, PROBLEMS), BUDGETS)


def _objective(world: World, probability_XY: Float, beta: float) -> Float:
    reward_X = success_rates(probability_XY, world.correct_XY)
    return reward_X - divergence(probability_XY, world.base_XY) / beta


BEST = Statement(
    "C.4",
    "the policy that maximises E[R] - KL(pi || q)/beta is the tilt, pi* = q exp(beta R)/Z",
    ("any policy may be chosen: no shared parameters", "the expectation is exact: no finite groups"),
    check_best,
)
LIMIT = Statement(
    "C.5",
    "without the KL term (beta to infinity) the tilt becomes q restricted to the correct answers",
    ("as C.4", "the base gives some correct answer to the problem"),
    check_limit,
)
NEVER_SHRINKS = Statement(
    "no shrinkage",
    "(follows from C.4) under the tilt no correct answer is lost at any epsilon and pass@k falls at no k",
    ("as C.4",),
    check_never_shrinks,
)
