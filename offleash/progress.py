"""Progress messages for whoever watches, and the peak memory of the process."""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]  # gets a line of text at every step; the next one replaces it
Announce = Callable[[str], None]  # gets what stays: what is about to be done, and its cost


def silent(_: str) -> None:
    """Progress that nobody watches."""


def peak_memory_mb() -> float:
    """The most memory this process has held so far."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
