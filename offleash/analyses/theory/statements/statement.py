"""A statement: what the paper says, what it assumes, and a check that ends in a ruling with its evidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offleash.analyses.theory.world import World


class Ruling(StrEnum):
    HOLDS = "holds"
    ONLY_IF = "holds only if"
    FAILS = "fails"


@dataclass(frozen=True)
class Counterexample:
    """The smallest world found in which a statement, or a reading of it, is not true."""

    world: World
    words: str  # what happens in it
    seed: tuple[int, int]  # of numpy.random.default_rng: the random world it was shrunk from
    value: float  # by how much, in the measure that `words` name


@dataclass(frozen=True)
class Evidence:
    """What the check saw: in words, and as numbers that a program can read."""

    words: str
    worlds: int  # random worlds tried
    worst: float | None  # worst violation of the part that holds; 0 or rounding where there is none
    numbers: Mapping[str, float] = field(default_factory=dict)
    counterexamples: tuple[Counterexample, ...] = ()


@dataclass(frozen=True)
class Finding:
    """How a statement stands after its check."""

    ruling: Ruling
    condition: str  # "holds only if" goes on with this; empty otherwise
    evidence: Evidence


@dataclass(frozen=True)
class Statement:
    """One claim of appendix C, or one that follows from it."""

    name: str
    says: str
    assumes: tuple[str, ...]
    check: Callable[[int], Finding]  # a seed: the same seed gives the same finding
