"""offleash import: other people's logs as a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.options import Logs
from offleash.cli.output import AsJson, print_json, progress, say


@taking("split_by", "verifier")
def import_(
    logs: Annotated[
        str, typer.Argument(metavar="LOGS", help="A file, a folder or a quoted glob; NAME=PATH names the run.")
    ],
    into: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="The run folder to write.")],
    reading: Logs,
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
    from offleash.loading.import_logs import import_logs
    from offleash.loading.imported import imported_document, imported_text

    with progress(as_json) as tell:
        done = import_logs(logs, into, reading.reading(texts), tell)
    if as_json:
        print_json(imported_document(done))
    else:
        say(imported_text(done))
