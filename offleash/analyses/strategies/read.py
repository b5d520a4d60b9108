"""From the correct samples of a run to the strategy of each, by a fingerprint: read once, stored, resumable.

Stored beside the samples in strategies/<fingerprint>/, one row per sample; each distinct text is read once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint, SolvedProblem
from offleash.analyses.strategies.fingerprints.worker import Row, StrategyOrError, probe, request, results_of, server
from offleash.data.run import Run
from offleash.data.run_folder import append_to_run, folder_name, open_run, read_problems
from offleash.data.shards import SHARD, read_sidecar, remove_orphaned_sidecars, scan_shards, write_sidecar
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifying.judge import problem_case

KEY = ["problem", "index"]
TEXTS_PER_REQUEST, BYTES_PER_REQUEST = (
    128,
    1 << 20,
)  # per request to a worker: enough to hide the cost of a request, too few to fill a pipe
MAX_CACHED_TEXTS = 2_000_000  # distinct texts whose strategies stay in memory; beyond it the cache is emptied
GIVE_UP_AFTER = 20  # failures in a row with nothing read before; one that kills or hangs a worker counts twice
# Coverage needed for a loss not to be an artefact of reading: at least so much in each run, at most so far apart.
# A fingerprint that misses 20% of the samples can hide a rare strategy, and one that reads a run worse than the other
# makes its strategies look lost.
MIN_COVERAGE, COVERAGE_GAP = 0.8, 0.05
CORRECT = pl.col("verdict") == Verdict.CORRECT.value


@dataclass(frozen=True)
class Coverage:
    """How many correct samples of a run a fingerprint could read. The fields are the keys of the JSON."""

    correct: int
    read: int
    failed: int = 0  # it crashed or took too long
    new: int = 0  # samples read in this call
    trouble: str = ""  # the most frequent error

    @property
    def unread(self) -> int:
        return self.correct - self.read

    @property
    def share(self) -> float:
        """Share of the correct samples whose strategy is known; 1 where there are none."""
        return self.read / self.correct if self.correct else 1.0


def coverage_caution(names: Sequence[str], coverage: Sequence[Coverage]) -> str:
    """Why strategies may seem lost or new only because texts were not read; empty where both runs are read well."""
    shares = [run.share for run in coverage]
    if min(shares) >= MIN_COVERAGE and max(shares) - min(shares) <= COVERAGE_GAP + 1e-9:
        return ""
    read = " and ".join(f"{share:.1%} of {name}" for name, share in zip(names, shares, strict=True))
    return (
        f"the fingerprint could read the strategy of {read} (correct samples), so strategies may seem lost or new only "
        "because they were not read"
    )


@dataclass
class Reader:
    """Reads the strategies of texts by one fingerprint, each distinct text once."""

    by: Fingerprint
    pool: Pool
    progress: Progress = silent
    has_read_any: bool = False  # something was read before, so failures are the texts' fault, not the fingerprint's
    _failed: int = 0  # in a row
    _cache: dict[bytes, StrategyOrError] = field(default_factory=dict)

    def strategies(self, rows: Sequence[Row]) -> list[StrategyOrError]:
        """The strategy of each row, or why it could not be read, in the order of the rows."""
        keys = [_key(problem, text) for problem, text in rows]
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._cache}
        if len(self._cache) + len(new) > MAX_CACHED_TEXTS:
            self._cache.clear()
            new = dict(zip(keys, rows, strict=True))
        self._cache |= zip(new, self._read(list(new.values())), strict=True)
        return [self._cache[key] for key in keys]

    def _read(self, rows: Sequence[Row]) -> list[StrategyOrError]:
        """Send rows to the workers until each has a result.

        Rows are in one of two queues: `alone`, sent one by one because some row beside them hung or killed its worker
        (and at the start, so that a broken fingerprint is noticed after few texts); and `todo`, sent in batches.
        """
        results: list[StrategyOrError] = [(None, "not read")] * len(rows)
        tried, done = 0 if self.has_read_any else GIVE_UP_AFTER, 0
        alone, todo = list(range(len(rows)))[:tried], list(range(len(rows)))[tried:]
        while todo or alone:
            if alone:
                batches, alone = [[index] for index in alone], []
            else:
                batches, todo = list(_batches(rows, todo)), []
            cases = [request(self.by, [rows[index] for index in batch]) for batch in batches]
            for number, judged in self.pool.judge(server(self.by), cases):
                batch, read = batches[number], results_of(judged)
                if read is None and len(batch) > 1:
                    alone += batch
                    continue
                self._refuse_if_all_failed(read, judged.reason)
                read = [(None, judged.reason)] if read is None else read
                for index, result in zip(batch, read, strict=False):  # a slice of a second may end before the batch
                    results[index] = result
                todo += batch[len(read) :]
                done += len(read)
                self.progress(f"{self.by.name}: {done:,} of {len(rows):,} distinct texts read")
        return results

    def _refuse_if_all_failed(self, read: Sequence[StrategyOrError] | None, reason: str) -> None:
        """Refuse a fingerprint that has failed on every text so far, before it does so on all of them."""
        errors = [error for _, error in read or ()]
        self.has_read_any = self.has_read_any or not all(errors)
        self._failed += 2 if read is None else len(errors)
        if not self.has_read_any and self._failed >= GIVE_UP_AFTER:
            last = reason if read is None else errors[-1]
            raise OffleashError(
                f"The fingerprint {self.by.function or self.by.name!r} failed on every text so far. The last error: "
                f"{last}. Fix it, or choose another with --by."
            )


def with_revision(by: Fingerprint, pool: Pool) -> Fingerprint:
    """A fingerprint with the hash of its source where it is a user's; one that cannot be loaded is refused.

    The source is loaded in a worker: importing it here would run a user's module in the main process.
    """
    if not by.function:
        return by
    (_, judged), *_ = pool.judge(server(by), [probe(by)])
    if judged.verdict is not Verdict.CORRECT or judged.solution is None:
        raise OffleashError(
            f"--by {by.function} could not be loaded: {judged.reason}. It should name a function "
            "(problem: dict, text: str) -> str | None, as FILE.py:NAME or package.module:NAME."
        )
    return replace(by, revision=judged.solution)


def read_run(
    folder: Path, reader: Reader, verifier: str | None = None, progress: Progress = silent, again: bool = False
) -> Coverage:
    """Read the strategies of all correct samples of a run folder that are not stored yet, or of all with `again`."""
    run = open_run(folder, verifier=verifier)
    assert run.verdicts is not None, "a run folder has samples"
    correct = run.verdicts.filter(CORRECT).select(KEY).collect(engine="streaming")
    identity = reader.by.identity
    # Samples on which the fingerprint failed are not among the stored: a crash says nothing about the sample.
    stored = scan_strategies(folder, identity).filter(pl.col("reason").is_null()).select(KEY)
    missing = correct if again else correct.lazy().join(stored, on=KEY, how="anti").collect()
    reader.has_read_any = reader.has_read_any or missing.height < correct.height
    new = _read_missing(folder, reader, missing, progress) if missing.height else 0
    # Only of what is correct now: the verdicts may have changed since a strategy was stored.
    table = scan_strategies(folder, identity).join(correct.lazy(), on=KEY, how="semi").collect()
    reasons = table["reason"].drop_nulls()
    most_frequent = reasons.value_counts(sort=True)["reason"][0] if reasons.len() else ""
    return Coverage(correct.height, table.height - table["way"].null_count(), reasons.len(), new, most_frequent)


def refuse_unreadable(run: Run, path: str, is_log: bool = False) -> None:
    """Refuse a run in which no strategy can be read: it stopped early, has no texts, or has no verdicts."""
    if run.budget.until:
        raise OffleashError(
            f"{run.name!r} was drawn with --until {run.budget.until}, but strategies need every sample of the budget. "
            "Draw without --until."
        )
    has_text = pl.col("text").is_not_null()
    if (
        run.samples is None
        or run.samples.select("text").filter(has_text).head(1).collect(engine="streaming").is_empty()
    ):
        step = "Name their column with --map text=COLUMN, or use logs that record them"
        raise OffleashError(
            f"{run.name!r} has no sample texts, but strategies are read from texts. "
            f"{step if is_log else f'Import the logs of {path} again, with --texts'}."
        )
    if run.verifier is None:
        raise OffleashError(
            f"{run.name!r} has no verdicts yet, but strategies are read from correct samples. "
            f"Run: offleash verify {path}."
        )


def _read_missing(folder: Path, reader: Reader, missing: pl.DataFrame, progress: Progress) -> int:
    """Read and store shard by shard, so that a kill loses at most one shard; returns how many samples were read."""
    problems = _solved_problems(folder)
    new = 0
    try:
        with append_to_run(folder) as opened:
            remove_orphaned_sidecars(folder, strategies_folder(folder, reader.by.identity))
            for shard in opened.sample_shards():
                rows = pl.scan_parquet(shard).select(*KEY, "text").join(missing.lazy(), on=KEY, how="semi").collect()
                if rows.is_empty():
                    continue
                table = _table(rows, reader, problems)
                kept = strategies_on(folder, reader.by.identity, shard.name).join(table, on=KEY, how="anti")
                write_strategies(folder, reader.by.identity, pl.concat([kept, table]), shard.name)
                new += rows.height
                progress(f"{folder.name}: strategies of {new:,} of {missing.height:,} correct samples read")
    except OSError as error:
        raise OffleashError(
            f"The strategies of {folder} could not be written ({error.strerror}). Copy the run to a writable location."
        ) from None
    return new


def _table(rows: pl.DataFrame, reader: Reader, problems: dict[str, SolvedProblem]) -> pl.DataFrame:
    """The strategies (STRATEGIES) of samples; a sample without a text has none, and no error either."""
    texts = rows.filter(pl.col("text").is_not_null())
    results = reader.strategies(
        [(problems[problem], text) for problem, text in texts.select("problem", "text").iter_rows()]
    )
    read = texts.select(KEY).with_columns(
        way=pl.Series([_encodable(strategy) for strategy, _ in results], dtype=pl.String),
        reason=pl.Series([_encodable(error) or None for _, error in results], dtype=pl.String),
    )
    without = rows.filter(pl.col("text").is_null()).select(*KEY, way=pl.lit(None, pl.String))
    return pl.concat([read, without.with_columns(reason=pl.lit(None, pl.String))]).select(*STRATEGIES)


def _solved_problems(folder: Path) -> dict[str, SolvedProblem]:
    out = {}
    for problem, gold, question, details in (
        read_problems(folder).select("problem", "gold", "question", "details").iter_rows()
    ):
        case = problem_case(problem, gold, question, details)
        out[problem] = SolvedProblem(problem, case.question, case.gold, case.details)
    return out


def _batches(rows: Sequence[Row], indices: Sequence[int]) -> Iterator[list[int]]:
    """Places of rows in batches of one request each."""
    batch: list[int] = []
    size = 0
    for index in indices:
        length = len(rows[index][1])
        if batch and (len(batch) == TEXTS_PER_REQUEST or size + length > BYTES_PER_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += length
    if batch:
        yield batch


def _key(problem: SolvedProblem, text: str) -> bytes:
    return blake2b(f"{problem.key} {text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _encodable(text: str | None) -> str | None:
    """A text that Parquet takes: what a user's function returns may hold lone surrogates."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


