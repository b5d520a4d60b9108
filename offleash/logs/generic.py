"""Any table of samples: JSONL, JSON array, CSV or Parquet, one sample a row or lists of samples a problem."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import polars as pl

from offleash.data.tables import ENTRIES
from offleash.errors import OffleashError
from offleash.files.lines import Repairs
from offleash.files.opening import Container, Head
from offleash.files.rows import Row, chat_text, text_of
from offleash.logs.columns import mapping_note, sample_columns
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import CHUNK, check_maps, check_split, frame_of, rows, split_entries
from offleash.logs.own_verdicts import Judge
from offleash.logs.tabular import SAMPLED, csv_frames, parquet_frames, table_entries

PLAIN = {str, int, float, bool}
NO_VERDICTS = (
    "The file has no verdicts: judge its samples with --verify NAME, or name their column with --map verdict=COLUMN."
)


def recognise(head: Head) -> bool:
    """A table in which a problem and a text or a verdict can be told by their names."""
    if head.container is Container.ZIP:
        return False
    chosen = sample_columns(head, Options())
    return ("problem" in chosen or "question" in chosen) and ("text" in chosen or "verdict" in chosen)


def read(path: Path, head: Head, options: Options) -> Log:
    check_maps("generic", options, ENTRIES)
    check_split(head, options)
    chosen = sample_columns(head, options)
    _check(head, chosen)
    frames = {Container.CSV: csv_frames, Container.PARQUET: parquet_frames}.get(head.container, _row_frames)
    log = Log("generic", None, iter(()))
    log.frames = frames(log, head, options, chosen)
    log.verifier = "the file's own verdicts" if "verdict" in chosen else None
    log.unverified_hint = "" if "verdict" in chosen else NO_VERDICTS
    log.notes.append(mapping_note(head, chosen))
    return log


def _check(head: Head, chosen: Mapping[str, str]) -> None:
    if "problem" not in chosen and "question" not in chosen:
        raise OffleashError(
            f"{head.path}: no column names the problem. Columns: {', '.join(head.columns[:40])}. "
            "Give it with --map problem=COLUMN (an id) or --map question=COLUMN (its text)."
        )
    if "text" not in chosen and "verdict" not in chosen:
        raise OffleashError(
            f"{head.path}: no column holds samples or verdicts. Columns: {', '.join(head.columns[:40])}. "
            "Give them with --map text=COLUMN or --map verdict=COLUMN."
        )


def _row_frames(log: Log, head: Head, options: Options, chosen: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Frames of JSON rows: by columns where the values are plain and of one kind, by rows where they are not."""
    repairs, judge, total = Repairs(), Judge(head.path, options.threshold), 0
    source = rows(head, repairs)

    def convert(row: Row, judge: Judge) -> Iterator[Entry]:
        return _entries(row, judge, chosen)

    while chunk := list(islice(source, CHUNK)):
        table = _plain(chunk, options, chosen)
        if table is not None:
            numbers = pl.Series("row", [row.number for row in chunk], pl.Int64)
            total += len(chunk)
            yield table_entries(table, numbers, head, options, judge)
        elif found := list(split_entries(chunk, options, convert, judge)):
            total += len(found)
            yield frame_of(found, options, log.notes)
    log.notes += [*judge.notes(), *repairs.all_notes(head.path)]
    if not total:
        raise OffleashError(f"{head.path} was read as generic and holds no sample.")


def _plain(chunk: list[Row], options: Options, chosen: Mapping[str, str]) -> pl.DataFrame | None:
    """The rows as a table under our names; nothing when a column holds lists, objects or more than one kind."""
    names = dict(chosen) | ({"split": options.split_by} if options.split_by else {})
    columns: dict[str, list[object]] = {}
    for ours, theirs in names.items():
        columns[ours] = [row.values.get(theirs) for row in chunk]
        kinds = set(map(type, columns[ours])) - {type(None)}
        if len(kinds) > 1 or not kinds <= PLAIN:
            return None
    try:
        return pl.DataFrame(columns)
    except (UnicodeEncodeError, OverflowError, pl.exceptions.PolarsError):  # half a surrogate pair, a huge number
        return None


def _entries(row: Row, judge: Judge, chosen: Mapping[str, str]) -> Iterator[Entry]:
    values = {ours: row.values.get(theirs) for ours, theirs in chosen.items()}
    question = chat_text(values.get("question"), "user")
    about = Entry(
        problem=row.problem(*filter(None, [chosen.get("problem")]), question=question),
        question=question,
        gold=text_of(values.get("gold")),
        benchmark=text_of(values.get("benchmark")),
        guess=row.number_of(chosen["guess"]) if "guess" in chosen else None,
        row=row.number,
    )
    samples = _samples(row, values, judge)
    if not samples:
        judge.no_sample(row.number)
    for sample in samples:
        own = Row(row.path, row.number, sample)
        verdict, score = judge.mark(sample["verdict"], row.number) if "verdict" in sample else (None, None)
        yield about._replace(
            text=chat_text(sample.get("text"), "assistant"),
            answer=text_of(sample.get("answer")),
            solution=text_of(sample.get("solution")),
            verdict=verdict,
            score=own.number_of("score") if "score" in sample else score,
            tokens=own.whole("tokens"),
            finish=text_of(sample.get("finish")),
            sample=own.whole("sample"),
        )


def _samples(row: Row, values: Mapping[str, object], judge: Judge) -> list[dict[str, object]]:
    """The fields of each sample of a row: one, or as many as its lists are long."""
    sampled = {name: values[name] for name in SAMPLED if name in values}
    lists = {name: value for name, value in sampled.items() if isinstance(value, list) and not _is_chat(value)}
    if not lists:
        return [sampled]
    lengths = {name: len(value) for name, value in lists.items()}
    if len(set(lengths.values())) > 1:
        row.wrong("its lists differ in length: " + ", ".join(f"{name} {length}" for name, length in lengths.items()))
    count = next(iter(lengths.values()))
    if count == 1:
        return [{**sampled, **{name: value[0] for name, value in lists.items()}}]
    if "verdict" in sampled and "verdict" not in lists:
        judge.shared += count
    return [{name: value[position] for name, value in lists.items()} for position in range(count)]


def _is_chat(value: list[object]) -> bool:
    return bool(value) and all(isinstance(message, dict) and "content" in message for message in value)


FORMAT = Format(
    "generic",
    "any JSONL, JSON array, CSV or Parquet with one sample a row, or with lists of samples a problem",
    recognise,
    read,
    ("samples.jsonl", "samples.csv", "samples.parquet"),
)
