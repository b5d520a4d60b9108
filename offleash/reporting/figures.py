"""The figures by name, in the order of the page. Adding one is a file and a line."""

from dataclasses import replace

from offleash.analyses.entropy.figures import entropy
from offleash.analyses.entropy.figures_positions import positions
from offleash.analyses.likelihood.figures import perplexity
from offleash.comparing.figures.accuracy import accuracy
from offleash.comparing.figures.benchmarks import benchmarks
from offleash.comparing.figures.checkpoints import checkpoints
from offleash.comparing.figures.distinct import distinct
from offleash.comparing.figures.evidence import evidence
from offleash.comparing.figures.guessing import guessing
from offleash.comparing.figures.pass_at_k import passes
from offleash.comparing.figures.plane import plane
from offleash.comparing.figures.portfolio import portfolio
from offleash.comparing.figures.subject import Draw, Subject
from offleash.comparing.figures.support import support
from offleash.errors import unknown
from offleash.render.figure import PAGE, Figure, Look, Missing

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
