"""CSV and Parquet logs: one row at a time, or frames of many rows with only the columns that are used."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import polars as pl

from offleash.errors import OffleashError
from offleash.files.archives import MAX_LINE, IncompleteFileError, extract_to_disk
from offleash.files.lines import LOG, FileKind, Repairs, text_blocks, text_lines
from offleash.files.rows import Row

CHUNK = 50_000  # records per frame
SEPARATORS = (",", "\t", ";")  # in case of a tie, a comma

Record = tuple[int, list[str]]  # its number, from 1 for the header, and its fields
Table = tuple[pl.Series, pl.DataFrame]  # the numbers of the rows, and their fields


def csv_records(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[Record]:
    """The records of a file, the header first; records of empty fields only, as spreadsheets add them, are skipped."""
    lines = text_lines(path, kind, repairs)
    blank_lines = []
    for line in lines:
        blank_lines.append(line)
        if line.strip():
            break
    return _records(path, chain(blank_lines, lines), _separator("".join(blank_lines)))


def csv_rows(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[Row]:
    """The records after the header, with the header's names; an empty field is null."""
    records = csv_records(path, kind, repairs)
    _, header = next(records, (1, []))
    for number, record in records:
        yield Row(path, number, {name: value or None for name, value in zip(header, record, strict=True)})


def csv_tables(path: Path, columns: tuple[str, ...], repairs: Repairs) -> Iterator[Table]:
    """The records after the header as frames of text, with their numbers.

    A block without quotes and lone carriage returns is split by Polars, which is many times as fast as `csv`. From the
    first block with one of them on, `csv` reads the rest: whether a line end is inside quotes depends on all before it.

    Args:
        path: The file.
        columns: The header, as `read_head` read it.
        repairs: Where repairs are noted.
    """
    blocks = text_blocks(path, LOG, repairs)
    first = next(blocks, "")
    body = first.lstrip("\r\n")
    separator, lines_before = _separator(body.partition("\n")[0]), first.count("\n") - body.count("\n")
    header = lines_before + 1
    for block in chain([body], blocks):
        if '"' in block or "\r" in block.replace("\r\n", "\n"):
            lines = (line for part in chain([block], blocks) for line in io.StringIO(part, newline="\n"))
            records = _records(path, lines, separator, lines_before, len(columns))
            yield from _tables_of_records(columns, islice(records, int(lines_before < header), None))
            return
        yield from _tables_of_block(path, columns, block, separator, lines_before, header)
        lines_before += block.count("\n")


def _separator(header: str) -> str:
    """The separator that the header has most of."""
    return max(SEPARATORS, key=header.count)


def _records(
    path: Path, lines: Iterable[str], separator: str, lines_before: int = 0, width: int = 0
) -> Iterator[Record]:
    """Records of the same width as the first one; `lines_before` is the number of the record before these."""
    csv.field_size_limit(MAX_LINE)  # a completion is often longer than the default limit of 128 kB
    number = lines_before
    try:
        for number, record in enumerate(csv.reader(lines, delimiter=separator, strict=True), lines_before + 1):
            if not any(record):
                continue
            width = width or len(record)
            if len(record) != width:
                raise _uneven_row_error(path, number, len(record), width)
            yield number, record
    except csv.Error as error:
        raise OffleashError(f"{path}: row {number + 1} is not CSV ({error}). Correct its quotes.") from None


def _tables_of_records(columns: tuple[str, ...], records: Iterator[Record]) -> Iterator[Table]:
    """Records as frames."""
    schema = dict.fromkeys(columns, pl.String)
    while chunk := list(islice(records, CHUNK)):
        numbers, fields = zip(*chunk, strict=True)
        yield pl.Series("row", numbers, pl.Int64), pl.DataFrame(list(zip(*fields, strict=True)), schema=schema)


def _tables_of_block(
    path: Path, columns: tuple[str, ...], block: str, separator: str, lines_before: int, header: int
) -> Iterator[Table]:
    """Complete lines without quotes as a frame, after `lines_before` lines and a header in line `header`."""
    lines = pl.Series("line", [block]).str.split("\n").explode().str.strip_suffix("\r")
    numbers = pl.Series(range(lines_before + 1, lines_before + 1 + len(lines)), dtype=pl.Int64)
    table = pl.DataFrame({"row": numbers, "line": lines}).filter(
        (pl.col("line").str.strip_chars(separator) != "") & (pl.col("row") > header)
    )
    width = table["line"].str.count_matches(separator, literal=True) + 1
    uneven = width != len(columns)
    if uneven.any():
        raise _uneven_row_error(path, int(table["row"].filter(uneven)[0]), int(width.filter(uneven)[0]), len(columns))
    fields = table["line"].str.split_exact(separator, len(columns) - 1).struct.unnest()
    fields.columns = list(columns)
    if table.height:
        yield table["row"], fields


