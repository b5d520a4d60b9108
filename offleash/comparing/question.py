"""The options of a comparison: rule, target, budget k, guess rate, and what may differ between the runs."""

from dataclasses import dataclass

from offleash.data.tally import Per
from offleash.stats.intervals import REPLICATES
from offleash.stats.support_classes import ZETA, Rule


@dataclass(frozen=True)
class Question:
    """What is to be compared, and how."""

    rule: Rule = Rule.SEEN
    per: Per = Per.PROBLEM
    at: int | None = None
    tau: float = 0.0
    zeta: float = ZETA
    drop_unread: bool = False
    guess: float | None = None
    allow: frozenset[str] = frozenset()  # what may differ between the runs: see comparing/align.py
    replicates: int = REPLICATES
    seed: int = 0
