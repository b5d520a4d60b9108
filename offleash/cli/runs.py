"""The verbs about run folders and logs: fsck, formats, import."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.option_groups import taking
from offleash.cli.options import LogOptions
from offleash.cli.output import AsJson, console, print_json, progress, say


def fsck(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    as_json: AsJson = False,
) -> None:
    """Read run folders in full and check them: facts, problems, every shard, each sample once. Nothing is changed.

    Exit code 1 when something is wrong; the next step is told for each.

    \b
    Examples:
      offleash fsck runs/base runs/rl
      offleash fsck runs/base --json
    """
    from offleash.drawing.fsck import fsck as inspect
    from offleash.drawing.fsck import fsck_document, fsck_text

    with progress(as_json) as tell:
        found = [inspect(run, tell) for run in runs]
    if as_json:
        print_json(fsck_document(found))
    else:
        say("\n".join(fsck_text(one) for one in found))
    if not all(one.good for one in found):
        raise typer.Exit(1)


def formats(as_json: AsJson = False) -> None:
    """The kinds of logs that can be read, recognised by content.

    \b
    Examples:
      offleash formats
      offleash formats --json
    """
    from offleash.logs.registry import FORMATS

    if as_json:
        print_json([{"name": f.name, "about": f.about, "examples": list(f.examples)} for f in FORMATS.values()])
        return
    from rich import box
    from rich.table import Table

    table = Table("format", "what it is", "files", box=box.SIMPLE_HEAD)
    for kind in FORMATS.values():
        table.add_row(kind.name, kind.about, ", ".join(kind.examples))
    console().print(table)


@taking("split_by", "verifier")
def import_(
    logs: Annotated[
        str, typer.Argument(metavar="LOGS", help="A file, a folder or a quoted glob; NAME=PATH names the run.")
    ],
    into: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="The run folder to write.")],
    reading: LogOptions,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="Keep the samples' texts, or verdicts only.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Other people's logs as a run folder: problems, samples with their texts, the tool's own verdicts.

    \b
    Examples:
      offleash import 'logs/samples_aime24_*.jsonl' -o runs/base
      offleash import base=eval/output-rs0.jsonl -o runs/base --json
      offleash import logs/aime.eval -o runs/base --no-texts       (fast: summaries only)
    """
    from offleash.loading.import_logs import import_logs, imported_document, imported_text

    with progress(as_json) as tell:
        done = import_logs(logs, into, reading.reading(texts), tell)
    if as_json:
        print_json(imported_document(done))
    else:
        say(imported_text(done))
