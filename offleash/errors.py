"""Errors that a user can fix: the message gives the value found and the next step."""

from collections.abc import Iterable
from difflib import get_close_matches


class OffleashError(Exception):
    """An error that the user can fix: the message has the value found and the next step.

    The command line prints it without a traceback and exits with 2.

    >>> try:
    ...     result = ol.compare("nowhere.csv", "rl.csv")
    ... except ol.OffleashError as error:
    ...     print(type(error).__name__)
    OffleashError
    """


MOST_LISTED = 12  # names beside a suggestion: more would hide it


def unknown(kind: str, typed: str, known: Iterable[str], where: str = "") -> OffleashError:
    """An error for a name that does not exist (`where`: " in FILE"), with the nearest one that does.

    >>> print(unknown("verifier", "maht", ["math", "number"]))
    There is no verifier 'maht'. Did you mean 'math'? Known: math, number.

    A long list is left out where a name is close.
    """
    names = sorted(known)
    close_matches = get_close_matches(typed, names, n=3)
    # among equally close names, one with the same letters in another order is the most likely typo
    close_matches.sort(key=lambda name: sorted(name) != sorted(typed))
    hint = f" Did you mean {close_matches[0]!r}?" if close_matches else ""
    listed = "" if close_matches and len(names) > MOST_LISTED else f" Known: {', '.join(names)}."
    return OffleashError(f"There is no {kind} {typed!r}{where}.{hint}{listed}")
