"""Which column of an unknown log is which, for samples and for counts: guessed by name, overridden by --map.

The names are in files/columns.py. Here is what the first row adds to them: a column called `answer` may be the
reference or the model's, one called `question` may hold ids, one called `index` may not hold numbers, and a column of
objects is read by the fields inside. A column may be a dotted path wherever one is named: `rollouts.correct`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice

from offleash.data.content import HASHED
from offleash.data.tables import COUNTS, ENTRIES, Note
from offleash.errors import OffleashError
from offleash.files.columns import (
    AMBIGUOUS_ID_NAMES,
    AMBIGUOUS_VERDICT_NAMES,
    COUNT_COLUMNS,
    FALLBACK_ID_NAMES,
    INSIDE_SAMPLES,
    SAMPLE_COLUMNS,
    SAMPLE_LISTS,
    Names,
    all_columns,
    columns_note,
    fields_inside,
    guess_columns,
    normal_name,
    require_column,
    value_at,
)
from offleash.files.detect import Head, rows_after_head
from offleash.files.lines import LOG, Repairs
from offleash.files.rows import integer_of, is_chat, text_of
from offleash.logs.format import Ids, Options
from offleash.logs.own_verdicts import VERDICT_WORDS

# Roles that are dropped when the column that was guessed for them does not hold whole numbers.
NUMBER_ROLES = ("sample", "tokens")
RUN_COLUMNS = ("model", "model_name", "checkpoint", "step", "policy")  # columns that often hold several runs
# What --map may name: the fields of an entry or a count, and those of which only hashes are kept.
SAMPLE_ROLES = (*(name for name in ENTRIES if name not in ("contents", "split", "row")), *HASHED)
COUNT_ROLES = (*(name for name in COUNTS if name not in ("contents", "split", "row")), *HASHED)
# Roles that belong to a sample, and may be lists in a row of a problem.
SAMPLE_FIELDS = ("text", "verdict", "answer", "solution", "score", "tokens", "finish", "sample")
EXAMPLE_ROWS = 100  # rows in which a field is looked for that the first row lacks
NUMBER_OR_SAMPLES = ("samples", "rollouts", "attempts", "trials")  # a number of samples, or the samples


def sample_columns(head: Head, options: Options) -> dict[str, str]:
    """Role -> column or dotted path, for a table of samples, by names and by the values of the first row."""
    chosen = _replace_object_columns(_choose_columns(SAMPLE_COLUMNS, head, options, SAMPLE_ROLES), head, options)
    first = {role: value_at(head.first, column) for role, column in chosen.items()}
    if "question" in chosen and not {"problem"} & {*chosen, *options.columns} and _is_id(first["question"]):
        chosen["problem"] = chosen.pop("question")
    if not {"problem", "question"} & {*chosen, *options.columns}:
        _take_last_id(chosen, head, options)
    answer_is_free = "answer" in head.columns and "answer" not in {*chosen.values(), *options.taken}
    if answer_is_free and "gold" not in chosen and "gold" not in options.columns:
        chosen["gold"] = "answer"  # as most data sets call it
    elif answer_is_free and "answer" not in chosen and "answer" not in options.columns:
        chosen["answer"] = "answer"
    has_lists = any(isinstance(first.get(name), list) for name in ("text", "verdict"))
    for name in NUMBER_ROLES:
        if name in chosen and name not in options.columns and not _is_whole_number(first.get(name), has_lists):
            del chosen[name]
    return chosen


def count_columns(head: Head, options: Options) -> dict[str, str]:
    """Role -> column or dotted path, for a table of counts."""
    chosen = _choose_columns(COUNT_COLUMNS, head, options, COUNT_ROLES)
    if not {"problem", "question"} & {*chosen, *options.columns}:
        _take_last_id(chosen, head, options)
    # a text stands for a problem; an id that the user has left unread under one name is not read under another
    if "problem" not in chosen and "question" in chosen and _is_id(value_at(head.first, chosen["question"])):
        del chosen["question"]
    return chosen


def has_counts(chosen: Mapping[str, str]) -> bool:
    """Whether the columns of a table are those of counts: a problem, by its id or text, and two numbers."""
    return {"n", "c"} <= chosen.keys() and bool({"problem", "question"} & chosen.keys())


def ids_of(chosen: Mapping[str, str], options: Options) -> Ids:
    """What the ids in the chosen column name. An id that the user named is that of a problem."""
    guessed_column = chosen.get("problem") if "problem" not in options.columns else None
    return (
        Ids.UNKNOWN if guessed_column is not None and normal_name(guessed_column) in AMBIGUOUS_ID_NAMES else Ids.PROBLEM
    )


def mapping_note(head: Head, chosen: Mapping[str, str]) -> Note:
    """What was read from where, with a hint where an unused column looks like the name of a run."""
    used = {column for path in chosen.values() for column in (path, path.partition(".")[0])}
    unused = [name for name in head.columns if name not in used]
    split_hint = next(
        (f" --split-by {name} keeps several apart." for name in unused if name.lower() in RUN_COLUMNS), ""
    )
    return columns_note(head.path, chosen, unused, split_hint)


def require_path(column: str, head: Head, option: str) -> str:
    """A column or dotted path that the user named; refused with what there is where no row has it."""
    if column in head.columns or any(_has_path(values, column) for values in _examples(head)):
        return column
    names, depth = column.split("."), 0
    while depth < len(names) - 1 and any(_has_path(row, ".".join(names[: depth + 1])) for row in _examples(head)):
        depth += 1
    if not depth:
        return require_column(column, _paths(head), head.path, option)
    outer_path = ".".join(names[:depth])
    example = _example(head, outer_path)
    fields = fields_inside(example)
    close_matches = get_close_matches(".".join(names[depth:]), fields, n=1, cutoff=0.5)
    hint = f" Did you mean {f'{outer_path}.{close_matches[0]}'!r}?" if close_matches else ""
    fields_text = f"has the fields {', '.join(fields[:40])}" if fields else f"holds {_kind(example)} and no fields"
    raise OffleashError(f"{head.path} has no column {column!r} ({option}). {outer_path!r} {fields_text}.{hint}")


def _choose_columns(names: Names, head: Head, options: Options, roles: tuple[str, ...]) -> dict[str, str]:
    """Columns by role, in the order of `roles`; what --map names must exist."""
    mapped = {role: column for role, column in options.columns.items() if role in roles}
    for role, column in mapped.items():
        if column:
            require_path(column, head, f"--map {role}={column}")
    excluded = [*options.taken, *([options.split_by] if options.split_by else [])]
    chosen = guess_columns(names, _paths(head), mapped, excluded, _role_check(head))
    return {role: chosen[role] for role in roles if role in chosen}


def _paths(head: Head) -> tuple[str, ...]:
    """The columns, and the fields of those that are objects."""
    return tuple(dict.fromkeys((*head.columns, *all_columns([head.first]))))


def _role_check(head: Head) -> Callable[[str, str], bool]:
    """Whether the value of the first row lets a guessed column have its role. Names alone are too vague for some."""

    def fits(role: str, column: str) -> bool:
        value, name = value_at(head.first, column), normal_name(column)
        if role == "verdict" and name in AMBIGUOUS_VERDICT_NAMES:
            marks = value if isinstance(value, list) and value else [value]
            return all(isinstance(mark, bool) or str(mark).strip().lower() in VERDICT_WORDS for mark in marks)
        if role == "text" and name in NUMBER_OR_SAMPLES:
            return integer_of(value) is None
        if role == "choices":  # `options` may be those of the decoding
            letters = isinstance(value, Mapping) and ("text" in value or all(len(label) <= 2 for label in value))
            return isinstance(value, list | str) or letters
        if role == "tests":  # `tests` may be their results, which are of a sample
            return isinstance(value, str) or (isinstance(value, list) and all(_is_test(test) for test in value))
        if role == "context":
            return isinstance(value, str)
        return True

    return fits


def _is_test(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and "input" in value)


def _take_last_id(chosen: dict[str, str], head: Head, options: Options) -> None:
    """A column that names problems only where nothing else does; `index` is taken from the samples' numbers."""
    guess = guess_columns({"problem": FALLBACK_ID_NAMES}, head.columns, {}, [*options.columns.values(), *options.taken])
    if "problem" not in guess:
        return
    if chosen.get("sample") == guess["problem"]:
        del chosen["sample"]
    chosen["problem"] = guess["problem"]


