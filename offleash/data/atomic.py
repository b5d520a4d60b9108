"""Writing the files of a run folder: whole or not at all, and never through a symbolic link.

A run folder may come from someone else, with links that lead out of it. Reading through them does no harm. Most files
are replaced as a whole, which replaces a link and leaves what it points to; folders, and files that are appended to,
must not be links.
"""

import os
from pathlib import Path
from shlex import quote

from offleash.errors import OffleashError

WRITING_SUFFIX = ".writing"  # ends the name of a file that is not whole yet
REPLACED_SUFFIXES = (".parquet", ".json")  # endings of files that are replaced as a whole


def write_text_atomically(file: Path, text: str) -> None:
    """Write a text beside its name, then rename; an OSError is the caller's to explain."""
    temporary = file.with_name(file.name + WRITING_SUFFIX)
    temporary.unlink(missing_ok=True)
    with temporary.open("x", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)


def open_no_link(file: Path, flags: int) -> int:
    """A descriptor of a file that is created where it is missing; an OSError where it is a symbolic link."""
    return os.open(file, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def refuse_links(run: Path) -> None:
    """Refuse to write into a folder with links through which files outside would be created or changed."""
    for folder, folders, files in os.walk(run):
        for name in sorted(folders + files):
            path = Path(folder, name)
            if not path.is_symlink() or name.endswith(WRITING_SUFFIX):
                continue
            if not (path.suffix in REPLACED_SUFFIXES and path.is_file()):
                raise symlink_error(path, run)


def refuse_special_files(run: Path) -> None:
    """Refuse a folder with pipes, sockets or devices, or links to them: reading one can wait for ever."""
    for folder, _, files in os.walk(run):
        for name in files:
            path = Path(folder, name)
            if path.exists() and not path.is_file():
                raise OffleashError(
                    f"{path} is a pipe, a socket or a device, not a file. Remove it from the run folder."
                )


def symlink_error(link: Path, run: Path) -> OffleashError:
    """What to say of a link that would be written through."""
    copy = f"cp -rL {quote(str(run))} COPY"
    return OffleashError(
        f"{link} is a symbolic link to {link.readlink()}, but nothing is written through links in a run folder. "
        f"Remove it, or use a copy without links: {copy}."
    )


def remove_leftovers(run: Path) -> None:
    """Remove what a killed process left half written."""
    for leftover in run.rglob(f"*{WRITING_SUFFIX}"):
        if leftover.is_symlink() or not leftover.is_dir():
            leftover.unlink()
