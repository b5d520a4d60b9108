"""A world: X problems with Y answers each, which of them are correct, and how the base policy answers.

Also draws samples of any policy in it, as a run or as a tally, to try the package's statistics on a known truth.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.data.run import Budget, Run
from offleash.data.tables import VERDICTS, as_problems
from offleash.data.tally import UNKNOWN, Tally
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError

Float = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integer = NDArray[np.int64]

DIGITS = 9  # rows of a base distribution sum to 1 up to this many


@dataclass(frozen=True)
class TheoryWorld:
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
        valid_X = (np.abs(self.base_XY.sum(axis=1) - 1) <= 10.0**-DIGITS) & (self.base_XY >= 0).all(axis=1)
        invalid_X = ~valid_X  # so that NaN is wrong
        if invalid_X.any():
            x = int(invalid_X.argmax())
            raise OffleashError(
                f"The base's answers to problem {x} have probabilities {self.base_XY[x].tolist()}; they must not be "
                "negative and must sum to 1."
            )

    def to_json(self) -> dict[str, object]:
        """The world as a reader can build it again: `TheoryWorld(np.array(base), np.array(correct))`."""
        return {"base": self.base_XY, "correct": self.correct_XY}

    @property
    def problems(self) -> int:
        return int(self.base_XY.shape[0])

    @property
    def answers(self) -> int:
        return int(self.base_XY.shape[1])

    def without_problem(self, x: int) -> "TheoryWorld":
        return TheoryWorld(np.delete(self.base_XY, x, axis=0), np.delete(self.correct_XY, x, axis=0))

    def without_answer(self, y: int) -> "TheoryWorld":
        """The world in which nobody gives one of the answers; its mass goes to the others in proportion."""
        return TheoryWorld(_normalised(np.delete(self.base_XY, y, axis=1)), np.delete(self.correct_XY, y, axis=1))

    def rounded(self, digits: int) -> "TheoryWorld":
        """The world with few digits; the most likely answer of a problem takes up what rounding leaves."""
        base_XY = np.round(self.base_XY, digits)
        rows, top_X = np.arange(self.problems), self.base_XY.argmax(axis=1)
        base_XY[rows, top_X] = 0.0
        base_XY[rows, top_X] = np.round(1 - base_XY.sum(axis=1), digits)
        return TheoryWorld(base_XY, self.correct_XY)

    def __str__(self) -> str:
        return "; ".join(
            f"problem {x + 1}: "
            + ", ".join(f"{p:.4g}{' correct' if right else ''}" for p, right in zip(*row, strict=True))
            for x, row in enumerate(zip(self.base_XY, self.correct_XY, strict=True))
        )


def world_of(*problems: dict[str, float]) -> TheoryWorld:
    """A world written by hand: for each problem the probability of every answer; correct ones have a name in capitals.

    `world_of({"RIGHT": 0.1, "wrong": 0.9})`; all problems have the same number of answers.
    """
    base_XY = np.array([list(problem.values()) for problem in problems], dtype=np.float64)
    return TheoryWorld(base_XY, np.array([[name.isupper() for name in problem] for problem in problems]))


def random_world(
    rng: np.random.Generator,
    problems: int = 3,
    answers: int = 6,
    concentration: float | None = None,
    zeros: float = 0.0,
    correct: float = 0.4,
) -> TheoryWorld:
    """A world with Dirichlet bases; `zeros` is the chance that an answer has probability exactly 0.

    Without a `concentration` every problem has its own, from nearly certain (0.05) to nearly uniform (5).
    """
    shape_X = np.exp(rng.uniform(np.log(0.05), np.log(5.0), problems)) if concentration is None else concentration
    mass_XY = rng.standard_gamma(np.broadcast_to(shape_X, problems)[:, None], (problems, answers)) + 1e-300
    nonzero_XY = rng.random((problems, answers)) >= zeros
    nonzero_XY[np.arange(problems), rng.integers(answers, size=problems)] = True
    correct_XY = rng.random((problems, answers)) < correct
    correct_XY[np.arange(problems), rng.integers(answers, size=problems)] = True  # a problem without any asks nothing
    return TheoryWorld(_normalised(np.where(nonzero_XY, mass_XY, 0.0)), correct_XY)


def method_world(
    rng: np.random.Generator, problems: int, answers: int, correct: int, spread: float, popularity: float
) -> TheoryWorld:
    """A world in which an answer is a strategy that many problems have in common, as models meet benchmarks.

    Strategy y has weight (y+1)^-popularity: the base tries it that often, times a log-normal factor for every single
    problem, and it is among the 1 to `correct` strategies that solve a problem with the same weight. So rare strategies
    solve some problems, and an update that favours popular ones loses those.
    """
    weight_Y = np.arange(1.0, answers + 1) ** -popularity
    rank_XY = (rng.standard_exponential((problems, answers)) / weight_Y).argsort(axis=1).argsort(axis=1)
    correct_XY = rank_XY < rng.integers(1, correct + 1, problems)[:, None]
    mass_XY = weight_Y * np.exp(spread * rng.standard_normal((problems, answers)))
    return TheoryWorld(_normalised(mass_XY), correct_XY)


def _normalised(mass_XY: Float) -> Float:
    total_X = mass_XY.sum(axis=1, keepdims=True)
    # a problem whose whole mass went away answers with what is left, evenly
    return np.where(total_X > 0, mass_XY / np.where(total_X > 0, total_X, 1.0), 1.0 / mass_XY.shape[1])


# Simulated runs: samples of a policy as a run, so that compare, report and every figure apply to it.


VERIFIER = "theory"


def simulated_run(name: str, world: TheoryWorld, probability_XY: Float, samples: int, seed: int = 0) -> Run:
    """A run of `samples` answers per problem from these probabilities; give each run of a comparison its own seed.

    >>> from offleash.analyses.theory.world import TheoryWorld
    >>> base_XY = np.array([[0.5, 0.5], [0.9, 0.1]])  # two problems, two answers
    >>> world = TheoryWorld(base_XY, correct_XY=np.array([[True, False], [False, True]]))
    >>> run = ol.simulated_run("base", world, base_XY, samples=64)
    >>> run.problems.height, run.verdicts.collect().height
    (2, 128)
    """
    answer_XN = draw(probability_XY, samples, np.random.default_rng([seed, 0]))
    hit_XN = np.take_along_axis(world.correct_XY, answer_XN, axis=1)
    names, letters = np.array(problem_names(world.problems)), np.array([f"y{y}" for y in range(world.answers)])
    answer = pl.Series(letters[answer_XN.ravel()])
    correct = pl.Series(hit_XN.ravel())
    rows = pl.DataFrame(
        {
            "problem": np.repeat(names, samples),
            "index": np.tile(np.arange(samples, dtype=np.uint32), world.problems),
            "answer": answer,
            "correct": correct,
        }
    )
    verdicts = rows.select(
        pl.col("problem", "index", "answer"),
        verdict=pl.when("correct").then(pl.lit(Verdict.CORRECT.value)).otherwise(pl.lit(Verdict.WRONG.value)),
        solution=pl.when("correct").then("answer"),
        step=pl.lit(None),
        score=pl.col("correct").cast(pl.Float64),
        reason=pl.lit(None),
    ).select(pl.col(column).cast(kind) for column, kind in VERDICTS.items())
    facts = {"model": f"theory: {name}", "source": "simulated"}
    return Run(name, _problems(world), verdicts.lazy(), verifier=VERIFIER, budget=Budget(samples), facts=facts, draw="")


def _problems(world: TheoryWorld) -> pl.DataFrame:
    gold = [", ".join(f"y{y}" for y in np.flatnonzero(row)) for row in world.correct_XY]
    frame = pl.DataFrame({"problem": problem_names(world.problems), "gold": gold}, schema_overrides={"gold": pl.String})
    return as_problems(frame)


def draw(probability_XY: Float, samples: int, rng: np.random.Generator) -> Integer:
    """Ids of `samples` independent answers to each problem; an answer of probability 0 is never drawn.

    One search in all problems' cumulative probabilities, problem x moved up by x: ten times as fast as a search per
    problem. Probabilities are kept to about 1e-16 times the number of problems.
    """
    problems, answers = probability_XY.shape
    positive_XY = probability_XY > 0
    cumulative_XY = np.cumsum(probability_XY, axis=1)
    row_X1 = np.arange(problems)[:, None]
    position_XN = rng.random((problems, samples)) * cumulative_XY[:, -1:] + row_X1
    index_XN = np.searchsorted((cumulative_XY + row_X1).ravel(), position_XN.ravel(), side="right").reshape(
        position_XN.shape
    )
    # rounding may point before the first answer that is given, or past the last
    first_X, last_X = positive_XY.argmax(axis=1), answers - 1 - positive_XY[:, ::-1].argmax(axis=1)
    answer_XN: Integer = np.clip(index_XN - row_X1 * answers, first_X[:, None], last_X[:, None])
    return answer_XN


# Simulated tallies: samples of any policy, counted, so that every statistic applies to a known truth.


@dataclass(frozen=True)
class Simulation:
    """Drawn answers of R policies, and their tally."""

    tally: Tally
    answer_RXN: Integer


def simulate(
    world: TheoryWorld, policies: Mapping[str, Float], samples: int, seed: int = 0, head: int | None = None
) -> Simulation:
    """Draw `samples` answers per problem from each of the named probabilities (X by Y) and count what is correct.

    `head` is the budget of the tests that need integers; by default all samples.
    """
    first = samples if head is None else head
    if not 1 <= first <= samples:
        raise OffleashError(f"head must be from 1 to the number of samples; found {first} of {samples}.")
    if not policies:
        raise OffleashError("Name at least one policy to draw from.")
    answer_RXN = np.stack(
        [draw(p_XY, samples, np.random.default_rng([seed, r])) for r, p_XY in enumerate(policies.values())]
    )
    hit_RXN = np.stack([np.take_along_axis(world.correct_XY, answer_XN, axis=1) for answer_XN in answer_RXN])
    return Simulation(_tally(tuple(policies), hit_RXN, first), answer_RXN)


def problem_names(problems: int) -> list[str]:
    """Names of problems that sort in their order."""
    return [f"x{x:0{len(str(max(problems - 1, 0)))}d}" for x in range(problems)]


def _tally(runs: tuple[str, ...], hit_RXN: np.ndarray, head: int) -> Tally:
    hit_XRN = hit_RXN.swapaxes(0, 1)
    problems, _, samples = hit_XRN.shape
    correct_XR = hit_XRN.sum(axis=2, dtype=np.int64)
    zero_XR = np.zeros_like(correct_XR)
    return Tally(
        runs=runs,
        problem_P=np.array(problem_names(problems), dtype=np.str_),
        benchmark_P=np.full(problems, "", dtype=np.str_),
        guess_P=np.full(problems, np.nan),
        drawn_PR=np.full_like(correct_XR, samples),
        correct_PR=correct_XR,
        unread_PR=zero_XR,
        failed_PR=zero_XR,
        unverified_PR=zero_XR,
        truncated_PR=zero_XR,
        first_PR=np.where(correct_XR > 0, hit_XRN.argmax(axis=2), UNKNOWN),
        head_PR=hit_XRN[:, :, :head].sum(axis=2, dtype=np.int64),
        head=head,
        stopped_PR=np.zeros_like(correct_XR, dtype=bool),
        budget_R=np.full(len(runs), samples, dtype=np.int64),
        until_R=np.zeros(len(runs), dtype=np.int64),
        ordered_R=np.ones(len(runs), dtype=bool),
    )
