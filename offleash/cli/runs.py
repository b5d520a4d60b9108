"""offleash fsck: is a run folder what was written?"""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.output import AsJson, print_json, progress, say


def fsck(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    as_json: AsJson = False,
) -> None:
    """Read run folders in full and check them: facts, problems, every shard, each sample once. Nothing is changed.

    Exit code 1 when something is wrong; the next step is told for each.

    \b
    Examples:
      offleash fsck runs/base runs/rl
      offleash fsck runs/base --json
    """
    from offleash.drawing.fsck import fsck_document, fsck_text
    from offleash.drawing.study_fsck import fsck as inspect

    with progress(as_json) as tell:
        found = [inspect(run, tell) for run in runs]
    if as_json:
        print_json(fsck_document(found))
    else:
        say("\n".join(fsck_text(one) for one in found))
    if not all(one.good for one in found):
        raise typer.Exit(1)
