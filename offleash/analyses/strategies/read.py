"""From the correct samples of a run to the strategy of each, by a fingerprint: read once, stored, resumable.

Stored beside the samples in strategies/<fingerprint>/, one row per sample; each distinct text is read once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint, SolvedProblem
from offleash.analyses.strategies.fingerprints.worker import Found, Row, answers, probe, request, server
from offleash.data.run import Run
from offleash.data.run_folder import append_to_run, folder_name, open_run, read_problems
from offleash.data.shards import SHARD, drop_without_samples, read_beside, scan_shards, write_beside
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifying.judge import subject_of

KEY = ["problem", "index"]
TEXTS, BYTES = 128, 1 << 20  # of one request to a worker
REMEMBERED = 2_000_000  # texts; beyond it they are told anew
GIVEN_UP = 20  # failures in a row, none read before; one that ends or holds up a worker counts twice
FAIR, APART = 0.8, 0.05  # coverage of each run, and between two, at which ways are not lost by reading
CORRECT = pl.col("verdict") == Verdict.CORRECT.value


@dataclass(frozen=True)
class Coverage:
    """How many correct samples of a run a fingerprint could read."""

    correct: int
    read: int
    failed: int = 0  # it crashed or took too long
    new: int = 0  # samples told in this call
    trouble: str = ""  # the most frequent reason why it failed

    @property
    def unread(self) -> int:
        return self.correct - self.read

    @property
    def share(self) -> float:
        """Of the correct samples, those whose way is known; 1 where there are none."""
        return self.read / self.correct if self.correct else 1.0


def misread(names: Sequence[str], coverage: Sequence[Coverage]) -> str:
    """Why ways of two runs may seem lost or new by reading alone; empty where both are read alike and well."""
    shares = [one.share for one in coverage]
    if min(shares) >= FAIR and max(shares) - min(shares) <= APART + 1e-9:
        return ""
    told = " and ".join(f"{share:.1%} of {name}" for name, share in zip(names, shares, strict=True))
    return (
        f"the fingerprint could tell the way of {told}, of the correct samples, so ways may seem lost or new only "
        "because they were not read"
    )


@dataclass
class Reader:
    """Tells the ways of texts by one fingerprint, each distinct one once."""

    by: Fingerprint
    pool: Pool
    progress: Progress = silent
    patient: bool = False  # something was read, so what fails is the text's fault
    _failed: int = 0  # in a row
    _known: dict[bytes, Found] = field(default_factory=dict)

    def ways(self, rows: Sequence[Row]) -> list[Found]:
        """What is found of each row, in their order."""
        keys = [_key(asked, text) for asked, text in rows]
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        if len(self._known) + len(new) > REMEMBERED:
            self._known.clear()
            new = dict(zip(keys, rows, strict=True))
        self._known |= zip(new, self._told(list(new.values())), strict=True)
        return [self._known[key] for key in keys]

    def _told(self, rows: Sequence[Row]) -> list[Found]:
        found: list[Found] = [(None, "not told")] * len(rows)
        tried, done = 0 if self.patient else GIVEN_UP, 0
        alone, todo = list(range(len(rows)))[:tried], list(range(len(rows)))[tried:]
        while todo or alone:
            parts, alone, todo = ([[one] for one in alone], [], todo) if alone else (list(_parts(rows, todo)), [], [])
            cases = [request(self.by, [rows[place] for place in part]) for part in parts]
            for number, judged in self.pool.judge(server(self.by), cases):
                part, told = parts[number], answers(judged)
                if told is None and len(part) > 1:
                    alone += part  # one of them hangs or kills its worker: each on its own
                    continue
                self._give_up(told, judged.reason)
                told = [(None, judged.reason)] if told is None else told
                for place, one in zip(part, told, strict=False):
                    found[place] = one
                todo += part[len(told) :]
                done += len(told)
                self.progress(f"{self.by.name}: {done:,} of {len(rows):,} distinct texts read")
        return found

    def _give_up(self, told: Sequence[Found] | None, reason: str) -> None:
        """Refuse a fingerprint that has failed on every text so far, before it does so on all of them."""
        troubles = [trouble for _, trouble in told or ()]
        self.patient = self.patient or not all(troubles)
        self._failed += 2 if told is None else len(troubles)
        if not self.patient and self._failed >= GIVEN_UP:
            last = reason if told is None else troubles[-1]
            raise OffleashError(
                f"The fingerprint {self.by.function or self.by.name!r} failed on each of the first texts and read "
                f"none; the last time: {last}. Mend it, or use another with --by."
            )


def identified(by: Fingerprint, pool: Pool) -> Fingerprint:
    """A fingerprint with the hash of its source where it is the user's own; one that cannot be loaded is refused."""
    if not by.function:
        return by
    (_, judged), *_ = pool.judge(server(by), [probe(by)])
    if judged.verdict is not Verdict.CORRECT or judged.solution is None:
        raise OffleashError(
            f"--by {by.function} could not be loaded: {judged.reason}. It names a function "
            "(problem: dict, text: str) -> str | None, as FILE.py:NAME or package.module:NAME."
        )
    return replace(by, revision=judged.solution)


