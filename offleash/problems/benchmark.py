"""What a benchmark is: where its rows are, which column is what, who judges, how it is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Row = Mapping[str, object]


@dataclass(frozen=True)
class Fields:
    """The parts of one row that every benchmark has, as text, before the benchmark's own derivation."""

    question: str
    gold: str | None


@dataclass(frozen=True)
class Derived:
    """What a benchmark makes of a row; None leaves to the benchmark's own verifier, guess floor or prompt."""

    question: str
    gold: str | None
    details: Mapping[str, object] = field(default_factory=dict)
    verifier: str | None = None
    guess: float | None = None
    prompt: str | None = None


Derive = Callable[[Fields, Row], Derived]
Keep = Callable[[Row], bool]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark of the registry."""

    name: str  # key in PROBLEMS and CLI word
    about: str
    hub: str  # id of the data set on the Hugging Face hub
    split: str
    columns: Mapping[str, str]  # ours (problem, question, gold, images) -> the hub's; others are the derivation's own
    verifier: str
    prompt: str  # key in PROMPTS
    derive: Derive
    citation: str
    paper: int | None = None  # problems in the paper (arXiv:2507.14843); None: not in it
    config: str | None = None
    guess: float | None = None  # chance that a blind guess is accepted
    keep: Keep | None = None  # rows of the data set that belong to the benchmark
    share: int | None = None  # a seeded sample of this many, where the paper took one
    checked: bool = False  # whether id, split and columns were seen on the hub itself (`make test-hub`)

    @property
    def source(self) -> str:
        """Id, config and split as one text."""
        return f"{self.hub}{f' ({self.config})' if self.config else ''}, split {self.split}"
