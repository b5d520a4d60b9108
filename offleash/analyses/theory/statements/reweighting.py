"""Statements C.4 to C.6 and the tail-miss lemma: what the tilt, and finite groups, do to support and entropy.

The tilt is the best policy under a KL leash, and it never shrinks support.
"""

from functools import partial
from itertools import product

import numpy as np

from offleash.analyses.theory.exact import divergence, entropy, pass_at_k, success_rates
from offleash.analyses.theory.policy import tilt
from offleash.analyses.theory.statements.statement import (
    CheckEvidence,
    Counterexample,
    Ruling,
    Statement,
    StatementResult,
    search,
)
from offleash.analyses.theory.world import Float, TheoryWorld, random_world

WORLDS = 10_000
PROBLEMS, ANSWERS = 4, 12
BETAS = (0.1, 1.0, 5.0, 20.0, float("inf"))
BUDGETS = (1, 2, 8, 64, 1024, 16384)
EPSILONS = (0.0, 1e-6, 3.66e-4, 1e-2, 0.1)
ROUNDING = 1e-9
RIVAL_POLICIES = 20


def check_optimum(seed: int) -> StatementResult:
    """C.4: every rival policy falls short of the objective by exactly KL(rival || pi*) / beta, so none is better.

    The identity E_pi[R] - KL(pi || q)/beta = ln(Z)/beta - KL(pi || pi*)/beta is checked to rounding.
    """
    rng = np.random.default_rng([seed, 4])
    world, beta = random_world(rng, 2_000, 8), 2.0
    best_XY = tilt(world, beta)
    best_objective_X = _objective(world, best_XY, beta)
    gap, least = 0.0, np.inf
    for _ in range(RIVAL_POLICIES):
        rival_XY = rng.dirichlet(np.full(world.answers, 0.5), world.problems)
        near_XY = 0.99 * best_XY + 0.01 * rival_XY  # a rival that is far away would prove little
        for other_XY in (rival_XY, near_XY):
            other_XY = np.where(world.base_XY > 0, other_XY, 0.0)
            other_XY /= other_XY.sum(axis=1, keepdims=True)
            gap_X = best_objective_X - _objective(world, other_XY, beta)
            gap = max(gap, float(np.abs(gap_X - divergence(other_XY, best_XY) / beta).max()))
            least = min(least, float(gap_X.min()))
    words = (
        f"none of {2 * RIVAL_POLICIES} rival policies in each of {world.problems:,} random worlds (beta = {beta:g}) "
        f"does better (the closest falls short by {least:.1e}), and each falls short by KL(rival || pi*)/beta, to "
        f"within {gap:.0e}"
    )
    is_confirmed = gap < 1e-8 and least > -ROUNDING
    numbers = {"rivals": 2.0 * RIVAL_POLICIES, "least_shortfall": least, "identity_error": gap}
    return StatementResult(
        Ruling.HOLDS if is_confirmed else Ruling.FAILS, "", CheckEvidence(words, world.problems, gap, numbers)
    )


def check_limit(seed: int) -> StatementResult:
    """C.5: the total variation distance to the base restricted to its correct answers is (1-p)/(1-p+p e^beta)."""
    rng = np.random.default_rng([seed, 5])
    world = random_world(rng, 2_000, 8, zeros=0.3)
    rate_X = success_rates(world.base_XY, world.correct_XY)
    solvable_X = rate_X > 0
    limit_XY = tilt(world, float("inf"))
    error, last = 0.0, 0.0
    for beta in (1.0, 5.0, 20.0, 700.0):
        distance_X = np.abs(tilt(world, beta) - limit_XY).sum(axis=1)[solvable_X] / 2
        odds_X = (1 - rate_X) * np.exp(-beta)
        error = max(error, float(np.abs(distance_X - (odds_X / (odds_X + rate_X))[solvable_X]).max()))
        last = float(distance_X.max())
    without = int((~solvable_X).sum())
    words = (
        f"in {world.problems:,} random problems the distance to the limit follows (1-p)/(1-p+p e^beta) to within "
        f"{error:.0e} and is {last:.0e} at beta = 700; {without} of them have no correct answer in the base, and there "
        "the limit does not exist (the tilt leaves the base unchanged)"
    )
    is_confirmed = error < 1e-8 and last < 1e-6
    numbers = {"identity_error": error, "largest_distance": last, "problems_without_limit": float(without)}
    return StatementResult(
        Ruling.HOLDS if is_confirmed else Ruling.FAILS, "", CheckEvidence(words, world.problems, error, numbers)
    )


