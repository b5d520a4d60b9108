"""Progress: one type for everything that reports it, from drawing samples to enumerating completions.

A `Progress` is called with a line that says what is being done now and replaces the previous line. The command line
shows it on a terminal, Python callers may pass `print`, and by default it is ignored. `announce`, where a verb has it,
is the same type for lines that stay: what is about to be done, and its cost.

Lines have the form "stage: detail". A long stage reports how far it is; stages nest, so that a sweep shows
"rl at temperature 0.6: 1,024 of 8,192 samples" without the draw knowing about the sweep:

    progress = stage(progress, "rl at temperature 0.6")
"""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]


def silent(_: object) -> None:
    """Ignore progress, or an estimate."""


def stage(progress: Progress, name: str) -> Progress:
    """Progress of one stage: its lines begin with the name of the stage.

    >>> stage(stage(print, "base"), "problem 1 of 3")("12 prefixes")
    base: problem 1 of 3: 12 prefixes
    """
    return lambda detail: progress(f"{name}: {detail}")


def peak_memory_mb() -> float:
    """Peak memory of this process so far."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
