"""Where a report goes: refused before the work if it cannot be written, and replaced only by a whole one."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from offleash.errors import OffleashError

PAGES = (".html", ".htm")  # endings of a page


def check_place(path: Path, endings: tuple[str, ...] = ()) -> None:
    """Refuse a path that is a folder or a device, that this user may not write, or of another ending than those."""
    if path.is_dir():
        raise OffleashError(f"{path} is a folder; name a file in it, for example {path / 'report.html'}.")
    if endings and path.suffix.lower() not in endings:
        raise OffleashError(f"{path} ends in {path.suffix!r}, and a page in {endings[0]!r}; choose another name.")
    if path.exists() and not path.is_file():
        raise OffleashError(f"{path} is a pipe or a device; a report is written to a file: choose another place.")
    folder = path.resolve().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise OffleashError(f"{path} cannot be written: {folder} is a file; choose another place.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OffleashError(f"{path} cannot be written (permission denied); choose another place.")


def write_text(path: Path, text: str) -> None:
    """Write beside the name, then rename: a reader sees the old file or the new one; a link keeps its target."""
    path = path.resolve()
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".offleash-", delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise OffleashError(f"{path} cannot be written ({error.strerror}); choose another place.") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    """What this user's new files do not allow; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
