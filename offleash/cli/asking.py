"""Options that every verb which compares runs shares."""

from typing import Annotated

import typer

Runs = Annotated[
    list[str],
    typer.Argument(metavar="BEFORE AFTER...", help="Run folders, log files, folders, quoted globs, counts; NAME=PATH."),
]
At = Annotated[int | None, typer.Option(metavar="K", help="Compare at this budget instead of the largest common.")]
RuleName = Annotated[
    str | None,
    typer.Option(help="When a problem is reached: seen (default), above, confident, posterior; certified."),
]
PerTarget = Annotated[str, typer.Option(help="What is counted: problem, answer, solution.")]
Tau = Annotated[float, typer.Option(help="The rate of the rule `above`.")]
Unread = Annotated[str, typer.Option(help="Unread samples: keep (not correct) or drop (a sensitivity).")]
Guess = Annotated[float | None, typer.Option(metavar="RATE", help="Guess floor of every problem, e.g. 0.001.")]
Before = Annotated[str | None, typer.Option(metavar="NAME", help="The run to compare with, by name.")]
After = Annotated[str | None, typer.Option(metavar="NAME", help="The run that is compared, by name.")]
Replicates = Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of the intervals.")]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="NAME", help="Force a format of logs (see: offleash formats).")
]
