"""Zip archives of logs: their members as paths that are read like files, and the bounds on what packed files expand to.

`archive_members` turns an archive into the paths of its members, `logs.zip/base/samples.jsonl`. Such a path opens like
any other, so that readers of formats need not know about archives. Nothing is written to disk, except for members that
can only be read from a file on disk (Parquet, Inspect's archives).

A packed file may expand to anything: 3 MB of gzip to 3 GB of one line. Rows are read as a stream, so the size of a file
does not matter; what one row may take, and how many times its own size a packed file may become, is bounded here.
"""

import io
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from offleash.errors import OffleashError

MAX_LINE = 256 << 20  # bytes of one line: longer ones are no sample of any model
MAX_DOCUMENT = 1 << 30  # bytes of one JSON value that is read as a whole
ALWAYS_ALLOWED = 1 << 30  # bytes up to which a packed file may expand, whatever its own size
MAX_RATIO = 200  # times its own size that a larger one may expand: logs shrink to a fifth, repeated rows to a hundredth
MAX_MEMBERS = 50_000  # of an archive; more is not a run

ZIP = b"PK\x03\x04"
EMPTY_ZIP = b"PK\x05\x06"
INSPECT_MEMBERS = ("header.json", "_journal/start.json")  # Inspect's own archives, which its reader opens
DAMAGE_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, OSError, ValueError, RuntimeError)


class IncompleteFileError(OffleashError):
    """A file of which something is missing: cut off, damaged, or a Git LFS pointer. It may well be a log."""


class MemberPath(type(Path())):  # type: ignore[misc]
    """The path of a file inside a zip archive. It opens for reading, and has a size, as if it were unpacked."""

    __slots__ = ()

    def open(self, mode: str = "rb", *_: object, **__: object) -> IO[Any]:
        """The unpacked bytes as a stream."""
        if mode != "rb":
            raise OSError(f"{self} is inside an archive, but archives are not changed")
        archive_path, name = self.split
        with open_zip(archive_path) as archive:
            info = archive.getinfo(name)
            check_expansion(self, info.file_size, info.compress_size)
            raw = archive.open(info)
        return _MemberReader(raw, self)

    def read_bytes(self) -> bytes:
        """All bytes."""
        with self.open() as file:
            data: bytes = file.read()
        return data

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """A regular file of the unpacked size."""
        archive_path, name = self.split
        with open_zip(archive_path) as archive:
            size = archive.getinfo(name).file_size
        modified_at = archive_path.stat().st_mtime
        return os.stat_result((stat.S_IFREG | 0o400, 0, 0, 1, 0, 0, size, modified_at, modified_at, modified_at))

    def __truediv__(self, key: str | os.PathLike[str]) -> Path:
        """Nothing is below a file; a plain path says so when it is looked at."""
        return Path(os.fspath(self)) / key

    def is_file(self, *_: object, **__: object) -> bool:
        """Always: only members that are files have such a path."""
        return True

    def is_dir(self, *_: object, **__: object) -> bool:
        """Never."""
        return False

    @property
    def split(self) -> tuple[Path, str]:
        """The archive, and the name in it."""
        full_path = Path(os.fspath(self))
        archive = next((parent for parent in full_path.parents if parent.is_file()), None)
        if archive is None:
            raise FileNotFoundError(os.fspath(self))
        return archive, full_path.relative_to(archive).as_posix()


