"""Which problems are asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.columns import named_columns

if TYPE_CHECKING:
    import polars as pl

    from offleash.problems.problem import Loaded
    from offleash.progress import Progress

ProblemsName = Annotated[
    str, typer.Argument(metavar="PROBLEMS", help="A benchmark, reasoning_gym:TASK or a file (offleash problems).")
]
ProblemSeed = Annotated[int, typer.Option(metavar="S", help="Seed of the sample, or of generated problems.")]


@dataclass(frozen=True)
class Posed:
    """Which of a set of problems, and where it is read from."""

    size: Annotated[int | None, typer.Option(metavar="N", help="A random sample of this many problems.")] = None
    problem_seed: Annotated[
        int, typer.Option("--problem-seed", metavar="S", help="Seed of that sample, or of generated problems.")
    ] = 0
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A local copy of the benchmark, instead of the hub.")
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="NAME=COLUMN", help="Read NAME (question, gold, problem, ...) from COLUMN. Repeatable."
        ),
    ] = None

    def read(self, name: str, tell: "Progress") -> "Loaded":
        """The problems of a set, with what was noted in reading them."""
        from offleash.loading.problem_set import load_problems

        mapped = named_columns(self.columns, "gold=answer")
        tell(f"reading {name}")
        return load_problems(name, size=self.size, seed=self.problem_seed, source=self.source, columns=mapped)

    def frame(self, name: str, tell: "Progress") -> "pl.DataFrame":
        """The problems themselves."""
        return self.read(name, tell).frame
