"""Output files: refused before the work if they cannot be written, and replaced only by a complete file."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from offleash.errors import OffleashError

PAGE_SUFFIXES = (".html", ".htm")  # endings of a page


def check_writable(path: Path, endings: tuple[str, ...] = (), option: str = "") -> None:
    """Refuse a path that is a folder or a device, that cannot be written, or of another ending than those.

    Whether it can be written is tried: what rights say is not what every file system does. `option` is the one that
    names the path.
    """
    hint = _choose_another_path_text(option)
    try:
        if path.is_dir():
            raise OffleashError(f"{path} is a folder. Name a file in it, for example {path / 'report.html'}.")
        if endings and path.suffix.lower() not in endings:
            raise OffleashError(
                f"{path} ends in {path.suffix!r}, but a page ends in {endings[0]!r}. Choose another name."
            )
        if path.exists() and not path.is_file():
            raise OffleashError(f"{path} is a pipe or a device, but a report needs a file. {hint}.")
        if path.exists() and not os.access(path, os.W_OK):
            raise OffleashError(f"{path} cannot be written (permission denied). {hint}.")
        _try_to_write(path, hint)
    except OSError as error:
        raise _unwritable_error(path, error, hint) from None


def write_text(path: Path, text: str) -> None:
    """Write a text whole."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes, option: str = "") -> None:
    """Write beside the name, then rename: a reader sees the old file or the new one; a link keeps its target."""
    path = path.resolve()
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=".offleash-", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise _unwritable_error(path, error, _choose_another_path_text(option)) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _try_to_write(path: Path, hint: str) -> None:
    """Make the folder of a path and a file in it, and leave no trace of either."""
    target = folder = path.resolve().parent
    missing_folders: list[Path] = []
    while not folder.exists():
        missing_folders.append(folder)
        folder = folder.parent
    if not folder.is_dir():
        raise OffleashError(f"{path} cannot be written: {folder} is a file. {hint}.")
    created_folders: list[Path] = []
    try:
        for created in reversed(missing_folders):
            created.mkdir()
            created_folders.append(created)
        with NamedTemporaryFile(dir=target, prefix=".offleash-"):
            pass
    finally:
        with suppress(OSError):  # another process may have put something there
            for created in reversed(created_folders):
                created.rmdir()


def _choose_another_path_text(option: str) -> str:
    return f"Choose another path with {option}" if option else "Choose another path"


def _unwritable_error(path: Path, error: OSError, hint: str) -> OffleashError:
    return OffleashError(f"{path} cannot be written ({(error.strerror or str(error)).lower()}). {hint}.")


def _umask() -> int:
    """What this user's new files do not allow; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
