"""python -m research.early_warning: how early do answer entropy, token entropy and reward announce lost support?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from offleash.api.train import needs_local
from offleash.cli.main import guarded
from offleash.cli.output import console, print_json, progress
from research.early_warning.plan import QUICK, Plan, named_jobs, settle, settled


def main(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where everything goes.")],
    seeds: Annotated[int, typer.Option(metavar="N", min=2, help="Trainings of each kind; thresholds need two.")] = 5,
    steps: Annotated[int, typer.Option(metavar="N", min=20, help="Of each training.")] = 120,
    every: Annotated[int, typer.Option(metavar="N", min=1, help="Steps from one look to the next.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="Very small, to see that it runs: it shows nothing.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Do this training of a study that was begun (grpo-0).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """How early do answer entropy, token entropy and reward announce that a training loses support?

    Trains Countdown with GRPO and, as a control, with a strong KL penalty; looks now and then with a small draw, as a
    monitor would, and with a large one, which is the truth. The threshold for each seed is chosen on the others. Ten
    trainings and their draws: long. Ctrl-C loses nothing: run it again. What was fixed beforehand: README.md.

    \b
    Examples:
      python -m research.early_warning -o runs/warning
      python -m research.early_warning -o runs/start --steps 40 --every 2      (the start of a training, closely)
      python -m research.early_warning -o runs/try --quick --json
    """
    needs_local("research.early_warning")
    plan = QUICK if quick else replace(Plan(), seeds=seeds, steps=steps, every=every)
    if only:
        named_jobs(settled(out), only)
    else:
        settle(plan, out)
    from research.early_warning.warning import study_part, study_warning

    with progress(as_json) as tell:
        if only:
            study_part(out, *only, progress=tell)
            return
        done = study_warning(plan, out, tell)
    from research.early_warning.report import show_warning, warning_document

    if as_json:
        print_json(warning_document(done))
        return
    show_warning(console(), done)


def run() -> None:
    """The command, with the messages and the gentle end that the verbs of offleash have."""
    guarded(lambda: typer.run(main))


if __name__ == "__main__":
    run()