def tell_run(
    folder: Path, reader: Reader, verifier: str | None = None, progress: Progress = silent, again: bool = False
) -> Coverage:
    """Tell the ways of all correct samples of a run folder that are not told yet, or of all of them again."""
    run = open_run(folder, verifier=verifier)
    assert run.verdicts is not None, "a run folder has samples"
    correct = run.verdicts.filter(CORRECT).select(KEY).collect(engine="streaming")
    identity = reader.by.identity
    # what failed is tried again: a crash says nothing of the sample
    standing = scan_ways(folder, identity).filter(pl.col("reason").is_null()).select(KEY)
    missing = correct if again else correct.lazy().join(standing, on=KEY, how="anti").collect()
    reader.patient = reader.patient or missing.height < correct.height
    new = _tell_missing(folder, reader, missing, progress) if missing.height else 0
    told = scan_ways(folder, identity).join(correct.lazy(), on=KEY, how="semi").collect()
    reasons = told["reason"].drop_nulls()
    worst = reasons.value_counts(sort=True)["reason"][0] if reasons.len() else ""
    return Coverage(correct.height, told.height - told["way"].null_count(), reasons.len(), new, worst)


def refuse_untold(run: Run, place: str, is_log: bool = False) -> None:
    """Refuse a run of which no way can be told."""
    if run.budget.until:
        raise OffleashError(
            f"{run.name!r} stopped at success {run.budget.until} of each problem, and ways need every sample of the "
            "budget; draw without --until."
        )
    told = pl.col("text").is_not_null()
    if run.samples is None or run.samples.select("text").filter(told).head(1).collect(engine="streaming").is_empty():
        step = "name their column with --map text=COLUMN, or give logs that keep them"
        raise OffleashError(
            f"{run.name!r} keeps no texts of its samples, and a way is read from a text; "
            f"{step if is_log else f'import the logs of {place} again, with --texts'}."
        )
    if run.verifier is None:
        raise OffleashError(
            f"No verifier has judged {run.name!r} yet, and ways are told of correct samples; offleash verify {place}."
        )


def _tell_missing(folder: Path, reader: Reader, missing: pl.DataFrame, progress: Progress) -> int:
    asked = _asked(folder)
    new = 0
    try:
        with append_to_run(folder) as opened:
            drop_without_samples(folder, ways_folder(folder, reader.by.identity))
            for shard in opened.sample_shards():
                rows = pl.scan_parquet(shard).select(*KEY, "text").join(missing.lazy(), on=KEY, how="semi").collect()
                if rows.is_empty():
                    continue
                told = _table(rows, reader, asked)
                kept = ways_on(folder, reader.by.identity, shard.name).join(told, on=KEY, how="anti")
                write_ways(folder, reader.by.identity, pl.concat([kept, told]), shard.name)
                new += rows.height
                progress(f"{folder.name}: ways of {new:,} of {missing.height:,} correct samples told")
    except OSError as error:
        raise OffleashError(f"The ways of {folder} could not be written ({error.strerror}); copy the run.") from None
    return new


def _table(rows: pl.DataFrame, reader: Reader, asked: dict[str, SolvedProblem]) -> pl.DataFrame:
    """The ways (WAYS) of samples; one without a text has none."""
    there = rows.filter(pl.col("text").is_not_null())
    found = reader.ways([(asked[problem], text) for problem, text in there.select("problem", "text").iter_rows()])
    told = there.select(KEY).with_columns(
        way=pl.Series([_writable(way) for way, _ in found], dtype=pl.String),
        reason=pl.Series([_writable(trouble) or None for _, trouble in found], dtype=pl.String),
    )
    without = rows.filter(pl.col("text").is_null()).select(*KEY, way=pl.lit(None, pl.String))
    return pl.concat([told, without.with_columns(reason=pl.lit(None, pl.String))]).select(*WAYS)


def _asked(folder: Path) -> dict[str, SolvedProblem]:
    out = {}
    for problem, gold, question, details in (
        read_problems(folder).select("problem", "gold", "question", "details").iter_rows()
    ):
        subject = subject_of(problem, gold, question, details)
        out[problem] = SolvedProblem(problem, subject.question, subject.gold, subject.details)
    return out


def _parts(rows: Sequence[Row], places: Sequence[int]) -> Iterator[list[int]]:
    """Places in parts that are one request each."""
    part: list[int] = []
    size = 0
    for place in places:
        length = len(rows[place][1])
        if part and (len(part) == TEXTS or size + length > BYTES):
            yield part
            part, size = [], 0
        part.append(place)
        size += length
    if part:
        yield part


def _key(asked: SolvedProblem, text: str) -> bytes:
    return blake2b(f"{asked.key} {text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _writable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


# The table on disk. Its column keeps the name `way`, which older run folders have.


WAYS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "way": pl.String(),  # null: the fingerprint could not tell
    "reason": pl.String(),  # why the fingerprint failed; such a sample is tried again
}
FOLDER, OLD_FOLDER = "strategies", "ways"


def ways_folder(run: Path, identity: str) -> Path:
    """Where the strategies of a run by one fingerprint are stored; a folder of the old name is kept in use."""
    old = run / OLD_FOLDER / folder_name(identity)
    return old if old.is_dir() else run / FOLDER / folder_name(identity)


def scan_ways(run: Path, identity: str) -> pl.LazyFrame:
    """All ways of a run by one fingerprint (WAYS), read lazily; none where there are none yet."""
    folder = ways_folder(run, identity)
    return scan_shards(folder, WAYS) if any(folder.glob(SHARD)) else pl.LazyFrame(schema=WAYS)


def ways_on(run: Path, identity: str, shard: str) -> pl.DataFrame:
    """The ways of the samples of one shard; empty where there are none yet."""
    found = read_beside(ways_folder(run, identity) / shard, WAYS, f"tell the ways of {run} again")
    return pl.DataFrame(schema=WAYS) if found is None else found


def write_ways(run: Path, identity: str, frame: pl.DataFrame, shard: str) -> None:
    """The ways of the samples of one shard, under its name; written whole."""
    write_beside(ways_folder(run, identity) / shard, frame, WAYS)
