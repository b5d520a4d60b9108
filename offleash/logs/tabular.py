"""Tables of samples a column at a time: millions of rows of CSV or Parquet take seconds."""

from collections.abc import Iterator, Mapping

import polars as pl

from offleash.data.problem import question_hash
from offleash.data.tables import ENTRIES
from offleash.errors import OffleashError
from offleash.files.lines import Repairs
from offleash.files.opening import Head
from offleash.files.parquet import slices
from offleash.files.rows import chat_text, shown, text_of
from offleash.files.tabular import csv_tables
from offleash.logs.format import Log, Options
from offleash.logs.own_verdicts import Judge

PARQUET_CHUNK = 100_000
SAMPLED = ("text", "verdict", "answer", "solution", "score", "tokens", "finish", "sample")


def csv_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of entries from a CSV file; every field is text until its meaning is known."""
    repairs, judge = Repairs(), Judge(head.path, options.threshold)
    for rows, table in csv_tables(head.path, head.columns, repairs):
        raw = renamed(table, options, chosen)
        empty = [pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in raw.columns if name != "text"]
        yield table_entries(raw.with_columns(empty), rows, head, options, judge)
    log.notes += [*judge.notes(), *repairs.all_notes(head.path)]


def parquet_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of entries from a Parquet file, a slice at a time and only the columns that are used."""
    judge = Judge(head.path, options.threshold)
    needed = sorted({*chosen.values(), *([options.split_by] if options.split_by else [])})
    total = 0
    for start, slice_ in slices(head.path, needed, PARQUET_CHUNK):
        rows = pl.Series("row", range(start + 1, start + slice_.height + 1), pl.Int64)
        frame = table_entries(renamed(slice_, options, chosen), rows, head, options, judge)
        total += frame.height
        yield frame
    log.notes += judge.notes()
    if not total:
        raise OffleashError(f"{head.path} was read as {log.format} and holds no sample.")


def renamed(raw: pl.DataFrame, options: Options, chosen: Mapping[str, str]) -> pl.DataFrame:
    """The columns that are used, under our names."""
    names = dict(chosen) | ({"split": options.split_by} if options.split_by else {})
    return raw.select([pl.col(theirs).alias(ours) for ours, theirs in names.items()])


def table_entries(raw: pl.DataFrame, rows: pl.Series, head: Head, options: Options, judge: Judge) -> pl.DataFrame:
    """Entries of a table whose columns carry our names."""
    raw = _exploded(raw.with_columns(rows), head, judge)
    rows = raw["row"]
    columns: dict[str, pl.Series] = {"row": rows}
    for name in ("gold", "benchmark", "answer", "solution", "finish", "split"):
        if name in raw.columns:
            columns[name] = _strings(raw[name])
    if "question" in raw.columns:
        columns["question"] = _strings(raw["question"], "user")
    if "text" in raw.columns and options.texts:
        columns["text"] = _strings(raw["text"], "assistant")
    if "verdict" in raw.columns:
        columns["verdict"], columns["score"] = judge.marks(_marks(raw["verdict"]), rows)
    for name in ("sample", "tokens", "guess", "score"):
        if name in raw.columns:
            columns[name] = _numbers(raw[name], rows, ENTRIES[name], head)
    columns["problem"] = _problems(raw, columns, rows, head)
    if "split" in columns and columns["split"].null_count():
        _missing(head, rows, columns["split"], f"no {options.split_by!r} to split by")
    filled = [columns[name].alias(name) if name in columns else pl.lit(None).alias(name) for name in ENTRIES]
    return pl.DataFrame({"row": rows}).select(filled).cast(ENTRIES)  # type: ignore[arg-type]


def _exploded(raw: pl.DataFrame, head: Head, judge: Judge) -> pl.DataFrame:
    """One row a sample, when a row holds lists of them."""
    lists = [name for name in SAMPLED if name in raw.columns and _is_list(raw.schema[name])]
    if not lists:
        return raw
    lengths = raw.select("row", *[pl.col(name).list.len().fill_null(0) for name in lists])
    odd = lengths.filter(pl.any_horizontal([pl.col(name) != pl.col(lists[0]) for name in lists]))
    if odd.height:
        found = ", ".join(f"{name} {odd[name][0]}" for name in lists)
        raise OffleashError(f"{head.path}: row {odd['row'][0]}: its lists differ in length: {found}. Mend the row.")
    counts = lengths[lists[0]].alias("count")
    empty = counts == 0
    if empty.any():
        judge.no_sample(int(raw["row"].filter(empty)[0]), int(empty.sum()))
    single = [name for name in SAMPLED if name in raw.columns and name not in lists]
    if "verdict" in single:
        judge.shared += int(counts.filter(counts > 1).sum())
    raw = raw.with_columns([pl.when(counts == 1).then(pl.col(name)).alias(name) for name in single])
    return raw.filter(~empty).explode(lists)


def _is_list(kind: pl.DataType) -> bool:
    """A list of samples; a list of messages is one text."""
    return isinstance(kind, pl.List) and not isinstance(kind.inner, pl.Struct)


def _strings(values: pl.Series, role: str = "") -> pl.Series:
    if values.dtype == pl.String:
        return values
    if values.dtype.is_integer() or isinstance(values.dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String)
    read = [chat_text(value, role) if role else text_of(value) for value in values.to_list()]
    return pl.Series(values.name, read, pl.String)


def _marks(values: pl.Series) -> pl.Series:
    return values if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null) else _strings(values)


def _numbers(values: pl.Series, rows: pl.Series, kind: pl.DataType, head: Head) -> pl.Series:
    """Numbers from numbers or text; NaN is null, and 1.5 is no whole number."""
    plain = values.dtype.is_numeric() or values.dtype in (pl.String, pl.Boolean, pl.Null)
    found = values if plain else _strings(values)
    read = found.cast(pl.Float64, strict=False).fill_nan(None)
    nan = found.cast(pl.Float64, strict=False).is_nan().fill_null(False)
    if kind.is_integer():
        whole = found.cast(kind, strict=False) if found.dtype.is_integer() or found.dtype == pl.String else None
        rounded = read.set(read != read.floor(), None).cast(kind, strict=False)
        read = rounded if whole is None else whole.fill_null(rounded)
    bad = read.is_null() & found.is_not_null() & ~nan
    if bad.any():
        value, row = found.filter(bad)[0], rows.filter(bad)[0]
        raise OffleashError(
            f"{head.path}: row {row}: {values.name!r} is {shown(value)}, not a number. Mend it or --map another column."
        )
    return read


def _problems(raw: pl.DataFrame, columns: Mapping[str, pl.Series], rows: pl.Series, head: Head) -> pl.Series:
    problems = _strings(raw["problem"]) if "problem" in raw.columns else pl.repeat(None, len(rows), eager=True)
    if problems.null_count() and "question" in columns:
        questions = columns["question"]
        seen = questions.drop_nulls().unique()
        hashes = pl.Series([question_hash(question) for question in seen], dtype=pl.String)
        hashed = questions.replace_strict(seen, hashes, default=None, return_dtype=pl.String)
        problems = problems.cast(pl.String).fill_null(hashed)
    if problems.null_count():
        _missing(head, rows, problems, "neither an id nor a question to know the problem by")
    return problems


def _missing(head: Head, rows: pl.Series, values: pl.Series, what: str) -> None:
    raise OffleashError(
        f"{head.path}: row {rows.filter(values.is_null())[0]} has {what}. Fill it in or delete the row."
    )
