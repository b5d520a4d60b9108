"""offleash entropy: did tokens, or answers, become more alike?"""

from typing import Annotated

import typer

from offleash.cli.reading import AsJson, Filter, FormatName, Map, SplitBy, Threshold, Verifier, progress, reading


def entropy(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, log files, folders, quoted globs; NAME=PATH. Base first."),
    ],
    at: Annotated[
        int | None, typer.Option(metavar="K", help="The first K samples of each problem (the paper: 32).")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="What may differ between the runs, else refused: decoding. Repeatable."),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
    columns: Map = None,
    split_by: SplitBy = None,
    log_format: FormatName = None,
    filter_name: Filter = None,
    threshold: Threshold = 1.0,
    verifier: Verifier = None,
    as_json: AsJson = False,
) -> None:
    """Token entropy and answer entropy of runs: can local uncertainty rise while global diversity falls?

    Accuracy, response length, token entropy and answer entropy of each run and their differences from the first, per
    benchmark and averaged; the 2x2 of token and answer entropy, up or down; where tokens are uncertain; different
    answers against k. Token entropies are kept by draw, or come with: offleash score RUN --model hf:MODEL --first 32.

    \b
    Examples:
      offleash entropy runs/base runs/rl
      offleash entropy runs/base runs/rl --at 32               (as the paper: the first 32 samples of each problem)
      offleash entropy runs/base runs/step100 runs/step200     (each against the first)
      offleash entropy base.jsonl rl.jsonl --json              (logs: accuracy and answer entropy)
    """
    from offleash.study.entropies.entropy import entropy_arguments
    from offleash.study.verbs import question

    asked = question(at=at, replicates=replicates, seed=seed, allow=allow or ())
    how = reading(columns, split_by, log_format, filter_name, threshold, verifier)
    with progress(as_json) as tell:
        found = entropy_arguments(runs, how, asked, tell)
    if as_json:
        import json

        from offleash.report.entropies.document import entropy_document

        print(json.dumps(entropy_document(found), ensure_ascii=False, allow_nan=False))
    else:
        from rich.console import Console

        from offleash.report.entropies.terminal import show_entropies

        show_entropies(Console(markup=False, emoji=False, highlight=False), found)
