"""Where two values disagree: collected, so that a failing study shows all of its disagreements at once."""

from collections.abc import Mapping, Sequence
from typing import Any

EXACT = 1e-9


class Disagreements:
    """What `ol.compare` says and the reference does not, by the path in the JSON."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.lines: list[str] = []

    def theirs(self, path: str) -> Any:  # a leaf of a JSON document
        """The value of the document at a path like `chance.retest.SRR`."""
        value: Any = self.document
        for key in path.split("/" if "/" in path else "."):
            value = value[key]
        return value

    def number(self, path: str, reference: float | None, tolerance: float = EXACT) -> None:
        """Both null, or equal up to the tolerance: absolute, and relative for what is above 1."""
        value = self.theirs(path)
        if value is None or reference is None:
            self.same(path, reference)
        elif not abs(value - reference) <= tolerance * max(1.0, abs(reference)):
            self.lines.append(f"{path}: {value!r}, reference {reference!r}")

    def probability(self, path: str, reference: float) -> None:
        """Equal up to a relative 1e-9, so that small p-values are compared too."""
        value = self.theirs(path)
        if value is None or not abs(value - reference) <= EXACT * abs(reference) + 1e-300:
            self.lines.append(f"{path}: {value!r}, reference {reference!r}")

    def same(self, path: str, reference: object) -> None:
        """Equal: counts, names and nulls."""
        value = self.theirs(path)
        if value != reference:
            self.lines.append(f"{path}: {value!r}, reference {reference!r}")

    def within(self, path: str, ends: Sequence[tuple[float, float]]) -> None:
        """Both ends of an interval inside the range that Monte Carlo error allows each of them."""
        for value, (low, high), end in zip(self.theirs(path), ends, ("low", "high"), strict=True):
            if value is None or not low <= value <= high:
                self.lines.append(f"{path} {end}: {value!r}, reference {low!r} to {high!r}")
