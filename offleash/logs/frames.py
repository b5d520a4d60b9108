"""From rows to frames of entries, in chunks that fit in memory, with the notes made on the way.

The readers of row formats go through `row_log`; options that a reader would not use are refused here.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from offleash.data.tables import ENTRIES, Note, entries
from offleash.errors import OffleashError
from offleash.files.columns import value_at
from offleash.files.detect import Head, rows_after_head
from offleash.files.lines import LOG, Repairs
from offleash.files.rows import Row, text_of
from offleash.logs.columns import require_path
from offleash.logs.format import Entry, Log, Options
from offleash.logs.own_verdicts import VerdictReader

CHUNK = 10_000  # entries per frame: some megabytes of texts at a time


class NoSamplesError(OffleashError):
    """A log without a single sample; one that is still being written may get some."""


Convert = Callable[[Row, VerdictReader], Iterable[Entry]]
Closing = Callable[[], list[Note]]  # what is known only after the last row


def row_log(
    format_name: str,
    head: Head,
    options: Options,
    convert: Convert,
    verifier: str | None,
    maps: Iterable[str] = (),
    closing: Closing = list,
) -> Log:
    """A log of rows, each turned into entries by `convert`: all that most formats need.

    Args:
        format_name: Name of the format, for messages.
        head: The head of the file.
        options: As the user gave them; one that the format does not know is refused.
        convert: From a row to its entries; marks go through the `VerdictReader` that it gets.
        verifier: The tool whose verdicts these are; None where the log has none.
        maps: The roles of --map that the format honours.
        closing: Gives the notes that are known only after the last row.

    Returns:
        The log. Nothing is read before its first frame is taken, and its notes are complete after the last one.
    """
    check_maps(format_name, options, maps)
    check_split(head, options)
    repairs = Repairs()
    source = rows_after_head(head, LOG, repairs)
    log = Log(format_name, verifier, iter(()))
    log.frames = converted(
        log, source, head.path, options, convert, lambda: [*closing(), *repairs.all_notes(head.path)]
    )
    return log


def converted(
    log: Log,
    source: Iterable[Row],
    path: Path,
    options: Options,
    convert: Convert,
    closing: Closing = list,
) -> Iterator[pl.DataFrame]:
    """Frames of the entries of these rows. After the last one, the notes and those of `closing` go to the log."""
    judge = VerdictReader(path, options.threshold)
    entries_read = split_entries(source, options, convert, judge)
    total = 0
    while chunk := list(islice(entries_read, CHUNK)):
        total += len(chunk)
        yield frame_of(chunk, options, log.notes)
    log.notes += [*judge.notes(), *closing()]
    if not total:
        raise NoSamplesError(f"{path} was read as {log.format}, but has no samples.")


def frame_of(chunk: list[Entry], options: Options, notes: list[Note]) -> pl.DataFrame:
    """One frame of entries; half surrogate pairs, which Parquet cannot hold, are replaced and noted."""
    columns: dict[str, list[object]] = dict(zip(ENTRIES, map(list, zip(*chunk, strict=True)), strict=True))
    if not options.texts:
        columns["text"] = [None] * len(chunk)
    try:
        return entries(columns)
    except UnicodeEncodeError:
        replace_surrogates(columns, notes)
        return entries(columns)


def replace_surrogates(columns: dict[str, list[object]], notes: list[Note]) -> None:
    """Replace lone surrogates by U+FFFD, in place, and note how many texts had one. JSON may hold them as escapes."""
    changed_columns = 0
    for values in columns.values():
        for position, value in enumerate(values):
            if isinstance(value, str) and (valid := _join_surrogates(value)) != value:
                values[position], changed_columns = valid, changed_columns + 1
    notes.append(
        Note(
            f"{changed_columns} texts contain half of a surrogate pair, which was replaced by U+FFFD.", changed_columns
        )
    )


def check_maps(format_name: str, options: Options, supported: Iterable[str]) -> None:
    """A --map that a reader would not use is an error, not silence."""
    unused = sorted(options.columns.keys() - set(supported))
    if unused and ":" in unused[0]:
        raise OffleashError(
            f"--map {unused[0]}={options.columns[unused[0]]} names one of several runs in a file, which only compare, "
            "report, figure and view support. Leave out the run before the colon."
        )
    if unused:
        raise OffleashError(
            f"--map {unused[0]}={options.columns[unused[0]]} is not used: the file is read as {format_name}, whose "
            f"columns are fixed. Read it with --log-format generic to name the columns yourself."
        )


def check_split(head: Head, options: Options) -> None:
    """The column of --split-by must exist."""
    if options.split_by is not None:
        require_path(options.split_by, head, "--split-by")


def split_entries(source: Iterable[Row], options: Options, convert: Convert, judge: VerdictReader) -> Iterator[Entry]:
    """Entries of these rows, with the value of the column that --split-by names."""
    if options.split_by is None:
        for row in source:
            yield from convert(row, judge)
        return
    for row in source:
        value, entries_read = value_at(row.values, options.split_by), list(convert(row, judge))
        # a value per sample: responses.model
        splits = value if isinstance(value, list) and "." in options.split_by else [value] * len(entries_read)
        if len(splits) != len(entries_read):
            row.wrong(f"it has {len(splits)} values of {options.split_by!r} for {len(entries_read)} samples")
        for entry, split in zip(entries_read, map(text_of, splits), strict=True):
            if split is None:
                row.wrong(f"it has no {options.split_by!r} to split by")
            yield entry._replace(split=split)


def _join_surrogates(text: str) -> str:
    """Through UTF-16: two halves side by side become the character they make."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
