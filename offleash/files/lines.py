"""Text and JSON of users' files, read in one way: encodings, gzip, blank lines, damaged rows.

A verb says what it reads by a `FileKind`. Whoever hands in `Repairs` (logs) gets a damaged file repaired and a note of
every repair; without it (problems, traces, rows to judge) damage is refused, because a row that goes missing there
would change a result without a word. Rows are numbered as an editor numbers lines, from 1, blank lines included.
"""

import bz2
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.archives import MAX_DOCUMENT, MAX_LINE, IncompleteFileError, check_expansion
from offleash.files.rows import Row, WrittenFloat, shown

GZIP = b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks; UTF-16 without one is taken for binary data
UTF8_MARK = b"\xef\xbb\xbf"
BLOCK = 1 << 20  # bytes decoded at once: large enough to be fast, small enough that a log of any size fits in memory
Text = TypeVar("Text", str, bytes)
ARRAY_SEPARATOR = re.compile(r"[\s,]*")  # between the entries of an array


@dataclass(frozen=True)
class FileKind:
    """What a verb reads: the words of its refusals, and what it accepts inside a row."""

    description: str  # completes "Is it ...?"
    example: str  # a row, in JSON
    missing: str = "Check the path."  # next step where there is no such file
    empty: str = ""  # next step where the file has no row; "" shows the example
    next_step: str = ""  # next step where a line is not JSON; "" is to copy or correct it
    written_floats: bool = False  # fractions are WrittenFloat: a gold answer of 10.0 is compared as "10.0"
    constants: bool = True  # NaN and Infinity, which Python writes and JSON does not know
    keep_bytes: bool = False  # bytes that are not UTF-8 become lone surrogates instead of an error
    archives: bool = False  # zip files have members that the reader knows
    drop_nulls: bool = False  # objects in Parquet without their null fields: Parquet gives every row the fields of all


LOG = FileKind(
    description="a log of samples",
    example='{"problem": ..., "text": ..., "verdict": ...}',
    empty="Was the run that wrote it stopped before its first sample?",
    next_step="Correct or delete that line; only a cut-off last line is left out automatically.",
    archives=True,
)


@dataclass
class Repairs:
    """What was repaired while one file was read. Complete only after its last row."""

    notes: list[Note] = field(default_factory=list)
    replaced_lines: int = 0  # lines with bytes that are not UTF-8
    first_replaced: int = 0

    def replace(self, number: int) -> None:
        """Count a line whose bad bytes were replaced."""
        self.replaced_lines += 1
        self.first_replaced = self.first_replaced or number

    def all_notes(self, path: Path) -> list[Note]:
        """Every repair; the lines with bad bytes, which may be thousands, are one note."""
        if not self.replaced_lines:
            return self.notes
        where = f"{path.name}: {self.replaced_lines} lines (first: line {self.first_replaced})"
        return [
            *self.notes,
            Note(f"{where} are not valid UTF-8; the bad bytes were replaced by U+FFFD.", self.replaced_lines),
        ]


# Rows of JSON.


