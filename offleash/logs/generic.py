"""Any table of samples: JSONL, JSON array, CSV or Parquet, one sample per row or lists of samples per problem.

Columns are guessed by their names (logs/columns.py). Samples may be objects in a list of their row: a column is then a
dotted path into it. Two ways lead to the same entries: whole columns at a time, for CSV, Parquet and JSON rows of plain
values, so that millions of rows take seconds; and row by row, for JSON with lists, objects or values of several types.
Tests hold the two to the same result.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

import polars as pl

from offleash.data.content import HASHED, content_hashes
from offleash.data.tables import ENTRIES, question_hash
from offleash.errors import OffleashError
from offleash.files.columns import passes_through_list, value_at
from offleash.files.detect import Container, Head, rows_after_head
from offleash.files.lines import LOG, Repairs
from offleash.files.rows import Row, chat_text, content_text, is_chat, shown, text_of
from offleash.files.tabular import column_expr, csv_tables, path_crosses_list, slices, without_nulls
from offleash.logs.columns import SAMPLE_FIELDS, SAMPLE_ROLES, ids_of, mapping_note, sample_columns
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import CHUNK, check_maps, check_split, frame_of, split_entries
from offleash.logs.own_verdicts import VerdictReader

PLAIN_TYPES = {str, int, float, bool}  # types of which a polars column can be made without guessing
ERROR_COLUMNS = {
    "error",
    "errors",
    "exception",
    "traceback",
}  # columns of a row that has no sample because its tool failed


def recognise(head: Head) -> bool:
    """A table in which a problem, and a text or a verdict, are recognised by the names of their columns."""
    if head.container is Container.ZIP:
        return False
    chosen = sample_columns(head, Options())
    return ("problem" in chosen or "question" in chosen) and ("text" in chosen or "verdict" in chosen)


def read(path: Path, head: Head, options: Options) -> Log:
    """Entries by the columns that were guessed or mapped, which the first note lists."""
    check_maps("generic", options, SAMPLE_ROLES)
    check_split(head, options)
    chosen = sample_columns(head, options)
    _check(head, chosen, options)
    frames = {Container.CSV: csv_frames, Container.PARQUET: parquet_frames}.get(head.container, _row_frames)
    log = Log("generic", None, iter(()))
    log.frames = frames(log, head, options, chosen)
    log.verifier = "the file's own verdicts" if "verdict" in chosen else None
    log.gold_guessed = chosen.get("gold") == "answer" and "gold" not in options.columns
    log.notes.append(mapping_note(head, chosen))
    log.ids = ids_of(chosen, options)
    return log


def _check(head: Head, chosen: Mapping[str, str], options: Options) -> None:
    if "problem" not in chosen and "question" not in chosen:
        raise OffleashError(
            f"{head.path}: no column identifies the problem. Columns: {', '.join(head.columns[:40])}. "
            "Give it with --map problem=COLUMN (an id) or --map question=COLUMN (its text)."
        )
    if not chosen.keys() & {"text", "verdict"} and not options.columns.get("answer"):
        raise OffleashError(
            f"{head.path}: no column holds samples or verdicts. Columns: {', '.join(head.columns[:40])}. "
            "Give them with --map text=COLUMN or --map verdict=COLUMN."
        )


def _row_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of JSON rows: by columns where the values are plain and of one kind, by rows where they are not."""
    repairs, judge, total = Repairs(), VerdictReader(head.path, options.threshold), 0
    source = rows_after_head(head, LOG, repairs)
    samples = {chosen[name].partition(".")[0] for name in SAMPLE_FIELDS if name in chosen}
    samples |= {chosen[name] for name in SAMPLE_FIELDS if name in chosen}

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _entries(row, judge, chosen)

    while chunk := list(islice(source, CHUNK)):
        for row in chunk:
            if samples.isdisjoint(row.values):
                _refuse_other(row, samples, head)
        table = _plain_entries(chunk, options, chosen)
        if table is not None:
            numbers = pl.Series("row", [row.number for row in chunk], pl.Int64)
            total += len(chunk)
            yield table_entries(table, numbers, head, options, judge)
        elif converted_rows := list(split_entries(chunk, options, convert, judge)):
            total += len(converted_rows)
            yield frame_of(converted_rows, options, log.notes)
    log.notes += [*judge.notes(), *repairs.all_notes(head.path)]
    if not total:
        raise OffleashError(f"{head.path} was read as generic, but has no samples.")


