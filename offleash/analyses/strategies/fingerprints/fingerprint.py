"""What a fingerprint is: a correct sample in, the strategy it uses out, and in which process it may run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from offleash.verifiers.verifier import Isolation

LONGEST = 300  # characters of a strategy: what a table cell can show; the rest is replaced by a hash


@dataclass(frozen=True)
class SolvedProblem:
    """The problem that a sample solves: what a fingerprint may look at besides the sample's text."""

    problem: str = ""  # its id
    question: str = ""
    gold: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        """The problem as JSON sends it to a worker, and as a user's function receives it."""
        return {"id": self.problem, "question": self.question, "gold": self.gold, "details": dict(self.details)}

    @cached_property
    def key(self) -> str:
        """A hash of every field: one text may be read differently for another question or reference."""
        document = json.dumps(self.plain(), sort_keys=True, default=str)
        return blake2b(document.encode("utf-8", "replace"), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Fingerprint:
    """A fingerprint by its parts; its function is named, not imported, so that a worker loads only its own."""

    name: str  # key in FINGERPRINTS, file name and the value of --by
    revision: str  # raised when the same text gives another strategy: stored strategies are then read again
    module: str  # with `strategy(problem: SolvedProblem, text) -> str | None`; None: the text cannot be read
    about: str
    isolation: Isolation = Isolation.WORKER
    seconds: float = 4.0  # of wall clock per text
    function: str = ""  # a user's function: FILE.py:NAME or package.module:NAME

    @property
    def identity(self) -> str:
        """Name and revision: the name of the folder in which strategies are stored."""
        return f"{self.name}@{self.revision}"


def short(strategy: str) -> str:
    """A strategy that fits into a table; a longer one is cut and ends in a hash of all of it.

    The hash keeps two strategies apart that agree in their first characters.

    >>> short("3*5")
    '3*5'
    >>> len(short("1+" * 200)), short("1+" * 200) == short("1+" * 201)
    (300, False)
    """
    if len(strategy) <= LONGEST:
        return strategy
    return f"{strategy[: LONGEST - 17]}…{blake2b(strategy.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"
