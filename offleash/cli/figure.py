"""offleash figure: one figure of a comparison as a file, for a paper or a talk."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.asking import Asked
from offleash.cli.commands import taking
from offleash.cli.options import LogFormat, Logs, Runs
from offleash.cli.output import AsJson, print_json, progress, say
from offleash.errors import OffleashError, unknown

# known without drawing anything; a test holds them equal to the figures there are
NAMES = (
    "passes",
    "plane",
    "support",
    "evidence",
    "accuracy",
    "entropy",
    "positions",
    "distinct",
    "guessing",
    "portfolio",
    "benchmarks",
    "checkpoints",
    "perplexity",
)
COLUMN, WIDEST = 236, 4000  # pixels


@taking(log_format=LogFormat)
def figure(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which figure: {', '.join(NAMES)}.")],
    runs: Runs,
    asked: Asked,
    logs: Logs,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="A file .pdf, .svg or .png.")],
    width: Annotated[
        int | None, typer.Option(metavar="PX", help="Width of the figure; default: a column of a paper, 236.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One figure of a comparison as PDF, SVG or PNG, with the caption that says how to read it.

    Drawn to the width of a column and readable in grey; with --width at any other.

    \b
    Examples:
      offleash figure passes runs/base runs/rl -o passes.pdf
      offleash figure plane runs/base runs/rl -o plane.svg --width 480
      offleash figure checkpoints base step100 step200 -o steps.png
    """
    if name not in NAMES:
        raise unknown("figure", name, NAMES)
    if width is not None and not 150 <= width <= WIDEST:
        raise OffleashError(f"A figure is 150 to {WIDEST:,} pixels wide; found --width {width}.")
    from offleash.render.export import kind_of, write_figure
    from offleash.render.figure import PAPER, Look, Missing
    from offleash.render.output import check_place
    from offleash.reporting.figures import figure as draw_figure
    from offleash.reporting.subject import subject_of

    kind_of(out)
    check_place(out)
    look = PAPER if width is None else Look(width, max(PAPER.height, min(300, width * 3 // 5)), width <= 1.5 * COLUMN)
    with (
        progress(as_json) as tell,
        subject_of(runs, logs.reading(), asked.question(), *asked.names, progress=tell) as subject,
    ):
        drawn = draw_figure(name, subject, look)
    if isinstance(drawn, Missing):
        raise OffleashError(f"The figure {name!r} cannot be drawn: {drawn.reason}.")
    write_figure(drawn, out)
    if as_json:
        told = {"figure": name, "path": str(out), "title": drawn.title, "caption": drawn.caption, "alt": drawn.alt}
        print_json(told)
    else:
        say(f"{drawn.title}\n{drawn.caption}\n{out}")
