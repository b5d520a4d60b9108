"""Loading runs from run folders, logs, counts and frames; several files or folders of one argument become one run.

All inputs end in a `Run`: problems, and lazily its verdicts and samples, or counts. What was left out or assumed on the
way is in its notes, which every report shows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from offleash.credentials import without_credentials
from offleash.data.run import GOLD_GUESSED, RUN_FILE, Run, read_origin
from offleash.data.run_folder import is_run, open_run
from offleash.data.tables import VERDICTS, Note
from offleash.errors import OffleashError
from offleash.files.archives import IncompleteFileError
from offleash.files.columns import COUNT_COLUMNS, guess_columns
from offleash.files.detect import LfsPointerError, read_head
from offleash.loading.arguments import Argument, disambiguate_names, distinct_names, parse_argument, printable_name
from offleash.loading.merge import FilePart, MergedRuns, file_part, merge_parts, without_first_rows
from offleash.logs.format import Log, Options, Skip
from offleash.logs.registry import FORMATS, format_named, open_log, recognise_format
from offleash.options import Reading
from offleash.progress import Progress, silent

# Formats written by a trainer, whose files are mostly of one step each.
TRAINER_FORMATS = {"trl", "verl", "prime_rl", "nemo_rl", "skyrl", "open_instruct", "swift", "tinker", "areal", "art"}
# How to get verdicts for a log that has none, where its format has no better hint.
NO_VERDICTS_HINT = (
    "`compare` judges them with --verifier NAME; for other commands, run offleash import LOGS -o RUN, then "
    "offleash verify RUN. If a column holds verdicts, name it with --map verdict=COLUMN."
)
NOTES_PER_KIND = 3  # that are shown one by one; more are summarised
SHORT_FILE = 4096  # bytes: below, files of verdicts without texts can be equal by chance
NAMES_SHOWN = 5  # of files in a note


RunInput = str | Path | Run | pl.DataFrame  # what a user may name as a run: see `load`


def run_inputs(inputs: Sequence[object]) -> tuple[RunInput, ...]:
    """What a caller in Python gives as runs, with frames of pandas as frames of polars; `load` checks the rest."""
    return tuple(_from_pandas(run_input) if _is_pandas(run_input) else run_input for run_input in inputs)  # type: ignore[misc]


def _is_pandas(frame: object) -> bool:
    """Whether it is a frame of pandas, which is not imported here: whoever passes one has it."""
    return type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns")


def _from_pandas(frame: Any) -> pl.DataFrame:
    """A frame of pandas column by column, its named index included; without pyarrow, which pl.from_pandas needs."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise OffleashError(f"A frame has several columns named {repeated[0]!r}. Rename or drop one of them.")
    objects = frame.astype(object).where(frame.notna(), None)
    columns = {name: objects.iloc[:, position].tolist() for position, name in enumerate(names)}
    return pl.DataFrame(columns, strict=False)


@dataclass(frozen=True)
class LoadOptions:
    """How runs are loaded."""

    options: Options = field(default_factory=lambda: Options(texts=False))  # of the readers of logs
    format: str | None = None  # --log-format; None: recognised by content
    verdicts: str | None = None  # of this verifier, where a run folder has those of several

    def __post_init__(self) -> None:
        if self.format is not None:
            format_named(self.format)

    def reading_flags(self) -> dict[str, list[str]]:
        """The options that say how logs are read, with the values that differ from the defaults, as they are typed."""
        logs = self.options
        values: dict[str, list[str | None]] = {
            "--map": [f"{name}={column}" for name, column in logs.columns.items()],
            "--split-by": [logs.split_by],
            "--log-format": [self.format],
            "--filter": [logs.filter],
            "--threshold": [None if logs.threshold == 1 else f"{logs.threshold:g}"],
            "--rows": [logs.rows],
        }
        return {flag: typed for flag, given in values.items() if (typed := [value for value in given if value])}


def load_options(
    inputs: Sequence[RunInput], reading: Reading, split_by: str | None = None, verdicts: str | None = None
) -> LoadOptions:
    """The options of the command line; refused where all inputs are run folders, which need none of them."""
    logs = Options(reading.columns, split_by, reading.filter, reading.threshold, texts=False, rows=reading.rows)
    options = LoadOptions(logs, reading.log_format, verdicts)
    requested_text = ", ".join(f"{flag} {f' {flag} '.join(values)}" for flag, values in options.reading_flags().items())
    paths = [run_input for run_input in inputs if isinstance(run_input, str | Path)] if requested_text else []
    logs_among = any(isinstance(run_input, pl.DataFrame) for run_input in inputs) or any(
        not is_run(path) for run_input in paths for path in parse_argument(str(run_input)).paths
    )
    if requested_text and inputs and not logs_among:
        raise OffleashError(
            f"{requested_text} is for logs, but these are run folders, which have their own columns. "
            "Leave it out, or give logs."
        )
    return options


