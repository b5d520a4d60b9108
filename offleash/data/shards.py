"""Parquet shards: written atomically, read lazily, and sealed with a checksum when they hold samples.

Tables beside the samples (verdicts, scores, positions) have one shard per shard of samples, under the same name.
"""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.run import WRITING
from offleash.errors import OffleashError

SHARD = "*.parquet"
CHECKSUMS = "checksums.jsonl"
ADDED_COLUMNS = ("reason", "windows")  # columns that older runs lack
READ_BLOCK = 1 << 22
# what reading a damaged file can raise: the Parquet reader panics on some bytes
DAMAGE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class ShardChecksum:
    """What was noted of a shard when it was written."""

    blake2b: str
    rows: int  # 0: the shard is known to be gone


def add_shard(folder: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType], sealed: bool = False) -> str:
    """Write the next shard of a folder and return its name; names are never used again, also when a shard is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [file.stem for file in folder.glob(SHARD)]
    if sealed:
        names += [Path(name).stem for name in shard_checksums(folder)]
    last = max((int(name) for name in names if name.isdigit()), default=-1)
    file = folder / f"{last + 1:06d}.parquet"
    write_atomically(file, as_table(frame, schema).sort("problem", "index"))
    if sealed:
        _record_checksum(file, frame.height)
    return file.name


def write_atomically(file: Path, frame: pl.DataFrame) -> None:
    """Write beside the name, then rename: a reader sees the whole file or none of it."""
    temporary = file.with_name(file.name + WRITING)
    try:
        frame.write_parquet(temporary, compression="zstd", statistics=True)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)  # on a full disk every byte counts
        raise OffleashError(
            f"{file} could not be written ({first_line(error)}). Check disk space; earlier shards are intact."
        ) from None


def as_table(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(column) for column, kind in schema.items() if column not in frame.columns]
    return frame.with_columns(missing).select(pl.col(column).cast(kind) for column, kind in schema.items())


def scan_shards(folder: Path, schema: dict[str, pl.DataType], only: str = SHARD) -> pl.LazyFrame:
    """All shards of a folder as one table, read lazily; a shard that is cut off or of other columns is named."""
    files = sorted(folder.glob(only))
    if not files:
        raise OffleashError(f"{folder} has no shards: the run has no samples yet.")
    for file in files:
        check_schema(file, schema)
    return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore")


def check_schema(file: Path, schema: dict[str, pl.DataType]) -> None:
    """Refuse a shard that is cut off or has other columns than its table."""
    try:
        columns = pl.read_parquet_schema(file)
    except DAMAGE as error:
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
    """What to say of a shard that cannot be read."""
    redo_text = "draw (or import) again to add what is missing" if file.parent.name == "samples" else "command again"
    return OffleashError(
        f"{file} is damaged or truncated ({first_line(error)}). Restore it, or rm {file} and run the same {redo_text}."
    )


def shard_checksums(folder: Path) -> dict[str, ShardChecksum]:
    """What was noted of every shard of a folder when it was written; a line that a kill cut off is no note."""
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    checksums = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            checksums[str(row["shard"])] = ShardChecksum(str(row["blake2b"]), int(row["rows"]))
    return checksums


def mark_missing_shards(folder: Path) -> None:
    """Note of every shard that is gone that it holds nothing: its name stays taken."""
    for name, seal in shard_checksums(folder).items():
        if seal.rows and not (folder / name).is_file():
            _append_note(folder, {"shard": name, "blake2b": "", "rows": 0})


def checksum(file: Path) -> str:
    whole = blake2b(digest_size=16)
    with file.open("rb") as opened:
        while block := opened.read(READ_BLOCK):
            whole.update(block)
    return whole.hexdigest()


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _record_checksum(file: Path, rows: int) -> None:
    """Note a shard's checksum, after it has its name: a kill in between leaves a good shard that is not sealed."""
    _append_note(file.parent, {"shard": file.name, "blake2b": checksum(file), "rows": rows})


def _append_note(folder: Path, row: dict[str, str | int]) -> None:
    notes = folder / CHECKSUMS
    line = json.dumps(row) + "\n"
    try:
        with notes.open("ab+") as opened:
            end = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, end - 1))
            if end and opened.read(1) != b"\n":  # a line that a kill cut off
                line = "\n" + line
            opened.write(line.encode())
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise OffleashError(
            f"{notes} could not be written ({error.strerror}). Check disk space; earlier shards are intact."
        ) from None


KEY = ("problem", "index")


def read_sidecar(file: Path, schema: dict[str, pl.DataType], redo_text: str) -> pl.DataFrame | None:
    """What stands beside one shard; None where there is nothing yet. `redo_text` says how to remake a damaged one."""
    if not file.is_file():
        return None
    try:
        check_schema(file, schema)
        return as_table(pl.read_parquet(file), schema)
    except DAMAGE as error:
        raise OffleashError(f"{file} is damaged ({first_line(error)}). Delete it and {redo_text}.") from None
    except OffleashError as error:
        raise OffleashError(f"{str(error).partition('. ')[0]}. Delete it and {redo_text}.") from None


def write_sidecar(file: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType], key: Sequence[str] = KEY) -> None:
    """Write what stands beside one shard, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, as_table(frame, schema).sort(key))


def drop_without_samples(run: Path, folder: Path) -> None:
    """Remove what stood beside shards of samples that are gone: what was drawn anew has another text."""
    for file in folder.glob(SHARD):
        if not (run / "samples" / file.name).is_file():
            file.unlink()
