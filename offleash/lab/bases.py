"""The bases that come with the package: models in Hugging Face format, one a world."""

import shutil
from pathlib import Path

from offleash.errors import OffleashError

HOME = Path(__file__).parent / "models"


def base_of(world: str) -> Path:
    """The folder of a world's base."""
    folder = HOME / world
    if not (folder / "config.json").is_file():
        raise OffleashError(
            f"No base of {world} came with this package; make one: offleash lab pretrain {world} -o DIR."
        )
    return folder


def copy_base(world: str, into: Path) -> Path:
    """A copy of a world's base, to be trained, served or changed."""
    refuse_taken(into)
    shutil.copytree(base_of(world), into, dirs_exist_ok=True)
    return into


def refuse_taken(folder: Path) -> None:
    """Refuse a place where something stands already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OffleashError(f"{folder} is there already and not empty; choose another folder with -o.")