def _uneven_row_error(path: Path, number: int, fields: int, width: int) -> OffleashError:
    return OffleashError(
        f"{path}: row {number} has {fields} fields, but the header has {width}. Quote fields that contain a separator."
    )


SLICE = 10_000  # rows of Parquet that are Python objects at the same time


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Errors of a damaged Parquet file, as ones a user can act on."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise IncompleteFileError(
            f"{path}: the Parquet file is cut off or damaged ({reason}). Copy it again."
        ) from None


def slices(path: Path, columns: Iterable[str] | None, size: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Frames of at most `size` rows with the number of rows before each, and only the columns that are used."""
    with parquet_errors(path):
        height: int = pl.scan_parquet(extract_to_disk(path), glob=False).select(pl.len()).collect().item()
    for start in range(0, height, size):
        with parquet_errors(path):
            frame_scan = pl.scan_parquet(extract_to_disk(path), glob=False)
            selected = frame_scan if columns is None else frame_scan.select(sorted(columns))
            frame = selected.slice(start, size).collect()
        yield start, frame


def parquet_rows(path: Path, kind: FileKind = LOG) -> Iterator[Row]:
    """One row at a time, numbered from 1."""
    for start, frame in slices(path, None, SLICE):
        for number, values in enumerate(frame.iter_rows(named=True), start + 1):
            yield Row(path, number, _without_nulls_inside(values) if kind.drop_nulls else values)


def column_expr(schema: Mapping[str, pl.DataType], column: str) -> pl.Expr:
    """A column, or what a dotted path finds inside objects and lists of objects; `value_at` for whole columns."""
    if column in schema:
        return pl.col(column)
    outer, _, inner = column.partition(".")
    return _expr_inside(pl.col(outer), schema[outer], inner)


def path_crosses_list(schema: Mapping[str, pl.DataType], column: str) -> bool:
    """Whether a dotted path passes through a list of objects; `passes_through_list` for whole columns."""
    if column in schema:
        return False
    outer, _, inner = column.partition(".")
    kind: Any = schema.get(outer)
    while inner:
        name, _, remaining_path = inner.partition(".")
        if isinstance(kind, pl.List):
            if not name.isdecimal():
                return True
            kind, inner = kind.inner, remaining_path
        elif isinstance(kind, pl.Struct):
            fields = {field.name: field.dtype for field in kind.fields}
            kind, inner = (None, "") if inner in fields else (fields.get(name), remaining_path)
        else:
            return False
    return False


def _expr_inside(expr: pl.Expr, kind: pl.DataType, path: str) -> pl.Expr:
    name, _, remaining_path = path.partition(".")
    if isinstance(kind, pl.Struct):
        fields = {field.name: field.dtype for field in kind.fields}
        if path in fields:
            return expr.struct.field(path)
        if remaining_path and name in fields:
            return _expr_inside(expr.struct.field(name), fields[name], remaining_path)  # type: ignore[arg-type]
    if isinstance(kind, pl.List):
        if not name.isdecimal():
            return expr.list.eval(_expr_inside(pl.element(), kind.inner, path))  # type: ignore[arg-type]
        entry = expr.list.get(int(name), null_on_oob=True)
        return _expr_inside(entry, kind.inner, remaining_path) if remaining_path else entry  # type: ignore[arg-type]
    return pl.lit(None)


def _without_nulls_inside(values: dict[str, object]) -> dict[str, object]:
    """The columns, with objects in them (verl's reward_model) reduced to the fields that this row has."""
    return {name: without_nulls(value) for name, value in values.items()}


def without_nulls(value: object) -> object:
    """A value with the objects in it reduced to the fields they have: Parquet gives every one the fields of all."""
    if isinstance(value, dict):
        return {name: without_nulls(field) for name, field in value.items() if field is not None}
    return [without_nulls(entry) for entry in value] if isinstance(value, list) else value