# Columns of objects: what is read is a field inside.


def _replace_object_columns(chosen: dict[str, str], head: Head, options: Options) -> dict[str, str]:
    """The roles with columns of objects replaced by the fields inside, by the usual names of a sample's fields.

    A column that the user named and that holds no such field is refused; one that was guessed is left out.
    """
    holder = _samples_column(head, options)
    if holder is not None:
        for role, field in _guess_inside(holder, head).items():
            # What a sample says of itself is nearer to it than what its row says, except for what describes a problem.
            if role not in options.columns and (role in SAMPLE_FIELDS or role not in chosen):
                chosen[role] = f"{holder}.{field}"
    for role in ("text", "verdict", "answer"):
        column = chosen.get(role)
        if column is None or not _holds_objects(example := _example(head, column)):
            continue
        inner = _guess_inside(column, head).get(role)
        if inner is not None:
            chosen[role] = f"{column}.{inner}"
        elif role in options.columns:
            fields = ", ".join(fields_inside(example)[:40])
            raise OffleashError(
                f"{head.path}: {column!r} (--map {role}={column}) holds objects with the fields {fields}. "
                f"Name the field: --map {role}={column}.FIELD."
            )
        elif role != "verdict" or isinstance(example, list):  # an object as a verdict is refused with its row
            del chosen[role]
    return chosen


