"""python -m research.early_warning: how early do answer entropy, token entropy and reward announce lost support?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from offleash.api.train import require_local_extra
from offleash.cli.main import run_guarded
from offleash.cli.output import console, print_json, progress
from research.early_warning.plan import QUICK, Plan, named_jobs, read_plan, write_plan


def main(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the study.")],
    seeds: Annotated[
        int, typer.Option(metavar="N", min=2, help="Seeds, each with one training per recipe; thresholds need two.")
    ] = 5,
    steps: Annotated[int, typer.Option(metavar="N", min=20, help="Steps per training.")] = 120,
    every: Annotated[int, typer.Option(metavar="N", min=1, help="Steps between looks.")] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="A very small study, to see that it runs; it shows nothing.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Do only this training of an existing study (grpo-0).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """How early do answer entropy, token entropy and reward announce that a training loses support?

    Trains Countdown with GRPO and, as a control, with a strong KL penalty. Every few steps it takes a small draw, as a
    monitor would, and a large one, which is the truth. The threshold for each seed is chosen on the others. Ten
    trainings and their draws take long; after Ctrl-C the same command resumes. What was fixed beforehand: README.md.

    \b
    Examples:
      python -m research.early_warning -o runs/warning
      python -m research.early_warning -o runs/start --steps 40 --every 2      (the start of a training, closely)
      python -m research.early_warning -o runs/try --quick --json
    """
    require_local_extra("research.early_warning")
    plan = QUICK if quick else replace(Plan(), seeds=seeds, steps=steps, every=every)
    if only:
        named_jobs(read_plan(out), only)
    else:
        write_plan(plan, out)
    from research.early_warning.warning import study_part, study_warning

    with progress(as_json) as report_progress:
        if only:
            study_part(out, *only, progress=report_progress)
            return
        study = study_warning(plan, out, report_progress)
    from research.early_warning.report import show_warning, warning_document

    if as_json:
        print_json(warning_document(study))
        return
    show_warning(console(), study)


def run() -> None:
    """The command, with the error messages and the handling of Ctrl-C of the verbs of offleash."""
    run_guarded(lambda: typer.run(main))


if __name__ == "__main__":
    run()
