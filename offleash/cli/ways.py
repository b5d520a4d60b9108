"""offleash ways: which ways of solving RL kept, lost and found."""

from typing import Annotated

import typer

from offleash.cli.asking import Sized
from offleash.cli.commands import taking
from offleash.cli.judging import Jobs
from offleash.cli.options import Logs
from offleash.cli.output import AsJson, console, print_json, progress
from offleash.errors import OffleashError

Seed = Annotated[int, typer.Option(help="Seed of the intervals, and of the planted pairs.")]


@taking("split_by", seed=Seed)
def ways(
    sized: Sized,
    logs: Logs,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="BEFORE AFTER", help="Two run folders, or logs that keep texts; NAME=PATH."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How ways are told apart: countdown, steps, program, or FILE.py:FUNCTION."),
    ] = None,
    show: Annotated[int, typer.Option(metavar="N", help="Lost and new ways to show, with a sample each.")] = 5,
    check: Annotated[
        bool, typer.Option("--check", help="Print the error rates of the fingerprints on planted pairs, without runs.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Tell ways anew that are stored in the run folders.")] = False,
    jobs: Jobs = 0,
    as_json: AsJson = False,
) -> None:
    """Which ways of solving RL kept, lost and found: support, novelty and richness of methods, not of answers.

    A fingerprint tells how a correct sample got to its answer. Ways are stored in the run folder and told once.
    A function of your own takes (problem: dict with id, question, gold, details; text: str) and gives a str or None.

    \b
    Examples:
      offleash ways runs/base runs/rl --by countdown
      offleash ways runs/base runs/rl --by steps --at 256
      offleash ways base.jsonl rl.jsonl --by program --json
      offleash ways runs/base runs/rl --by methods.py:kind
      offleash ways --check
    """
    if show < 0:
        raise OffleashError(f"--show takes a number of ways, from 0; found {show}.")
    if check:
        if runs:
            raise OffleashError("--check tries the fingerprints on planted pairs and takes no runs; leave them out.")
        _check(by, sized.seed, jobs, as_json)
        return
    from offleash.analyses.strategies.strategies import ways as compared

    if by is None:
        raise OffleashError("Say how ways are told apart: --by countdown, steps, program, or FILE.py:FUNCTION.")
    with progress(as_json) as tell:
        found = compared(runs or [], by, sized.question(), logs.reading(), jobs, show, tell, again)
    if as_json:
        from offleash.analyses.strategies.report import ways_json

        print_json(ways_json(found))
    else:
        from offleash.analyses.strategies.terminal import show_ways

        show_ways(console(), found)


def _check(by: str | None, seed: int, jobs: int, as_json: bool) -> None:
    from tests.analyses.strategies.error_rates import check_ways

    with progress(as_json) as tell:
        found = check_ways([by] if by else [], seed, jobs, tell)
    if as_json:
        from offleash.analyses.strategies.report import check_json

        print_json(check_json(found))
    else:
        from tests.analyses.strategies.check import show_check

        show_check(console(), found)
