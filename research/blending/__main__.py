"""python -m research.blending: does a blend keep more of what the base reaches than other models of equal pass@1?"""

from pathlib import Path
from typing import Annotated

import typer

from offleash.api.train import require_local_extra
from offleash.cli.main import run_guarded
from offleash.cli.output import progress
from research.blending.plan import cells


def main(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder for models and samples.")],
) -> None:
    """Run the cells of the study that are not stored yet; plan.py says what they are. Stop it at any time: the same
    command resumes.

    \b
    Examples:
      python -m research.blending -o runs/blending
    """
    require_local_extra("research.blending")
    from research.blending.measure import measure

    with progress(False) as report_progress:
        for cell in cells():
            measure(cell, out, report_progress)


if __name__ == "__main__":
    run_guarded(lambda: typer.run(main))
