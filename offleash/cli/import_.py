"""offleash import: other people's logs as a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.reading import AsJson, Filter, FormatName, Map, Threshold, progress, reading


def import_(
    logs: Annotated[
        str, typer.Argument(metavar="LOGS", help="A file, a folder or a quoted glob; NAME=PATH names the run.")
    ],
    into: Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="The run folder to write.")],
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="Keep the samples' texts, or verdicts only.")
    ] = True,
    columns: Map = None,
    format_name: FormatName = None,
    filter_name: Filter = None,
    threshold: Threshold = 1.0,
    as_json: AsJson = False,
) -> None:
    """Other people's logs as a run folder: problems, samples with their texts, the tool's own verdicts.

    \b
    Examples:
      offleash import 'logs/samples_aime24_*.jsonl' -o runs/base
      offleash import base=eval/output-rs0.jsonl -o runs/base --json
      offleash import logs/aime.eval -o runs/base --no-texts       (fast: summaries only)
    """
    from offleash.report.imported import imported_document, imported_text
    from offleash.study.importing import import_logs

    how = reading(columns, None, format_name, filter_name, threshold, texts=texts)
    with progress(as_json) as tell:
        done = import_logs(logs, into, how, tell)
    if as_json:
        import json

        print(json.dumps(imported_document(done), ensure_ascii=False, allow_nan=False))
    else:
        print(imported_text(done))
