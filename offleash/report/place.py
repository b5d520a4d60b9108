"""Where a report goes: refused before the work if it cannot be written, and replaced only by a whole one."""

import os
from pathlib import Path

from offleash.errors import OffleashError


def check_place(path: Path) -> None:
    """Refuse a path that is a folder, or that this user may not write."""
    if path.is_dir():
        raise OffleashError(f"{path} is a folder; name a file in it, for example -o {path / 'report.html'}.")
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise OffleashError(f"{path} cannot be written: {folder} is a file; choose another place with -o.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OffleashError(f"{path} cannot be written (permission denied); choose another place with -o.")


def write_text(path: Path, text: str) -> None:
    """Write beside the name, then rename: a reader sees the old file or the new one."""
    temporary = path.with_name(path.name + ".writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OffleashError(f"{path} cannot be written ({error.strerror}); choose another place with -o.") from None
