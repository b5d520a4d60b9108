"""Pickles are refused by their content: loading one runs whatever code it holds.

Trainers leave them beside their logs: slime's rollouts and SkyRL's training dumps are pickles, PyTorch's `.pt` files
are zip archives with a pickle inside.
"""

import zipfile
from pathlib import Path

from offleash.errors import OffleashError

PROTOCOLS = tuple(bytes([0x80, number]) for number in range(2, 6))  # first bytes of a pickle since Python 2.3
ZIP = b"PK\x03\x04"


def refuse_pickle(path: Path) -> None:
    """Refuse a pickle or a file of torch.save, whatever its name; anything else is left to the readers."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(PROTOCOLS) or (start == ZIP and _holds_pickle(path)):
            raise OffleashError(
                f"{path} is a pickle, which is never loaded because it can run code. Load it where you trust it and "
                'write one {"problem": ..., "text": ..., "verdict": ...} per line.'
            )
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return  # missing, a folder or damaged: the reader of its container says so


def _holds_pickle(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.rpartition("/")[2] == "data.pkl" for name in archive.namelist())