def _refuse_other(row: Row, samples: set[str], head: Head) -> None:
    """A row without any column of a sample is of another format, unless its tool says that the sample failed."""
    if ERROR_COLUMNS & {name.lower() for name in row.values}:
        return
    keys = ", ".join(row.values)[:100] or "nothing"
    expected_columns = ", ".join(name for name in head.columns if name in samples)
    raise OffleashError(
        f"{row.where} has {keys}, but not {expected_columns}, which the previous rows have. Put rows of another format "
        "into "
        "a file of their own."
    )


def _plain_entries(chunk: list[Row], options: Options, chosen: Mapping[str, str]) -> pl.DataFrame | None:
    """The rows as a table under our names; nothing when a column holds lists, objects or more than one kind."""
    names = dict(chosen) | ({"split": options.split_by} if options.split_by else {})
    columns: dict[str, list[object]] = {}
    for role, column in names.items():
        is_dotted = "." in column
        columns[role] = [value_at(row.values, column) if is_dotted else row.values.get(column) for row in chunk]
        kinds = set(map(type, columns[role])) - {type(None)}
        if len(kinds) > 1 or not kinds <= PLAIN_TYPES:
            return None
    try:
        return pl.DataFrame(columns)
    except (UnicodeEncodeError, OverflowError, pl.exceptions.PolarsError):  # half a surrogate pair, a huge number
        return None


def _entries(row: Row, judge: VerdictReader, chosen: Mapping[str, str]) -> Iterator[Entry]:
    """The entries of one row, whatever its values are."""
    values = {role: value_at(row.values, source_column) for role, source_column in chosen.items()}
    for name, column in chosen.items():
        if "." in column:
            values[name] = _sample_indices(row, name, column, values[name])
    question, role_row = chat_text(values.get("question"), "user"), Row(row.path, row.number, values)
    problem = text_of(values.get("problem"))
    about = Entry(
        problem=problem or row.problem(*filter(None, [chosen.get("problem")]), question=question),
        question=question,
        gold=text_of(values.get("gold")),
        benchmark=text_of(values.get("benchmark")),
        guess=role_row.number_field("guess"),
        identity=text_of(values.get("identity")),
        contents=content_hashes(**{name: values[name] for name in HASHED if name in values}),
        row=row.number,
    )
    samples = _samples(row, values, judge)
    if not samples:
        judge.no_sample(row.number)
    for sample in samples:
        role_row = Row(row.path, row.number, sample)
        verdict, score = judge.mark(sample["verdict"], row.number) if "verdict" in sample else (None, None)
        yield about._replace(
            text=_sample_text(sample.get("text"), row.where),
            answer=text_of(sample.get("answer")),
            solution=text_of(sample.get("solution")),
            verdict=verdict,
            score=role_row.number_field("score") if "score" in sample else score,
            tokens=role_row.integer("tokens"),
            finish=text_of(sample.get("finish")),
            sample=role_row.integer("sample"),
        )


def _sample_indices(row: Row, name: str, column: str, value: object) -> object:
    """What a dotted path gave: a value per object of a list for a sample's fields, one value for a problem's."""
    if not passes_through_list(row.values, column):
        # where other rows have a list of samples, null is a row without any
        return (
            []
            if value is None and name in SAMPLE_FIELDS and row.values.get(column.partition(".")[0], ()) is None
            else value
        )
    objects = value_at(row.values, column.rpartition(".")[0])
    non_objects = (
        [entry for entry in objects if not isinstance(entry, dict | None)] if isinstance(objects, list) else []
    )
    if non_objects and len(non_objects) < len(objects) and not isinstance(non_objects[0], list):  # type: ignore[arg-type]
        row.wrong(f"{column.rpartition('.')[0]!r} holds objects and {shown(non_objects[0])}")
    if name in SAMPLE_FIELDS or not isinstance(value, list):
        return value
    distinct = [entry for number, entry in enumerate(value) if entry is not None and entry not in value[:number]]
    if len(distinct) > 1:
        row.wrong(f"its samples have several values of {column!r}: {shown(distinct[0])} and {shown(distinct[1])}")
    return distinct[0] if distinct else None


