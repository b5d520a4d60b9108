"""Members of a zip file, also those compressed with zstandard, which zipfile reads only from Python 3.14 on."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from offleash.errors import OffleashError
from offleash.files.lines import decode

ZSTANDARD = 93
LOCAL_HEADER = 30
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, OSError, ValueError, RuntimeError)


def members(path: Path, names: Iterable[str]) -> Iterator[object]:
    """These members of a zip file, decoded from JSON one at a time."""
    with unzipping(path) as archive, path.open("rb") as file:
        for name in names:
            member = archive.getinfo(name)
            packed = member.compress_type == ZSTANDARD
            data = _unpacked(file, member) if packed else archive.read(member)
            try:
                value = decode(data.decode("utf-8", "replace"), path, 1)
            except ValueError:
                raise OffleashError(f"{path}: {name} is not JSON. Copy the file again.") from None
            yield value


@contextmanager
def unzipping(path: Path) -> Iterator[zipfile.ZipFile]:
    """An open zip file whose damage is told as an error a user can act on."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except NotImplementedError as error:
        raise OffleashError(f"{path}: {error}. Convert it: inspect log convert --to json.") from None
    except DAMAGE as error:
        raise OffleashError(f"{path}: the zip file is cut off or damaged ({error}). Copy it again.") from None


def _unpacked(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER)
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    file.seek(name_length + extra_length, 1)
    return _decompressed(file.read(member.compress_size))


def _decompressed(packed: bytes) -> bytes:
    """Polars unpacks zstandard before it parses; JSON has no control characters, so a line stays one field."""
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
