"""Rows of a Parquet file as Python values, for logs whose columns are nested."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.files.rows import Row

SLICE = 10_000


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Errors of a damaged Parquet file, as ones a user can act on."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OffleashError(f"{path}: the Parquet file is cut off or damaged ({reason}). Copy it again.") from None


def slices(path: Path, columns: Iterable[str] | None, size: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Frames of at most `size` rows with the number of rows before each, and only the columns that are used."""
    with damage(path):
        height: int = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    for start in range(0, height, size):
        with damage(path):
            lazy = pl.scan_parquet(path, glob=False)
            chosen = lazy if columns is None else lazy.select(sorted(columns))
            frame = chosen.slice(start, size).collect()
        yield start, frame


def parquet_rows(path: Path, columns: Iterable[str] | None = None) -> Iterator[Row]:
    """One row at a time, from 1."""
    for start, frame in slices(path, columns, SLICE):
        for number, values in enumerate(frame.iter_rows(named=True), start + 1):
            yield Row(path, number, values)
