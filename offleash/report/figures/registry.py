"""The figures by name, in the order of the page. Adding one is a file and a line."""

from offleash.errors import unknown
from offleash.report.figures.figure import PAGE, Draw, Figure, Look, Missing, Subject
from offleash.report.figures.passes import passes

FIGURES: dict[str, Draw] = {
    "passes": passes,
}


def figure(name: str, subject: Subject, look: Look = PAGE) -> Figure | Missing:
    """One figure by its name."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name](subject, look)
