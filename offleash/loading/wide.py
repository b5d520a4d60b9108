"""Wide tables: one file with columns for several runs, `--map base:c=c_base --map rl:c=c_rl`.

A name of --map with a run in front is for that run only, one without is for all of them. The file is read once per run,
with the columns of the others left alone, so that everything else is as if every run had a file of its own. Two files
with different columns are read in the same way, if their names are those of the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from offleash.data.run import Run
from offleash.data.run_folder import Scratch
from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.loading.import_logs import import_logs
from offleash.loading.load import LoadOptions, RunInput, input_names, load
from offleash.progress import Progress, silent


@dataclass(frozen=True)
class WideRuns:
    """What to load instead of the file: a run each, or its copy in the scratch folder where it has texts."""

    inputs: Sequence[RunInput]
    notes: Mapping[str, tuple[Note, ...]]  # of the copies, by run


def columns_by_run(columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The mapping of each run, in the order in which they are first mentioned.

    >>> columns_by_run({"base:c": "c_base", "rl:c": "c_rl", "n": "k"})
    {'base': {'n': 'k', 'c': 'c_base'}, 'rl': {'n': 'k', 'c': 'c_rl'}}
    """
    runs: dict[str, dict[str, str]] = {}
    for name, column in columns.items():
        run, colon, role = name.rpartition(":")
        if colon and not (run and role):
            raise OffleashError(f"--map {name}={column} lacks the run or the name. Write --map RUN:NAME=COLUMN.")
        if colon:
            runs.setdefault(run, {})[role] = column
    _check(runs)
    common = {name: column for name, column in columns.items() if ":" not in name}
    return {run: common | run_columns for run, run_columns in runs.items()}


def _check(runs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse a run that lacks a column the others have: most likely its name is misspelt."""
    if len(runs) == 1:
        run, first_columns = next(iter(runs.items()))
        role, column = next(iter(first_columns.items()))
        raise OffleashError(
            f"--map {run}:{role}={column} names a column of one run only, {run!r}. Name the other "
            f"run's column too: --map OTHER:{role}=COLUMN."
        )
    for run, first_columns in runs.items():
        missing = {role: other for other, roles in runs.items() for role in roles if role not in first_columns}
        if missing:
            role, other = next(iter(missing.items()))
            raise OffleashError(
                f"--map gives the run {run!r} {', '.join(first_columns)}, but not {role}, which {other!r} has. Add "
                f"--map {run}:{role}=COLUMN, or correct the name of the run."
            )


def wide_runs(
    inputs: Sequence[RunInput],
    options: LoadOptions,
    scratch: Scratch,
    progress: Progress = silent,
    *,
    judged: bool = False,
) -> WideRuns:
    """The runs of a wide table.

    Args:
        inputs: The file or frame; or one for each run, under their names.
        options: As the user gave them, with runs in front of the names of --map.
        scratch: Where samples with texts are copied to, so that they can be judged and shown.
        progress: Called with a line per frame read.
        judged: The samples will be judged (--verifier): by their extracted answers where --map names these.
    """
    by_run = columns_by_run(options.options.columns)
    if options.options.split_by is not None:
        raise OffleashError(f"--split-by {options.options.split_by} and --map {next(iter(by_run))}:... both name runs.")
    sources = _sources(inputs, list(by_run))
    run_inputs: list[RunInput] = []
    notes: dict[str, tuple[Note, ...]] = {}
    for number, (run, columns) in enumerate(by_run.items()):
        others = {
            column for other, other_columns in by_run.items() if other != run for column in other_columns.values()
        }
        source = sources[run]
        columns_of_others = tuple(sorted(others - set(columns.values()))) if len(inputs) == 1 else ()
        run_options = replace(options, options=replace(options.options, columns=columns, taken=columns_of_others))
        mapped_answer = bool(columns.get("answer"))
        if ("text" in columns or (judged and mapped_answer)) and isinstance(source, str | Path):
            with_texts = replace(run_options, options=replace(run_options.options, texts=True))
            folder = scratch.path / f"wide{number}"
            log_import = import_logs(str(source), folder, with_texts, progress, answers=judged and mapped_answer)
            run_inputs.append(f"{run}={log_import.folder}")
            notes[run] = log_import.notes
            continue
        loaded = load(source, options=run_options, progress=progress)
        run_inputs.append(replace(loaded[0], name=run))
    return WideRuns(run_inputs, notes)


def _sources(inputs: Sequence[RunInput], runs: Sequence[str]) -> dict[str, RunInput]:
    """The file of each run: the only one, or the one of its name."""
    for run_input in inputs:
        if isinstance(run_input, Run):
            raise OffleashError(
                f"{run_input.name!r} is a loaded run, but --map is for files and frames. Leave it out, or give a file."
            )
    if len(inputs) == 1:
        return dict.fromkeys(runs, inputs[0])
    names = [] if any(isinstance(run_input, pl.DataFrame) for run_input in inputs) else input_names(inputs)
    if sorted(names) != sorted(runs):
        inputs_text = f"found {', '.join(names)}" if names else f"found {len(inputs)} frames"
        raise OffleashError(
            f"--map names columns of the runs {', '.join(runs)}; {inputs_text}. Give one file for all of them, or "
            f"one file each: {' '.join(f'{run}=FILE' for run in runs)}."
        )
    return dict(zip(names, inputs, strict=True))
