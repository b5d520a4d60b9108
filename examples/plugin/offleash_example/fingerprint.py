"""Strategies by the arithmetic operators of a text."""

from collections.abc import Mapping


def operators(problem: Mapping[str, object], text: str) -> str | None:
    """The operators that a text uses, in alphabetical order; None where it has none."""
    return "".join(sorted({character for character in text if character in "+-*/"})) or None