def jsonl_rows(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[Row]:
    """One JSON object per line.

    Args:
        path: The file, compressed with gzip or not.
        kind: What the caller reads: which values are accepted, and the words of errors.
        repairs: Where repairs are noted. A last line that is not JSON is then left out (a killed run leaves half a
            line), and bad bytes are replaced. None: both are refused, and so is a file without rows.

    Yields:
        The rows in order. Blank lines are skipped and counted, so that `Row.number` is the line in an editor.
    """
    pending_error: OffleashError | None = None
    number, last, empty = 0, 0, True
    for number, line in enumerate(text_lines(path, kind, repairs), 1):
        if not line.strip():
            continue
        if pending_error is not None:  # a line follows, so it was not the end that was cut off
            raise pending_error
        empty = False
        try:
            value = decode(line, path, number, kind)
        except ValueError as error:
            pending_error = _not_json_error(f"{path}: row {number}", line, error, kind.next_step)
            if repairs is None:
                raise pending_error from None
            last = number
            continue
        yield Row(path, number, _object(value, path, number, kind))
    if pending_error is not None and repairs is not None:
        text = f"{path.name}: the last line, row {last}, is cut off or not JSON and was left out."
        repairs.notes.append(Note(text, 1, left_out=True))
    if empty and repairs is None:
        raise OffleashError(f"{path} is empty. {kind.empty or f'It should hold one {kind.example} per line.'}")


def array_rows(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[Row]:
    """The objects of a JSON array, without holding the whole array in memory; one object is an array of one."""
    blocks, decoder = text_blocks(path, kind, repairs), _decoder(kind)
    text = "".join(islice(blocks, 1)).lstrip()
    has_opening_bracket = text.startswith("[")
    number, position, blocks_wanted = 0, int(has_opening_bracket), 1
    while True:
        position = ARRAY_SEPARATOR.match(text, position).end()  # type: ignore[union-attr]
        if has_opening_bracket and text.startswith("]", position):
            _refuse_trailing_content(path, text[position + 1 :], blocks)
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except RecursionError:
            raise _too_deep_error(path, number + 1, kind) from None
        except ValueError as error:
            # The entry may go on in the next block. Twice as many blocks each time: an entry of many megabytes is
            # parsed again a few times, not once per block.
            more_text = "".join(islice(blocks, blocks_wanted))
            if len(text) - position + len(more_text) > MAX_DOCUMENT:
                raise _too_long_error(path, f"row {number + 1}", MAX_DOCUMENT, kind) from None
            if not more_text:
                raise _not_json_error(f"{path}: row {number + 1} of the array", text[position:], error) from None
            text, position, blocks_wanted = text[position:] + more_text, 0, blocks_wanted * 2
            continue
        number, blocks_wanted = number + 1, 1
        yield Row(path, number, _object(value, path, number, kind))
        if not has_opening_bracket:
            _refuse_trailing_content(path, text[position:], blocks)
            return


def document(path: Path, kind: FileKind = LOG) -> object:
    """A whole JSON file as one value."""
    blocks, size = [], 0
    for block in text_blocks(path, kind, Repairs()):
        blocks.append(block)
        size += len(block)
        if size > MAX_DOCUMENT:
            raise _too_long_error(path, "its JSON object", MAX_DOCUMENT, kind)
    text = "".join(blocks)
    del blocks
    try:
        return decode(text, path, 1, kind)
    except ValueError as error:
        raise OffleashError(f"{path} is cut off or not JSON ({error}). Copy the file again, or correct it.") from None


def decode(text: str, path: Path, number: int, kind: FileKind = LOG) -> object:
    """One JSON value of row `number`. ValueError when it is not JSON."""
    try:
        value: object = _decoder(kind).decode(text)
    except RecursionError:
        raise _too_deep_error(path, number, kind) from None
    return value


def _not_json_error(where: str, text: str, error: ValueError, next_step: str = "") -> OffleashError:
    """The refusal of a row, with its beginning: a file of another format is known by it."""
    next_step = next_step or "Copy the file again, or correct that row."
    return OffleashError(f"{where} is cut off or not JSON ({error}): {shown(text.strip()[:60])}. {next_step}")


@cache
def _decoder(kind: FileKind) -> json.JSONDecoder:
    parse_float = WrittenFloat if kind.written_floats else None
    parse_constant = parse_float if kind.constants else _refuse_constant
    return json.JSONDecoder(parse_float=parse_float, parse_constant=parse_constant)


def _refuse_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")


def _refuse_trailing_content(path: Path, remainder: str, blocks: Iterator[str]) -> None:
    """Two arrays written one after the other are one file to `cat` and half a file to a reader: say so."""
    trailing_text = remainder.strip() or next((block for block in blocks if block.strip()), "").strip()
    if trailing_text:
        raise OffleashError(
            f"{path} has text after the end of its JSON: {shown(trailing_text[:60])}. Delete it, or split the file."
        )


def _object(value: object, path: Path, number: int, kind: FileKind) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    type_name = "null" if value is None else type(value).__name__
    raise OffleashError(f"{path}: row {number} is a JSON {type_name}, not an object such as {kind.example}.")


def _too_deep_error(path: Path, number: int, kind: FileKind) -> OffleashError:
    return OffleashError(f"{path}: row {number} is nested too deeply to be read. Is it {kind.description}?")


def _too_long_error(path: Path, what: str, limit: int, kind: FileKind) -> OffleashError:
    return OffleashError(f"{path}: {what} is longer than {limit >> 20:,} MiB. Is it {kind.description}?")


# Decoded text.


def text_lines(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[str]:
    """Decoded lines with their ends. Only a line feed ends a line: JSON strings may hold U+2028 and its like."""
    for block in text_blocks(path, kind, repairs):
        yield from io.StringIO(block, newline="\n")


def text_blocks(path: Path, kind: FileKind = LOG, repairs: Repairs | None = None) -> Iterator[str]:
    """Decoded blocks of whole lines, about a megabyte each, of a file compressed or not."""
    with read_errors(path, kind), _open_decompressed(path) as (file, packed):
        start = file.peek(4)[:4]  # type: ignore[attr-defined]
        if start.startswith(UTF16):
            with io.TextIOWrapper(file, encoding="utf-16", newline="\n") as text_file:
                while text := text_file.read(BLOCK) + text_file.readline(MAX_LINE // 2):  # letters of two bytes
                    yield _within_limit(text, MAX_LINE // 2, path, kind)
            return
        if start.startswith(UTF8_MARK):
            file.read(len(UTF8_MARK))
        number, size = 1, 0
        while data := _within_limit(file.read(BLOCK) + file.readline(MAX_LINE), MAX_LINE, path, kind, number):
            size += len(data)
            if packed is not None:
                check_expansion(path, size, packed)
            try:
                text = data.decode("utf-8", "surrogateescape" if kind.keep_bytes else "strict")
            except UnicodeDecodeError as error:
                if repairs is None and b"\x00" in data[:1000]:
                    raise OffleashError(f"{path} holds binary data. Is it {kind.description}?") from None
                if repairs is None:
                    row = number + data[: error.start].count(b"\n")
                    raise OffleashError(f"{path}: row {row} is not valid UTF-8. Save the file as UTF-8.") from None
                text = "".join(_replace_bad_bytes(data, number, repairs))
            yield text
            number += data.count(b"\n")


def _within_limit(block: Text, limit: int, path: Path, kind: FileKind, number: int = 1) -> Text:
    """A block whose last line is not longer than any line of a log."""
    if len(block) >= limit:
        row = number + (block.count("\n") if isinstance(block, str) else block.count(b"\n"))
        raise _too_long_error(path, f"row {row}", MAX_LINE, kind)
    return block


@contextmanager
def read_errors(path: Path, kind: FileKind = LOG) -> Iterator[None]:
    """Errors of the file system, of compression and of UTF-16, as ones a user can act on."""
    if "\x00" in str(path):  # a ValueError of open()
        raise OffleashError(f"{str(path)!r} is not a valid file name. {kind.missing}")
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise _truncated_error(path, error) from None
    except UnicodeDecodeError as error:
        raise OffleashError(
            f"{path} has a UTF-16 byte order mark but is not valid UTF-16 ({error.reason}). Save it as UTF-8."
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise OffleashError(f"There is no file {path}. {kind.missing}") from None
    except IsADirectoryError:
        raise OffleashError(f"{path} is a folder. Give {kind.description}, for example {path}/FILE.jsonl.") from None
    except OSError as error:
        if error.errno is None:  # of bz2, not of the file system
            raise _truncated_error(path, error) from None
        raise OffleashError(f"{path} cannot be read: {error.strerror or error}.") from None


def _truncated_error(path: Path, error: Exception) -> IncompleteFileError:
    with path.open("rb") as file:
        start = file.read(6)
    kind = next((name for magic, name in PACKED_NAMES.items() if start.startswith(magic)), "compressed")
    return IncompleteFileError(f"{path}: the {kind} file is cut off or damaged ({error}). Copy it again.")


@contextmanager
def _open_decompressed(path: Path) -> Iterator[tuple[IO[bytes], int | None]]:
    """The file's bytes, unpacked where its first ones say so, whatever its name; and its size if it is packed."""
    with path.open("rb") as file:
        start = file.peek(6)[:6]
        unpack = next((opener for magic, opener in UNPACKERS.items() if start.startswith(magic)), None)
        if unpack is None:
            yield file, None
            return
        with io.BufferedReader(unpack(path, file), 1 << 16) as unpacked_file:
            yield unpacked_file, path.stat().st_size


def _zstandard(path: Path, file: IO[bytes]) -> io.RawIOBase:
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        raise OffleashError(
            f"{path} is compressed with zstandard. Unpack it (zstd -d {path.name}), or pip install zstandard."
        ) from None
    reader: io.RawIOBase = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return reader


BZIP2, XZ, ZSTANDARD = b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"  # how compressed files begin
PACKED_NAMES = {GZIP: "gzip", BZIP2: "bzip2", XZ: "xz", ZSTANDARD: "zstandard"}
# What reads them as a stream.
UNPACKERS: dict[bytes, Callable[[Path, IO[bytes]], Any]] = {
    GZIP: lambda path, file: gzip.GzipFile(fileobj=file),
    BZIP2: lambda path, file: bz2.BZ2File(file),
    XZ: lambda path, file: lzma.LZMAFile(file),  # noqa: SIM115 - whoever takes it closes it
    ZSTANDARD: _zstandard,
}


def _replace_bad_bytes(data: bytes, number: int, repairs: Repairs) -> Iterator[str]:
    """Lines with U+FFFD for bad bytes; a line that held U+FFFD before is not counted as repaired."""
    for line_number, line in enumerate(data.split(b"\n"), number):
        text = line.decode("utf-8", "replace")
        if text.count("\ufffd") != line.count("\ufffd".encode()):
            repairs.replace(line_number)
        yield text if line_number == number else f"\n{text}"
