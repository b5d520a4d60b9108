"""Ranges of the options of methods: a value outside is refused with the range and the value found."""

from math import isfinite

from offleash.errors import OffleashError


def bound(option: str, value: float) -> float:
    """The value, how far a ratio may go from 1 before it is clipped: greater than 0, infinity for no clip."""
    if not value > 0:
        raise OffleashError(f"{option} must be greater than 0; found {value}. Give a wider clip, 0.2 being usual.")
    return value


def above(option: str, value: float, low: float) -> float:
    """The value, which must be finite and greater than `low`."""
    if not (value > low and isfinite(value)):
        raise OffleashError(f"{option} must be a number greater than {low:g}; found {value}. Give a greater one.")
    return value


def at_least(option: str, value: float, low: float) -> float:
    """The value, which must be finite and not below `low`."""
    if not (value >= low and isfinite(value)):
        raise OffleashError(f"{option} must be a number from {low:g} up; found {value}. Give a greater one.")
    return value


def between(option: str, value: float, low: float, high: float) -> float:
    """The value, which must lie in the range, its ends included."""
    if not low <= value <= high:
        raise OffleashError(f"{option} must lie between {low:g} and {high:g}; found {value}. Give one in the range.")
    return value


def fraction(option: str, value: float) -> float:
    """The value, which must be a share that is not nothing."""
    if not 0 < value <= 1:
        raise OffleashError(f"{option} is a share above 0 and up to 1; found {value}. Give one in the range.")
    return value


def count(option: str, value: int, least: int) -> int:
    """The value, which must be a whole number not below `least`."""
    if value < least:
        raise OffleashError(f"{option} must be {least} or more; found {value}. Give a greater one.")
    return value


def fits(k: int, size: int) -> None:
    """Refuses sets of k samples where a group has fewer."""
    if k > size:
        raise OffleashError(
            f"k = {k} samples are looked at together, but a group has {size}. "
            f"Choose k up to {size}, or draw larger groups."
        )
