"""offleash demo: the whole journey, offline, on two CPU cores, in minutes."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.command import command_line
from offleash.cli.needs import needs_local
from offleash.cli.output import AsJson, console, print_json, progress, say


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where everything goes.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute: fewer steps, problems and samples.")] = False,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of the training, the problems and the samples.")] = 0,
    world: Annotated[str, typer.Option(metavar="NAME", help="Which world of the lab.")] = "countdown",
    as_json: AsJson = False,
) -> None:
    """Train a small model with GRPO, and measure what it can reach before and after.

    A base of 158k parameters that comes with the package is trained on arithmetic puzzles (Countdown). Both models are
    drawn on problems that neither saw, at temperature 1 and at the paper's 0.6 with top-p 0.95; the base is drawn a
    second time, to see what chance alone does. Everything is measured in this run: if the effect is not there, it says
    so. Ctrl-C loses nothing: run it again.

    \b
    Examples:
      offleash demo
      offleash demo --quick -o runs/quick
      offleash demo --seed 3 -o runs/seed3 --json
    """
    from dataclasses import replace

    needs_local("demo")
    from offleash.lab.demo import QUICK, Plan, demonstrate
    from offleash.lab.findings import headline, sentences
    from offleash.lab.report import demo_document, write_report
    from offleash.lab.worlds import world as world_of

    with progress(as_json) as tell:
        plan = replace(QUICK if quick else Plan(), seed=seed)
        done = demonstrate(world_of(world), plan, out, tell)
        path = write_report(done, command_line(), tell)
    if as_json:
        print_json(demo_document(done, path))
        return
    from offleash.reporting.comparison import show

    show(console(), [done.plain])
    print()
    for sentence in (headline(done), *sentences(done)):
        say(sentence)
    say(f"\n{done.seconds:.0f} s. Models, samples, verdicts: {out}. Report: {path}")
