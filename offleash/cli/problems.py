"""offleash problems: what is asked, one JSON object a line."""

from dataclasses import replace
from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.output import AsJson, console, print_json, progress, say, warn
from offleash.cli.posing import Posed, ProblemSeed


@taking("problem_seed")
def problems(
    posed: Posed,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A benchmark, reasoning_gym:TASK or a file; none lists the benchmarks."),
    ] = None,
    seed: ProblemSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Show problems as JSON lines, from a benchmark, Reasoning Gym or a file of yours.

    \b
    Examples:
      offleash problems                                            (lists the benchmarks)
      offleash problems aime24 > aime24.jsonl
      offleash problems aime24 --from aime24_copy.jsonl
      offleash problems reasoning_gym:leg_counting:hard --size 50 --seed 1
      offleash problems countdown:test --size 200
      offleash problems train.parquet --size 100 --map gold=final
    """
    if name is None:
        _listed(as_json)
        return
    from offleash.problems.problem import line

    with progress(as_json) as tell:
        read = replace(posed, problem_seed=seed).read(name, tell)
    for row in read.frame.iter_rows(named=True):
        print_json(line(row))
    for note in read.notes:
        warn(f"{note.text}{f' ({note.rows:,})' if note.rows else ''}")
    warn(f"{read.frame.height:,} problems")


def _listed(as_json: bool) -> None:
    from offleash.problems.listing import listing

    rows = listing()
    if as_json:
        print_json(rows)
        return
    from rich import box
    from rich.table import Table

    table = Table("name", "paper", "verifier", "guess", "hub id", "checked", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(table.columns):
        column.no_wrap, column.overflow = number != 4, "fold"
    for row in rows:
        cells = (row["name"], row["paper"], row["verifier"], row["guess"], row["hub"] or row["source"])
        table.add_row(*("" if cell is None else str(cell) for cell in cells), "yes" if row["checked"] else "no")
    console().print(table)
    say("paper: problems in arXiv:2507.14843. checked: whether id and columns were seen on the hub itself.")
    say("Files (JSONL, JSON, CSV, Parquet) are given by their path; reasoning_gym:TASK:hard is the hard setting.")
