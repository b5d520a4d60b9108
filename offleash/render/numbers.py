"""Numbers and run names for readers."""

from collections.abc import Sequence
from math import isfinite


def many(count: int, noun: str) -> str:
    """A number with its noun: 1 problem, 2 problems."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_name(name: str, letters: int) -> str:
    """A name that fits: unprintable characters are replaced, and the middle is left out."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name.strip())
    if len(plain) <= letters:
        return plain
    head = (letters - 1) * 2 // 3
    return f"{plain[:head]}…{plain[len(plain) - (letters - 1 - head) :]}"


def short_names(names: Sequence[str], letters: int) -> list[str]:
    """Names that fit and still differ, in their order."""
    out: list[str] = []
    for name in names:
        candidate, number = short_name(name, letters) or "(unnamed)", 2
        while candidate in out:
            candidate, number = f"{short_name(name, letters - 4)} ({number})", number + 1
        out.append(candidate)
    return out


def counted(number: float, word: str) -> str:
    """A number and its noun: 1 problem, 2 problems."""
    return f"{whole(number)} {word}{'' if number == 1 else 's'}"


def whole(value: float) -> str:
    """A count, with one decimal if it is not an integer."""
    if not isfinite(value):
        return "?"
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def share(value: float) -> str:
    """A share or a rate in three digits."""
    return "unknown" if not isfinite(value) else f"{value:.3f}"


def odds(rate: float) -> str:
    """A rate; below 1% as `1 in N`."""
    return share(rate) if not 0 < rate < 0.01 else f"1 in {float(f'{1 / rate:.2g}'):,.0f}"


def short_number(value: float) -> str:
    """A number in three digits, without an exponent where it is short."""
    return "unknown" if not isfinite(value) else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time that a person can plan with."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
