"""The tail-miss lemma: how often a group of rollouts learns something and misses a rare correct answer."""

from itertools import product

import numpy as np

from offleash.analyses.theory.statements.statement import Evidence, Finding, Ruling, Statement

CASES = 300  # random (tau, mu, N) that are enumerated
LARGEST = 7  # rollouts of an enumerated group: 3^7 sequences
SIMULATED = 12
GROUPS = 200_000  # simulated groups of each case
ALLOWED = 4.5  # standard errors: a right formula passes all simulated cases 9,999 times in 10,000


def tail_miss(tau: float, mu: float, group: int) -> float:
    """Chance that N rollouts are both right and wrong (the group is active) and none is of the rare correct set.

    `tau` is the mass of the rare correct answers, `mu` of all correct ones, tau <= mu (F-GRPO).
    """
    return float((1 - tau) ** group - (mu - tau) ** group - (1 - mu) ** group)


def check_missing(seed: int) -> Finding:
    """The formula against all sequences of small groups, and against simulated groups of real sizes."""
    rng = np.random.default_rng([seed, 7])
    error = 0.0
    for _ in range(CASES):
        mu = float(rng.random())
        tau, group = float(mu * rng.random()), int(rng.integers(2, LARGEST + 1))
        error = max(error, abs(tail_miss(tau, mu, group) - enumerated(tau, mu, group)))
    z = max(abs(_standard_errors(rng)) for _ in range(SIMULATED))
    peak = max(range(2, 2049), key=lambda group: tail_miss(0.01, 0.3, group))
    words = (
        f"equal to the enumeration of all 3^N sequences of {CASES} random groups up to N = {LARGEST} (to {error:.0e}), "
        f"and to {SIMULATED} simulations of {GROUPS:,} groups of 2 to 64 rollouts (worst {z:.1f} standard errors). "
        f"With p = 0.3 and a rare way of 0.01, {tail_miss(0.01, 0.3, 8):.0%} of groups of 8 learn without it; the most "
        f"do at N = {peak} ({tail_miss(0.01, 0.3, peak):.0%}), and {tail_miss(0.01, 0.3, 256):.0%} still at N = 256"
    )
    numbers = {"enumeration_error": error, "worst_z": z, "at_8": tail_miss(0.01, 0.3, 8), "peak_group": float(peak)}
    good = error < 1e-12 and z < ALLOWED
    return Finding(Ruling.HOLDS if good else Ruling.FAILS, "", Evidence(words, CASES + SIMULATED, error, numbers))


def enumerated(tau: float, mu: float, group: int) -> float:
    """The same chance as a sum over all sequences of rare, other correct and wrong rollouts."""
    chance = {"rare": tau, "other": mu - tau, "wrong": 1 - mu}
    total = 0.0
    for kinds in product(chance, repeat=group):
        if "rare" not in kinds and {"other", "wrong"} <= set(kinds):
            total += float(np.prod([chance[kind] for kind in kinds]))
    return total


def simulated(tau: float, mu: float, group: int, groups: int, rng: np.random.Generator) -> float:
    """The share of simulated groups that are active and miss the rare set."""
    drawn_G3 = rng.multinomial(group, [tau, mu - tau, 1 - mu], size=groups)
    return float(((drawn_G3[:, 0] == 0) & (drawn_G3[:, 1] > 0) & (drawn_G3[:, 2] > 0)).mean())


def _standard_errors(rng: np.random.Generator) -> float:
    mu, group = float(rng.uniform(0.05, 0.95)), int(2 ** rng.integers(1, 7))
    tau = float(mu * rng.uniform(0.001, 0.2))
    chance = tail_miss(tau, mu, group)
    spread = np.sqrt(max(chance * (1 - chance), 25 / GROUPS) / GROUPS)  # few expected events are far from normal
    return (simulated(tau, mu, group, GROUPS, rng) - chance) / float(spread)


MISSING = Statement(
    "tail-miss",
    "a group of N rollouts is active and misses a rare correct set of mass tau with chance "
    "(1-tau)^N - (mu-tau)^N - (1-mu)^N",
    ("rollouts are independent draws of the policy", "tau is part of mu, the success rate"),
    check_missing,
)
