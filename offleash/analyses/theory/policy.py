"""Policies: a table of logits, or logits that problems share through few numbers; both keep exact zeros."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from offleash.analyses.theory.world import Float, World


class Policy(Protocol):
    """Who answers: probabilities of every answer, and what one step along the slope of an objective makes of it."""

    @property
    def probability_XY(self) -> Float: ...

    def moved(self, slope_XY: Float, rate: float) -> Self:
        """The policy after a gradient step; `slope_XY` is the objective's derivative by the logits."""
        ...


@dataclass(frozen=True)
class Tabular:
    """Every answer of every problem has a logit of its own; -inf is an answer that is never given."""

    logit_XY: Float

    @property
    def probability_XY(self) -> Float:
        return softmax(self.logit_XY)

    def moved(self, slope_XY: Float, rate: float) -> "Tabular":
        return Tabular(self.logit_XY + rate * slope_XY)  # -inf plus anything finite stays -inf


@dataclass(frozen=True)
class Shared:
    """Logits = base + U V with few columns D: what one problem learns moves the others (as LoRA, arXiv:2106.09685)."""

    base_XY: Float  # logits, never trained
    problem_XD: Float
    answer_DY: Float

    @property
    def probability_XY(self) -> Float:
        return softmax(self.base_XY + self.problem_XD @ self.answer_DY)

    def gradient(self, slope_XY: Float) -> tuple[Float, Float]:
        """Derivatives of the objective by both factors, from those by the logits."""
        return slope_XY @ self.answer_DY.T, self.problem_XD.T @ slope_XY

    def moved(self, slope_XY: Float, rate: float) -> "Shared":
        by_problem_XD, by_answer_DY = self.gradient(slope_XY)
        return Shared(self.base_XY, self.problem_XD + rate * by_problem_XD, self.answer_DY + rate * by_answer_DY)


def tabular(world: World) -> Tabular:
    """The base of a world as a table."""
    return Tabular(logits_of(world.base_XY))


def shared(world: World, width: int, rng: np.random.Generator, alike: float = 0.0) -> Shared:
    """The base of a world with `width` shared directions: features of problems, nothing learnt yet.

    Features are random, of mean square 1 a problem; `alike` is the part of that which all problems have in common.
    """
    problem_XD = np.sqrt((1 - alike) / width) * rng.standard_normal((world.problems, width))
    problem_XD[:, 0] += np.sqrt(alike)
    return Shared(logits_of(world.base_XY), problem_XD, np.zeros((width, world.answers)))


def tied(world: World) -> Shared:
    """The base of a world with one direction that is the same for all problems: the simplest sharing there is."""
    return Shared(logits_of(world.base_XY), np.ones((world.problems, 1)), np.zeros((1, world.answers)))


def logits_of(probability_XY: Float) -> Float:
    """Logarithms, -inf where the probability is exactly 0."""
    out_XY = np.full(probability_XY.shape, -np.inf)
    np.log(probability_XY, out=out_XY, where=probability_XY > 0)
    return out_XY


def softmax(logit_XY: Float) -> Float:
    """Probabilities of logits; exactly 0 where a logit is -inf."""
    mass_XY = np.exp(logit_XY - logit_XY.max(axis=-1, keepdims=True))
    out: Float = mass_XY / mass_XY.sum(axis=-1, keepdims=True)
    return out


def nucleus(probability_XY: Float, top_p: float) -> Float:
    """The law of top-p sampling: the fewest most likely answers whose mass reaches `top_p`; others are exactly 0."""
    order_XY = np.argsort(-probability_XY, axis=1, kind="stable")
    sorted_XY = np.take_along_axis(probability_XY, order_XY, axis=1)
    before_XY = np.cumsum(sorted_XY, axis=1) - sorted_XY
    kept_XY = np.full(probability_XY.shape, top_p >= 1)  # of all the mass nothing is cut, not even what rounding loses
    if top_p < 1:
        np.put_along_axis(kept_XY, order_XY, before_XY < top_p, axis=1)
    mass_XY = np.where(kept_XY, probability_XY, 0.0)
    out: Float = mass_XY / mass_XY.sum(axis=1, keepdims=True)
    return out