def check_never_shrinks(seed: int) -> StatementResult:
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
        lost += sum(
            int((target_XY & (world.base_XY > epsilon) & (after_XY <= epsilon * (1 - 1e-9))).sum())
            for epsilon in EPSILONS
        )
    words = (
        f"in {WORLDS:,} random worlds of {PROBLEMS} problems, at {len(BETAS)} values of beta up to infinity, no "
        f"correct answer became less likely (smallest pi*/q = {least:.9f}), {lost or 'none'} left the support at any "
        f"of {len(EPSILONS)} epsilons, and pass@k did not fall at any k from 1 to {BUDGETS[-1]} (largest "
        f"fall {fall:.1g})"
    )
    # pi*/q = e^beta/Z with Z = 1 - p + p e^beta <= e^beta: the ratio can only be below 1 by rounding.
    is_confirmed = least > 1 - ROUNDING and lost == 0 and fall < ROUNDING
    numbers = {"smallest_ratio": least, "answers_lost": float(lost), "largest_fall": fall}
    return StatementResult(
        Ruling.HOLDS if is_confirmed else Ruling.FAILS, "", CheckEvidence(words, WORLDS, fall, numbers)
    )


def _pass_of_worlds(world: TheoryWorld, probability_XY: Float) -> Float:
    """pass@k of each world of a few problems: W worlds by K budgets."""
    rate_X = success_rates(probability_XY, world.correct_XY)
    return pass_at_k(rate_X.reshape(-1, PROBLEMS), BUDGETS)


def _objective(world: TheoryWorld, probability_XY: Float, beta: float) -> Float:
    reward_X = success_rates(probability_XY, world.correct_XY)
    return reward_X - divergence(probability_XY, world.base_XY) / beta


OPTIMUM_STATEMENT = Statement(
    "C.4",
    "the policy that maximises E[R] - KL(pi || q)/beta is the tilt, pi* = q exp(beta R)/Z",
    ("any policy may be chosen: no shared parameters", "the expectation is exact: no finite groups"),
    check_optimum,
)
LIMIT_STATEMENT = Statement(
    "C.5",
    "without the KL term (beta to infinity) the tilt becomes q restricted to the correct answers",
    ("same as C.4", "the base gives some correct answer a positive probability"),
    check_limit,
)
NEVER_SHRINKS_STATEMENT = Statement(
    "no shrinkage",
    "(follows from C.4) under the tilt no correct answer is lost at any epsilon and pass@k does not fall at any k",
    ("same as C.4",),
    check_never_shrinks,
)

# The tail-miss lemma: how often a group of rollouts has a gradient and misses a rare correct answer.


CASES = 300  # random (tau, mu, N) that are enumerated
LARGEST = 7  # rollouts of an enumerated group: 3^7 sequences
SIMULATED_CASES = 12
GROUPS = 200_000  # simulated groups of each case
MAX_STANDARD_ERRORS = 4.5  # standard errors: a right formula passes all simulated cases 9,999 times in 10,000


def tail_miss(tau: float, mu: float, group: int) -> float:
    """Chance that a group has right and wrong rollouts (it is active) and none from the rare correct set.

    `tau` is the mass of the rare correct answers, `mu` of all correct ones, tau <= mu (F-GRPO).
    """
    return float((1 - tau) ** group - (mu - tau) ** group - (1 - mu) ** group)