class _MemberReader(io.BufferedReader):
    """A member being read. Damage shows only then, as errors of many kinds, which all become one."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        super().__init__(_DamageReporter(raw, path), 1 << 16)


class _DamageReporter(io.RawIOBase):
    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw, self._path = raw, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_as_error(self._path):
            data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def archive_members(path: Path) -> tuple[Path, ...]:
    """The files of a zip archive, in the order of their names; any other file by itself.

    Archives that are one file to their readers (Inspect's logs, PyTorch's pickles) stay one, and so do damaged ones,
    for their reader to refuse.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(ZIP)) not in (ZIP, EMPTY_ZIP):
                return (path,)
        with zipfile.ZipFile(extract_to_disk(path)) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
    except (OffleashError, NotImplementedError, *DAMAGE_ERRORS):
        return (path,)
    names = {info.filename for info in infos}
    if isinstance(path, MemberPath) or names & set(INSPECT_MEMBERS) or any(_is_pickle(name) for name in names):
        return (path,)
    if len(infos) > MAX_MEMBERS:
        raise OffleashError(
            f"{path} holds {len(infos):,} files, more than {MAX_MEMBERS:,}. Unpack it and give the folder."
        )
    check_expansion(path, sum(info.file_size for info in infos), path.stat().st_size)
    visible_names = [name for name in names if not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))]
    if not visible_names:
        raise OffleashError(f"{path} is a zip archive without files. Give one that holds logs.")
    return tuple(MemberPath(path, name) for name in sorted(visible_names) if ".." not in name.split("/"))


def _is_pickle(name: str) -> bool:
    return name.rpartition("/")[2] == "data.pkl"


def check_expansion(path: Path, expanded: int, packed: int) -> None:
    """Refuse a packed file that expands beyond what a log does."""
    if expanded > max(ALWAYS_ALLOWED, MAX_RATIO * packed):
        raise OffleashError(
            f"{path} expands to more than {expanded / 2**30:.1f} GiB, over {MAX_RATIO} times its packed size. If it is "
            "a log, unpack it yourself and give the unpacked file."
        )


def extract_to_disk(path: Path) -> Path:
    """A path that libraries can open by its name: a member of an archive is copied to a temporary folder, once."""
    if not isinstance(path, MemberPath):
        return path
    archive, _ = path.split
    key = blake2b(f"{path.absolute()} {archive.stat().st_mtime_ns}".encode(), digest_size=12).hexdigest()
    copy = Path(_scratch().name) / key
    if not copy.exists():
        with path.open() as packed, copy.with_suffix(".part").open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
        copy.with_suffix(".part").rename(copy)
    return copy


@cache
def _scratch() -> TemporaryDirectory[str]:
    """One folder per process, deleted at its end."""
    return TemporaryDirectory(prefix="offleash-")


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """An open zip file; damage found while it is read becomes an error that a user can act on."""
    with _damage_as_error(path), zipfile.ZipFile(extract_to_disk(path)) as archive:
        yield archive


@contextmanager
def _damage_as_error(path: Path) -> Iterator[None]:
    try:
        yield
    except NotImplementedError as error:
        raise OffleashError(f"{path}: {error}. Unpack it, or convert it: inspect log convert --to json.") from None
    except DAMAGE_ERRORS as error:
        if "encrypted" in str(error):
            raise OffleashError(f"{path} is encrypted. Unpack it yourself and give the folder.") from None
        raise IncompleteFileError(f"{path}: the zip file is cut off or damaged ({error}). Copy it again.") from None


# Pickles: loading one runs whatever code it holds. Trainers leave them beside their logs (slime, SkyRL), and the .pt
# files of PyTorch are zip archives with a pickle inside.


PICKLE_STARTS = tuple(bytes([0x80, number]) for number in range(2, 6))  # first bytes of a pickle since Python 2.3


def refuse_pickle(path: Path) -> None:
    """Refuse a pickle or a file of torch.save, whatever its name; anything else is left to the readers."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(PICKLE_STARTS) or (start == ZIP and _holds_pickle(path)):
            raise OffleashError(
                f"{path} is a pickle, which is never loaded because it can run code. Load it where you trust it and "
                'write one {"problem": ..., "text": ..., "verdict": ...} per line.'
            )
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return  # missing, a folder or damaged: the reader of its container says so


def _holds_pickle(path: Path) -> bool:
    with zipfile.ZipFile(extract_to_disk(path)) as archive:
        return any(name.rpartition("/")[2] == "data.pkl" for name in archive.namelist())
