"""`offleash import`: logs of other tools as run folders, texts included; temporary ones where texts are shown.

Logs are read twice: to number their samples, then to copy the texts in bounded memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.run_folder import Scratch, create_run, is_run
from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.detect import read_head
from offleash.loading.arguments import Argument, disambiguate_names, parse_argument
from offleash.loading.load import LoadOptions, RunInput, input_names, merged_facts, read_log_files
from offleash.loading.merge import merge_parts, without_first_rows
from offleash.logs.format import Options
from offleash.logs.registry import open_log, recognise_format
from offleash.progress import Progress, silent
from offleash.render.json import SCHEMA, encode

SHARD_BYTES = 64 << 20  # in memory: a handful of shards per gigabyte of texts


@dataclass(frozen=True)
class LogImport:
    """What was written into a run folder."""

    folder: Path
    problems: int
    samples: int
    verdicts: int
    verifier: str | None
    format: str
    notes: tuple[Note, ...]
    unverified_hint: str


def import_logs(
    argument: str,
    folder: Path,
    options: LoadOptions | None = None,
    progress: Progress = silent,
    *,
    answers: bool = False,
) -> LogImport:
    """Write the logs of an argument into a new run folder; with `answers`, the extracted answers in place of the texts.

    They are read twice: once to number their samples, once to copy their texts in bounded memory. The verdicts are
    those of the tool; `offleash verify` adds others beside them.
    """
    options = options or LoadOptions(Options(texts=True))
    parsed = parse_argument(argument)
    if any(is_run(path) for path in parsed.paths):
        raise OffleashError(f"{argument} is already a run folder. Give the logs of another tool.")
    if options.options.split_by is not None:
        raise OffleashError("import writes one run. Leave out --split-by, or split the file first.")
    parts, logs = read_log_files(parsed, options, progress)
    if logs[0].counts:
        raise OffleashError(
            f"{argument} holds counts, not samples: there is nothing to import. Pass it directly to `offleash compare`."
        )
    merged = merge_parts(parts, parsed.name)
    problems, rows, notes = merged.problems[None], merged.rows[None], merged.notes
    # Which entry of which file has which index: the second reading gives the same entries in the same order.
    keys = rows.select("part", "row_in_file", "index", label="problem")
    verifier = next((log.verifier for log in logs if log.verifier), None)
    facts = merged_facts(logs, parsed.paths) | {"blake2b": _hash(part.path for part in parts)}
    with create_run(folder, parsed.name if parsed.has_explicit_name else folder.name, problems, facts) as run:
        for number, part in enumerate(parts):
            rows_of_part = keys.filter(pl.col("part") == number).drop("part")
            rows_read = 0
            log = open_log(part.path, options.options, options.format)
            for frame in _chunks(without_first_rows(log.frames, part.repeated_rows)):
                numbered_rows = frame.with_row_index("row_in_file", rows_read).join(
                    rows_of_part, on="row_in_file", how="inner"
                )
                rows_read += frame.height
                shard = numbered_rows.drop("problem").rename({"label": "problem"})
                text = pl.col("answer" if answers else "text").alias("text")
                run.write_samples(shard.select("problem", "index", text, "tokens", "finish"))
                if verifier is not None:
                    verdict = ["verdict", "answer", "solution", "score"]
                    run.write_verdicts(verifier, shard.select("problem", "index", *verdict))
                progress(f"{part.path.name}: {rows_read:,} samples written")
    return LogImport(
        folder=folder,
        problems=problems.height,
        samples=rows.height,
        verdicts=rows.height - rows["verdict"].null_count(),
        verifier=verifier,
        format=facts["format"],
        notes=tuple(note for log in logs for note in log.notes) + tuple(notes),
        unverified_hint=next((log.unverified_hint for log in logs if log.unverified_hint), ""),
    )


def _hash(paths: Iterable[Path]) -> str:
    """One hash of all files, in their order, by which the logs of a run can be identified later."""
    digest = blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def _chunks(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames put together into shards of about SHARD_BYTES, since a run of many small files reads slowly."""
    pending: list[pl.DataFrame] = []
    size = 0.0
    for frame in frames:
        pending.append(frame)
        size += frame.estimated_size()
        if size >= SHARD_BYTES:
            yield pl.concat(pending)
            pending, size = [], 0.0
    if pending:
        yield pl.concat(pending)


