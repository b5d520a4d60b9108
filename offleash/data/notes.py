"""Notes: what was repaired, chosen or left out on the way from a file to a table. Nothing is dropped without one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A repair or a choice made while reading; nothing is left out without one."""

    text: str
    rows: int = 0  # how many rows it touched or left out
    left_out: bool = False  # True: those rows are not in what was read
