"""What a fingerprint is: a correct sample in, the strategy it uses out, and where it may run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from offleash.verifiers.verifier import Isolation

LONGEST = 300  # characters of a way; a longer one is cut and told apart by its hash


@dataclass(frozen=True)
class SolvedProblem:
    """The problem that a sample solves, as much of it as a fingerprint may want."""

    problem: str = ""  # its id
    question: str = ""
    gold: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        """As JSON has it, and as a user's function gets it."""
        return {"id": self.problem, "question": self.question, "gold": self.gold, "details": dict(self.details)}

    @cached_property
    def key(self) -> str:
        """A hash of all of it."""
        whole = json.dumps(self.plain(), sort_keys=True, default=str)
        return blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Fingerprint:
    """A fingerprint by its parts; its function is named, not imported, so that a worker loads only its own."""

    name: str  # key in FINGERPRINTS, file name and CLI word
    revision: str  # raised when its ways change
    module: str  # with `way(asked, text) -> str | None`; None: it cannot tell
    about: str
    room: Isolation = Isolation.WORKER
    seconds: float = 4.0  # of wall clock a text
    function: str = ""  # of the user's own: FILE.py:NAME or package.module:NAME

    @property
    def identity(self) -> str:
        """Name and revision: what ways are stored under."""
        return f"{self.name}@{self.revision}"


def short(way: str) -> str:
    """A way that fits into a table; one that is cut ends in the hash of its whole."""
    if len(way) <= LONGEST:
        return way
    return f"{way[: LONGEST - 17]}…{blake2b(way.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"
