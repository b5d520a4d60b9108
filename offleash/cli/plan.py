"""offleash plan: the budget that would settle it."""

from typing import Annotated

import typer

from offleash.cli.reading import AsJson, Filter, FormatName, Map, Threshold, Verifier, progress, reading


def plan(
    runs: Annotated[
        list[str], typer.Argument(metavar="PILOT...", help="Pilot runs: folders, logs or counts; NAME=PATH.")
    ],
    settle: Annotated[float, typer.Option(metavar="SHARE", help="Share of the reached problems to settle.")] = 0.9,
    until: Annotated[
        int | None, typer.Option(metavar="M", help="Stop a problem at M successes, not at those needed.")
    ] = None,
    columns: Map = None,
    format_name: FormatName = None,
    filter_name: Filter = None,
    threshold: Threshold = 1.0,
    verifier: Verifier = None,
    as_json: AsJson = False,
) -> None:
    """From a pilot: the budget that would settle the open problems, and its cost.

    \b
    Examples:
      offleash plan runs/pilot
      offleash plan base.csv --settle 0.8 --json
    """
    from offleash.report.plan import plan_document, plan_table
    from offleash.study.load import load
    from offleash.study.plan import plan as plan_run

    how = reading(columns, None, format_name, filter_name, threshold, verifier)
    with progress(as_json) as tell:
        plans = [plan_run(run, settle, until) for run in load(*runs, reading=how, progress=tell)]
    if as_json:
        import json

        documents = [plan_document(one) for one in plans]
        print(json.dumps(documents[0] if len(documents) == 1 else documents, allow_nan=False))
        return
    from rich.console import Console

    for one in plans:
        Console().print(plan_table(one))
