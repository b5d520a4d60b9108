"""What waits between samplers, judge and writer, counted in bytes: beyond a limit, samplers wait for the slowest.

A chunk counts from the moment it is drawn until it is written and, where the draw stops early, judged. What is being
drawn is bounded too, by what it is expected to take: sixteen threads with 40 MB each would hold more than all the rest.
The bound holds whatever the load of the machine: it depends on bytes, not on how fast each part is.
"""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable

from offleash.samplers.sampler import Request, SampleChunk

LIMIT = 96 << 20  # bytes of text: above a shard of the writer (64 MB), so that it can fill one
DRAWING_LIMIT = 96 << 20  # bytes of text that all samplers together are expected to hold
M_MMAP_THRESHOLD = -3  # mallopt(3)
LONG_TEXT = 64 << 10  # bytes
BYTES_PER_TOKEN = 5  # of text; only before the first chunk, which shows how long samples are


class Backlog:
    """The bytes of text that are drawn and not yet written and judged. Threads share it.

    Samplers wait while the limit is reached, and any chunk passes as long as it is not, so one that is larger than the
    limit passes too: at most the limit and a chunk are counted, beside the chunks that sampler threads have in hand.
    Those are bounded by DRAWING_LIMIT, but one thread may always draw. Writer and judge never wait here, which is why
    nothing can deadlock: all that counts is released in the end.
    """

    def __init__(self, holders: int = 1, limit: int | None = None) -> None:
        """An empty backlog.

        Args:
            holders: who must release a chunk: the writer, and the judge where there is one.
            limit: bytes; LIMIT where it is not given.
        """
        self._holders, self._limit = holders, LIMIT if limit is None else limit
        self._chunks: dict[tuple[str, int], tuple[int, int]] = {}  # by place: bytes, and holders that have it
        self._bytes = self._waiting = 0
        self._drawing: dict[int, tuple[int, int]] = {}  # thread that draws: samples of a chunk, tokens of a sample
        self._sample_bytes = 0.0  # bytes per sample in the largest chunk so far
        self._closed = False
        self._changed = threading.Condition()

    @property
    def bytes(self) -> int:
        """Bytes that are counted now."""
        return self._bytes

    def should_flush(self, pending_bytes: int) -> bool:
        """Whether samplers wait and `pending_bytes` bytes are a good part of the reason: then it is time to write them.

        Where they are not, the judge is behind, and writing every chunk as it comes would leave thousands of shards.
        """
        return self._waiting > 0 and pending_bytes >= self._limit // 4

    def begin_drawing(self, samples: int, max_tokens: int) -> None:
        """Block while this thread and those that draw would hold too much; not once the backlog is closed.

        For a whole batch, not for a chunk: a sampler that has given a chunk away may hold it until it gives the next.

        Args:
            samples: of the largest chunk of the batch.
            max_tokens: that a sample may have.
        """
        with self._changed:
            self._wait(lambda: not self._drawing or self._expected((samples, max_tokens)) <= DRAWING_LIMIT)
            self._drawing[threading.get_ident()] = (samples, max_tokens)

    def end_drawing(self) -> None:
        """This thread draws nothing more for now."""
        with self._changed:
            self._drawing.pop(threading.get_ident(), None)
            self._changed.notify_all()

    def wait(self) -> None:
        """Block while the limit is reached; not once the backlog is closed."""
        with self._changed:
            self._wait(self._is_below_limit)

    def add(self, drawn: SampleChunk) -> None:
        """Count a chunk, after a wait where the limit is reached."""
        with self._changed:
            self._wait(self._is_below_limit)
            size = text_bytes(drawn)
            self._chunks[drawn.request.problem, drawn.request.first] = (size, self._holders)
            self._bytes += size
            self._sample_bytes = max(self._sample_bytes, size / max(1, len(drawn.samples)))
            self._changed.notify_all()  # what all are expected to draw has changed

    def release(self, request: Request) -> None:
        """A holder is done with the chunk of a request."""
        with self._changed:
            place = (request.problem, request.first)
            size, holders = self._chunks.pop(place)
            if holders > 1:
                self._chunks[place] = (size, holders - 1)
                return
            self._bytes -= size
            self._changed.notify_all()

    def close(self) -> None:
        """Let all pass: the draw ends, and what is drawn is still to be written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _expected(self, *more: tuple[int, int]) -> float:
        """Bytes of a chunk of every thread that draws, and of more."""
        chunks = (*self._drawing.values(), *more)
        return sum(samples * (self._sample_bytes or max_tokens * BYTES_PER_TOKEN) for samples, max_tokens in chunks)

    def _is_below_limit(self) -> bool:
        return self._bytes < self._limit

    def _wait(self, condition: Callable[[], bool]) -> None:
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._closed or condition())
        finally:
            self._waiting -= 1


def free_long_texts_at_once() -> None:
    """Have the memory of long texts go back to the system when they are freed.

    glibc raises the size from which it does so to that of what was freed, and keeps the rest for the thread that had
    it: sixteen threads with 40 MB chunks held 1.2 GB where a quarter was in use. Other systems return it anyway.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another libc
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LONG_TEXT)


def text_bytes(drawn: SampleChunk) -> int:
    """Bytes that the texts of a chunk take in memory: Python stores a character in one, two or four."""
    return sum(sys.getsizeof(sample.text) for sample in drawn.samples)
