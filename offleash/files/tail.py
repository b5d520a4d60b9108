"""JSONL files that are still being written: the rows that are new since the last look, and only those.

A trainer appends lines, or writes a file whole while somebody reads it. So the last line may be torn anywhere, also
inside a character; it is read when its object is complete. A file that was written again from its start is noticed by
the bytes before the place reached, of which a few are remembered, and is then read from its start.
"""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from offleash.files.archives import MAX_LINE
from offleash.files.lines import LOG, UTF8_MARK, decode, read_errors
from offleash.files.rows import Row

BLOCK = 16 << 20  # bytes read in one look, to the end of their last line: the first look at a long file takes several
REMEMBERED = 4096  # bytes at the beginning, and before the place reached, by which a rewritten file is known


@dataclass(frozen=True)
class ReadMark:
    """How far a file has been read."""

    offset: int = 0  # bytes
    lines: int = 0  # line ends before it: rows are numbered as an editor numbers lines
    fingerprint: bytes = b""  # of the bytes on which REMEMBERED looks


@dataclass(frozen=True)
class NewRows:
    """What one look at a file gave."""

    rows: tuple[Row, ...]
    tail: ReadMark
    damaged: int = (
        0  # complete lines that are not JSON objects: a killed writer leaves such a line, and resumes after it
    )
    torn: bool = False  # the last line is not complete yet
    more: bool = False  # there is more to read at once
    rewritten: bool = False  # what was read before is gone; `rows` are all rows of the new content


def new_rows(path: Path, tail: ReadMark) -> NewRows:
    """The complete rows after the place that `tail` marks, or all rows if the file was written again.

    A proper prefix of a JSON object is never an object, so a last line without its line end counts as soon as it is
    one, and never before.

    Args:
        path: A text file that is not compressed.
        tail: What the last look returned; `ReadMark()` at first.

    Returns:
        The rows, and the mark for the next look.
    """
    with read_errors(path), path.open("rb") as file:
        rewritten = tail.offset > 0 and _fingerprint(file, tail.offset) != tail.fingerprint
        start = ReadMark() if rewritten else tail
        file.seek(start.offset)
        data = file.read(BLOCK) + file.readline(MAX_LINE)
        more = bool(file.read(1))
        pieces = data.split(b"\n")
        rows, damaged, end = [], 0, start.offset
        torn = False
        for place, piece in enumerate(pieces):
            last = place == len(pieces) - 1
            row = _row(path, start.lines + place + 1, piece)
            if last and row is None and piece.strip():
                torn = True
                break
            end += len(piece) + (0 if last else 1)
            damaged += row is None and bool(_text(piece).strip())
            if row is not None:
                rows.append(row)
        lines = start.lines + len(pieces) - 1
        return NewRows(
            tuple(rows), ReadMark(end, lines, _fingerprint(file, end)), damaged, torn, more and not torn, rewritten
        )


def _text(piece: bytes) -> str:
    return piece.removeprefix(UTF8_MARK).decode("utf-8", "replace")


def _row(path: Path, number: int, piece: bytes) -> Row | None:
    """The row of a line; None where it is blank, not JSON or not an object."""
    if not piece.strip() or len(piece) > MAX_LINE:
        return None
    try:
        value = decode(_text(piece), path, number, LOG)
    except ValueError:
        return None
    return Row(path, number, value) if isinstance(value, dict) else None


def _fingerprint(file: BinaryIO, end: int) -> bytes:
    """A hash of some bytes before `end`; of fewer where the file is shorter, so that it differs."""
    digest = blake2b(digest_size=16)
    for start in (0, max(end - REMEMBERED, 0)):
        file.seek(start)
        digest.update(file.read(min(REMEMBERED, end - start)))
    return digest.digest()
