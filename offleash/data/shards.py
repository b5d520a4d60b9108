"""Parquet shards: written atomically, read lazily, and sealed with a checksum when they hold samples or verdicts.

Tables beside the samples (verdicts, scores, positions) have one shard per shard of samples, under the same name.
"""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.atomic import WRITING_SUFFIX, open_no_link, write_text_atomically
from offleash.errors import OffleashError

SHARD = "*.parquet"
CHECKSUMS = "checksums.jsonl"
ADDED_COLUMNS = ("reason", "windows")  # columns that older runs lack
BLOCK_BYTES = 1 << 22
# what reading a damaged file can raise: the Parquet reader panics on some bytes
READ_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class ShardChecksum:
    """What was recorded about a shard when it was written."""

    blake2b: str  # empty: of a shard that is gone, or whose first writing did not end
    rows: int  # 0: the shard is known to be gone
    pending: str = ""  # of what was about to take its place: after a kill, either is right

    def matches(self, actual: str) -> bool:
        """Whether a shard with this checksum is the one that was written."""
        return actual in (self.blake2b, self.pending)


def next_shard(folder: Path) -> Path:
    """The file of a folder's next shard; names are never used again, also when a shard is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [file.stem for file in folder.glob(SHARD)] + [Path(name).stem for name in shard_checksums(folder)]
    last = max((int(name) for name in names if name.isdigit()), default=-1)
    return folder / f"{last + 1:06d}.parquet"


def add_shard(folder: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> str:
    """Write the next shard of samples and return its name."""
    file = next_shard(folder)
    write_atomically(file, cast_to_schema(frame, schema).sort("problem", "index"))
    # after it has its name: a kill in between leaves a good shard that is not sealed
    _record_shard(folder, {"shard": file.name, "blake2b": checksum(file), "rows": frame.height})
    return file.name


def replace_shard(file: Path, frame: pl.DataFrame) -> None:
    """Write a shard that may be there already, and note its checksum.

    The checksum is noted as pending before the shard gets its name, and as its own afterwards. So a kill at any moment
    leaves a shard that the notes know: the old one, the new one, or none yet. A shard without a note is not ours.
    """
    record_missing_checksums(file.parent)
    previous = shard_checksums(file.parent, file.name).get(file.name)
    if previous is not None and previous.pending and file.is_file() and checksum(file) == previous.pending:
        # a kill came after the rename: say so first, or the next kill would leave three candidates
        _record_shard(file.parent, {"shard": file.name, "blake2b": previous.pending, "rows": previous.rows})
    row: dict[str, str | int] = {"shard": file.name, "blake2b": "", "rows": frame.height}

    def record_pending(temporary: Path) -> None:
        row["blake2b"] = checksum(temporary)
        _record_shard(file.parent, row | {"pending": True})

    write_atomically(file, frame, record_pending)
    _record_shard(file.parent, row)


def record_missing_checksums(folder: Path) -> None:
    """Begin the checksums of a folder whose shards an older version wrote: they are sealed as they are now."""
    if (folder / CHECKSUMS).exists() or not any(folder.glob(SHARD)):
        return
    rows = [
        {"shard": file.name, "blake2b": checksum(file), "rows": _row_count(file)} for file in sorted(folder.glob(SHARD))
    ]
    try:
        write_text_atomically(folder / CHECKSUMS, "".join(json.dumps(row) + "\n" for row in rows))
    except OSError as error:
        raise _not_recorded_error(folder, error) from None


def write_atomically(file: Path, frame: pl.DataFrame, before_rename: Callable[[Path], None] | None = None) -> None:
    """Write beside the name, then rename: a reader sees the whole file or none of it.

    `before_rename` is called with the complete file before it gets its name.
    """
    temporary = file.with_name(file.name + WRITING_SUFFIX)
    try:
        temporary.unlink(missing_ok=True)  # a link would be written through
        frame.write_parquet(temporary, compression="zstd", statistics=True)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        if before_rename is not None:
            before_rename(temporary)
        temporary.replace(file)
    except OffleashError:
        temporary.unlink(missing_ok=True)
        raise
    except (OSError, pl.exceptions.PolarsError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)  # on a full disk every byte counts
        raise OffleashError(
            f"{file} could not be written ({first_line(error)}). Check disk space; earlier shards are intact."
        ) from None


def cast_to_schema(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(column) for column, kind in schema.items() if column not in frame.columns]
    return frame.with_columns(missing).select(pl.col(column).cast(kind) for column, kind in schema.items())


def scan_shards(folder: Path, schema: dict[str, pl.DataType], pattern: str = SHARD) -> pl.LazyFrame:
    """All shards of a folder as one table, read lazily; a shard that is cut off or of other columns is named."""
    files = sorted(folder.glob(pattern))
    if not files:
        raise OffleashError(f"{folder} has no shards: the run has no samples yet. Draw or import some first.")
    for file in files:
        check_schema(file, schema)
    return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore")


def check_schema(file: Path, schema: dict[str, pl.DataType]) -> None:
    """Refuse a shard that is cut off or has other columns than its table."""
    try:
        columns = pl.read_parquet_schema(file)
    except READ_ERRORS as error:
        raise damaged_shard_error(file, error) from None
    missing = [column for column in schema if column not in columns and column not in ADDED_COLUMNS]
    if missing:
        raise OffleashError(f"{file} lacks the columns {missing}. It was not written by this version of offleash.")
    changed = [column for column in schema if column in columns and columns[column] != schema[column]]
    if changed:
        raise OffleashError(
            f"{file}: column {changed[0]!r} should be {schema[changed[0]]}; found {columns[changed[0]]}. The shard "
            "was edited: restore it or import the logs again."
        )


def damaged_shard_error(file: Path, error: BaseException) -> OffleashError:
    """The error for a shard that cannot be read."""
    retry_step = "draw (or import) again to add what is missing" if file.parent.name == "samples" else "command again"
    return OffleashError(
        f"{file} is damaged or truncated ({first_line(error)}). Restore it, or rm {file} and run the same {retry_step}."
    )


def refuse_changed_shard(file: Path) -> None:
    """Refuse to build on a shard of verdicts that is not what was written."""
    if not (file.parent / CHECKSUMS).is_file():
        return
    recorded_shard = shard_checksums(file.parent, file.name).get(file.name)
    if recorded_shard is None or not recorded_shard.matches(checksum(file)):
        raise OffleashError(
            f"{file} was changed: its checksum does not match {CHECKSUMS} (or is not listed there). Restore it, or "
            f"rm {file} and run the same command again."
        )


def shard_checksums(folder: Path, shard_name: str = "") -> dict[str, ShardChecksum]:
    """The checksums recorded when the shards of a folder, or one of them, were written; a cut-off line is skipped."""
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    checksums: dict[str, ShardChecksum] = {}
    for line in lines:
        if shard_name not in line:
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            row = json.loads(line)
            name, digest, rows = str(row["shard"]), str(row["blake2b"]), int(row["rows"])
            pending = row.get("pending") is True
            checksums[name] = (
                replace(checksums.get(name, ShardChecksum("", rows)), pending=digest)
                if pending
                else ShardChecksum(digest, rows)
            )
    return checksums


def mark_missing_shards(folder: Path) -> None:
    """Note of every shard that is gone that it holds nothing: its name stays taken."""
    for name, recorded_shard in shard_checksums(folder).items():
        if recorded_shard.rows and not (folder / name).is_file():
            _record_shard(folder, {"shard": name, "blake2b": "", "rows": 0})


def checksum(file: Path) -> str:
    digest = blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _row_count(file: Path) -> int:
    try:
        return int(pl.scan_parquet(file).select(pl.len()).collect().item())
    except READ_ERRORS:
        return 0


def _record_shard(folder: Path, row: dict[str, str | int]) -> None:
    checksum_file = folder / CHECKSUMS
    line = json.dumps(row) + "\n"
    try:
        with os.fdopen(open_no_link(checksum_file, os.O_RDWR | os.O_APPEND), "ab+") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 1))
            if end and stream.read(1) != b"\n":  # a line that a kill cut off
                line = "\n" + line
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _not_recorded_error(folder, error) from None


def _not_recorded_error(folder: Path, error: OSError) -> OffleashError:
    checksum_file = folder / CHECKSUMS
    return OffleashError(
        f"{checksum_file} could not be written ({error.strerror}). Check disk space; earlier shards are intact."
    )


KEY = ("problem", "index")


def read_sidecar(file: Path, schema: dict[str, pl.DataType], retry_step: str) -> pl.DataFrame | None:
    """The table beside one shard of samples; None if there is none yet. `retry_step` says how to replace it."""
    if not file.is_file():
        return None
    try:
        check_schema(file, schema)
        return cast_to_schema(pl.read_parquet(file), schema)
    except READ_ERRORS as error:
        raise OffleashError(f"{file} is damaged ({first_line(error)}). Delete it and {retry_step}.") from None
    except OffleashError as error:
        raise OffleashError(f"{str(error).partition('. ')[0]}. Delete it and {retry_step}.") from None


def write_sidecar(file: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType], key: Sequence[str] = KEY) -> None:
    """Write the table that belongs to one shard of samples, in one piece."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, cast_to_schema(frame, schema).sort(key))


def remove_orphaned_sidecars(run: Path, folder: Path) -> None:
    """Remove tables whose shard of samples is gone: samples drawn again have other texts."""
    for file in folder.glob(SHARD):
        if not (run / "samples" / file.name).is_file():
            file.unlink()
