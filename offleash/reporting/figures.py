"""FIGURES by name, in the order of the page; adding one is a file and an entry here.

Also turns the runs that the user names into the comparison that a page or a figure is drawn from.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from offleash.analyses.certificates.compare import named_certificates
from offleash.analyses.entropy.figures import entropy, positions
from offleash.analyses.likelihood.figures import perplexity
from offleash.comparing.arguments import Union, compare_arguments, flips_arguments
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
from offleash.comparing.flips import Flips, can_flip
from offleash.comparing.per_problem import detail
from offleash.comparing.question import Question
from offleash.errors import OffleashError, unknown
from offleash.loading.import_logs import with_texts
from offleash.loading.load import Reading
from offleash.progress import Progress, silent
from offleash.render.figure import PAGE, Figure, FigureFormat, Missing

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


def figure(name: str, subject: FigureInput, look: FigureFormat = PAGE) -> Figure | Missing:
    """One figure by its name."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    drawn = FIGURES[name](subject, look)
    return replace(drawn, look=look) if isinstance(drawn, Figure) else drawn


@contextmanager
def subject_of(
    arguments: Sequence[str],
    reading: Reading,
    asked: Question,
    before: str | None = None,
    after: str | None = None,
    texts: bool = False,
    progress: Progress = silent,
) -> Iterator[FigureInput]:
    """The comparison of the runs named, ready to be drawn; with `texts` the samples of logs can be read meanwhile."""
    if named_certificates(arguments, None, None):
        raise OffleashError(
            "Certificates hold exact probabilities and no samples, so there is nothing to draw here; "
            "offleash compare shows them, with --json for programs."
        )
    if not texts:
        yield subject(*compare_arguments(arguments, reading, asked, before, after, progress))
        return
    with with_texts(arguments, reading, progress) as readable:
        found = compare_arguments(readable.arguments, reading, asked, before, after, progress, readable.notes)
        turned = flips_arguments(readable.arguments, found[0][-1:], reading, progress) if can_flip(asked) else []
        yield subject(*found, turned)


def subject(
    comparisons: Sequence[Comparison], together: Union | None = None, turned: Sequence[Flips] = ()
) -> FigureInput:
    """Comparisons as figures take them."""
    return FigureInput(tuple(comparisons), together, detail(comparisons[-1]), turned[-1] if turned else None)
