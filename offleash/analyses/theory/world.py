"""A world: X problems with Y answers each, which of them are correct, and how the base policy answers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError

Float = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integer = NDArray[np.int64]

DIGITS = 9  # rows of a base distribution sum to 1 up to this many


@dataclass(frozen=True)
class World:
    """The base q(y|x) and the correct answers; a zero of `base_XY` is an answer that the base can never give."""

    base_XY: Float
    correct_XY: Flags

    def __post_init__(self) -> None:
        if self.base_XY.ndim != 2 or self.base_XY.shape != self.correct_XY.shape:
            raise OffleashError(
                f"A world has one probability and one flag for each problem and answer; found {self.base_XY.shape} "
                f"probabilities and {self.correct_XY.shape} flags."
            )
        if not self.base_XY.size:
            raise OffleashError(f"A world has problems and answers; found {self.base_XY.shape}.")
        good_X = (np.abs(self.base_XY.sum(axis=1) - 1) <= 10.0**-DIGITS) & (self.base_XY >= 0).all(axis=1)
        wrong_X = ~good_X  # so that NaN is wrong
        if wrong_X.any():
            x = int(wrong_X.argmax())
            raise OffleashError(
                f"The base's answers to problem {x} have probabilities {self.base_XY[x].tolist()}; they must not be "
                "negative and must sum to 1."
            )

    @property
    def problems(self) -> int:
        return int(self.base_XY.shape[0])

    @property
    def answers(self) -> int:
        return int(self.base_XY.shape[1])

    def without_problem(self, x: int) -> "World":
        return World(np.delete(self.base_XY, x, axis=0), np.delete(self.correct_XY, x, axis=0))

    def without_answer(self, y: int) -> "World":
        """The world in which nobody gives one of the answers; its mass goes to the others in proportion."""
        return World(_normalised(np.delete(self.base_XY, y, axis=1)), np.delete(self.correct_XY, y, axis=1))

    def rounded(self, digits: int) -> "World":
        """The world with few digits; the most likely answer of a problem takes up what rounding leaves."""
        base_XY = np.round(self.base_XY, digits)
        rows, top_X = np.arange(self.problems), self.base_XY.argmax(axis=1)
        base_XY[rows, top_X] = 0.0
        base_XY[rows, top_X] = np.round(1 - base_XY.sum(axis=1), digits)
        return World(base_XY, self.correct_XY)

    def __str__(self) -> str:
        return "; ".join(
            f"problem {x + 1}: "
            + ", ".join(f"{p:.4g}{' correct' if right else ''}" for p, right in zip(*row, strict=True))
            for x, row in enumerate(zip(self.base_XY, self.correct_XY, strict=True))
        )


def world_of(*problems: dict[str, float]) -> World:
    """A world written by hand: for each problem the probability of every answer; correct ones have a name in capitals.

    `world_of({"RIGHT": 0.1, "wrong": 0.9})`; all problems have the same number of answers.
    """
    base_XY = np.array([list(problem.values()) for problem in problems], dtype=np.float64)
    return World(base_XY, np.array([[name.isupper() for name in problem] for problem in problems]))


def random_world(
    rng: np.random.Generator,
    problems: int = 3,
    answers: int = 6,
    concentration: float | None = None,
    zeros: float = 0.0,
    correct: float = 0.4,
) -> World:
    """A world with Dirichlet bases; `zeros` is the chance that an answer has probability exactly 0.

    Without a `concentration` every problem has its own, from nearly certain (0.05) to nearly uniform (5).
    """
    shape_X = np.exp(rng.uniform(np.log(0.05), np.log(5.0), problems)) if concentration is None else concentration
    mass_XY = rng.standard_gamma(np.broadcast_to(shape_X, problems)[:, None], (problems, answers)) + 1e-300
    kept_XY = rng.random((problems, answers)) >= zeros
    kept_XY[np.arange(problems), rng.integers(answers, size=problems)] = True
    correct_XY = rng.random((problems, answers)) < correct
    correct_XY[np.arange(problems), rng.integers(answers, size=problems)] = True  # a problem without any asks nothing
    return World(_normalised(np.where(kept_XY, mass_XY, 0.0)), correct_XY)


def method_world(
    rng: np.random.Generator, problems: int, answers: int, correct: int, spread: float, popularity: float
) -> World:
    """A world in which an answer is a way of solving that many problems have in common, as models meet benchmarks.

    Way y is popular by (y+1)^-popularity: the base tries it that often, times a log-normal factor of its own for every
    problem, and it is among the 1 to `correct` ways that solve a problem that often. Rare ways solve some problems.
    """
    weight_Y = np.arange(1.0, answers + 1) ** -popularity
    rank_XY = (rng.standard_exponential((problems, answers)) / weight_Y).argsort(axis=1).argsort(axis=1)
    correct_XY = rank_XY < rng.integers(1, correct + 1, problems)[:, None]
    mass_XY = weight_Y * np.exp(spread * rng.standard_normal((problems, answers)))
    return World(_normalised(mass_XY), correct_XY)


def _normalised(mass_XY: Float) -> Float:
    total_X = mass_XY.sum(axis=1, keepdims=True)
    # a problem whose whole mass went away answers with what is left, evenly
    return np.where(total_X > 0, mass_XY / np.where(total_X > 0, total_X, 1.0), 1.0 / mass_XY.shape[1])
