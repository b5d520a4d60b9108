"""What is asked of runs that are compared."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from offleash.comparing.question import Question


@dataclass(frozen=True)
class Sized:
    """At which budget, what may differ, and how its intervals are made."""

    at: Annotated[
        int | None, typer.Option(metavar="K", help="Compare at this budget instead of the largest common.")
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="What may differ between the runs, else refused: decoding. Repeatable."),
    ] = None
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")] = 10_000
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0

    def question(self) -> "Question":
        from offleash.comparing.runs import question

        return question(at=self.at, replicates=self.replicates, seed=self.seed, allow=self.allow or ())


@dataclass(frozen=True)
class Asked(Sized):
    """Also what is counted and when a problem is reached, and which runs are compared."""

    rule: Annotated[
        str | None,
        typer.Option(help="When a problem is reached: seen (default), above, confident, posterior; certified."),
    ] = None
    per: Annotated[str, typer.Option(help="What is counted: problem, answer, solution.")] = "problem"
    tau: Annotated[float, typer.Option(help="The rate of the rule `above`.")] = 0.0
    unread: Annotated[str, typer.Option(help="Unread samples: keep (not correct) or drop (a sensitivity).")] = "keep"
    guess: Annotated[float | None, typer.Option(metavar="RATE", help="Guess floor of every problem, e.g. 0.001.")] = (
        None
    )
    before: Annotated[str | None, typer.Option(metavar="NAME", help="The run to compare with, by name.")] = None
    after: Annotated[str | None, typer.Option(metavar="NAME", help="The run that is compared, by name.")] = None

    @property
    def names(self) -> tuple[str | None, str | None]:
        return self.before, self.after

    def question(self) -> "Question":
        from offleash.comparing.runs import question

        how = (self.rule or "seen", self.per, self.at, self.tau, self.unread, self.guess, self.replicates, self.seed)
        return question(*how, self.allow or ())
