"""Numbers as JSON has them: what is not known is null."""

import math

Json = dict[str, object]


def number(value: float | None) -> float | None:
    """A float for JSON: what is not a number is null."""
    return None if value is None or not math.isfinite(value) else float(value)


def count(value: float) -> int | float | None:
    """A count: whole where it is whole, a fraction where it is an expectation over thinned samples."""
    if not math.isfinite(value):
        return None
    return round(value) if abs(value - round(value)) < 1e-9 else float(value)
