"""FIGURES by name, in the order of the page; adding one is a file and an entry here.

A figure is a function of the comparisons and a format. It returns `Missing` with a reason, never an empty chart, where
the runs do not have what it needs.
"""

from collections.abc import Sequence
from dataclasses import replace

from offleash.analyses.entropy.figures import entropy, positions
from offleash.analyses.likelihood.figures import perplexity
from offleash.comparing.checkpoints import CheckpointUnion
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.accuracy import accuracy
from offleash.comparing.figures.benchmarks import benchmarks
from offleash.comparing.figures.checkpoints import checkpoints
from offleash.comparing.figures.distinct import distinct
from offleash.comparing.figures.evidence import evidence
from offleash.comparing.figures.figure_input import Draw, FigureInput
from offleash.comparing.figures.guessing import guessing
from offleash.comparing.figures.pass_at_k import passes
from offleash.comparing.figures.plane import plane
from offleash.comparing.figures.portfolio import portfolio
from offleash.comparing.figures.support import support
from offleash.comparing.flips import Flips
from offleash.comparing.per_problem import detail
from offleash.errors import OffleashError, unknown
from offleash.plugins import find_plugin, plugin_names
from offleash.render.figure import PAGE, Figure, FigureFormat, MissingFigure

ENTRY_POINTS = "offleash.figures"
# the order of the page: what all comparisons have first, what needs answers, several benchmarks or scores later
FIGURES: dict[str, Draw] = {
    "passes": passes,
    "plane": plane,
    "support": support,
    "evidence": evidence,
    "accuracy": accuracy,
    "entropy": entropy,
    "positions": positions,
    "distinct": distinct,
    "guessing": guessing,
    "portfolio": portfolio,
    "benchmarks": benchmarks,
    "checkpoints": checkpoints,
    "perplexity": perplexity,
}


def figure(name: str, subject: FigureInput, look: FigureFormat = PAGE) -> Figure | MissingFigure:
    """One figure by its name.

    Args:
        name: a key of FIGURES, a figure of an installed package, or FILE.py:NAME; an unknown one is refused.
        subject: the comparisons to draw.
        look: for the page, or for a column of a paper.

    Returns:
        The figure, or why these runs do not allow it.
    """
    draw = FIGURES.get(name) or own_figure(name)
    # the figure records its format, so that a file is written at the size it was drawn for
    drawn: object = draw(subject, look)
    if isinstance(drawn, Figure):
        return replace(drawn, look=look)
    if not isinstance(drawn, MissingFigure):
        raise OffleashError(f"The figure {name} returned a {type(drawn).__name__}. Return a Figure, or Missing.")
    return drawn


def own_figure(name: str) -> Draw:
    """A figure of an installed package, or the user's own FILE.py:NAME; an unknown name is refused with the closest."""
    own = find_plugin(ENTRY_POINTS, name, "figure")
    if own is None:
        raise unknown("figure", name, [*FIGURES, *plugin_names(ENTRY_POINTS)])
    if not callable(own):
        raise OffleashError(f"The figure {name} is a {type(own).__name__}. Name a function figure(subject, look).")
    draw: Draw = own
    return draw


def subject(
    comparisons: Sequence[Comparison], union: CheckpointUnion | None = None, flips: Sequence[Flips] = ()
) -> FigureInput:
    """Comparisons as figures take them: the last one in detail, the others in figures of checkpoints."""
    return FigureInput(tuple(comparisons), union, detail(comparisons[-1]), flips[-1] if flips else None)
