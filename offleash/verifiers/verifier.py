"""The interface of a verifier: a case in, a judgement out; in which process and under which limits it runs.

A verifier is a module with two functions, `decide` and `readable` (the protocol `VerifierModule`), and an entry
`Verifier` in registry.py that names the module, the extraction steps and the limits. See docs/extending.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Protocol

from offleash.data.verdict import Verdict


@dataclass(frozen=True)
class Case:
    """One distinct answer to one problem: all that a verdict may depend on.

    Verdicts are cached by these fields and the verifier's version, so `decide` must not look at anything else: no
    clock, no file, no other sample.
    """

    answer: str  # raw, as it was extracted; never the whole sample, unless a step takes all of it
    gold: str | None = None
    question: str = ""
    details: Mapping[str, object] = field(default_factory=dict)  # what the problem gives its verifier beyond the gold


@dataclass(frozen=True)
class Judgement:
    """A verdict, and what it rests on.

    >>> Judgement(Verdict.CORRECT, solution="1/2").verdict.value
    'correct'
    """

    verdict: Verdict
    reason: str = ""  # why it is wrong or failed, in words, for people
    score: float | None = None  # graded, where the verifier grades
    solution: str | None = None  # canonical form of a correct answer: equal texts count as one solution
    seconds: float = 0.0  # of processor time that the decision took, where it was made in a process of its own
    retry: bool = False  # failed because the machine was busy: worth another try, alone


class VerifierModule(Protocol):
    """What the module of a verifier defines. Optional is `warm()`: called once before the first case in a worker.

    >>> from offleash.verifiers import string
    >>> string.decide(Case(answer="Paris.", gold="paris")).verdict.value
    'correct'
    >>> string.decide(Case(answer="Paris, France", gold="paris")).verdict.value
    'wrong'
    >>> string.readable(Case(answer="", gold=" "))
    "gold answer ' ' is empty"
    """

    def decide(self, case: Case) -> Judgement:
        """Judge an answer.

        Args:
            case: the answer, and what the problem says about a correct one.

        Returns:
            `correct` or `wrong`; `unread` where the text is no answer of the kind that is expected, because "could not
            read it" is not "wrong"; `failed` where the verifier cannot decide, for example without a gold answer. An
            exception counts as `failed` with its message, and so does a broken limit of time or memory.
        """

    def readable(self, case: Case) -> str:
        """Check the problem before any sample is judged.

        Args:
            case: the problem; its answer is empty and must be ignored.

        Returns:
            "" where answers can be judged against this gold answer and details; otherwise why not, as the end of a
            sentence that names the problem. Runs are refused if one of their problems is unreadable.
        """


class Isolation(StrEnum):
    """Where a verifier may run: the least that protects the caller from what the verifier does with an answer."""

    IN_PROCESS = "here"  # plain comparisons: cannot hang, evaluate nothing
    WORKER = "worker"  # a warm process that is killed on time or memory
    SANDBOX = "sandbox"  # a warm process without network, files or environment: it evaluates model-written text
    FRESH_SANDBOX = "alone"  # a fresh sandbox for every case: it runs model-written programs
    REMOTE = "asks"  # no process of ours: waits for another model's server


@dataclass(frozen=True)
class OwnFunction:
    """A user's function that judges (verifiers/own/): where it is, how it is called, and what it may depend on."""

    reference: str  # FILE.py:NAME or MODULE:NAME
    interface: str  # of INTERFACES in own/decide.py: who calls functions with such parameters
    required: tuple[str, ...]  # parameters without a default
    optional: tuple[str, ...] = ()  # parameters with one
    accepts_any_keyword: bool = False  # it has **kwargs
    threshold: float = 1.0  # a number from which on it means correct
    messages: bool = False  # completions are lists of messages, not texts
    tokenizer: str = ""  # of the model that drew the run: for functions that take token ids
    folder: str = ""  # of the package of a module, where this process finds it


@dataclass(frozen=True)
class Verifier:
    """A verifier by its parts; the functions are named, not imported, so that a worker loads only its own.

    >>> parity = Verifier(name="parity", revision="1", steps=("tag", "whole"), module="offleash.verifiers.string")
    >>> parity.identity
    'parity@1'
    """

    name: str  # key in VERIFIERS and CLI word; stored with problems and verdicts
    revision: str  # raised when its verdicts change: old verdicts stay beside the new ones
    steps: tuple[str, ...]  # of extraction, in order: see extraction.extract.STEPS
    module: str  # dotted path of a VerifierModule
    isolation: Isolation = Isolation.IN_PROCESS
    seconds: float = 4.0  # of processor time per case
    memory: int = 2 << 30  # bytes of address space of its process
    library: str | None = None  # the distribution whose version is part of ours
    extra: str | None = None  # the extra of offleash that installs it
    decide_inline: Callable[[Case], Judgement | None] | None = (
        None  # exact decisions that need no worker; None: undecided
    )
    own: OwnFunction | None = None  # a user's function: it gets whole texts, and answers where it takes them

    @property
    def version(self) -> str:
        """Its revision, and the version of the library it rests on: another version may judge otherwise."""
        library_version = _version(self.library) if self.library else ""
        return f"{self.revision}+{library_version}" if library_version else self.revision

    @property
    def identity(self) -> str:
        """Name and version: what verdicts are stored and cached under."""
        return f"{self.name}@{self.version}"


@cache
def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return ""
