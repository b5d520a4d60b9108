"""Options that every verb judging samples shares."""

from typing import Annotated

import typer

Jobs = Annotated[int, typer.Option(metavar="N", help="Worker processes; 0 takes one a core.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run model-written code where no sandbox can be built. Read the warning.")
]
Referee = Annotated[
    str | None, typer.Option("--referee", metavar="URL", help="OpenAI-compatible server that the referee asks.")
]
RefereeModel = Annotated[str | None, typer.Option(metavar="NAME", help="The model that the referee asks.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep verdicts of other runs.")]
