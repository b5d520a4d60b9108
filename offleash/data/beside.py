"""Tables that stand beside the samples: to each shard of samples a shard of theirs, under its name."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from offleash.data.shards import DAMAGE, SHARD, as_table, check_schema, first_line, write_whole
from offleash.errors import OffleashError

KEY = ("problem", "index")


def read_beside(file: Path, schema: dict[str, pl.DataType], again: str) -> pl.DataFrame | None:
    """What stands beside one shard; None where there is nothing yet. `again` says how a damaged one is made anew."""
    if not file.is_file():
        return None
    try:
        check_schema(file, schema)
        return as_table(pl.read_parquet(file), schema)
    except DAMAGE as error:
        raise OffleashError(f"{file} is damaged ({first_line(error)}); delete it and {again}.") from None
    except OffleashError as error:
        raise OffleashError(f"{str(error).partition(';')[0]}; delete it and {again}.") from None


def write_beside(file: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType], key: Sequence[str] = KEY) -> None:
    """Write what stands beside one shard, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, as_table(frame, schema).sort(key))


def drop_without_samples(run: Path, folder: Path) -> None:
    """Remove what stood beside shards of samples that are gone: what was drawn anew has another text."""
    for file in folder.glob(SHARD):
        if not (run / "samples" / file.name).is_file():
            file.unlink()
