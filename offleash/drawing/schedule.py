"""The schedule: which chunks are drawn next, so that few problems are open and the sampler is never idle.

A problem is open from its first chunk to its last, and meanwhile the sampler keeps what it knows about it in memory.
Chunks of the problem that was opened first go first, and another problem is opened only when the chunks that are ready
do not fill the sampler.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from offleash.errors import OffleashError

# Rounds and chunks: which samples of a problem are drawn when. Fixed for a run, so that it can be resumed.


# Of a problem's samples from one round to the next. Small rounds waste few samples after the last success that counts;
# large ones keep the sampler busy: docs/statistics.md has the trade-off.
CHUNK_GROWTH = 1.25
LARGEST = 256  # samples in a chunk: small enough for any server


@dataclass(frozen=True)
class Chunks:
    """The grid of a run. A round is what a problem gets before its samples are judged; chunks are its requests.

    Rounds end at `first` samples, then at `growth` times the last end, and so on; without stopping early there is one
    round, the budget, in chunks of the largest size. A budget that ends inside a chunk cuts it; what a later top-up
    adds there is a chunk of its own.
    """

    first: int  # samples in the first round
    growth: float = CHUNK_GROWTH
    largest: int = LARGEST

    def __post_init__(self) -> None:
        if self.first < 1 or self.largest < 1 or not 1 < self.growth <= 16:
            raise OffleashError(
                f"A chunk must hold 1 sample or more, and growth must be above 1 and at most 16; found {self}."
            )

    def round_end(self, drawn: int) -> int:
        """Where the round ends that follows the first `drawn` samples of a problem."""
        end = self.first
        while end <= drawn:
            end = max(end + 1, math.ceil(end * self.growth))
        return end

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """(first index, size) of the chunks from `start` to `end`: the grid's, cut at both."""
        chunks, low = [], 0
        while low < end:
            high = self.round_end(low)
            parts = -(-(high - low) // self.largest)
            for left, right in pairwise(low + (high - low) * part // parts for part in range(parts + 1)):
                if max(left, start) < min(right, end):
                    chunks.append((max(left, start), min(right, end) - max(left, start)))
            low = high
        return chunks


def chunks_for(until: int) -> Chunks:
    """The grid of a new run: rounds that start at the successes wanted, or chunks of the largest size."""
    return Chunks(first=until) if until else Chunks(first=LARGEST, growth=2.0)


# The schedule: problems waiting, open, settled or stuck, and the chunks that are ready.


Span = tuple[int, int]  # from the first index to the one after the last
Chunk = tuple[str, int, int]  # problem, first index, size


class Stage(StrEnum):
    """Where a problem is in a draw. Only settled problems are complete; stuck ones are finished for this draw."""

    WAITING = "waiting"
    OPEN = "open"
    SETTLED = "settled"  # its successes are there, or its budget is used up
    STUCK = "stuck"  # a request failed, so its samples have a gap; the next draw tries again


@dataclass(frozen=True)
class StoredProblem:
    """The samples of a problem that the run has when a draw begins."""

    spans: tuple[Span, ...] = ()
    hits: int = 0  # samples that were judged correct


@dataclass
class ProblemRecord:
    """A problem in the course of a draw; changed by `Schedule` alone."""

    problem: str
    order: int
    holes: list[Span]  # indices below `end` that are to be drawn when it is opened
    end: int  # of its round
    drawn: int
    hits: int
    stage: Stage = Stage.WAITING
    left: int = 0  # chunks of its round that are not done
    failed: bool = False


class Schedule:
    """The records of a run. With `until`, a problem's next round is requested once all of its last one is judged.

    Whole rounds are what keeps the stopping rule honest: which samples are drawn depends on counts at the ends of
    rounds alone, not on which of two requests came back first, so a run that was killed and resumed has the same
    samples as one that was not.
    """

    def __init__(
        self, problems: Sequence[str], stored: Mapping[str, StoredProblem], chunks: Chunks, k: int, until: int
    ) -> None:
        self.k, self.until, self.chunks = k, until, chunks
        self.records = {
            problem: self._record(problem, order, stored.get(problem, StoredProblem()))
            for order, problem in enumerate(problems)
        }
        self._waiting = deque(record for record in self.records.values() if record.stage is Stage.WAITING)
        self._ready: list[tuple[int, int, int, str]] = []  # order, first, size, problem
        self._samples = 0  # in the chunks that are ready
        self.unfinished = len(self._waiting)  # problems that are neither settled nor stuck

    def take(self, batch_size: int, idle: int, admit: bool = True) -> list[Chunk]:
        """About `batch_size` samples in chunks for one of `idle` callers: less when all of them can have some.

        Without `admit` no problem is opened for it.
        """
        while admit and self._samples < batch_size * idle and self._waiting:
            self._make_ready(self._waiting.popleft())
        # a fair share, so that the last chunks of a run are spread over all workers instead of queueing for one
        share = min(batch_size, math.ceil(self._samples / max(1, idle)))
        batch: list[Chunk] = []
        taken_count = 0
        while self._ready and (not batch or taken_count + self._ready[0][2] <= share):
            _, first, size, problem = heapq.heappop(self._ready)
            batch.append((problem, first, size))
            taken_count += size
        self._samples -= taken_count
        return batch

    def chunk_done(self, problem: str, size: int, hits: int) -> bool:
        """A chunk is drawn, and judged where that is needed; whether its problem is closed by it."""
        record = self.records[problem]
        record.drawn += size
        record.hits += hits
        return self._chunk_finished(record)

    def failed(self, problem: str) -> bool:
        """A chunk could not be drawn; whether its problem is closed by it."""
        self.records[problem].failed = True
        return self._chunk_finished(self.records[problem])

    def count(self, stage: Stage) -> int:
        """Problems in a stage."""
        return sum(record.stage is stage for record in self.records.values())

    @property
    def reached(self) -> int:
        """Problems with a correct sample."""
        return sum(record.hits > 0 for record in self.records.values())

    @property
    def most(self) -> int:
        """The most samples that the run can have after this draw: stored ones, and all that is left of the budget."""
        return sum(
            record.drawn + (0 if record.stage is Stage.SETTLED else max(0, self.k - record.drawn))
            for record in self.records.values()
        )

    def expected(self) -> float:
        """Samples still to be drawn, by the rates seen so far; problems without a success count with all they can."""
        settled_counts = [record.drawn for record in self.records.values() if record.stage is Stage.SETTLED]
        mean_count = sum(settled_counts) / len(settled_counts) if settled_counts and self.until else float(self.k)
        total = 0.0
        for record in self.records.values():
            left = max(0, self.k - record.drawn)
            if record.stage is Stage.WAITING and not record.drawn:
                total += min(left, mean_count)
            elif record.stage in (Stage.WAITING, Stage.OPEN):
                rate = record.hits / record.drawn if record.drawn else 0.0
                expected_samples = (self.until - record.hits) / rate if self.until and rate else left
                total += min(left, max(0.0, expected_samples))
        return total

    def _record(self, problem: str, order: int, stored: StoredProblem) -> ProblemRecord:
        """A problem as it is stored. The round that its samples reach into is completed, as without a kill."""
        high = max((right for _, right in stored.spans), default=0)
        end = self.k if not self.until else min(self.k, self.chunks.round_end(max(0, high - 1)))
        drawn = sum(right - left for left, right in stored.spans)
        record = ProblemRecord(problem, order, holes(stored.spans, end), end, drawn, stored.hits)
        if not record.holes:
            self._next_round(record)
        return record

    def _make_ready(self, record: ProblemRecord) -> None:
        """Open a problem, or its next round: its chunks are ready."""
        record.stage = Stage.OPEN
        for left, right in record.holes:
            for first, size in self.chunks.between(left, right):
                heapq.heappush(self._ready, (record.order, first, size, record.problem))
                self._samples += size
                record.left += 1
        record.holes = []

    def _chunk_finished(self, record: ProblemRecord) -> bool:
        """Count a chunk as finished, drawn or failed; whether its problem is closed by it."""
        record.left -= 1
        if record.left:
            return False
        if record.failed:
            record.stage = Stage.STUCK
        else:
            self._next_round(record)
        if record.stage is Stage.OPEN:
            self._make_ready(record)
            return False
        self.unfinished -= 1
        return True

    def _next_round(self, record: ProblemRecord) -> None:
        """After a whole round: the problem is settled, or its next round is what is to be drawn."""
        if record.end >= self.k or (self.until and record.hits >= self.until):
            record.stage = Stage.SETTLED
            return
        start, record.end = record.end, min(self.k, self.chunks.round_end(record.end))
        record.holes = [(start, record.end)]


def holes(spans: Sequence[Span], end: int) -> list[Span]:
    """The spans of indices below `end` that are missing, in order.

    >>> holes([(4, 6), (0, 2)], 8)
    [(2, 4), (6, 8)]
    """
    return [(left, min(right, end)) for left, right in _gaps(spans, end) if left < end]


def overlap(spans: Sequence[Span]) -> Span | None:
    """The first indices that two spans share; None where they are disjoint.

    >>> overlap([(0, 4), (3, 8)])
    (3, 4)
    """
    reach = 0
    for left, right in sorted(spans):
        if left < reach:
            return left, min(right, reach)
        reach = right
    return None


def _gaps(spans: Sequence[Span], end: int) -> Iterator[Span]:
    """Gaps between spans, which may overlap and come in any order; the last one ends at `end`."""
    reach = 0
    for left, right in sorted(spans):
        if left > reach:
            yield reach, left
        reach = max(reach, right)
    if reach < end:
        yield reach, end
