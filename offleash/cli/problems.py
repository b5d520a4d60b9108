"""offleash problems: what is asked, one JSON object a line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.reading import AsJson, named_columns, progress

Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=COLUMN", help="Read NAME (question, gold, problem, ...) from COLUMN. Repeatable."
    ),
]

ProblemsName = Annotated[
    str, typer.Argument(metavar="PROBLEMS", help="A benchmark, reasoning_gym:TASK or a file (offleash problems).")
]
Size = Annotated[int | None, typer.Option(metavar="N", help="A random sample of this many problems.")]
ProblemSeed = Annotated[
    int, typer.Option("--problem-seed", metavar="S", help="Seed of that sample, or of generated problems.")
]
Source = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="A local copy of the benchmark, instead of the hub.")
]


def problems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A benchmark, reasoning_gym:TASK or a file; none lists the benchmarks."),
    ] = None,
    size: Size = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the sample, or of generated problems.")] = 0,
    source: Source = None,
    columns: Map = None,
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
    import json

    from offleash.problems.problem import line
    from offleash.study.problems import load_problems

    with progress(as_json) as tell:
        tell(f"reading {name}")
        read = load_problems(
            name, size=size, seed=seed, source=source, columns=named_columns(columns or [], "gold=answer")
        )
    for row in read.frame.iter_rows(named=True):
        print(json.dumps(line(row), ensure_ascii=False, allow_nan=False))
    for note in read.notes:
        print(f"{note.text}{f' ({note.rows:,})' if note.rows else ''}", file=sys.stderr)
    print(f"{read.frame.height:,} problems", file=sys.stderr)


def _listed(as_json: bool) -> None:
    from offleash.problems.listing import listing

    rows = listing()
    if as_json:
        import json

        print(json.dumps(rows, ensure_ascii=False))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "paper", "verifier", "guess", "hub id", "checked", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(table.columns):
        column.no_wrap, column.overflow = number != 4, "fold"
    for row in rows:
        cells = (row["name"], row["paper"], row["verifier"], row["guess"], row["hub"] or row["source"])
        table.add_row(*("" if cell is None else str(cell) for cell in cells), "yes" if row["checked"] else "no")
    Console().print(table)
    print("paper: problems in arXiv:2507.14843. checked: whether id and columns were seen on the hub itself.")
    print("Files (JSONL, JSON, CSV, Parquet) are given by their path; reasoning_gym:TASK:hard is the hard setting.")