def _samples(row: Row, values: Mapping[str, object], judge: VerdictReader) -> list[dict[str, object]]:
    """The fields of each sample of a row: one, or as many as its lists are long."""
    sample_fields = {name: values[name] for name in SAMPLE_FIELDS if name in values}
    lists = {name: value for name, value in sample_fields.items() if isinstance(value, list) and not is_chat(value)}
    if not lists:
        return [sample_fields]
    row.require_same_length(lists)
    count = len(next(iter(lists.values())))
    if count == 1:  # then a value beside the list is that of the sample
        return [{**sample_fields, **{name: value[0] for name, value in lists.items()}}]
    if "verdict" in sample_fields and "verdict" not in lists:
        judge.samples_with_shared_verdict += count
    return [{name: value[position] for name, value in lists.items()} for position in range(count)]


def _sample_text(value: object, where: str) -> str | None:
    """The text of a sample. JSON of an object is none: a verifier would judge its quotes and braces."""
    if isinstance(value, dict) and "content" in value:
        return content_text(value["content"])
    if isinstance(value, list) and not value:
        return None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if isinstance(value, dict) or (isinstance(value, list) and not is_chat(value)):
        description = (
            f"an object with the fields {', '.join(value)}" if isinstance(value, dict) else f"a list, {shown(value)}"
        )
        raise OffleashError(
            f"{where}: the text of a sample is {description[:200]}. Name its field: --map text=COLUMN.FIELD."
        )
    return chat_text(value, "assistant")


FORMAT = Format(
    "generic",
    "any JSONL, JSON array, CSV or Parquet with one sample per row, or with lists of samples per problem",
    recognise,
    read,
    ("samples.jsonl", "samples.csv", "samples.parquet"),
)

# Whole columns at a time, so that millions of rows of CSV or Parquet take seconds.


PARQUET_CHUNK = 100_000  # rows per slice


def csv_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of entries from a CSV file; every field is text until its meaning is known."""
    repairs, judge = Repairs(), VerdictReader(head.path, options.threshold)
    for numbers, table in csv_tables(head.path, head.columns, repairs):
        raw = rename_columns(table, options, chosen)
        # An empty field is null, but an empty text is a sample that says nothing.
        empty = [pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in raw.columns if name != "text"]
        yield table_entries(raw.with_columns(empty), numbers, head, options, judge)
    log.notes += [*judge.notes(), *repairs.all_notes(head.path)]


def parquet_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of entries from a Parquet file, a slice at a time and only the columns that are used."""
    judge = VerdictReader(head.path, options.threshold)
    named_columns = [*chosen.values(), *([options.split_by] if options.split_by else [])]
    needed_columns = {name if name in head.columns else name.partition(".")[0] for name in named_columns}
    total = 0
    for start, slice_ in slices(head.path, needed_columns, PARQUET_CHUNK):
        rows = pl.Series("row", range(start + 1, start + slice_.height + 1), pl.Int64)
        list_roles = [role for role, column in chosen.items() if path_crosses_list(slice_.schema, column)]
        frame = table_entries(rename_columns(slice_, options, chosen), rows, head, options, judge, list_roles)
        total += frame.height
        yield frame
    log.notes += judge.notes()
    if not total:
        raise OffleashError(f"{head.path} was read as {log.format}, but has no samples.")


def rename_columns(raw: pl.DataFrame, options: Options, chosen: Mapping[str, str]) -> pl.DataFrame:
    """The columns that are used, under our names."""
    names = dict(chosen) | ({"split": options.split_by} if options.split_by else {})
    return raw.select([column_expr(raw.schema, column).alias(role) for role, column in names.items()])


