"""What a user can fix: errors whose message gives the value found and the next step."""

from collections.abc import Iterable
from difflib import get_close_matches


class OffleashError(Exception):
    """Something the user can mend; the message says what was found and what to do."""


def unknown(kind: str, found: str, known: Iterable[str]) -> OffleashError:
    """An error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = get_close_matches(found, names, n=3)
    near.sort(key=lambda name: sorted(name) != sorted(found))  # of equally near ones, that of the same letters
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return OffleashError(f"There is no {kind} {found!r}.{hint} Known: {', '.join(names)}.")
