"""Which processes of a group are alive: what a sampler leaves behind."""

import time
from pathlib import Path


def alive(group: int) -> list[int]:
    """Processes of a group that still run."""
    collected = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = file.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if int(its_group) == group and state not in "ZX":
            collected.append(int(file.parent.name))
    return collected


def gone(group: int, seconds: float = 20) -> bool:
    """Whether a group is empty within some seconds."""
    end = time.monotonic() + seconds
    while alive(group):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