def load(*inputs: RunInput, options: LoadOptions | None = None, progress: Progress = silent) -> list[Run]:
    """The runs that the inputs name, in their order, under distinct names.

    Args:
        inputs: Each a path (a run folder, a log, a folder of logs, a glob, a file of counts; NAME=PATH names the run),
            a loaded run, or a frame of counts or samples, which is read as a file with the same columns would be.
        options: How logs are read and which verdicts are taken. With `split_by` an input may give several runs.
        progress: Called with a line per frame read.
    """
    if not inputs:
        raise OffleashError("Give at least one run: a run folder, a log file, a folder of logs or a quoted glob.")
    for run_input in inputs:
        if not isinstance(run_input, str | Path | Run | pl.DataFrame):
            raise OffleashError(
                f"A run must be a path, a loaded run, or a polars or pandas frame. Found a "
                f"{type(run_input).__name__}: {run_input!r:.60}."
            )
    options = options or LoadOptions()
    parsed = iter(
        disambiguate_names(
            [parse_argument(str(run_input)) for run_input in inputs if isinstance(run_input, str | Path)]
        )
    )
    runs: list[Run] = []
    for number, run_input in enumerate(inputs):
        if isinstance(run_input, Run):
            runs.append(run_input)
        elif isinstance(run_input, pl.DataFrame):
            runs += _load_frame(run_input, _frame_name(number, inputs), options, progress)
        else:
            runs += _load(next(parsed), options, progress)
    names = _distinct_input_names([run.name for run in runs], inputs)
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def input_names(inputs: Sequence[RunInput]) -> list[str]:
    """The names that `load` gives to the runs of these inputs, if each holds one run."""
    parsed = iter(
        disambiguate_names(
            [parse_argument(str(run_input)) for run_input in inputs if isinstance(run_input, str | Path)]
        )
    )
    names = []
    for number, run_input in enumerate(inputs):
        if isinstance(run_input, Run):
            names.append(run_input.name)
        elif isinstance(run_input, pl.DataFrame):
            names.append(_frame_name(number, inputs))
        else:
            names.append(next(parsed).name)
    return _distinct_input_names(names, inputs)


def _frame_name(number: int, inputs: Sequence[RunInput]) -> str:
    """A name for a frame, which has none: before and after, or a number."""
    return SIDES[number] if len(inputs) == 2 else f"run{number + 1}"


def _distinct_input_names(names: list[str], inputs: Sequence[RunInput]) -> list[str]:
    """Distinct names; two runs in memory that share a name are called before and after."""
    if len(set(names)) < len(names) == 2 and not any(isinstance(run_input, str | Path) for run_input in inputs):
        return list(SIDES)
    return distinct_names(names)


SIDES = ("before", "after")  # names of two frames


def _load_frame(frame: pl.DataFrame, name: str, options: LoadOptions, progress: Progress) -> list[Run]:
    """The runs of a frame, through a Parquet file, so that its columns are recognised and checked like a log's."""
    with TemporaryDirectory(prefix="offleash-") as scratch:
        path = Path(scratch) / f"{name}.parquet"
        if not frame.height:
            raise OffleashError(f"The frame {name!r} has no rows. Give a row per problem, or per sample.")
        frame.write_parquet(path)
        if options.format is None and recognise_format(read_head(path), options.options) is None:
            raise _unknown_frame_error(frame, name)
        try:
            return _load(Argument(name, (path,), has_explicit_name=True), options, progress)
        except OffleashError as error:  # the file is ours and gone: the user knows a frame
            raise OffleashError(str(error).replace(str(path), f"The frame {name!r}")) from None


