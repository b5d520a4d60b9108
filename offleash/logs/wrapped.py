"""Which list inside a JSON object holds its samples or counts: {"model": ..., "results": [...]}, and the like.

A file that is one object is a wrapper around its rows, unless a format of its own recognises it or it is itself the row
of one problem, with a list of samples inside. Where several lists could be meant, --rows names one.
"""

from collections.abc import Mapping
from dataclasses import replace

from offleash.errors import OffleashError
from offleash.files.columns import AMBIGUOUS_ID_NAMES, SAMPLE_COLUMNS, guess_columns, value_at
from offleash.files.detect import Container, Head
from offleash.files.nested import KEY, RowsLocation, describe_locations, location_at, row_locations, rows_head
from offleash.files.rows import integer_of
from offleash.logs import counts
from offleash.logs.columns import count_columns, has_counts, sample_columns
from offleash.logs.format import Options
from offleash.logs.own_verdicts import VERDICT_WORDS


def inside(head: Head, options: Options) -> Head:
    """The head of the rows inside a file that is one object; the head itself where the object is a row.

    Refused where --rows names no rows, and where several lists could be meant.
    """
    if options.rows is not None:
        return _head(head, _flatten_entries(location_at(head, options.rows), options), options)
    if not head.is_single_object:
        return head
    candidates = [location for location in row_locations(head.first) if location.entries]
    readable_heads = [
        (location, inner_head)
        for location in candidates
        if (inner_head := _head_if_readable(head, location, options)) is not None
    ]
    # An object of objects is one place, not as many as it has values; and neither are the lists inside a row.
    readable_heads = [
        (location, inner_head)
        for location, inner_head in readable_heads
        if not any(_is_below(location, outer_location) for outer_location, _ in readable_heads)
    ]
    if table_kind(head, options) is not None and all(
        _is_samples(head, location, options) for location, _ in readable_heads
    ):
        return head
    if len(readable_heads) > 1:
        where = describe_locations([location for location, _ in readable_heads])
        runs = (
            f" If they are runs: --rows {_parent_path(readable_heads)} --split-by {KEY}."
            if _parent_path(readable_heads)
            else ""
        )
        raise OffleashError(f"{head.path} holds several lists of rows: {where}. Choose one with --rows PATH.{runs}")
    if readable_heads:
        return readable_heads[0][1]
    # Nothing is recognised: the columns to show, and to look for those of --map in, are those of the only list.
    lists = [location for location in candidates if location.keys is None]
    outer_location = any(column.partition(".")[0] in head.columns for column in options.columns.values())
    if len(lists) != 1 or outer_location or table_kind(head, options) is not None:
        return head
    # An object on one line may be a row, unless the list in it is a table by itself.
    wrapper = (
        head.container is Container.JSON or _head_if_readable(head, lists[0], replace(options, columns={})) is not None
    )
    return _head(head, lists[0], options) if wrapper else head


def table_kind(head: Head, options: Options) -> str | None:
    """counts or generic, where the columns of a table are those of one, by their names or as the user mapped them."""
    try:
        if {"n", "c"} & options.columns.keys():
            return "counts" if has_counts(count_columns(head, options)) else None
        if counts.recognise(head):
            return "counts"
        chosen = sample_columns(head, options)
    except OffleashError:
        return None
    known = {"problem", "question"} & chosen.keys() and {"text", "verdict"} & chosen.keys()
    return "generic" if known else None


def _head_if_readable(head: Head, location: RowsLocation, options: Options) -> Head | None:
    """The rows of a place, if they can be read as samples or counts."""
    try:
        inner_head = _head(head, _flatten_entries(location, options), options)
    except OffleashError:
        return None
    kind = table_kind(inner_head, options)
    if kind is None:
        return None
    if location.keys is not None and not options.columns and not _is_plausible(inner_head, kind, options):
        return None
    return inner_head


def _head(head: Head, location: RowsLocation, options: Options) -> Head:
    return rows_head(head, location, [*options.columns.values(), options.split_by or ""])


def _flatten_entries(location: RowsLocation, options: Options) -> RowsLocation:
    """{"base": [rows], "rl": [rows]} as rows with a column `key`, where the user says that it names runs or benchmarks.

    Lists of rows that name their problems are not the samples of one problem: without that they are refused.
    """
    lists = [entry for entry in location.entries if isinstance(entry, list)]
    if location.keys is None or len(lists) < len(location.entries):
        return location
    first = next((row for rows in lists for row in rows if isinstance(row, Mapping)), {})
    id_columns = guess_columns({role: SAMPLE_COLUMNS[role] for role in ("problem", "question")}, tuple(first), {})
    if not id_columns.keys() or ("question" not in id_columns and id_columns["problem"] in AMBIGUOUS_ID_NAMES):
        return location
    if KEY not in (options.split_by, options.columns.get("benchmark")):
        raise OffleashError("several lists of rows")  # for `_head_if_readable`: each list is a place of its own
    pairs = zip(location.keys, lists, strict=True)
    rows = [{KEY: key, **row} if isinstance(row, Mapping) else row for key, entries in pairs for row in entries]
    return replace(location, entries=rows, keys=None)


def _is_plausible(inner_head: Head, kind: str, options: Options) -> bool:
    """Whether values by key are problems: a summary per benchmark has an accuracy, or an n of its own."""
    rows = [row.values for row in inner_head.rows or ()]
    if kind == "counts":
        n = count_columns(inner_head, options)["n"]
        return len({integer_of(value_at(values, n)) for values in rows}) == 1
    chosen = sample_columns(inner_head, options)
    if "text" in chosen or "verdict" not in chosen:
        return True
    verdict_values = [value_at(values, chosen["verdict"]) for values in rows]
    return all(
        verdict_value is None
        or isinstance(verdict_value, bool | list)
        or verdict_value in (0, 1)
        or verdict_value in VERDICT_WORDS
        for verdict_value in verdict_values
    )


def _is_below(location: RowsLocation, outer_location: RowsLocation) -> bool:
    return (
        outer_location.keys is not None
        and location is not outer_location
        and (not outer_location.path or location.path.startswith(f"{outer_location.path}."))
    )


def _is_samples(head: Head, location: RowsLocation, options: Options) -> bool:
    """Whether the object is a row, and the objects at this place its samples."""
    chosen = sample_columns(head, options)
    id_columns = [chosen[role] for role in ("problem", "question") if role in chosen]
    if all(column.startswith(f"{location.path}.") for column in id_columns):  # then every object names its problem
        return False
    return any(chosen.get(role, "").startswith(f"{location.path}.") for role in ("text", "verdict"))


def _parent_path(readable_heads: list[tuple[RowsLocation, Head]]) -> str:
    """The object that holds all these places, if there is one inside the file."""
    parent_paths = {location.path.rpartition(".")[0] for location, _ in readable_heads}
    return parent_paths.pop() if len(parent_paths) == 1 else ""