def table_entries(
    raw: pl.DataFrame,
    rows: pl.Series,
    head: Head,
    options: Options,
    judge: VerdictReader,
    listed: Collection[str] = (),
) -> pl.DataFrame:
    """Entries of a table whose columns carry our names; those of `listed` roles came out of lists of objects."""
    raw = _explode_samples(_unwrap_single_values(raw.with_columns(rows), head, listed), head, judge)
    rows = raw["row"]
    columns: dict[str, pl.Series] = {"row": rows}
    for name in ("gold", "benchmark", "identity", "answer", "solution", "finish", "split"):
        if name in raw.columns:
            columns[name] = _strings(raw[name])
    if "question" in raw.columns:
        columns["question"] = _strings(raw["question"], "user")
    if "text" in raw.columns and options.texts:
        columns["text"] = _texts(raw["text"], rows, head)
    if "verdict" in raw.columns:
        columns["verdict"], columns["score"] = judge.marks(_verdict_values(raw["verdict"]), rows)
    for name in ("sample", "tokens", "guess", "score"):
        if name in raw.columns:
            columns[name] = _numbers(raw[name], rows, ENTRIES[name], head)
    if hashed := [name for name in HASHED if name in raw.columns]:
        columns["contents"] = _contents(raw.select(hashed))
    columns["problem"] = _problems(raw, columns, rows, head)
    if "split" in columns and columns["split"].null_count():
        _refuse_missing(head, rows, columns["split"], f"no {options.split_by!r} to split by")
    entry_columns = [columns[name].alias(name) if name in columns else pl.lit(None).alias(name) for name in ENTRIES]
    return pl.DataFrame({"row": rows}).select(entry_columns).cast(ENTRIES)  # type: ignore[arg-type]


def _unwrap_single_values(raw: pl.DataFrame, head: Head, listed: Collection[str]) -> pl.DataFrame:
    """Fields of a problem that are kept with each of its samples, as the one value that they must have."""
    for name in listed:
        if name in SAMPLE_FIELDS:
            continue
        values = raw[name].list.drop_nulls().list.unique(maintain_order=True)
        several = (values.list.len() > 1).fill_null(False)
        if several.any():
            row, distinct = raw["row"].filter(several)[0], values.filter(several)[0].to_list()
            raise OffleashError(
                f"{head.path}: row {row}: its samples have several values of {name!r}: {shown(distinct[0])} and "
                f"{shown(distinct[1])}. Correct the row or leave it out."
            )
        raw = raw.with_columns(values.list.first().alias(name))
    return raw


def _explode_samples(raw: pl.DataFrame, head: Head, judge: VerdictReader) -> pl.DataFrame:
    """One row per sample, when a row holds lists of them."""
    lists = [name for name in (*SAMPLE_FIELDS, "split") if name in raw.columns and _is_list(raw.schema[name])]
    if not lists:
        return raw
    lengths = raw.select("row", *[pl.col(name).list.len().fill_null(0) for name in lists])
    unequal_lengths = lengths.filter(pl.any_horizontal([pl.col(name) != pl.col(lists[0]) for name in lists]))
    if unequal_lengths.height:
        lengths_text = ", ".join(f"{name} {unequal_lengths[name][0]}" for name in lists)
        raise OffleashError(
            f"{head.path}: row {unequal_lengths['row'][0]}: its lists differ in length: {lengths_text}. "
            "Correct the row."
        )
    counts = lengths[lists[0]].alias("count")
    empty = counts == 0
    if empty.any():
        judge.no_sample(int(raw["row"].filter(empty)[0]), int(empty.sum()))
    scalar_fields = [name for name in SAMPLE_FIELDS if name in raw.columns and name not in lists]
    if "verdict" in scalar_fields:
        judge.samples_with_shared_verdict += int(counts.filter(counts > 1).sum())
    raw = raw.with_columns([pl.when(counts == 1).then(pl.col(name)).alias(name) for name in scalar_fields])
    return raw.filter(~empty).explode(lists)


def _is_list(kind: pl.DataType) -> bool:
    """A list of samples; a list of messages is one text."""
    return isinstance(kind, pl.List) and not isinstance(kind.inner, pl.Struct)


