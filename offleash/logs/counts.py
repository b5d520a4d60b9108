"""Counts per problem: how many samples were drawn (n) and how many were correct (c), without the samples.

Most statistics need no more than that. A problem may have one row only: whether two rows are to be added, or one
repeats the other, is not ours to guess.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from offleash.data.content import HASHED, content_hashes
from offleash.data.tables import COUNTS
from offleash.errors import OffleashError
from offleash.files.columns import SAMPLE_COLUMNS, value_at
from offleash.files.detect import Container, Head, rows_after_head
from offleash.files.lines import LOG, Repairs
from offleash.files.rows import Row, integer_of, shown, text_of
from offleash.logs.columns import COUNT_ROLES, NUMBER_OR_SAMPLES, count_columns, has_counts, ids_of, mapping_note
from offleash.logs.format import Format, Log, Options
from offleash.logs.frames import check_maps, check_split, replace_surrogates

CHUNK = 20_000  # rows per frame

CountedProblem = tuple[str | None, ...]  # split, benchmark, problem; gold and contents where its text is its id


def recognise(head: Head) -> bool:
    """A problem and two whole numbers, and no texts: those would be samples."""
    if head.container is Container.ZIP:
        return False
    chosen = count_columns(head, Options())
    if not has_counts(chosen):
        return False
    if "." in chosen["n"] or "." in chosen["c"]:  # a field of a sample or of its marks, unless the user says otherwise
        return False
    names = set(SAMPLE_COLUMNS["text"]) & set(head.columns) - set(chosen.values())
    texts = any(name not in NUMBER_OR_SAMPLES or integer_of(head.first.get(name)) is None for name in names)
    # Columns that are called n and c are counts, and a value that is not a number is an error in the file; columns such
    # as total and correct are counts only if they hold whole numbers.
    has_plain_names = (chosen["n"].lower(), chosen["c"].lower()) == ("n", "c")
    if texts or not (
        has_plain_names or all(integer_of(head.first.get(chosen[name])) is not None for name in ("n", "c"))
    ):
        return False
    # `k` may also be the number of a sample: then the next row is another one of the same problem, or exceeds its k.
    return chosen["n"].lower() != "k" or not _numbers_samples(head, chosen)


def _numbers_samples(head: Head, chosen: dict[str, str]) -> bool:
    rows = [row.values for row in islice(rows_after_head(head, LOG, Repairs()), 2)]
    problems = [text_of(values.get(chosen.get("problem", chosen.get("question", "")))) for values in rows]
    counts = [(integer_of(values.get(chosen["n"])) or 0, integer_of(values.get(chosen["c"])) or 0) for values in rows]
    return len(set(problems)) < len(problems) or any(c > n for n, c in counts)


def read(path: Path, head: Head, options: Options) -> Log:
    """Frames of COUNTS."""
    check_maps("counts", options, COUNT_ROLES)
    check_split(head, options)
    chosen = count_columns(head, options)
    for name, meaning in (("problem", "the problem"), ("n", "samples drawn"), ("c", "correct samples")):
        if name not in chosen and not (name == "problem" and "question" in chosen):
            raise OffleashError(
                f"{path}: no column for {meaning} ({name}). Columns: {', '.join(head.columns[:40])}. "
                f"Give it with --map {name}=COLUMN."
            )
    log = Log("counts", "the file's own counts", iter(()), counts=True, notes=[mapping_note(head, chosen)])
    log.frames = _frames(log, head, options, chosen)
    log.ids = ids_of(chosen, options)
    return log


def _frames(log: Log, head: Head, options: Options, chosen: dict[str, str]) -> Iterator[pl.DataFrame]:
    repairs = Repairs()
    source = rows_after_head(head, LOG, repairs)
    columns: dict[str, list[object]] = {name: [] for name in COUNTS}
    seen: dict[CountedProblem, int] = {}
    for row in source:
        for name, value in _counts(row, options, chosen, seen).items():
            columns[name].append(value)
        if len(columns["row"]) == CHUNK:
            yield _frame(columns, log)
            columns = {name: [] for name in COUNTS}
    if columns["row"]:
        yield _frame(columns, log)
    log.notes += repairs.all_notes(head.path)
    if not seen:
        raise OffleashError(f"{head.path} was read as counts, but has no problems.")


def _frame(columns: dict[str, list[object]], log: Log) -> pl.DataFrame:
    try:
        return pl.DataFrame(columns, schema=COUNTS)
    except UnicodeEncodeError:
        replace_surrogates(columns, log.notes)
        return pl.DataFrame(columns, schema=COUNTS)


def _counts(row: Row, options: Options, chosen: dict[str, str], seen: dict[CountedProblem, int]) -> dict[str, object]:
    """A row of the table; `seen` remembers where each problem was counted."""
    columns = [*chosen.values(), *([options.split_by] if options.split_by else [])]
    row = Row(row.path, row.number, {column: value_at(row.values, column) for column in columns})

    def text(name: str) -> str | None:
        return row.text(chosen[name]) if name in chosen else None

    split = row.text(options.split_by) if options.split_by else None
    if options.split_by and split is None:
        row.wrong(f"it has no {options.split_by!r} to split by")
    problem = row.problem(*filter(None, [chosen.get("problem")]), question=text("question"))
    contents = content_hashes(**{name: row.values[chosen[name]] for name in HASHED if name in chosen})
    # a text stands for a problem only together with what else tells two problems apart
    key = (split, text("benchmark"), problem, *(() if "problem" in chosen else (text("gold"), contents)))
    if key in seen:
        row.wrong(f"problem {problem!r} was already counted in row {seen[key]}; add up the two rows or rename one")
    seen[key] = row.number
    n, c = _count(row, chosen["n"]), _count(row, chosen["c"])
    if c > n:
        row.wrong(f"it has {c} correct ({chosen['c']}) but only {n} samples ({chosen['n']})")
    return {
        "problem": problem,
        "question": text("question"),
        "gold": text("gold"),
        "benchmark": text("benchmark"),
        "guess": row.number_field(chosen["guess"]) if "guess" in chosen else None,
        "identity": text("identity"),
        "contents": contents,
        "n": n,
        "c": c,
        "split": split,
        "row": row.number,
    }


def _count(row: Row, name: str) -> int:
    value = row.values.get(name)
    count = integer_of(value)
    if count is None or count < 0:
        row.wrong(f"{name!r} is {shown(value)}; a count must be an integer, 0 or more")
    return count


FORMAT = Format(
    "counts",
    "counts per problem: columns problem, n (samples), c (correct); optional benchmark, guess",
    recognise,
    read,
    ("counts.csv", "counts.jsonl", "counts.parquet"),
)