def _unknown_frame_error(frame: pl.DataFrame, name: str) -> OffleashError:
    """A frame that is neither counts nor samples: its columns, and those that look like the ones it lacks."""
    chosen = guess_columns({role: COUNT_COLUMNS[role] for role in ("problem", "n", "c")}, frame.columns, {})
    unused = [column for column in frame.columns if column not in chosen.values()]
    suggested = {
        role: match[0]
        for role in ("problem", "n", "c")
        if role not in chosen and (match := _similar_columns(COUNT_COLUMNS[role], unused))
    }
    shown = ", ".join(frame.columns[:20]) + (", ..." if len(frame.columns) > 20 else "")
    columns_hint = f"columns={suggested!r}" if suggested else "columns={'problem': NAME, ...}"
    step = f"Did you mean {columns_hint}?" if suggested else f"Rename its columns, or give {columns_hint}."
    return OffleashError(
        f"The frame {name!r} has the columns {shown}; counts need problem, n and c, samples problem and verdict. {step}"
    )


def _similar_columns(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The column that is most like one of some names, first those whose whole name is close."""
    by_lowercase = {column.lower(): column for column in columns}
    matches = [
        match
        for known_name in names
        if len(known_name) > 1
        for match in get_close_matches(known_name, by_lowercase, n=1, cutoff=0.75)
    ]
    return [by_lowercase[match] for match in matches[:1]]


def read_log_files(argument: Argument, options: LoadOptions, progress: Progress) -> tuple[list[FilePart], list[Log]]:
    """Every file of an argument, read. Files of a folder that are not logs are named in a note of the first log."""
    parts: list[FilePart] = []
    logs: list[Log] = []
    skipped = _skipped_files(argument, options)
    log_paths = [path for path in argument.paths if path not in skipped]
    opened_logs = {path: open_log(path, options.options, options.format) for path in log_paths}
    repeats = _repeats(opened_logs)
    repeat_notes = []
    for path, log in opened_logs.items():
        skip = repeats.get(path)
        if skip is None or skip.rows is not None:
            repeated = 0 if skip is None or skip.rows is None else skip.rows
            frames = _with_progress(log, path, progress, repeated)
            parts.append(file_part(path, frames, log.ids, log.gold_guessed, repeated, log.format))
            logs.append(log)
        if skip is not None:
            rows = skip.rows if skip.rows is not None else sum(frame.height for frame in log.frames)
            repeat_notes.append(Note(f"{path.name}: {rows} rows were left out: {skip.why}.", rows, left_out=True))
    if logs:
        logs[0].notes += repeat_notes
    log_paths = [part.path for part in parts]
    if (same_content_note := _check_same_content(log_paths)) is not None:
        logs[0].notes.append(same_content_note)
    if not parts:
        raise _no_log_error(argument, skipped)
    companions = {path for log in opened_logs.values() for path in log.companions}
    logs[0].notes += _skipped_notes({path: error for path, error in skipped.items() if path not in companions})
    if len({log.counts for log in logs}) > 1:
        raise OffleashError(f"{argument.name!r} mixes counts files with samples files. Give them as two runs.")
    return parts, logs


def _repeats(opened_logs: Mapping[Path, Log]) -> dict[Path, Skip]:
    """What some of these files repeat of others, by the rules of their formats: trainers log a batch more than once."""
    by_format: dict[str, list[Path]] = {}
    for path, log in opened_logs.items():
        by_format.setdefault(log.format, []).append(path)
    return {
        path: skip
        for name, paths in by_format.items()
        if len(paths) > 1 and name in FORMATS and (skipped := FORMATS[name].skip) is not None
        for path, skip in skipped(paths).items()
    }


def merged_facts(logs: Sequence[Log], paths: Sequence[Path]) -> dict[str, str]:
    """What the logs say about their model, decoding and tool (the first log wins), and which files they were."""
    facts = {key: value for log in reversed(logs) for key, value in log.facts.items()}
    formats = ", ".join(dict.fromkeys(log.format for log in logs))
    files = ", ".join(path.name for path in paths[:20]) + (", ..." if len(paths) > 20 else "")
    guessed = {GOLD_GUESSED: "answer"} if any(log.gold_guessed for log in logs) else {}
    facts |= {"format": formats, "files": files, "file_count": str(len(paths))}
    return {name: without_credentials(value) for name, value in facts.items()} | guessed


def _load(argument: Argument, options: LoadOptions, progress: Progress) -> list[Run]:
    """The run of an argument, or its runs where --split-by separates them."""
    if all(is_run(path) for path in argument.paths):
        runs = [_open_run(path, argument.name, options.verdicts) for path in argument.paths]
        return [runs[0] if len(runs) == 1 else _concatenate_runs(runs)]
    parts, logs = read_log_files(argument, options, progress)
    merged = merge_parts(parts, argument.name)
    notes = summarise_notes([note for log in logs for note in log.notes]) + merged.notes
    return [_run(argument, merged, value, logs, notes) for value in _sorted_values(merged.rows)]


def summarise_notes(notes: Sequence[Note]) -> list[Note]:
    """One note instead of many that differ only in the file and its numbers: a training run leaves 300 files."""
    kinds: dict[tuple[str, bool], list[Note]] = {}
    for note in notes:
        about = note.text.partition(": ")[2] or note.text
        kinds.setdefault((re.sub(r"\d+", "0", about), note.left_out), []).append(note)
    summary: list[Note] = []
    for group in kinds.values():
        if len(group) <= NOTES_PER_KIND:
            summary += group
            continue
        text = f"{group[0].text.rstrip('.')}; {len(group) - 1} more files have a note like this."
        summary.append(replace(group[0], text=text, rows=sum(note.rows for note in group)))
    return summary


def _open_run(path: Path, name: str, verifier: str | None) -> Run:
    """A run folder with the scores of every model that scored it."""
    from offleash.data.scores import has_positions, own_scores, scan_positions, scan_scores, scored_models

    run, origin, models = open_run(path, name, verifier), read_origin(path), scored_models(path)
    facts = {key: without_credentials(value) for key, value in run.facts.items()}
    masked_keys = [key for key, value in run.facts.items() if facts[key] != value]
    if masked_keys:  # drawn before credentials were refused
        text = f"{path / RUN_FILE} contains what looks like a key ({', '.join(masked_keys)}), which is not shown"
        run = replace(run, facts=facts, notes=(*run.notes, Note(f"{text}. Remove it there, and replace the key.")))
    return replace(
        run,
        scores={model: scan_scores(path, model) for model in models},
        positions={model: scan_positions(path, model) for model in models if has_positions(path, model)},
        own=own_scores(path, origin.about) if origin is not None else None,
    )


def _run(argument: Argument, merged: MergedRuns, split: str | None, logs: Sequence[Log], notes: list[Note]) -> Run:
    """The run of some files, or one of those that --split-by separates."""
    name = argument.name if split is None else printable_name(split)
    problems, rows = merged.problems[split], merged.rows[split]
    verifier = next((log.verifier for log in logs if log.verifier), None)
    hint = next((log.unverified_hint for log in logs if log.unverified_hint), NO_VERDICTS_HINT)
    facts = merged_facts(logs, argument.paths)
    # Weights change between steps, so samples of several steps are not draws from one model.
    if len(logs) > 1 and split is None and {log.format for log in logs} & TRAINER_FORMATS:
        steps = (
            "these files come from several training steps, so from different weights; --split-by step keeps them apart"
        )
        notes = [Note(f"{len(logs)} {steps}"), *notes]
    if logs[0].counts:
        counts = rows.group_by("problem", maintain_order=True).agg(pl.col("n", "c").sum())
        return Run(name, problems, None, counts=counts, verifier=verifier, notes=tuple(notes), facts=facts)
    # Logs do not say by which extraction step an answer was read, nor why a verifier failed.
    with_nulls = rows.with_columns(step=pl.lit(None, pl.String), reason=pl.lit(None, pl.String))
    verdicts = with_nulls.select(*VERDICTS).lazy()
    samples = rows.select("problem", "index", "tokens", "finish").lazy()
    return Run(
        name, problems, verdicts, samples, verifier=verifier, notes=tuple(notes), facts=facts, unverified_hint=hint
    )


def _concatenate_runs(runs: Sequence[Run]) -> Run:
    """Several run folders as one run: problems are put together, and samples of the same problem are numbered on."""
    offset = pl.LazyFrame(schema={"problem": pl.String(), "offset": pl.UInt32()})
    verdicts, samples = [], []
    for run in runs:
        assert run.verdicts is not None, "a run folder has samples"
        # Samples of a problem go on after the highest index of the folders before.
        shift = (pl.col("index") + pl.col("offset").fill_null(0)).alias("index")
        renumbered = run.verdicts.join(offset, on="problem", how="left").with_columns(shift).drop("offset")
        verdicts.append(renumbered)
        if run.samples is not None:  # not every sample need have a verdict of this verifier
            renumbered = run.samples.join(offset, on="problem", how="left").with_columns(shift).drop("offset")
            samples.append(renumbered)
        drawn = renumbered.group_by("problem").agg((pl.col("index").max() + 1).alias("offset"))
        offset = pl.concat([offset, drawn]).group_by("problem").agg(pl.col("offset").max()).collect().lazy()
    combined = pl.concat([run.problems for run in runs])
    identity = pl.coalesce("hash", "gold")  # without a text, another gold answer means another problem
    conflicting = combined.filter(identity.is_not_null()).filter(identity.n_unique().over("problem") > 1)
    if conflicting.height:
        raise OffleashError(
            f"{runs[0].name!r}: the run folders use the id {conflicting['problem'][0]!r} for different problems. "
            "Import their logs together with one quoted glob, which keeps benchmarks apart."
        )
    problems = combined.unique("problem", keep="first", maintain_order=True)
    return replace(
        runs[0],
        problems=problems,
        verdicts=pl.concat(verdicts),
        samples=pl.concat(samples) if samples else None,
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def _sorted_values(values: Iterable[str | None]) -> list[str | None]:
    """Values of the splitting column, numbers (training steps) by size, names in the order of the file."""
    distinct = list(values)
    try:
        return sorted(distinct, key=lambda value: float(value or "nan"))
    except ValueError:
        return distinct


def _with_progress(log: Log, path: Path, progress: Progress, repeated: int = 0) -> Iterator[pl.DataFrame]:
    """The frames of a log without the rows that repeat another file, with progress."""
    rows = 0
    for frame in without_first_rows(log.frames, repeated):
        rows += frame.height
        progress(f"{path.name}: {rows:,} rows read as {log.format}")
        yield frame


def _skipped_files(argument: Argument, options: LoadOptions) -> dict[Path, OffleashError | None]:
    """Files of a folder that are no logs, such as READMEs, each with the error it would give; None: unknown columns."""
    skipped: dict[Path, OffleashError | None] = {}
    for path in argument.paths if argument.folder else ():
        try:
            if recognise_format(read_head(path), options.options) is None:
                skipped[path] = None
        except OffleashError as error:
            skipped[path] = error
    return skipped


def _no_log_error(argument: Argument, skipped: Mapping[Path, OffleashError | None]) -> OffleashError:
    """The error for a folder without a log: its incomplete files, or else the files it has."""
    incomplete_errors = [error for error in skipped.values() if isinstance(error, IncompleteFileError)]
    if incomplete_errors:
        return OffleashError(
            f"{argument.name!r} has {_file_count_text(len(incomplete_errors))} that cannot be read. "
            f"{incomplete_errors[0]}"
        )
    return OffleashError(
        f"{argument.name!r} has no log in a known format; found {_file_names(list(skipped))}. See `offleash formats`."
    )


def _skipped_notes(skipped: Mapping[Path, OffleashError | None]) -> list[Note]:
    """Which files of a folder were not read. An incomplete file may be a log whose samples are now missing."""
    pointers = [path for path, error in skipped.items() if isinstance(error, LfsPointerError)]
    damaged = [path for path, error in skipped.items() if isinstance(error, IncompleteFileError)]
    damaged = [path for path in damaged if path not in pointers]
    not_logs = [path for path in skipped if path not in pointers and path not in damaged]
    notes = []
    for kind, paths, step in (
        ("Git LFS pointers", pointers, "fetch with git lfs pull"),
        ("cut off or damaged", damaged, "copy again"),
    ):
        if paths:
            text = f"{_file_count_text(len(paths))} skipped as {kind} ({_file_names(paths)}): {step}"
            notes.append(Note(text, warning=True, code="files_incomplete"))
    if not_logs:
        notes.append(Note(f"files that are not logs were skipped: {_file_names(not_logs)}", len(not_logs)))
    return notes


def _file_count_text(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _file_names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths[:NAMES_SHOWN]) + (", ..." if len(paths) > NAMES_SHOWN else "")


def _check_same_content(paths: Sequence[Path]) -> Note | None:
    """The note on two short files with the same content, which may be chance; for longer ones it is an error.

    Counting a file twice would double its samples without adding evidence.
    """
    seen: dict[tuple[int, str], Path] = {}
    for path in paths:
        with path.open("rb") as file:
            # The first megabyte decides in nearly all cases; only equal keys are compared in full.
            key = path.stat().st_size, blake2b(file.read(1 << 20)).hexdigest()
        other = seen.setdefault(key, path)
        if other is path or path.read_bytes() != other.read_bytes():
            continue
        if key[0] < SHORT_FILE:
            return Note(f"{path.name} and {other.name} have the same content: leave one out unless this is intended")
        raise OffleashError(
            f"{path} and {other} have the same content, so their samples would be counted twice. Leave one out."
        )
    return None
