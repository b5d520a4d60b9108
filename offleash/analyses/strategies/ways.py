"""Ways: how each correct sample of a run was solved, by a fingerprint, in a table beside the samples."""

from pathlib import Path

import polars as pl

from offleash.data.beside import read_beside, write_beside
from offleash.data.folder import folder_name
from offleash.data.shards import SHARD, scan_shards

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
    found = read_beside(ways_folder(run, identity) / shard, WAYS, f"tell the ways of {run} again")
    return pl.DataFrame(schema=WAYS) if found is None else found


def write_ways(run: Path, identity: str, frame: pl.DataFrame, shard: str) -> None:
    """The ways of the samples of one shard, under its name; written whole."""
    write_beside(ways_folder(run, identity) / shard, frame, WAYS)