def _samples_column(head: Head, options: Options) -> str | None:
    """The column whose objects are the samples: the one mapped, else the only one of a usual name."""
    for role in ("text", "verdict"):
        if options.columns.get(role):
            column = options.columns[role]
            while "." in column and column not in head.columns and not _holds_objects(_example(head, column)):
                column = column.rpartition(".")[0]
            return column if _holds_objects(_example(head, column)) else None
    used = {*options.columns.values(), *options.taken, options.split_by}
    candidates = [name for name in head.columns if normal_name(name) in SAMPLE_LISTS and name not in used]
    object_lists = [
        name for name in candidates if isinstance(example := _example(head, name), list) and _holds_objects(example)
    ]
    return object_lists[0] if len(object_lists) == 1 else None


def _guess_inside(column: str, head: Head) -> dict[str, str]:
    example = _example(head, column)
    entries = example if isinstance(example, list) else [example]
    first = next((entry for entry in entries if isinstance(entry, Mapping)), {})
    inner_head = Head(head.path, head.container, tuple(first), first)
    return guess_columns(INSIDE_SAMPLES, fields_inside(example), {}, fits=_role_check(inner_head))


def _holds_objects(value: object) -> bool:
    """An object or a list of them; a chat and its messages are texts."""
    if isinstance(value, Mapping):
        return not is_chat([value])
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value) and not is_chat(value)


def _example(head: Head, column: str) -> object:
    """The first value of a column that is there and not empty."""
    values = (value_at(row, column) for row in _examples(head))
    return next((value for value in values if value not in (None, [], {}) and not _is_empty(value)), None)


def _is_empty(value: object) -> bool:
    return isinstance(value, list) and all(entry is None for entry in value)


def _examples(head: Head) -> Iterator[Mapping[str, object]]:
    """The first rows; only the first is at hand, the others are read."""
    yield head.first
    yield from (row.values for row in islice(rows_after_head(head, LOG, Repairs()), 1, EXAMPLE_ROWS))


def _has_path(values: object, path: str) -> bool:
    """Whether a row has this path, with a value or without."""
    if isinstance(values, list):
        name, _, rest = path.partition(".")
        if name.isdecimal():
            return int(name) < len(values) and (not rest or _has_path(values[int(name)], rest))
        return any(_has_path(entry, path) for entry in values)
    if not isinstance(values, Mapping):
        return False
    outer, _, inner = path.partition(".")
    return path in values or (bool(inner) and _has_path(values.get(outer), inner))


def _kind(value: object) -> str:
    names = {str: "text", bool: "true or false", int: "numbers", float: "numbers"}
    entries: Sequence[object] = value if isinstance(value, list) else [value]
    kinds = dict.fromkeys(names.get(type(entry), "nothing") for entry in entries)
    return " and ".join(kinds)


def _is_id(value: object) -> bool:
    """Whether the only column that names a problem holds ids rather than texts: an id has no spaces."""
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and bool(value) and not any(letter.isspace() for letter in value.strip())


def _is_whole_number(value: object, allow_list: bool) -> bool:
    """Whether a guessed number is one; a list beside a single text is token ids, not a number of tokens."""
    if isinstance(value, list):
        return allow_list and all(number is None or integer_of(number) is not None for number in value)
    return integer_of(value) is not None or text_of(value) in (None, "")
