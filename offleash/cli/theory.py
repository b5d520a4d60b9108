"""offleash theory: the paper's statements, run and tested."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.output import AsJson, console, print_json, progress, say, warn
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.analyses.theory.examine import Examined


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
        from offleash.render.output import check_place

        check_place(figures / "world.svg", option="--figures")
    try:
        _examine(seed, figures, as_json)
    except KeyboardInterrupt:
        raise OffleashError("The theory was interrupted; it keeps nothing of its work, and begins anew.") from None


def _examine(seed: int, figures: Path | None, as_json: bool) -> None:
    from offleash.analyses.theory.examine import examine
    from offleash.analyses.theory.report import show_theory, theory_document

    with progress(as_json) as tell:
        found = examine(seed, tell)
    written: list[Path] = []
    try:
        if figures is not None:
            written = _drawn(found, figures, as_json)
    finally:  # figures that cannot be written are no reason to lose the rest
        if as_json:
            print_json(theory_document(found))
        else:
            show_theory(console(), found)
    for path in written:
        (warn if as_json else say)(str(path))


def _drawn(found: "Examined", figures: Path, as_json: bool) -> list[Path]:
    from offleash.analyses.theory.figures import write_figures

    with progress(as_json) as tell:
        tell(f"drawing into {figures}")
        return write_figures(found, figures)
