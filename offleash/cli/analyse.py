"""offleash entropy: did tokens, or answers, become more alike?"""

from typing import Annotated

import typer

from offleash.cli.asking import Sized
from offleash.cli.commands import taking
from offleash.cli.options import Logs
from offleash.cli.output import AsJson, console, print_json, progress

At = Annotated[int | None, typer.Option(metavar="K", help="The first K samples of each problem (the paper: 32).")]


@taking(at=At)
def entropy(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, log files, folders, quoted globs; NAME=PATH. Base first."),
    ],
    sized: Sized,
    logs: Logs,
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
    from offleash.analyses.entropy.entropy import entropy_arguments

    with progress(as_json) as tell:
        found = entropy_arguments(runs, logs.reading(), sized.question(), tell)
    if as_json:
        from offleash.analyses.entropy.report import entropy_document

        print_json(entropy_document(found))
    else:
        from offleash.analyses.entropy.terminal import show_entropies

        show_entropies(console(), found)
