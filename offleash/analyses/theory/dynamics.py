"""Training in a world: on-policy policy gradient with groups of N rollouts, or with infinitely many, step by step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from offleash.analyses.theory.exact import Level, divergence, entropy, pass_at_k, reached, success_rates
from offleash.analyses.theory.policy import METHODS, TablePolicy, entropy_slope, kl_slope, nucleus, slope
from offleash.analyses.theory.world import Flags, Float, Integer, TheoryWorld
from offleash.errors import OffleashError, unknown

P = TypeVar("P", bound=TablePolicy)
OnStep = Callable[[int, Float, Float], None]  # step, probabilities after it, shares of the rollouts it used


@dataclass(frozen=True)
class Dynamics:
    """How to train. Every step uses all problems, and their gradients add up."""

    method: str = "reinforce"
    group: int | None = 8  # rollouts per problem and step; None: infinitely many, the expected update
    rate: float = 0.5
    steps: int = 200
    kl: float = 0.0  # weight of -KL(pi || q), whose gradient is exact
    entropy: float = 0.0  # weight of the entropy bonus, whose gradient is exact
    seeded: float = 0.0  # share of every group that is replaced by a given correct answer
    top_p: float | None = None  # rollouts are drawn from the nucleus of this mass

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.group is not None and self.group < 1:
            raise OffleashError(f"A group needs at least one rollout; found {self.group}.")
        if not 0 <= self.seeded <= 1:
            raise OffleashError(f"The seeded share of a group must lie between 0 and 1; found {self.seeded}.")


@dataclass(frozen=True)
class MeasurementSettings:
    """What is recorded along training: at which budgets and epsilon, and how often."""

    k_K: tuple[int, ...] = (1, 8, 64, 512)
    epsilon: float = 3e-3
    every: int = 10


@dataclass(frozen=True)
class History(Generic[P]):
    """Exact values at S moments of a training run, the first before any step, and the policy at its end."""

    step_S: Integer
    pass_SK: Float  # pass@k
    answers_S: Integer  # correct answers above epsilon
    kept_answers_S: Integer  # of them, how many were above epsilon at the start
    problems_S: Integer  # problems whose correct mass is above epsilon
    kept_problems_S: Integer
    entropy_S: Float  # of the answers, mean over problems, nats
    kl_S: Float  # to the policy at the start, mean over problems, nats
    k_K: tuple[int, ...]
    final: P

    @property
    def answers_retained_S(self) -> Float:
        """SRR per answer against the start."""
        return self.kept_answers_S / max(int(self.kept_answers_S[0]), 1)

    @property
    def problems_retained_S(self) -> Float:
        """SRR per problem against the start."""
        return self.kept_problems_S / max(int(self.kept_problems_S[0]), 1)


def train(
    policy: P,
    world: TheoryWorld,
    recipe: Dynamics,
    rng: np.random.Generator,
    measured: MeasurementSettings | None = None,
    seed_X: Integer | None = None,
    on_step: OnStep | None = None,
) -> History[P]:
    """Train a policy by the recipe.

    Args:
        policy: where to start; its own probabilities are the reference of `kl` and of what is kept.
        world: the problems, answers and which of them are correct.
        recipe: method, group size, rate and number of steps.
        rng: draws the rollouts; unused where groups are infinite.
        measured: what to record and how often; the first and the last step always are.
        seed_X: the correct answer that seeded groups contain, for each problem.
        watch: called after every step with its number, the new probabilities and the rollouts' shares.

    Returns:
        Exact values along training (no sampling noise in the measurements) and the final policy.
    """
    settings, initial_XY = measured or MeasurementSettings(), policy.probability_XY
    if recipe.seeded and seed_X is None:
        raise OffleashError("Seeded groups need an answer for each problem: give seed_X.")
    rows = [_row(0, initial_XY, initial_XY, world.correct_XY, settings)]
    for step in range(1, recipe.steps + 1):
        current_XY = policy.probability_XY
        share_XY = rollouts(current_XY, recipe, rng, seed_X)
        policy = policy.updated(_total_slope(current_XY, share_XY, initial_XY, world, recipe), recipe.rate)
        if on_step is not None:
            on_step(step, policy.probability_XY, share_XY)
        if step % settings.every == 0 or step == recipe.steps:
            rows.append(_row(step, policy.probability_XY, initial_XY, world.correct_XY, settings))
    column = list(zip(*rows, strict=True))  # in the order of `_row`
    counts = [np.array(column[index], dtype=np.int64) for index in (0, 2, 3, 4, 5)]
    return History(
        step_S=counts[0],
        pass_SK=np.array(column[1]),
        answers_S=counts[1],
        kept_answers_S=counts[2],
        problems_S=counts[3],
        kept_problems_S=counts[4],
        entropy_S=np.array(column[6]),
        kl_S=np.array(column[7]),
        k_K=settings.k_K,
        final=policy,
    )


def rollouts(probability_XY: Float, recipe: Dynamics, rng: np.random.Generator, seed_X: Integer | None = None) -> Float:
    """Which share of each problem's group gives each answer; of infinitely many rollouts, their probabilities."""
    law_XY = probability_XY if recipe.top_p is None else nucleus(probability_XY, recipe.top_p)
    count_XY = np.zeros(law_XY.shape)
    if recipe.seeded and seed_X is not None:
        count_XY[np.arange(len(law_XY)), seed_X] = 1.0
    # The mean of a multinomial: with it the update is the expected one, exactly, and rng is not used.
    if recipe.group is None:
        return (1 - recipe.seeded) * law_XY + recipe.seeded * count_XY
    seeded = round(recipe.seeded * recipe.group)
    drawn_XY = rng.multinomial(recipe.group - seeded, law_XY)
    return np.asarray((drawn_XY + seeded * count_XY) / recipe.group)


def _total_slope(current_XY: Float, share_XY: Float, initial_XY: Float, world: TheoryWorld, recipe: Dynamics) -> Float:
    # J = E[A log pi] - kl KL(pi || q) + entropy H(pi). The last two are exact: only rollouts are noisy.
    push_XY = slope(recipe.method, share_XY, current_XY, world.correct_XY)
    if recipe.kl:
        push_XY = push_XY + recipe.kl * kl_slope(current_XY, initial_XY)
    if recipe.entropy:
        push_XY = push_XY + recipe.entropy * entropy_slope(current_XY)
    return push_XY


def _row(
    step: int, current_XY: Float, initial_XY: Float, correct_XY: Flags, settings: MeasurementSettings
) -> tuple[int, Float, int, int, int, int, float, float]:
    # Answers one by one (definition 2.1 of the paper), and problems by the mass of all their correct answers.
    reached_now_XY, reached_now_X = (
        reached(current_XY, correct_XY, settings.epsilon, level) for level in (Level.ANSWER, Level.MASS)
    )
    reached_at_start_XY, reached_at_start_X = (
        reached(initial_XY, correct_XY, settings.epsilon, level) for level in (Level.ANSWER, Level.MASS)
    )
    return (
        step,
        pass_at_k(success_rates(current_XY, correct_XY), settings.k_K),
        int(reached_now_XY.sum()),
        int((reached_now_XY & reached_at_start_XY).sum()),
        int(reached_now_X.sum()),
        int((reached_now_X & reached_at_start_X).sum()),
        float(entropy(current_XY).mean()),
        float(divergence(current_XY, initial_XY).mean()),
    )
