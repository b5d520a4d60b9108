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

from offleash.verifiers.sandbox.limits import LINUX, TICKS_PER_SECOND, read_small_file

WALL_FACTOR = 20.0  # seconds on the clock for each second of processor time: other processes may want the processor too
RETRY_WALL_FACTOR = 40.0  # the same on the second try
CHECK_INTERVAL = 0.2  # seconds between two looks


class ExceededLimit(Enum):
    """Which limit a case has exceeded."""

    CPU_TIME = auto()
    IDLE_TIME = auto()
    WALL_TIME = auto()


class CaseClock:
    """The time of one case; `check` again at `next_check` at the latest."""

    def __init__(self, seconds: float, wall_factor: float, used: float = 0.0) -> None:
        self._seconds, self._wall_factor, self._used_before = seconds, wall_factor, used
        self._started = self._checked_at = time.monotonic()
        self._idle_seconds = 0.0
        self._last_activity: tuple[float, bool] = (-1.0, True)
        self.used = 0.0  # seconds of processor time, as of the last look
        self.next_check = self._started + min(CHECK_INTERVAL, seconds)

    def check(self, roots: Iterable[int]) -> ExceededLimit | None:
        """Look at the processes below these, and themselves; the limit that is exceeded."""
        now, state = time.monotonic(), activity(roots)
        # nothing ran or wanted to, neither then nor now nor in between
        if state == self._last_activity and not state[1]:
            self._idle_seconds += now - self._checked_at
        self._checked_at, self._last_activity = now, state
        self.next_check = now + CHECK_INTERVAL
        self.used = max(self.used, state[0] - self._used_before)
        if self.used >= self._seconds:
            return ExceededLimit.CPU_TIME
        if self._idle_seconds >= self._seconds:
            return ExceededLimit.IDLE_TIME
        return ExceededLimit.WALL_TIME if now - self._started >= self._seconds * self._wall_factor else None

    def reason(self, exceeded: ExceededLimit) -> str:
        """The limit in words."""
        if exceeded is ExceededLimit.CPU_TIME:
            return f"time limit of {self._seconds:g} s"
        if exceeded is ExceededLimit.IDLE_TIME:
            return f"wall-clock limit: it waited for {self._seconds:g} s without using the processor"
        limit = self._seconds * self._wall_factor
        return f"wall-clock limit of {limit:g} s, before its {self._seconds:g} s of processor time were used"


def activity(roots: Iterable[int]) -> tuple[float, bool]:
    """Processor time of processes and their descendants in seconds, and whether one of them runs or wants to.

    What cannot be looked at counts as running: it may have ended just now, or be hidden.
    """
    if not LINUX:
        return 0.0, True
    ticks, runnable, unvisited = 0, False, list(roots)
    while unvisited:
        pid = unvisited.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                fields = read_small_file(f"/proc/{pid}/task/{task}/stat").rpartition(b")")[2].split()
                runnable = runnable or fields[0] in b"RD"
                unvisited += map(int, read_small_file(f"/proc/{pid}/task/{task}/children").split())
            fields = read_small_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # own and of waited-for children: user, system
        except (OSError, ValueError, IndexError):
            runnable = True
    return ticks / TICKS_PER_SECOND, runnable
