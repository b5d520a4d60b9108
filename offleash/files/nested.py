"""Objects that hold the rows: {"model": ..., "results": [...]}, or an object of objects with the problem's id as key.

`places` lists where rows may be; which of them are samples or counts, the registry of formats decides by their columns.
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
class RowsPlace:
    """A list or an object inside a document that may hold its rows."""

    path: str  # dotted; empty: the document itself
    entries: Sequence[object]
    keys: Sequence[str] | None = None  # of an object; None: of a list


def places(document: Mapping[str, object]) -> list[RowsPlace]:
    """Lists of objects, and objects of objects or lists, outer ones first.

    >>> [place.path for place in places({"model": "m", "data": {"results": [{"id": 1}, {"id": 2}]}})]
    ['data.results']
    """
    return list(_places(document, "", MAX_DEPTH))


def _places(value: Mapping[str, object], path: str, depth: int) -> Iterator[RowsPlace]:
    inner = list(value.values())
    same = all(isinstance(entry, dict) for entry in inner) or all(isinstance(entry, list) for entry in inner)
    if len(inner) > 1 and same:
        yield RowsPlace(path, inner, tuple(value))
    for name, entry in value.items():
        where = f"{path}.{name}" if path else name
        if isinstance(entry, list) and entry and any(isinstance(row, dict) for row in entry):
            yield RowsPlace(where, entry)
        elif isinstance(entry, dict) and depth > 1:
            yield from _places(entry, where, depth - 1)


def place_at(head: Head, path: str) -> RowsPlace:
    """The rows that --rows names; refused with what there is where it names none."""
    option = f"--rows {path}"
    if not head.whole:
        raise OffleashError(
            f"{head.path} has rows of its own, so {option} has nothing to choose. Leave it out; a field inside a row "
            "is named with --map NAME=COLUMN.FIELD."
        )
    value = value_at(head.first, path)
    if isinstance(value, list) and value:
        return RowsPlace(path, value)
    if isinstance(value, dict) and value:
        return RowsPlace(path, list(value.values()), tuple(value))
    there = {place.path: place for place in places(head.first) if place.path}
    held = "is not in it" if value is None else f"holds {type(value).__name__} {value!r:.40}, no list of rows"
    near = get_close_matches(path, [*there, *head.columns], n=1, cutoff=0.5)
    hint = f" Did you mean --rows {near[0]}?" if near else ""
    listed = (
        f"Rows are at {described(list(there.values()))}" if there else f"Its fields: {', '.join(head.columns[:20])}"
    )
    raise OffleashError(f"{head.path}: {option} {held}. {listed}.{hint}")


def described(candidates: Sequence[RowsPlace]) -> str:
    """Places for a message: results (30 rows), by_task (3 rows by key)."""
    texts = [f"{place.path} ({len(place.entries)} rows{' by key' if place.keys else ''})" for place in candidates[:8]]
    return ", ".join(texts) + (", ..." if len(candidates) > 8 else "")


def rows_head(head: Head, place: RowsPlace, outside: Sequence[str] = ()) -> Head:
    """The head of the rows at a place.

    Args:
        head: Of the file.
        place: Where its rows are.
        outside: Columns that the user named (--split-by, --map); one that the rows lack and the object around them
            has, such as its model, is that of every row.
    """
    rows: list[Row] = []
    for number, entry in enumerate(place.entries, 1):
        values = _row(entry, place, number, head)
        around = {name: value_at(head.first, name) for name in outside if name and name not in values}
        rows.append(Row(head.path, number, {**_plain(around), **values}))
    return Head(head.path, Container.JSON, all_keys(rows), rows[0].values, rows=tuple(rows))


def all_keys(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of any of the first rows."""
    return tuple(
        name for name in all_columns(row.values for row in rows[:100]) if any(name in row.values for row in rows)
    )


def _row(entry: object, place: RowsPlace, number: int, head: Head) -> dict[str, object]:
    key = {} if place.keys is None else {KEY: place.keys[number - 1]}
    if isinstance(entry, dict):
        return {**key, **entry}
    if key and isinstance(entry, list):  # the samples of a problem, or their verdicts
        marks = entry and all(isinstance(value, bool | int | float) for value in entry)
        return {**key, "verdicts" if marks else "samples": entry}
    where = place.path or "the file"
    kind = "null" if entry is None else type(entry).__name__
    raise OffleashError(
        f"{head.path}: row {number} of {where} is a JSON {kind}, not an object. Correct it or leave it out."
    )


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}
