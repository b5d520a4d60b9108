"""The options of a comparison: rule, target, budget k, guess rate, and what may differ between the runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from offleash.comparing.align import allowed
from offleash.data.tally import Per
from offleash.errors import OffleashError, unknown
from offleash.stats.intervals import REPLICATES
from offleash.stats.support_classes import ZETA, Rule

Choice = TypeVar("Choice", bound=StrEnum)


class Unread(StrEnum):
    KEEP = "keep"
    DROP = "drop"


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


def question(
    rule: str = "seen",
    per: str = "problem",
    at: int | None = None,
    tau: float = 0.0,
    unread: str = "keep",
    guess: float | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    allow: Sequence[str] = (),
) -> Question:
    """What to compare, from the words of a user, whose ranges were checked where they are declared."""
    chosen = choice("rule", rule, Rule)
    if tau and chosen is not Rule.ABOVE:
        raise OffleashError(f"--tau is the rate of the rule 'above', and the rule is {rule!r}; add --rule above.")
    return Question(
        rule=chosen,
        per=choice("target", per, Per),
        at=at,
        tau=tau,
        drop_unread=choice("way with unread samples", unread, Unread) is Unread.DROP,
        guess=guess,
        allow=allowed(allow),
        replicates=replicates,
        seed=seed,
    )


def choice(kind: str, word: str, choices: type[Choice]) -> Choice:
    """The choice that a word names."""
    try:
        return choices(word)
    except ValueError:
        raise unknown(kind, word, [choice.value for choice in choices]) from None
