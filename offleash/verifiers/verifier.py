"""The interface of a verifier: a case in, a judgement out; in which process and under which limits it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from offleash.data.verdict import Verdict


@dataclass(frozen=True)
class Case:
    """One distinct answer to one problem: all that a verdict may depend on."""

    answer: str  # raw, as it was extracted
    gold: str | None = None
    question: str = ""
    details: Mapping[str, object] = field(default_factory=dict)  # what the problem gives its verifier beyond the gold


@dataclass(frozen=True)
class Judgement:
    """A verdict, and what it rests on."""

    verdict: Verdict
    reason: str = ""  # why it is wrong or failed, in words, for people
    score: float | None = None  # graded, where the verifier grades
    solution: str | None = None  # canonical form of a correct answer, where the verifier knows one
    seconds: float = 0.0  # that the decision took, where it was made in a process of its own


class Isolation(StrEnum):
    """Where a verifier may run."""

    HERE = "here"  # plain comparisons: cannot hang, evaluate nothing
    WORKER = "worker"  # a warm process that is killed on time or memory
    SANDBOX = "sandbox"  # a warm process without network, files or environment: it evaluates model-written text
    ALONE = "alone"  # a fresh sandbox for every case: it runs model-written programs
    REMOTE = "asks"  # waits for another model's answer


@dataclass(frozen=True)
class Verifier:
    """A verifier by its parts; the functions are named, not imported, so that a worker loads only its own."""

    name: str  # key in VERIFIERS and CLI word; stored with problems and verdicts
    revision: str  # raised when its verdicts change
    steps: tuple[str, ...]  # steps of extraction, in order: see extraction.extract.STEPS
    module: str  # with `decide(case) -> Judgement` and `readable(case) -> str`, "" or why the gold cannot be read
    isolation: Isolation = Isolation.HERE
    seconds: float = 4.0  # of wall clock a case
    memory: int = 2 << 30  # bytes of address space of its process
    library: str | None = None  # the distribution whose version is part of ours
    extra: str | None = None  # the extra that installs it
    quick: Callable[[Case], Judgement | None] | None = None  # exact decisions that need no worker; None: cannot tell

    @property
    def version(self) -> str:
        """Its revision, and the version of the library it rests on."""
        library_version = _version(self.library) if self.library else ""
        return f"{self.revision}+{library_version}" if library_version else self.revision

    @property
    def identity(self) -> str:
        """Name and version: what verdicts are stored under."""
        return f"{self.name}@{self.version}"


@cache
def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return ""
