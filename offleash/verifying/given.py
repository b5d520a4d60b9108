"""What a verb was given that takes run folders, or one file of rows."""

from collections.abc import Sequence
from pathlib import Path

from offleash.errors import OffleashError
from offleash.verifying.rows import is_rows


def file_among(arguments: Sequence[str], verb: str) -> Path | None:
    """The one file of rows that the arguments name; None where they name run folders."""
    files = [Path(argument) for argument in arguments if is_rows(Path(argument))]
    if not files:
        return None
    if len(arguments) > 1:
        raise OffleashError(f"{verb} one file of rows at a time, or run folders; found {', '.join(arguments)}.")
    return files[0]
