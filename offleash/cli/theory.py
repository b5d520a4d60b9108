"""offleash theory: the paper's statements, run and tested."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.telling import AsJson, console, print_json, progress, say, warn
from offleash.errors import OffleashError


def theory(
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random worlds and of the trainings.")] = 0,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures (SVG) into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The paper's statements (appendix C), run and tested in small exact worlds; half a minute on one core.

    Each statement holds, holds only under a condition, or fails, with the smallest counterexample that a search over
    random worlds found. Then which mechanism shrinks support: finite groups, shared parameters, both or neither.

    \b
    Examples:
      offleash theory
      offleash theory --seed 1 --json
      offleash theory --figures figures/
    """
    if seed < 0:
        raise OffleashError(f"A seed is 0 or above; found --seed {seed}.")
    if figures is not None:
        from offleash.report.place import check_place

        check_place(figures / "world.svg")
    from offleash.report.theories.theory import show_theory, theory_document
    from offleash.theory.examine import examine

    with progress(as_json) as tell:
        found = examine(seed, tell)
        written: list[Path] = []
        if figures is not None:
            from offleash.report.theories.figures import write_figures

            tell(f"drawing into {figures}")
            written = write_figures(found, figures)
    if as_json:
        print_json(theory_document(found))
    else:
        show_theory(console(), found)
    for path in written:
        (warn if as_json else say)(str(path))