def import_document(log_import: LogImport) -> dict[str, object]:
    """The import as JSON (schema 1)."""
    return encode(
        {
            "schema": SCHEMA,
            "folder": log_import.folder,
            "format": log_import.format,
            "problems": log_import.problems,
            "samples": log_import.samples,
            "verdicts": log_import.verdicts,
            "verifier": log_import.verifier,
            "unverified": log_import.samples - log_import.verdicts,
            "unverified_hint": log_import.unverified_hint or None,
            "notes": log_import.notes,
        }
    )


def import_text(log_import: LogImport) -> str:
    """The import as text for a terminal: the counts, the samples without a verdict and how to judge them, the notes."""
    lines = [
        f"{log_import.folder}: {log_import.samples:,} samples of {log_import.problems:,} problems, "
        f"read as {log_import.format}",
        f"  {log_import.verdicts:,} verdicts by {log_import.verifier}" if log_import.verdicts else "  no verdicts",
    ]
    missing = log_import.samples - log_import.verdicts
    if missing:
        step = log_import.unverified_hint or f"To judge them: offleash verify {log_import.folder} --verifier NAME."
        lines.append(f"  {missing:,} samples lack a verdict. {step}")
    lines += [f"  {note.text}{f' ({note.rows:,})' if note.rows else ''}" for note in log_import.notes]
    return "\n".join(lines)


# Temporary run folders, for logs whose samples are to be shown: a run folder finds a sample by its index.


COUNTS = "counts"  # the format without texts


@dataclass(frozen=True)
class CopiedLogs:
    """What to load instead of the given inputs, and the notes of the logs that were copied, by run."""

    inputs: Sequence[RunInput]
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)


def copy_logs(
    inputs: Sequence[RunInput], options: LoadOptions, scratch: Scratch, progress: Progress = silent
) -> CopiedLogs:
    """The same runs, logs of samples as run folders in the scratch folder; everything else stays where it is.

    One file that holds several runs (`split_by`) stays as it is too: its texts cannot be shown.
    """
    paths = [str(run_input) for run_input in inputs if isinstance(run_input, str | Path)]
    parsed = disambiguate_names([parse_argument(path) for path in paths])
    if options.options.split_by is not None or all(_read_in_place(run_input, options) for run_input in parsed):
        return CopiedLogs(inputs)
    names = [
        name for name, run_input in zip(input_names(inputs), inputs, strict=True) if isinstance(run_input, str | Path)
    ]
    named_arguments = zip(parsed, names, strict=True)
    with_texts = replace(options, options=replace(options.options, texts=True))
    run_inputs: list[RunInput] = []
    notes: dict[str, tuple[Note, ...]] = {}
    for number, run_input in enumerate(inputs):
        if not isinstance(run_input, str | Path):
            run_inputs.append(run_input)
            continue
        text, (argument, name) = str(run_input), next(named_arguments)
        source = text[len(argument.name) + 1 :] if argument.has_explicit_name else text
        if not _read_in_place(argument, options):
            log_import = import_logs(text, scratch.path / str(number), with_texts, progress)
            if log_import.verifier is not None:  # without verdicts, what is wrong is best said of the log itself
                source, notes[name] = str(log_import.folder), log_import.notes
        run_inputs.append(f"{name}={source}")
    return CopiedLogs(run_inputs, notes)


def _read_in_place(argument: Argument, options: LoadOptions) -> bool:
    """Whether an argument is read where it is: a run folder, or counts, of which there is no text to copy."""
    if any(is_run(path) for path in argument.paths):
        return True
    if options.format is not None:
        return options.format == COUNTS
    return all(name == COUNTS for name in _format_names(argument, options))


def _format_names(argument: Argument, options: LoadOptions) -> Iterator[str]:
    """The formats of the files of an argument; of a folder, those of its logs. What is no log is refused by reading."""
    for path in argument.paths:
        try:
            kind = recognise_format(read_head(path), options.options)
        except OffleashError:
            if not argument.folder:
                raise
            continue
        if kind is not None:
            yield kind.name
