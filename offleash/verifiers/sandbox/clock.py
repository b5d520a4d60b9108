"""When a case has had its time, measured so that a busy machine changes nothing: processor time, not the clock.

Three limits. Processor time of all processes of a case: the case has used what it may use, a verdict about it. Time in
which none of its processes ran or wanted to run: it waits, for ever perhaps. Time on the clock, many times longer: the
machine is too busy. The last two say nothing about the case; it is `failed` and may be tried again.

Processes are looked at from outside, through /proc. Where there is none, only the clock is left. Standard library only.
"""

import os
import time
from collections.abc import Iterable
from enum import Enum, auto

from offleash.verifiers.sandbox.limits import LINUX, TICK, content

PATIENCE = 20.0  # seconds on the clock for each second of processor time: other processes may want the processor too
ALONE = 40.0  # the same on the second try
LOOK = 0.2  # seconds between two looks


class Exceeded(Enum):
    """Which limit a case has exceeded."""

    PROCESSOR = auto()
    WAITING = auto()
    CLOCK = auto()


class CaseClock:
    """The time of one case; `look` again at `next_look` at the latest."""

    def __init__(self, seconds: float, patience: float, used: float = 0.0) -> None:
        self._seconds, self._patience, self._before = seconds, patience, used
        self._started = self._looked = time.monotonic()
        self._waited = 0.0
        self._last: tuple[float, bool] = (-1.0, True)
        self.used = 0.0  # seconds of processor time, as of the last look
        self.next_look = self._started + min(LOOK, seconds)

    def look(self, roots: Iterable[int]) -> Exceeded | None:
        """Look at the processes below these, and themselves; the limit that is exceeded."""
        now, state = time.monotonic(), activity(roots)
        if state == self._last and not state[1]:  # nothing ran or wanted to, neither then nor now nor in between
            self._waited += now - self._looked
        self._looked, self._last = now, state
        self.next_look = now + LOOK
        self.used = max(self.used, state[0] - self._before)
        if self.used >= self._seconds:
            return Exceeded.PROCESSOR
        if self._waited >= self._seconds:
            return Exceeded.WAITING
        return Exceeded.CLOCK if now - self._started >= self._seconds * self._patience else None

    def reason(self, exceeded: Exceeded) -> str:
        """The limit in words."""
        if exceeded is Exceeded.PROCESSOR:
            return f"time limit of {self._seconds:g} s"
        if exceeded is Exceeded.WAITING:
            return f"wall-clock limit: it waited for {self._seconds:g} s without using the processor"
        limit = self._seconds * self._patience
        return f"wall-clock limit of {limit:g} s, before its {self._seconds:g} s of processor time were used"


def activity(roots: Iterable[int]) -> tuple[float, bool]:
    """Processor time of processes and their descendants in seconds, and whether one of them runs or wants to.

    What cannot be looked at counts as running: it may have ended just now, or be hidden.
    """
    if not LINUX:
        return 0.0, True
    ticks, awake, left = 0, False, list(roots)
    while left:
        pid = left.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                fields = content(f"/proc/{pid}/task/{task}/stat").rpartition(b")")[2].split()
                awake = awake or fields[0] in b"RD"
                left += map(int, content(f"/proc/{pid}/task/{task}/children").split())
            fields = content(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # own and of waited-for children: user, system
        except (OSError, ValueError, IndexError):
            awake = True
    return ticks / TICK, awake
