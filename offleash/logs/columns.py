"""Which column of an unknown log is which, for samples and for counts: guessed by name, overridden by --map.

The names are in files/columns.py. Here is what the first row adds to them: a column called `answer` may be the
reference or the model's, one called `question` may hold ids, and one called `index` may not hold numbers.
"""

from collections.abc import Mapping

from offleash.data.tables import COUNTS, ENTRIES, Note
from offleash.files.columns import COUNT_COLUMNS, SAMPLE_COLUMNS, Names, columns_note, guess_columns, require_column
from offleash.files.detect import Head
from offleash.files.rows import text_of, whole_of
from offleash.logs.format import Options

# Roles that are dropped when the column that was guessed for them does not hold whole numbers.
NUMBERS = ("sample", "tokens")
RUNS = ("model", "model_name", "checkpoint", "step", "policy")  # columns that often hold several runs


def sample_columns(head: Head, options: Options) -> dict[str, str]:
    """Role -> column, for a table of samples, by names and by the values of the first row."""
    chosen = _chosen(SAMPLE_COLUMNS, head, options, tuple(ENTRIES))
    first = {ours: head.first.get(theirs) for ours, theirs in chosen.items()}
    if "question" in chosen and not {"problem"} & {*chosen, *options.columns} and _is_id(first["question"]):
        chosen["problem"] = chosen.pop("question")
    free = "answer" in head.columns and "answer" not in chosen.values()
    if free and "gold" not in chosen and "gold" not in options.columns:
        chosen["gold"] = "answer"  # as most data sets call it
    elif free and "answer" not in chosen and "answer" not in options.columns:
        chosen["answer"] = "answer"
    listed = any(isinstance(first.get(name), list) for name in ("text", "verdict"))
    for name in NUMBERS:
        if name in chosen and name not in options.columns and not _whole(first[name], listed):
            del chosen[name]
    return chosen


def count_columns(head: Head, options: Options) -> dict[str, str]:
    """Role -> column, for a table of counts."""
    return _chosen(COUNT_COLUMNS, head, options, tuple(COUNTS))


def mapping_note(head: Head, chosen: Mapping[str, str]) -> Note:
    """What was read from where, with a hint where an unused column looks like the name of a run."""
    unused = [name for name in head.columns if name not in chosen.values()]
    several = next((f" --split-by {name} keeps several apart." for name in unused if name.lower() in RUNS), "")
    return columns_note(head.path, chosen, unused, several)


def _chosen(names: Names, head: Head, options: Options, roles: tuple[str, ...]) -> dict[str, str]:
    """Columns by role, in the order of `roles`; what --map names must exist."""
    mapped = {role: column for role, column in options.columns.items() if role in roles}
    for role, column in mapped.items():
        if column:
            require_column(column, head.columns, head.path, f"--map {role}={column}")
    chosen = guess_columns(names, head.columns, mapped, used=[options.split_by] if options.split_by else [])
    return {role: chosen[role] for role in roles if role in chosen}


def _is_id(value: object) -> bool:
    """Whether the only column that names a problem holds ids rather than texts: an id has no spaces."""
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and bool(value) and not any(letter.isspace() for letter in value.strip())


def _whole(value: object, listed: bool) -> bool:
    """Whether a guessed number is one; a list beside a single text is token ids, not a number of tokens."""
    if isinstance(value, list):
        return listed and all(whole_of(number) is not None for number in value)
    return whole_of(value) is not None or text_of(value) in (None, "")
