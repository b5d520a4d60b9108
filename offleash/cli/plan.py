"""offleash plan: the budget that would settle it."""

from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.options import Logs
from offleash.cli.output import AsJson, console, print_json, progress


@taking("split_by")
def plan(
    runs: Annotated[
        list[str], typer.Argument(metavar="PILOT...", help="Pilot runs: folders, logs or counts; NAME=PATH.")
    ],
    logs: Logs,
    settle: Annotated[float, typer.Option(metavar="SHARE", help="Share of the reached problems to settle.")] = 0.9,
    until: Annotated[
        int | None, typer.Option(metavar="M", help="Stop a problem at M successes, not at those needed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """From a pilot: the budget that would settle the open problems, and its cost.

    \b
    Examples:
      offleash plan runs/pilot
      offleash plan base.csv --settle 0.8 --json
    """
    from offleash.analyses.plan import plan_document, plan_table
    from offleash.analyses.planning import plan as plan_run
    from offleash.loading.load import load

    with progress(as_json) as tell:
        plans = [plan_run(run, settle, until) for run in load(*runs, reading=logs.reading(), progress=tell)]
    if as_json:
        documents = [plan_document(one) for one in plans]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for one in plans:
        console().print(plan_table(one))
