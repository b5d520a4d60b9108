"""What a verb was given that takes run folders, or one file of rows."""

from collections.abc import Sequence
from pathlib import Path

from offleash.errors import OffleashError
from offleash.study.verify_rows import is_rows
from offleash.tables.folder import is_run


def file_among(arguments: Sequence[str], verb: str) -> Path | None:
    """The one file of rows that the arguments name; None where they name run folders."""
    files = [Path(argument) for argument in arguments if is_rows(Path(argument))]
    if not files:
        return None
    if len(arguments) > 1:
        raise OffleashError(f"{verb} one file of rows at a time, or run folders; found {', '.join(arguments)}.")
    return files[0]


def run_folders(arguments: Sequence[str]) -> list[Path]:
    """The run folders that the arguments name, each checked."""
    return [_run_folder(Path(argument)) for argument in arguments]


def _run_folder(path: Path) -> Path:
    if path.is_dir() and is_run(path):
        return path
    if path.is_dir():
        raise OffleashError(f"{path} is no run folder: it has no run.json. Logs: offleash import {path} -o RUN first.")
    raise OffleashError(f"There is no run folder {path}. Logs become one with: offleash import LOGS -o RUN.")
