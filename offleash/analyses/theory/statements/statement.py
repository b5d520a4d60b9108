"""A statement: what the paper says, what it assumes, and a check that ends in a ruling with its evidence.

Also the search for counterexamples that the checks use.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from offleash.analyses.theory.world import TheoryWorld


class Ruling(StrEnum):
    """The outcome of a check; FAILS comes with a counterexample, ONLY_IF with a condition."""

    HOLDS = "holds"
    ONLY_IF = "holds only if"
    FAILS = "fails"


@dataclass(frozen=True)
class Counterexample:
    """The smallest world found in which a statement, or a reading of it, is not true."""

    world: TheoryWorld
    words: str  # what happens in it
    seed: tuple[int, int]  # of numpy.random.default_rng: the random world it was shrunk from
    value: float  # by how much, in the measure that `words` name


@dataclass(frozen=True)
class CheckEvidence:
    """What the check saw: in words, and as numbers that a program can read."""

    words: str
    worlds: int  # random worlds tried
    worst: float | None  # worst violation of the part that holds; 0 or rounding where there is none
    numbers: Mapping[str, float] = field(default_factory=dict)
    counterexamples: tuple[Counterexample, ...] = ()


@dataclass(frozen=True)
class StatementResult:
    """The outcome of a statement's check."""

    ruling: Ruling
    condition: str  # completes "holds only if"; empty otherwise
    evidence: CheckEvidence


@dataclass(frozen=True)
class Statement:
    """One claim of appendix C, or one that follows from it."""

    name: str
    says: str
    assumes: tuple[str, ...]
    check: Callable[[int], StatementResult]  # a seed: the same seed gives the same finding


# The search for counterexamples over random worlds, shrunk to the fewest problems and answers.


Violation = Callable[[TheoryWorld], float]  # above 0: the world refutes the statement, and by how much
MakeWorld = Callable[[np.random.Generator], TheoryWorld]

COUNTEREXAMPLES_SHRUNK = 4  # counterexamples that are shrunk; the smallest is kept


@dataclass(frozen=True)
class CounterexampleSearch:
    """What a search came to: worlds tried, how many of them refute, and the smallest after shrinking."""

    tried: int
    refuting: int
    smallest: TheoryWorld | None
    seed: tuple[int, int] | None
    value: float


def search(
    violation: Violation, make: MakeWorld, seed: int, tries: int, max_starts: int = COUNTEREXAMPLES_SHRUNK
) -> CounterexampleSearch:
    """Search random worlds for counterexamples and shrink the first few.

    Args:
        violation: above 0 where a world refutes the statement, and by how much.
        make: a random world from a generator.
        seed: world i is made by `default_rng([seed, i])`, so that one world can be made again without the others.
        tries: worlds.
        starts: how many of those that refute are shrunk; the smallest result is kept. 0: they are only counted.
    """
    refuting: list[tuple[int, TheoryWorld]] = []
    for i in range(tries):
        world = make(np.random.default_rng([seed, i]))
        if violation(world) > 0:
            refuting.append((i, world))
    candidates = [(i, shrink(world, violation)) for i, world in refuting[:max_starts]]
    if not candidates:
        return CounterexampleSearch(tries, len(refuting), None, None, 0.0)
    i, smallest = min(candidates, key=lambda pair: _size(pair[1]))
    return CounterexampleSearch(tries, len(refuting), smallest, (seed, i), violation(smallest))


def shrink(world: TheoryWorld, violation: Violation) -> TheoryWorld:
    """The world with problems and answers removed, then correct answers, then digits, while it still refutes.

    Greedy, as property-based tests shrink: the result is minimal in that no single removal is possible any more.
    """
    smaller_world = next((candidate for candidate in _smaller_worlds(world) if violation(candidate) > 0), None)
    if smaller_world is not None:
        return shrink(smaller_world, violation)
    for digits in (1, 2, 3):
        plain = world.rounded(digits)
        no_new_zero = ((plain.base_XY > 0) >= (world.base_XY > 0)).all()
        if no_new_zero and violation(plain) > 0:
            return plain
    return world


def _smaller_worlds(world: TheoryWorld) -> Iterator[TheoryWorld]:
    if world.problems > 1:
        yield from (world.without_problem(x) for x in range(world.problems))
    if world.answers > 2:
        yield from (world.without_answer(y) for y in range(world.answers))
    multiple_correct_X = world.correct_XY.sum(axis=1) > 1
    for x, y in np.argwhere(world.correct_XY & multiple_correct_X[:, None]):
        reduced_XY = world.correct_XY.copy()
        reduced_XY[x, y] = False
        yield TheoryWorld(world.base_XY, reduced_XY)


def _size(world: TheoryWorld) -> tuple[int, int]:
    return world.problems * world.answers, world.problems