def check_tail_miss(seed: int) -> StatementResult:
    """The formula against all sequences of small groups, and against simulated groups of real sizes."""
    rng = np.random.default_rng([seed, 7])
    error = 0.0
    for _ in range(CASES):
        mu = float(rng.random())
        tau, group = float(mu * rng.random()), int(rng.integers(2, LARGEST + 1))
        error = max(error, abs(tail_miss(tau, mu, group) - enumerate_tail_miss(tau, mu, group)))
    z = max(abs(_standard_errors(rng)) for _ in range(SIMULATED_CASES))
    peak = max(range(2, 2049), key=lambda group: tail_miss(0.01, 0.3, group))
    words = (
        f"agrees with enumerating all 3^N sequences of {CASES} random groups up to N = {LARGEST} (to within "
        f"{error:.0e}), and with {SIMULATED_CASES} simulations of {GROUPS:,} groups of 2 to 64 rollouts (worst {z:.1f} "
        f"standard errors). With success rate 0.3 and a rare solution of mass 0.01, {tail_miss(0.01, 0.3, 8):.0%} of "
        f"groups of 8 learn without it; the share peaks at N = {peak} ({tail_miss(0.01, 0.3, peak):.0%}) and is still "
        f"{tail_miss(0.01, 0.3, 256):.0%} at N = 256"
    )
    numbers = {"enumeration_error": error, "worst_z": z, "at_8": tail_miss(0.01, 0.3, 8), "peak_group": float(peak)}
    is_confirmed = error < 1e-12 and z < MAX_STANDARD_ERRORS
    return StatementResult(
        Ruling.HOLDS if is_confirmed else Ruling.FAILS,
        "",
        CheckEvidence(words, CASES + SIMULATED_CASES, error, numbers),
    )


def enumerate_tail_miss(tau: float, mu: float, group: int) -> float:
    """The same chance as a sum over all sequences of rare, other correct and wrong rollouts."""
    chance = {"rare": tau, "other": mu - tau, "wrong": 1 - mu}
    total = 0.0
    for kinds in product(chance, repeat=group):
        if "rare" not in kinds and {"other", "wrong"} <= set(kinds):
            total += float(np.prod([chance[kind] for kind in kinds]))
    return total


def simulate_tail_miss(tau: float, mu: float, group: int, groups: int, rng: np.random.Generator) -> float:
    """The share of simulated groups that are active and miss the rare set."""
    drawn_G3 = rng.multinomial(group, [tau, mu - tau, 1 - mu], size=groups)
    return float(((drawn_G3[:, 0] == 0) & (drawn_G3[:, 1] > 0) & (drawn_G3[:, 2] > 0)).mean())


def _standard_errors(rng: np.random.Generator) -> float:
    mu, group = float(rng.uniform(0.05, 0.95)), int(2 ** rng.integers(1, 7))
    tau = float(mu * rng.uniform(0.001, 0.2))
    chance = tail_miss(tau, mu, group)
    spread = np.sqrt(max(chance * (1 - chance), 25 / GROUPS) / GROUPS)  # few expected events are far from normal
    return (simulate_tail_miss(tau, mu, group, GROUPS, rng) - chance) / float(spread)


TAIL_MISS_STATEMENT = Statement(
    "tail-miss",
    "a group of N rollouts is active and misses a rare correct set of mass tau with chance "
    "(1-tau)^N - (mu-tau)^N - (1-mu)^N",
    ("rollouts are independent draws from the policy", "tau is part of mu, the success rate"),
    check_tail_miss,
)

# C.6: does the entropy of the answers fall under the tilt?


NARROWING_BETAS = (0.5, 1.0, 2.0, 5.0)
MIN_RISE = 0.05  # nats of rise that count as a counterexample
TRIES = 400
EXAMPLE_WORLD = TheoryWorld(
    np.array([[0.9] + [0.01] * 10]), np.array([[False] + [True] * 10])
)  # of the specification, beta = 5


def rise(world: TheoryWorld, betas: tuple[float, ...] = NARROWING_BETAS) -> float:
    """By how many nats above `MIN_RISE` the mean entropy rises, at the beta where it rises most."""
    before = entropy(world.base_XY).mean()
    return max(float(entropy(tilt(world, beta)).mean() - before) for beta in betas) - MIN_RISE


