"""Writing a draw: chunks are gathered into shards, with verdicts beside a shard once all of its samples have one."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from offleash.data.run_folder import RunFolder
from offleash.data.tables import SAMPLES
from offleash.drawing.backlog import Backlog, text_bytes
from offleash.errors import OffleashError
from offleash.samplers.sampler import TRUNCATED, Request, SampleChunk

SHARD_SAMPLES = 4_096
SHARD_BYTES = 64 << 20  # of text
# Seconds between two shards: a share of the time so far within limits. A kill loses at most this much work, and the
# number of shards grows with the logarithm of the time instead of the time.
MIN_PAUSE, MAX_PAUSE, PAUSE_SHARE = 2.0, 60.0, 0.01
FAILURES = "failures.jsonl"

ChunkKey = tuple[str, int]  # problem and first index of a chunk


@dataclass
class _Shard:
    """A shard of samples some of whose verdicts are still to come."""

    name: str
    left: set[ChunkKey]
    frames: list[pl.DataFrame] = field(default_factory=list)


class Writer:
    """Appends to a run. A chunk is never split over shards: after a kill it is there as a whole or drawn again."""

    def __init__(self, run: RunFolder, verifier: str | None, backlog: Backlog) -> None:
        self._run, self._verifier, self._backlog = run, verifier, backlog
        self._pending: list[SampleChunk] = []
        self._samples = self._bytes = 0
        self._early_verdicts: dict[ChunkKey, pl.DataFrame] = {}  # verdicts on what is not yet written
        self._shards: dict[ChunkKey, _Shard] = {}  # of chunks that are written and not judged
        self._started = self._last_write = time.monotonic()
        self.samples = self.tokens = self.truncated = 0  # of this draw

    def add(self, drawn: SampleChunk) -> None:
        self._pending.append(drawn)
        self._samples += len(drawn.samples)
        self._bytes += text_bytes(drawn)
        self.samples += len(drawn.samples)
        self.tokens += sum(sample.tokens or 0 for sample in drawn.samples)
        self.truncated += sum(sample.finish == TRUNCATED for sample in drawn.samples)

    def add_verdicts(self, request: Request, verdicts: pl.DataFrame) -> None:
        """Add the verdicts on a chunk; once all of a shard are there, they are written beside it."""
        key = (request.problem, request.first)
        shard = self._shards.pop(key, None)
        if shard is None:
            self._early_verdicts[key] = verdicts
            return
        shard.left.discard(key)
        shard.frames.append(verdicts)
        self._finish(shard)

    def failed(self, drawn: SampleChunk) -> None:
        """Log a request that failed to failures.jsonl."""
        request = drawn.request
        row = {"problem": request.problem, "first": request.first, "size": request.size, "reason": drawn.error}
        file = self._run.path / FAILURES
        try:
            with file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        except OSError as error:
            raise OffleashError(
                f"{file} could not be written ({error.strerror}). Check disk space and permissions."
            ) from None

    def write_due(self) -> None:
        """Write a shard where one is full, samplers wait for it, or its time has come."""
        now = time.monotonic()
        pause = min(MAX_PAUSE, max(MIN_PAUSE, PAUSE_SHARE * (now - self._started)))
        full = self._samples >= SHARD_SAMPLES or self._bytes >= SHARD_BYTES
        if self._pending and (full or self._backlog.should_flush(self._bytes) or now - self._last_write >= pause):
            self.write()

    def write(self) -> None:
        """Write all samples that are held as a shard, with the verdicts that have come early."""
        if not self._pending:
            return
        pending, self._pending, self._samples, self._bytes = self._pending, [], 0, 0
        table, requests = table_of(pending), [drawn.request for drawn in pending]
        del pending  # the table has copies of its texts
        name = self._run.write_samples(table)
        del table
        self._last_write = time.monotonic()
        for request in requests:
            self._backlog.release(request)
        if self._verifier is None:
            return
        keys = [(request.problem, request.first) for request in requests]
        shard = _Shard(name, {key for key in keys if key not in self._early_verdicts})
        shard.frames = [self._early_verdicts.pop(key) for key in keys if key in self._early_verdicts]
        self._shards.update(dict.fromkeys(shard.left, shard))
        self._finish(shard)

    def _finish(self, shard: _Shard) -> None:
        """Write the verdicts of a shard once none is missing: readers take a shard of verdicts for complete."""
        if not shard.left:
            assert self._verifier is not None, "only judged samples have verdicts"
            self._run.write_verdicts(self._verifier, pl.concat(shard.frames), shard=shard.name)


def table_of(chunks: Sequence[SampleChunk]) -> pl.DataFrame:
    """Samples as a table (SAMPLES)."""
    columns: dict[str, list[object]] = {
        "problem": [drawn.request.problem for drawn in chunks for _ in drawn.samples],
        **{name: [getattr(sample, name) for drawn in chunks for sample in drawn.samples] for name in list(SAMPLES)[1:]},
    }
    return pl.DataFrame(columns, schema=SAMPLES)
