"""The figures by name, in the order of the page. Adding one is a file and a line."""

from dataclasses import replace

from offleash.errors import unknown
from offleash.report.figures.accuracy import accuracy
from offleash.report.figures.benchmarks import benchmarks
from offleash.report.figures.checkpoints import checkpoints
from offleash.report.figures.distinct import distinct
from offleash.report.figures.encodings import PAGE, Figure, Look, Missing
from offleash.report.figures.entropy import entropy
from offleash.report.figures.evidence import evidence
from offleash.report.figures.figure import Draw, Subject
from offleash.report.figures.guessing import guessing
from offleash.report.figures.passes import passes
from offleash.report.figures.perplexity import perplexity
from offleash.report.figures.plane import plane
from offleash.report.figures.portfolio import portfolio
from offleash.report.figures.positions import positions
from offleash.report.figures.support import support

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


def figure(name: str, subject: Subject, look: Look = PAGE) -> Figure | Missing:
    """One figure by its name."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    drawn = FIGURES[name](subject, look)
    return replace(drawn, look=look) if isinstance(drawn, Figure) else drawn
