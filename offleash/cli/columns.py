"""What --map says."""

from offleash.errors import OffleashError


def named_columns(pairs: list[str] | None, example: str) -> dict[str, str]:
    """Names to columns."""
    columns = {}
    for pair in pairs or []:
        name, equals, column = pair.partition("=")
        if not equals or not name:
            raise OffleashError(f"--map takes NAME=COLUMN, found {pair!r}; for example --map {example}.")
        columns[name] = column
    return columns
