"""Ways: how each correct sample of a run was solved, by a fingerprint, in a table beside the samples."""

from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.tables.folder import folder_name
from offleash.tables.shards import DAMAGE, SHARD, as_table, check_schema, first_line, scan_shards, write_whole

WAYS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "way": pl.String(),  # null: the fingerprint could not tell
    "reason": pl.String(),  # why the fingerprint failed; such a sample is tried again
}
FOLDER = "ways"


def ways_folder(run: Path, identity: str) -> Path:
    """Where the ways of a run by one fingerprint stand."""
    return run / FOLDER / folder_name(identity)


def scan_ways(run: Path, identity: str) -> pl.LazyFrame:
    """All ways of a run by one fingerprint (WAYS), read lazily; none where there are none yet."""
    folder = ways_folder(run, identity)
    return scan_shards(folder, WAYS) if any(folder.glob(SHARD)) else pl.LazyFrame(schema=WAYS)


def ways_on(run: Path, identity: str, shard: str) -> pl.DataFrame:
    """The ways of the samples of one shard; empty where there are none yet."""
    file = ways_folder(run, identity) / shard
    if not file.is_file():
        return pl.DataFrame(schema=WAYS)
    again = f"delete it and tell the ways of {run} again"
    try:
        check_schema(file, WAYS)
        return as_table(pl.read_parquet(file), WAYS)
    except DAMAGE as error:
        raise OffleashError(f"{file} is damaged ({first_line(error)}); {again}.") from None
    except OffleashError as error:
        raise OffleashError(f"{str(error).partition(';')[0]}; {again}.") from None


def write_ways(run: Path, identity: str, frame: pl.DataFrame, shard: str) -> None:
    """The ways of the samples of one shard, under its name; written whole."""
    folder = ways_folder(run, identity)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / shard, as_table(frame, WAYS).sort("problem", "index"))


def drop_ways_without_samples(run: Path, identity: str) -> None:
    """Remove ways of shards of samples that are gone: what was drawn anew has another text."""
    for file in ways_folder(run, identity).glob(SHARD):
        if not (run / "samples" / file.name).is_file():
            file.unlink()
