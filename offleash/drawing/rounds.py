"""Rounds and chunks: which samples of a problem are asked for, and when. Fixed for a run, so that it can be resumed."""

import math
from dataclasses import dataclass
from itertools import pairwise

from offleash.errors import OffleashError

GROWTH = 1.25  # of a problem's samples from one round to the next: STATISTICS, stopping
LARGEST = 256  # samples in a chunk: small enough for any server


@dataclass(frozen=True)
class Chunks:
    """The grid of a run. A round is what a problem gets before its samples are judged; chunks are its requests.

    Rounds end at `first` samples, then at `growth` times the last end, and so on; without stopping early there is one
    round, the budget, in chunks of the largest size. A budget that ends inside a chunk cuts it; what a later top-up
    adds there is a chunk of its own.
    """

    first: int  # samples in the first round
    growth: float = GROWTH
    largest: int = LARGEST

    def __post_init__(self) -> None:
        if self.first < 1 or self.largest < 1 or not 1 < self.growth <= 16:
            raise OffleashError(f"A chunk holds 1 sample or more and rounds grow; found {self}.")

    def round_end(self, drawn: int) -> int:
        """Where the round ends that follows the first `drawn` samples of a problem."""
        end = self.first
        while end <= drawn:
            end = max(end + 1, math.ceil(end * self.growth))
        return end

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """(first index, size) of the chunks from `start` to `end`: the grid's, cut at both."""
        found, low = [], 0
        while low < end:
            high = self.round_end(low)
            parts = -(-(high - low) // self.largest)
            for left, right in pairwise(low + (high - low) * part // parts for part in range(parts + 1)):
                if max(left, start) < min(right, end):
                    found.append((max(left, start), min(right, end) - max(left, start)))
            low = high
        return found


def chunks_for(until: int) -> Chunks:
    """The grid of a new run: rounds that start at the successes wanted, or chunks of the largest size."""
    return Chunks(first=until) if until else Chunks(first=LARGEST, growth=2.0)
