"""From what the user names to what a page or a figure is made of."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from offleash.analyses.certificates.compare import named_certificates
from offleash.comparing.checkpoints import Union
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.subject import Subject
from offleash.comparing.flips import Flips, can_flip
from offleash.comparing.per_problem import detail
from offleash.comparing.question import Question
from offleash.comparing.runs import compare_arguments, flips_arguments
from offleash.errors import OffleashError
from offleash.loading.load import Reading
from offleash.loading.texts import with_texts
from offleash.progress import Progress, silent


@contextmanager
def subject_of(
    arguments: Sequence[str],
    reading: Reading,
    asked: Question,
    before: str | None = None,
    after: str | None = None,
    texts: bool = False,
    progress: Progress = silent,
) -> Iterator[Subject]:
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


def subject(comparisons: Sequence[Comparison], together: Union | None = None, turned: Sequence[Flips] = ()) -> Subject:
    """Comparisons as figures take them."""
    return Subject(tuple(comparisons), together, detail(comparisons[-1]), turned[-1] if turned else None)
