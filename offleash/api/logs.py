"""Logs of other tools and run folders: import_logs, show_formats, fsck."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.options import Data, Flag, Reading
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    from offleash.data.tables import Note
    from offleash.results.samples import FormatsResult, FsckResult, ImportResult


@verb
def import_logs(
    logs: Annotated[str | Path, Data("LOGS", "A file, a folder or a quoted glob; NAME=PATH names the run.")],
    *,
    out: Annotated[str | Path, Flag("The run folder to write.", short="-o", metavar="RUN")],
    texts: Annotated[bool, Flag("Keep the texts of samples; --no-texts keeps verdicts only.")] = True,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "ImportResult":
    """Import other tools' logs as a run folder: problems, samples with their texts, the tool's own verdicts.

    Examples:
      offleash import 'logs/samples_aime24_*.jsonl' -o runs/base
      offleash import base=eval/output-rs0.jsonl -o runs/base --json
      offleash import logs/aime.eval -o runs/base --no-texts       (fast: summaries only)

    In Python:
      >>> written = Path("log.jsonl").write_text('{"problem": "1+1", "response": "2", "correct": true}')
      >>> log = ol.import_logs("log.jsonl", out="runs/base")
      >>> log.folder.name, log.ok
      ('base', True)
    """
    from dataclasses import replace

    from offleash.loading.import_logs import import_logs as run_import
    from offleash.loading.load import load_options
    from offleash.results.samples import ImportResult

    options = load_options((), reading)
    options = replace(options, options=replace(options.options, texts=texts))
    return ImportResult(run_import(str(logs), Path(out), options, progress))


@verb
def show_formats(*, announce: Progress = silent) -> "FormatsResult":
    """List the log formats that can be read; they are recognised by content.

    Examples:
      offleash formats
      offleash formats --json

    In Python:
      >>> [log["name"] for log in ol.show_formats().formats][:3]
      ['lm_eval', 'lighteval', 'inspect']
    """
    from offleash.logs.registry import FORMATS, plugin_formats
    from offleash.results.samples import FormatsResult

    notes: list[Note] = []
    kinds = [*FORMATS.values(), *plugin_formats(notes)]
    rows = [{"name": kind.name, "about": kind.about, "examples": list(kind.examples)} for kind in kinds]
    for note in notes:
        announce(note.text)
    return FormatsResult(tuple(rows))


@verb
def fsck(
    *runs: Annotated[str | Path, Data("RUN...", "Run folders.")],
    progress: Progress = silent,
) -> "FsckResult":
    """Check run folders in full: every shard is readable, every sample is there once. Changes nothing.

    Exit code 1 if something is wrong, with the next step for each finding.

    Examples:
      offleash fsck runs/base runs/rl
      offleash fsck runs/base --json

    In Python:
      >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base")
      >>> ol.fsck(run.folder).ok
      True
    """
    from offleash.drawing.fsck import fsck as check_run
    from offleash.results.samples import FsckResult

    return FsckResult(tuple(check_run(Path(run), progress) for run in runs))
