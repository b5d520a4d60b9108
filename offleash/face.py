"""What a notebook calls: a page of a comparison, and its figures as charts."""

from collections.abc import Sequence
from pathlib import Path

import altair as alt

from offleash.comparing.compare import Comparison
from offleash.errors import OffleashError
from offleash.render.figure import Look, Missing
from offleash.render.output import check_place, write_text
from offleash.reporting.figures import figure as drawn
from offleash.reporting.page.build import Telling, report_page
from offleash.reporting.subject import subject

WIDTH = 520


def write_report(path: str | Path, comparison: Comparison | Sequence[Comparison], *, command: str = "") -> Path:
    """Write the page of a comparison, or of several with one base; `command` is what the page says made it."""
    place = Path(path)
    check_place(place)
    write_text(place, report_page(subject(_several(comparison)), Telling(command=command)))
    return place


def figure(
    name: str, comparison: Comparison | Sequence[Comparison], *, width: int = WIDTH, height: int = 300
) -> alt.Chart | alt.LayerChart | alt.HConcatChart:
    """A figure of the page by its name, as a chart of Altair: shown by a notebook, saved by its `save`."""
    found = drawn(name, subject(_several(comparison)), Look(width=width, height=height))
    if isinstance(found, Missing):
        raise OffleashError(f"{found.title} {found.reason}")
    return found.panels[0] if len(found.panels) == 1 else alt.hconcat(*found.panels)


def _several(comparison: Comparison | Sequence[Comparison]) -> list[Comparison]:
    several = [comparison] if isinstance(comparison, Comparison) else list(comparison)
    bases = {one.before.name for one in several}
    if len(bases) != 1:
        found = ", ".join(sorted(bases)) or "none"
        raise OffleashError(f"A report is of comparisons with one base; found {found}: give those of one base.")
    return several