def _strings(values: pl.Series, role: str = "") -> pl.Series:
    """Values as text; with a role, a chat becomes the messages of that role."""
    if values.dtype == pl.String:
        return values
    if values.dtype.is_integer() or isinstance(values.dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String)
    texts = [chat_text(value, role) if role else text_of(value) for value in values.to_list()]
    return pl.Series(values.name, texts, pl.String)


def _texts(values: pl.Series, rows: pl.Series, head: Head) -> pl.Series:
    """Texts of samples; objects among them are refused as `_sample_text` does."""
    if not values.dtype.is_nested():
        return _strings(values, "assistant")
    where = (f"{head.path}: row {row}" for row in rows)
    texts = [_sample_text(value, place) for value, place in zip(values.to_list(), where, strict=True)]
    return pl.Series(values.name, texts, pl.String)


def _contents(raw: pl.DataFrame) -> pl.Series:
    """Hashes of what problems hold beside their text; equal rows, such as the samples of a problem, are hashed once."""
    if any(kind.is_nested() for kind in raw.dtypes):
        contents = [
            content_hashes(**{name: without_nulls(value) for name, value in row.items()}) for row in raw.to_dicts()
        ]
        return pl.Series("contents", contents, pl.String)
    distinct = raw.unique(maintain_order=True)
    hashes = pl.Series("contents", [content_hashes(**row) for row in distinct.to_dicts()], pl.String)
    with_hashes = distinct.with_columns(hashes)
    return raw.join(with_hashes, on=raw.columns, how="left", nulls_equal=True, maintain_order="left")["contents"]


def _verdict_values(values: pl.Series) -> pl.Series:
    return values if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null) else _strings(values)


def _numbers(values: pl.Series, rows: pl.Series, kind: pl.DataType, head: Head) -> pl.Series:
    """Numbers from numbers or text; NaN is null, and 1.5 is refused where a whole number is needed."""
    is_plain = values.dtype.is_numeric() or values.dtype in (pl.String, pl.Boolean, pl.Null)
    plain_values = values if is_plain else _strings(values)
    numbers = plain_values.cast(pl.Float64, strict=False).fill_nan(None)
    nan = plain_values.cast(pl.Float64, strict=False).is_nan().fill_null(False)
    if kind.is_integer():
        integers = (
            plain_values.cast(kind, strict=False)
            if plain_values.dtype.is_integer() or plain_values.dtype == pl.String
            else None
        )
        # Text goes through integers first: a 19-digit id would lose digits as a float.
        rounded = numbers.set(numbers != numbers.floor(), None).cast(kind, strict=False)
        numbers = rounded if integers is None else integers.fill_null(rounded)
    is_bad = numbers.is_null() & plain_values.is_not_null() & ~nan
    if is_bad.any():
        value, row = plain_values.filter(is_bad)[0], rows.filter(is_bad)[0]
        raise OffleashError(
            f"{head.path}: row {row}: {values.name!r} is {shown(value)}, not a number. "
            "Correct it, or choose another column with --map."
        )
    return numbers


def _problems(raw: pl.DataFrame, columns: Mapping[str, pl.Series], rows: pl.Series, head: Head) -> pl.Series:
    """Ids of problems; the hash of the question where a row has none. Each distinct question is hashed once."""
    problems = _strings(raw["problem"]) if "problem" in raw.columns else pl.repeat(None, len(rows), eager=True)
    if problems.null_count() and "question" in columns:
        questions = columns["question"]
        seen = questions.drop_nulls().unique()
        hashes = pl.Series([question_hash(question) for question in seen], dtype=pl.String)
        hashed = questions.replace_strict(seen, hashes, default=None, return_dtype=pl.String)
        problems = problems.cast(pl.String).fill_null(hashed)
    if problems.null_count():
        _refuse_missing(head, rows, problems, "neither an id nor a question to identify the problem by")
    return problems


def _refuse_missing(head: Head, rows: pl.Series, values: pl.Series, field_name: str) -> None:
    raise OffleashError(
        f"{head.path}: row {rows.filter(values.is_null())[0]} has {field_name}. Fill it in or delete the row."
    )
