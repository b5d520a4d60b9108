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
    """What becomes of samples without a readable answer."""

    KEEP = "keep"
    DROP = "drop"


class RunsAre(StrEnum):
    """What several runs after the first are to each other."""

    CHECKPOINTS = "checkpoints"  # of one training run: they have a union and a trend
    SEEDS = "seeds"  # training runs of one method that differ in their seed
    METHODS = "methods"  # training runs that differ otherwise


@dataclass(frozen=True)
class Question:
    """What is to be compared, and how."""

    rule: Rule = Rule.SEEN  # when a target counts as reached
    per: Per = Per.PROBLEM  # what the targets are
    at: int | None = None  # k; None: as many samples as every problem has in every run
    tau: float = 0.0  # success rate of the rule `above`
    zeta: float = ZETA  # error level of the rules `confident` and `posterior`
    drop_unread: bool = False  # a sensitivity check: unread samples are left out, not counted as wrong
    guess: float | None = None  # chance that a blind guess is accepted, for every problem; None: as the problems say
    allow: frozenset[str] = frozenset()  # what may differ between the runs: see comparing/align.py
    replicates: int = REPLICATES  # of the bootstrap over problems
    seed: int = 0  # of the bootstrap
    runs_are: RunsAre | None = None  # what several runs after the first are; None: guessed from their names
    split_by: str | None = None  # the column whose values are the names of the runs, where one file holds them all


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
    runs_are: str | None = None,
) -> Question:
    """A question from the options of a user.

    Ranges were checked where the options are declared; checked here is what depends on two of them.
    """
    chosen = choice("rule", rule, Rule)
    if tau and chosen is not Rule.ABOVE:
        raise OffleashError(f"--tau applies to the rule 'above' only, but the rule is {rule!r}; add --rule above.")
    return Question(
        rule=chosen,
        per=choice("target", per, Per),
        at=at,
        tau=tau,
        drop_unread=choice("--unread", unread, Unread) is Unread.DROP,
        guess=guess,
        allow=allowed(allow),
        replicates=replicates,
        seed=seed,
        runs_are=None if runs_are is None else choice("--runs-are value", runs_are, RunsAre),
    )


def choice(kind: str, word: str, choices: type[Choice]) -> Choice:
    """The member of an enum that a word names; the error lists the others."""
    try:
        return choices(word)
    except ValueError:
        raise unknown(kind, word, [choice.value for choice in choices]) from None
