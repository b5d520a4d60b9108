"""Positions: entropy of tokens by where they stand in a sample and by its height, summed over a problem's samples.

Of each shard and problem they are those of its first samples by index, as many as SAMPLES counts: never of chosen ones.
"""

from pathlib import Path

import polars as pl

from offleash.data.beside import read_beside, write_beside
from offleash.data.scores import scores_folder
from offleash.data.shards import SHARD, scan_shards
from offleash.errors import OffleashError

POSITIONS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "kind": pl.String(),
    "bin": pl.Int32(),  # its lower edge
    "tokens": pl.UInt64(),  # how many tokens; of SAMPLES, how many samples
    "entropy": pl.Float64(),  # their sum, nats, by the model's own distribution
}
START, END = "start", "end"  # tokens from the start or the end: 0, 1, ..., 15, then 16 to 31, 32 to 63, ...
TENTH = "tenth"  # of the text: 0 to 9
HEIGHT = "height"  # entropy of the token, in steps of STEP
SAMPLES = "samples"  # how many samples were read: bin 0
STEP = 0.1  # nats
SINGLE = 16  # tokens that have a bin of their own
POSITIONS_FOLDER = "positions"


def positions_folder(run: Path, name: str) -> Path:
    return scores_folder(run, name) / POSITIONS_FOLDER


def scan_positions(run: Path, name: str) -> pl.LazyFrame:
    """All positions of a run's samples that stand under a model's name (POSITIONS), read lazily."""
    return scan_shards(positions_folder(run, name), POSITIONS)


def has_positions(run: Path, name: str) -> bool:
    return any(positions_folder(run, name).glob(SHARD))


def positions_on(run: Path, name: str, shard: str) -> pl.DataFrame | None:
    """The positions of a shard of samples; None where there are none, or they cannot be read."""
    try:
        return read_beside(positions_folder(run, name) / shard, POSITIONS, "score again")
    except OffleashError:  # they are made again from the same samples
        return None


def write_positions(run: Path, name: str, frame: pl.DataFrame, shard: str) -> None:
    """The positions of a shard of samples, under its name; written whole."""
    summed = frame.group_by("problem", "kind", "bin").agg(pl.col("tokens", "entropy").sum())
    write_beside(positions_folder(run, name) / shard, summed, POSITIONS, ("problem", "kind", "bin"))
