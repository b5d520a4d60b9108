"""What is inside a file, whatever its name: its head (container, columns, first row), its rows, the members of a zip.

`read_rows` is the one way from a user's file to rows. Formats of logs look at the head first, to recognise what it is.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import polars as pl

from offleash.errors import OffleashError
from offleash.files.archives import MAX_DOCUMENT, ZIP, IncompleteFileError, extract_to_disk, open_zip
from offleash.files.lines import (
    GZIP,
    LOG,
    FileKind,
    Repairs,
    array_rows,
    decode,
    document,
    jsonl_rows,
    read_errors,
    text_lines,
)
from offleash.files.rows import Row, fields_of, shown
from offleash.files.tabular import SEPARATORS, csv_records, csv_rows, parquet_errors, parquet_rows


class Container(StrEnum):
    """How a file holds its rows."""

    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    CSV = "csv"
    ZIP = "zip"


@dataclass(frozen=True)
class Head:
    """The beginning of a file: enough to recognise its format by, cheap to get."""

    path: Path
    container: Container
    # keys of the first row, Parquet columns, CSV header, top-level keys of a JSON object, names in a zip
    columns: tuple[str, ...]
    first: Mapping[str, object]  # the first row (JSON, JSONL, CSV, Parquet); empty for a zip
    is_single_object: bool = False  # the file is one JSON object, and it is the first row
    rows: tuple[Row, ...] | None = None  # its rows, where they were in a list inside that object (files/nested.py)


PARQUET = b"PAR1"
TAR = (257, b"ustar")  # where a tar archive says what it is
LFS = b"version https://git-lfs.github.com/spec/v1"


class LfsPointerError(IncompleteFileError):
    """A file that Git LFS keeps elsewhere: what is there is a short text that names it."""


def read_rows(path: Path, kind: FileKind, repairs: Repairs | None = None) -> Iterator[Row]:
    """The rows of a file, whatever its name says it is: JSONL, a JSON array or object, CSV or Parquet.

    Args:
        path: The file.
        kind: What the caller reads; see `FileKind`.
        repairs: Where repairs are noted. None: a damaged row is refused.

    Yields:
        Rows in order, numbered as lines, as records with the header as 1 (CSV), or as entries (arrays, Parquet).
    """
    return rows_after_head(read_head(path, kind, strict=repairs is None), kind, repairs)


def rows_after_head(head: Head, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[Row]:
    """The rows of a file whose head is known. A zip file has none: its members are read by name, see `members`."""
    if head.rows is not None:
        return iter(head.rows)
    match head.container:
        case Container.JSONL:
            return jsonl_rows(head.path, kind, repairs)
        case Container.JSON:
            return array_rows(head.path, kind, repairs)
        case Container.CSV:
            return csv_rows(head.path, kind, repairs)
        case Container.PARQUET:
            return parquet_rows(head.path, kind)
        case Container.ZIP:
            return iter(())


def read_head(path: Path, kind: FileKind = LOG, *, strict: bool = False) -> Head:
    """The container, the columns and the first row of a file, by its first bytes. Names lie: .json is often JSONL.

    Repairs made on the way are not noted: the rows are read again, and repaired then. `strict` refuses them at once.
    """
    with read_errors(path, kind), path.open("rb") as file:
        beginning = file.read(512)
    start = beginning[: len(PARQUET)]
    if not start:
        raise OffleashError(f"{path} is empty. {kind.empty}")
    if beginning.startswith(LFS):
        raise LfsPointerError(f"{path} is a Git LFS pointer, not the file itself. Fetch it with: git lfs pull.")
    _refuse_tar(path, beginning)
    if start == PARQUET:
        return _parquet_head(path)
    if start == ZIP and not kind.archives:
        raise OffleashError(f"{path} is a zip archive. Unpack it and give {kind.description} from it.")
    if start == ZIP:
        with open_zip(path) as archive:
            return Head(path, Container.ZIP, tuple(archive.namelist()), {})
    return _text_head(path, kind, None if strict else Repairs())


def _refuse_tar(path: Path, beginning: bytes) -> None:
    offset, magic = TAR
    if beginning.startswith(GZIP):
        with suppress(zlib.error):  # damage is found, and refused, when it is read
            beginning = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(beginning, 512)
    if beginning[offset:].startswith(magic):
        raise OffleashError(f"{path} is a tar archive. Unpack it (tar xf {path.name}) and give the folder.")


def _parquet_head(path: Path) -> Head:
    archive_path, path = path, extract_to_disk(path)
    with path.open("rb") as file:
        file.seek(-len(PARQUET), 2)
        if file.read() != PARQUET:  # a Parquet file ends as it begins; polars would say something about a footer
            raise IncompleteFileError(
                f"{archive_path}: the Parquet file is cut off or damaged: its end is missing. Copy it again."
            )
    with parquet_errors(archive_path):
        first = pl.scan_parquet(path, glob=False).head(1).collect()
    if first.is_empty():
        raise OffleashError(f"{archive_path} has the columns {', '.join(first.columns)} but no rows.")
    return Head(archive_path, Container.PARQUET, tuple(first.columns), first.row(0, named=True))


def _text_head(path: Path, kind: FileKind, repairs: Repairs | None) -> Head:
    lines = (line for line in text_lines(path, kind, repairs) if line.strip())
    line = next(lines, "").strip()
    if not line:
        raise OffleashError(f"{path} is empty: it has only blank lines. {kind.empty}")
    if line.startswith("{"):
        return _object_head(path, line, lines, kind)
    if line.startswith("["):
        row = next(array_rows(path, kind, repairs), None)
        if row is None:
            raise OffleashError(f"{path} is an empty JSON array: no rows. {kind.empty}")
        return Head(path, Container.JSON, tuple(row.values), row.values)
    return _csv_head(path, line, kind, repairs)


def _object_head(path: Path, line: str, more_lines: Iterator[str], kind: FileKind) -> Head:
    """JSONL where the first line is an object by itself, one object over many lines otherwise."""
    try:
        value = decode(line, path, 1, kind)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return Head(path, Container.JSONL, tuple(value), value, is_single_object=next(more_lines, None) is None)
    fields = fields_of(document(path, kind))
    return Head(path, Container.JSON, tuple(fields), fields, is_single_object=True)


def _csv_head(path: Path, line: str, kind: FileKind, repairs: Repairs | None) -> Head:
    if "\x00" in line or "\ufffd" in line or not any(separator in line for separator in SEPARATORS):
        containers = "JSON, JSONL, CSV, Parquet or zip" if kind.archives else "JSON, JSONL, CSV or Parquet"
        raise OffleashError(f"{path} is not {containers}: it begins with {shown(line[:40])}. Is it {kind.description}?")
    records = csv_records(path, kind, repairs)
    _, header = next(records)
    repeated_names = {name for name in header if header.count(name) > 1}
    if repeated_names:
        raise OffleashError(
            f"{path}: the header has the column {min(repeated_names)!r} more than once. Rename one of them."
        )
    first = next(records, None)
    if first is None:
        raise OffleashError(f"{path} has the columns {', '.join(header)} but no rows.")
    return Head(path, Container.CSV, tuple(header), dict(zip(header, first[1], strict=True)))


# Members of a zip file, also those compressed with zstandard, which zipfile reads only since Python 3.14.


ZSTANDARD = 93  # compression method, by the zip specification (APPNOTE 4.4.5)
LOCAL_HEADER = 30  # bytes before the name of a member (4.3.7)


def members(path: Path, names: Iterable[str]) -> Iterator[object]:
    """These members of a zip file, decoded from JSON one at a time."""
    with open_zip(path) as archive, extract_to_disk(path).open("rb") as file:
        for name in names:
            member = archive.getinfo(name)
            if member.file_size > MAX_DOCUMENT:
                raise OffleashError(
                    f"{path}: {name} expands to {member.file_size / 2**30:.1f} GiB, more than a single sample needs. "
                    "Unpack the file and look at it."
                )
            packed = member.compress_type == ZSTANDARD
            data = _decompress_member(file, member) if packed else archive.read(member)
            try:
                value = decode(data.decode("utf-8", "replace"), path, 1)
            except ValueError:
                raise OffleashError(f"{path}: {name} is not JSON. Copy the file again.") from None
            yield value


def _decompress_member(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """A member compressed with zstandard. Its name may be longer here than in the central directory: see the header."""
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER)
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    file.seek(name_length + extra_length, 1)
    return _decompress_zstandard(file.read(member.compress_size))


def _decompress_zstandard(packed: bytes) -> bytes:
    """Unpacked zstandard, by way of polars, which unpacks CSV before it parses it.

    JSON has no control characters, so with one as the separator every line is a single field.
    """
    try:
        lines = pl.read_csv(
            io.BytesIO(packed),
            has_header=False,
            separator="\x01",
            quote_char=None,
            infer_schema=False,
            new_columns=["line"],
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise zipfile.BadZipFile(str(error).splitlines()[0]) from None
    return "\n".join(line or "" for line in lines["line"]).encode()
