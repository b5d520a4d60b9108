"""Progress: one type for everybody who reports it, from the loop of a draw to the enumeration of completions.

A `Progress` gets the line that says what is being done now; whoever watches replaces the line before by it. The command
line shows it on a terminal, Python callers may pass `print`, and by default nobody watches. `announce`, where a verb
has it, is the same type for lines that stay: what is about to be done, and its cost.

Lines have the form "stage: detail". A stage that takes long reports how far it is; stages nest, so that a sweep shows
"rl at temperature 0.6: 1,024 of 8,192 samples" without the draw knowing of the sweep:

    progress = stage(progress, "rl at temperature 0.6")
"""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]


def silent(_: object) -> None:
    """Progress that nobody watches; also an estimate that nobody wants to see."""


def stage(progress: Progress, name: str) -> Progress:
    """The progress of one stage of the work: its lines begin with the name of the stage.

    >>> stage(stage(print, "base"), "problem 1 of 3")("12 prefixes")
    base: problem 1 of 3: 12 prefixes
    """
    return lambda detail: progress(f"{name}: {detail}")


def peak_memory_mb() -> float:
    """The most memory this process has held so far."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
