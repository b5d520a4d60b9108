"""What every verb that compares runs is asked: declared once, and given to each of them as one value."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from offleash.cli.reading import Filter, Map, SplitBy, Threshold, Verifier, reading

if TYPE_CHECKING:
    from offleash.study.compare import Question
    from offleash.study.load import Reading

Runs = Annotated[
    list[str],
    typer.Argument(metavar="BEFORE AFTER...", help="Run folders, log files, folders, quoted globs, counts; NAME=PATH."),
]


@dataclass(frozen=True)
class Asked:
    """How runs are to be read and compared, as it was typed."""

    at: Annotated[
        int | None, typer.Option(metavar="K", help="Compare at this budget instead of the largest common.")
    ] = None
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
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="What may differ between the runs, else refused: decoding. Repeatable."),
    ] = None
    before: Annotated[str | None, typer.Option(metavar="NAME", help="The run to compare with, by name.")] = None
    after: Annotated[str | None, typer.Option(metavar="NAME", help="The run that is compared, by name.")] = None
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")] = 10_000
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0
    columns: Map = None
    split_by: SplitBy = None
    log_format: Annotated[
        str | None, typer.Option("--log-format", metavar="NAME", help="Force a format of logs (see: offleash formats).")
    ] = None
    filter_name: Filter = None
    threshold: Threshold = 1.0
    verifier: Verifier = None

    def question(self) -> "Question":
        from offleash.study.verbs import question

        how = (self.rule or "seen", self.per, self.at, self.tau, self.unread, self.guess, self.replicates, self.seed)
        return question(*how, self.allow or ())

    def reading(self) -> "Reading":
        names = (self.columns, self.split_by, self.log_format, self.filter_name, self.threshold, self.verifier)
        return reading(*names)


def asking(**instead: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of Asked, which it takes as `asked`; `instead` declares some of them otherwise."""

    def given(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(Asked, include_extras=True) | instead
        shared = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
            for one in fields(Asked)
        ]
        own = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in signature(verb, eval_str=True).parameters.values()]

        @wraps(verb)
        def command(**typed: object) -> None:
            asked = Asked(**{one.name: typed.pop(one.name) for one in shared})  # type: ignore[arg-type]
            verb(asked=asked, **typed)

        kept = [one for one in own if one.name not in ("asked", "as_json")]
        last = [one for one in own if one.name == "as_json"]
        command.__signature__ = Signature([*kept, *shared, *last])  # type: ignore[attr-defined]
        return command

    return given
