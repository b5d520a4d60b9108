"""Objects that hold the rows: {"model": ..., "results": [...]}, or an object of objects with the problem's id as key.

`row_locations` lists where rows may be; the registry of formats decides by their columns which of them are samples
or counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from offleash.errors import OffleashError
from offleash.files.columns import all_columns, value_at
from offleash.files.detect import Container, Head
from offleash.files.rows import Row

KEY = "key"  # the column of the key, where the rows are the values of an object
MAX_DEPTH = 3  # objects to look inside of


@dataclass(frozen=True)
class RowsLocation:
    """A list or an object inside a document that may hold its rows."""

    path: str  # dotted; empty: the document itself
    entries: Sequence[object]
    keys: Sequence[str] | None = None  # of an object; None: of a list


def row_locations(document: Mapping[str, object]) -> list[RowsLocation]:
    """Lists of objects, and objects of objects or lists, outer ones first.

    >>> [location.path for location in row_locations({"model": "m", "data": {"results": [{"id": 1}, {"id": 2}]}})]
    ['data.results']
    """
    return list(_find_locations(document, "", MAX_DEPTH))


def _find_locations(value: Mapping[str, object], path: str, depth: int) -> Iterator[RowsLocation]:
    entries = list(value.values())
    same_kind = all(isinstance(entry, dict) for entry in entries) or all(isinstance(entry, list) for entry in entries)
    if len(entries) > 1 and same_kind:
        yield RowsLocation(path, entries, tuple(value))
    for name, entry in value.items():
        entry_path = f"{path}.{name}" if path else name
        if isinstance(entry, list) and entry and any(isinstance(row, dict) for row in entry):
            yield RowsLocation(entry_path, entry)
        elif isinstance(entry, dict) and depth > 1:
            yield from _find_locations(entry, entry_path, depth - 1)


def location_at(head: Head, path: str) -> RowsLocation:
    """The rows that --rows names; an error lists the choices where it names none."""
    option = f"--rows {path}"
    if not head.is_single_object:
        raise OffleashError(
            f"{head.path} is a list of rows, so {option} does not apply. Leave it out; to read a field inside a row, "
            "use --map NAME=COLUMN.FIELD."
        )
    value = value_at(head.first, path)
    if isinstance(value, list) and value:
        return RowsLocation(path, value)
    if isinstance(value, dict) and value:
        return RowsLocation(path, list(value.values()), tuple(value))
    locations = {location.path: location for location in row_locations(head.first) if location.path}
    problem = "is not in it" if value is None else f"holds {type(value).__name__} {value!r:.40}, not a list of rows"
    close_matches = get_close_matches(path, [*locations, *head.columns], n=1, cutoff=0.5)
    hint = f" Did you mean --rows {close_matches[0]}?" if close_matches else ""
    alternatives = (
        f"Rows are at {describe_locations(list(locations.values()))}"
        if locations
        else f"Its fields: {', '.join(head.columns[:20])}"
    )
    raise OffleashError(f"{head.path}: {option} {problem}. {alternatives}.{hint}")


def describe_locations(candidates: Sequence[RowsLocation]) -> str:
    """Places for a message: results (30 rows), by_task (3 rows by key)."""
    texts = [
        f"{location.path} ({len(location.entries)} rows{' by key' if location.keys else ''})"
        for location in candidates[:8]
    ]
    return ", ".join(texts) + (", ..." if len(candidates) > 8 else "")


def rows_head(head: Head, location: RowsLocation, shared_columns: Sequence[str] = ()) -> Head:
    """The head of the rows at a place.

    Args:
        head: Of the file.
        location: Where its rows are.
        shared_columns: Columns that the user named (--split-by, --map); the value of one that only the object around
            the rows has, such as its model, belongs to every row.
    """
    rows: list[Row] = []
    for number, entry in enumerate(location.entries, 1):
        values = _row(entry, location, number, head)
        shared_fields = {name: value_at(head.first, name) for name in shared_columns if name and name not in values}
        rows.append(Row(head.path, number, {**_scalar_fields(shared_fields), **values}))
    return Head(head.path, Container.JSON, all_keys(rows), rows[0].values, rows=tuple(rows))


def all_keys(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of any of the first rows."""
    return tuple(
        name for name in all_columns(row.values for row in rows[:100]) if any(name in row.values for row in rows)
    )


def _row(entry: object, location: RowsLocation, number: int, head: Head) -> dict[str, object]:
    key = {} if location.keys is None else {KEY: location.keys[number - 1]}
    if isinstance(entry, dict):
        return {**key, **entry}
    if key and isinstance(entry, list):  # the samples of a problem, or their verdicts
        are_verdicts = entry and all(isinstance(value, bool | int | float) for value in entry)
        return {**key, "verdicts" if are_verdicts else "samples": entry}
    where = location.path or "the file"
    kind = "null" if entry is None else type(entry).__name__
    raise OffleashError(
        f"{head.path}: row {number} of {where} is a JSON {kind}, not an object. Correct it or leave it out."
    )


def _scalar_fields(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}