def check_narrowing(seed: int) -> StatementResult:
    """C.6: random worlds at several beta, the worked example, and the condition under which the entropy does fall.

    The tilt moves mass from wrong to correct answers. Where the correct ones are more spread out than the wrong ones,
    entropy rises.
    """
    search_any_beta = search(rise, _make_world, seed, TRIES)
    search_at_limit = search(partial(rise, betas=(float("inf"),)), _make_world, seed, TRIES)
    before, after = (float(entropy(p_XY)[0]) for p_XY in (EXAMPLE_WORLD.base_XY, tilt(EXAMPLE_WORLD, 5.0)))
    wrong, problems = _condition_errors(seed)
    words = (
        f"with q = 0.9 on one wrong answer and 0.01 on each of ten correct ones: {before:.4f} -> {after:.4f} nats at "
        f"beta = 5; it rises by more than {MIN_RISE} in {search_any_beta.refuting} of {search_any_beta.tried} random "
        "worlds "
        f"at some beta, and in {search_at_limit.refuting} at beta = infinity. It falls at every beta exactly when "
        "ln(p/(1-p)) "
        f">= H(right) - H(wrong), p the base's success rate and H the entropy within: {wrong} exceptions in "
        f"{problems:,} problems"
    )
    searches = ((search_any_beta, "at some beta up to 5"), (search_at_limit, "at beta = infinity"))
    examples = tuple(
        Counterexample(
            outcome.smallest,
            f"entropy rises by {outcome.value + MIN_RISE:.3f} nats {where}",
            outcome.seed,
            outcome.value + MIN_RISE,
        )
        for outcome, where in searches
        if outcome.smallest is not None and outcome.seed is not None
    )
    numbers = {"example_before": before, "example_after": after, "refuting": float(search_any_beta.refuting)}
    numbers |= {"refuting_at_limit": float(search_at_limit.refuting), "condition_exceptions": float(wrong)}
    ruling = Ruling.FAILS if examples or after > before else Ruling.HOLDS
    return StatementResult(
        ruling, "", CheckEvidence(words, search_any_beta.tried, search_any_beta.value + MIN_RISE, numbers, examples)
    )


def _condition_errors(seed: int) -> tuple[int, int]:
    """Problems where the entropy's fall along a fine path of beta and the condition disagree."""
    world = random_world(np.random.default_rng([seed, 6]), 2_000, 6)
    rate_X = success_rates(world.base_XY, world.correct_XY)
    mixed_X = (rate_X > 1e-6) & (rate_X < 1 - 1e-6)
    world = TheoryWorld(world.base_XY[mixed_X], world.correct_XY[mixed_X])
    rate_X = rate_X[mixed_X]
    entropy_correct_X, entropy_wrong_X = (
        _entropy_within(world, member_XY) for member_XY in (world.correct_XY, ~world.correct_XY)
    )
    margin_X = np.log(rate_X / (1 - rate_X)) - (entropy_correct_X - entropy_wrong_X)
    path_BX = np.array([entropy(tilt(world, beta)) for beta in np.linspace(0, 1, 26)])
    falls_X = (np.diff(path_BX, axis=0) <= 1e-12).all(axis=0)
    decidable_X = np.abs(margin_X) > 0.05  # the path has steps: too close to the edge it cannot decide
    return int(((margin_X >= 0) != falls_X)[decidable_X].sum()), int(decidable_X.sum())


def _entropy_within(world: TheoryWorld, member_XY: np.ndarray) -> Float:
    """Entropy of the answers given that they are among the flagged ones."""
    within_XY = np.where(member_XY, world.base_XY, 0.0)
    return entropy(within_XY / within_XY.sum(axis=1, keepdims=True))


def _make_world(rng: np.random.Generator) -> TheoryWorld:
    return random_world(rng, problems=3, answers=6)


NARROWING_STATEMENT = Statement(
    "C.6",
    "the entropy of the answers falls under the tilt",
    ("same as C.4",),
    check_narrowing,
)
