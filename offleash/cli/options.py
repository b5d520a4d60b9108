"""How run folders and logs are read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.columns import named_columns
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.loading.load import Reading

Runs = Annotated[
    list[str],
    typer.Argument(metavar="BEFORE AFTER...", help="Run folders, log files, folders, quoted globs, counts; NAME=PATH."),
]
Verifier = Annotated[str | None, typer.Option(metavar="NAME", help="Whose verdicts, where a run folder has several.")]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="NAME", help="Force a format of logs (see: offleash formats).")
]


@dataclass(frozen=True)
class Logs:
    """How logs are read, where they do not say it themselves."""

    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, verdict, ...) from COLUMN. Repeatable."
        ),
    ] = None
    split_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Take several runs from one file, by this column.")
    ] = None
    log_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Force a format (see: offleash formats).")
    ] = None
    filter_name: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="NAME", help="Which of several filters (lm-eval) or scorers (inspect) decides."
        ),
    ] = None
    threshold: Annotated[float, typer.Option(help="A score at or above it is correct.")] = 1.0
    verifier: Verifier = None

    def reading(self, texts: bool = False) -> "Reading":
        """How to read."""
        from offleash.loading.load import Reading
        from offleash.logs.format import Options

        if not math.isfinite(self.threshold):
            raise OffleashError(f"A threshold is a score; found --threshold {self.threshold}.")
        mapped = named_columns(self.columns, "verdict=is_correct")
        return Reading(
            Options(mapped, self.split_by, self.filter_name, self.threshold, texts), self.log_format, self.verifier
        )

    def fit(self, runs: Sequence[str], flags: Mapping[str, str]) -> None:
        """Refuse what run folders alone cannot serve, and formats that do not exist."""
        from offleash.loading.load import refuse_unused

        self.reading()
        typed = {
            "columns": f" {flags['columns']} ".join(self.columns or ()),
            "split_by": self.split_by,
            "log_format": self.log_format,
            "filter_name": self.filter_name,
            "threshold": "" if self.threshold == 1 else f"{self.threshold:g}",
        }
        refuse_unused(runs, {flags[name]: value for name, value in typed.items() if value})