# The table on disk. Its column is called `way` and its first folder was `ways/`: stored names, kept for older runs.


STRATEGIES: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "way": pl.String(),  # null: the fingerprint could not read it
    "reason": pl.String(),  # the error, where the fingerprint failed; such a sample is tried again
}
STRATEGIES_FOLDER, OLD_FOLDER = "strategies", "ways"


def strategies_folder(run: Path, identity: str) -> Path:
    """Where the strategies of a run by one fingerprint are stored; a folder of the old name is kept in use."""
    old = run / OLD_FOLDER / folder_name(identity)
    return old if old.is_dir() else run / STRATEGIES_FOLDER / folder_name(identity)


def scan_strategies(run: Path, identity: str) -> pl.LazyFrame:
    """All strategies of a run by one fingerprint (STRATEGIES), read lazily; empty where none is stored."""
    folder = strategies_folder(run, identity)
    return scan_shards(folder, STRATEGIES) if any(folder.glob(SHARD)) else pl.LazyFrame(schema=STRATEGIES)


def strategies_on(run: Path, identity: str, shard: str) -> pl.DataFrame:
    """The strategies of the samples of one shard; empty where none is stored."""
    stored = read_sidecar(
        strategies_folder(run, identity) / shard, STRATEGIES, f"read the strategies of {run} again (--again)"
    )
    return pl.DataFrame(schema=STRATEGIES) if stored is None else stored


def write_strategies(run: Path, identity: str, frame: pl.DataFrame, shard: str) -> None:
    """Store the strategies of the samples of one shard, under its name; the file is replaced as a whole."""
    write_sidecar(strategies_folder(run, identity) / shard, frame, STRATEGIES)
