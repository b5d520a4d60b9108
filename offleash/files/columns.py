"""Which column of a problem file is which: by its usual names, or by --map; a dot reaches into an object.

Logs of samples have other columns: logs/columns.py.
"""

from collections.abc import Iterable, Mapping

from offleash.errors import OffleashError, unknown

# In order of preference. A name of several meanings stands last in each list it is in, and is used once.
NAMES: dict[str, tuple[str, ...]] = {
    "question": (
        "question",
        "problem",
        "prompt",
        "problem_text",
        "question_text",
        "problem_statement",
        "question_content",
        "query",
        "instruction",
        "input",
        "text",
    ),
    "problem": (
        "problem_id",
        "task_id",
        "question_id",
        "unique_id",
        "uid",
        "qid",
        "pid",
        "doc_id",
        "prompt_id",
        "example_id",
        "extra_info.uid",
        "extra_info.id",
        "id",
        "idx",
        "index",
        "problem",
    ),
    "gold": (
        "gold",
        "gold_answer",
        "reward_model.ground_truth",
        "ground_truth",
        "answer",
        "final_answer",
        "expected_answer",
        "reference_answer",
        "correct_answer",
        "target",
        "label",
        "answers",
        "gt",
        "answerkey",
        "reference",
        "solution",
        "canonical_solution",
    ),
    "choices": ("choices", "options", "answer_choices"),
    "images": ("images", "image"),
    "verifier": ("verifier",),
    "details": ("details",),
    "benchmark": ("benchmark", "data_source", "dataset", "dataset_name", "source"),
    "guess": ("guess", "guess_rate"),
    "prompt": ("prompt",),
}


def chosen_columns(columns: Iterable[str], asked: Mapping[str, str], hub: Mapping[str, str]) -> dict[str, str]:
    """Our name -> theirs: what --map asks, else the hub's own names where the file has them, else the usual ones."""
    known = tuple(columns)
    for ours, theirs in asked.items():
        if ours not in NAMES:
            raise unknown("column to map", ours, NAMES)
        if theirs and theirs not in known:
            raise OffleashError(f"--map {ours}={theirs}: the file has no column {theirs!r}. It has {_listed(known)}.")
    chosen = {ours: theirs for ours, theirs in asked.items() if theirs}
    plain = {name.strip().lower().replace("-", "_").replace(" ", "_"): name for name in reversed(known)}
    ours_already = {"question", "problem"} <= plain.keys()  # a file that `offleash problems` wrote
    for ours, usual in NAMES.items():
        if ours in asked:  # --map prompt= leaves the column unread
            continue
        first = (hub[ours],) if ours in hub and not ours_already else ()
        theirs = next(
            (plain[name] for name in (*first, *usual) if name in plain and plain[name] not in _taken(chosen)), ""
        )
        if theirs:
            chosen[ours] = theirs
    return chosen


def value_at(values: Mapping[str, object], column: str) -> object:
    """The value of a column; `reward_model.ground_truth` is the field of an object."""
    if column in values:
        return values[column]
    outer, _, inner = column.partition(".")
    below = values.get(outer)
    return below.get(inner) if isinstance(below, Mapping) else None


def all_columns(rows: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Every column of any row, and the fields of those that are objects, in the order in which they come."""
    names: dict[str, None] = {}
    for values in rows:
        for name, value in values.items():
            if name not in names:
                names[name] = None
            if isinstance(value, Mapping):
                names.update(dict.fromkeys(f"{name}.{inner}" for inner in value))
    return tuple(names)


def _taken(chosen: Mapping[str, str]) -> set[str]:
    return set(chosen.values())


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
