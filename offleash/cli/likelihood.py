"""offleash likelihood: how probable both models find what either of them, and others, wrote."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.asking import Sized
from offleash.cli.columns import named_columns
from offleash.cli.commands import taking
from offleash.cli.models import Decoded, Opened
from offleash.cli.options import Verifier
from offleash.cli.output import AsJson, console, print_json, progress, warn

if TYPE_CHECKING:
    from offleash.analyses.likelihood.law import Given

Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, author, ...) of traces from COLUMN."),
]

ClassesAt = Annotated[int | None, typer.Option(metavar="K", help="Classes at this budget, not the largest common.")]


@taking("decoding", "top_k", "min_p", "max_tokens", "stop", at=ClassesAt)
def likelihood(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="The run folder of the model before.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run folder of the model after.")],
    decoded: Decoded,
    opened: Opened,
    sized: Sized,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Traces of others: rows {"problem", "text", "author", "correct"?}.'),
    ] = None,
    first: Annotated[int, typer.Option(metavar="N", help="Score the first N samples of each problem.")] = 32,
    scoring: Annotated[
        bool, typer.Option("--scoring/--no-scoring", help="Score what is missing; or report only what stands.")
    ] = True,
    model_before: Annotated[
        str | None, typer.Option(metavar="MODEL", help="hf:PATH, where BEFORE does not say who drew it.")
    ] = None,
    model_after: Annotated[str | None, typer.Option(metavar="MODEL", help="Likewise of AFTER.")] = None,
    decoding: Annotated[
        str | None, typer.Option("--decoding", metavar="NAME", help="How imported runs were drawn: plain or paper.")
    ] = None,
    verifier: Verifier = None,
    columns: Map = None,
    as_json: AsJson = False,
) -> None:
    """Perplexity by class, the other model's chance on lost and found problems, and the length of the leash.

    Scores what is missing under both models at the decoding of the runs: the first samples of each problem, the
    correct ones of problems that only one model reached, and traces of others. Run it again after a kill: it goes on.

    \b
    Examples:
      offleash likelihood runs/base runs/rl
      offleash likelihood runs/base runs/rl --traces traces.jsonl
      offleash likelihood runs/base runs/rl --model-before hf:Qwen/Qwen2.5-1.5B --model-after hf:./checkpoints/rl
      offleash likelihood runs/base runs/rl --no-scoring --json
    """
    from offleash.analyses.likelihood.likelihood import Asked
    from offleash.analyses.likelihood.likelihood import likelihood as report
    from offleash.analyses.likelihood.words import ahead_text

    sides = (("before", model_before), ("after", model_after))
    laws = {side: _given(model, decoding, decoded, opened) for side, model in sides}
    asked = Asked(first, traces, named_columns(columns, "text=response"), scoring, laws)
    with progress(as_json) as tell:
        found = report(before, after, asked, sized.question(), verifier, tell, lambda ahead: warn(ahead_text(ahead)))
    if as_json:
        from offleash.analyses.likelihood.report import likelihood_document

        print_json(likelihood_document(found))
    else:
        from offleash.analyses.likelihood.terminal import show_likelihood

        show_likelihood(console(), found)


def _given(model: str | None, decoding: str | None, decoded: Decoded, opened: Opened) -> "Given":
    """What the command line says of a run's law."""
    from offleash.analyses.likelihood.law import Given

    said = decoding is not None or decoded.temperature is not None or decoded.top_p is not None
    way = replace(decoded, decoding=decoding or "plain").way() if said else None
    return Given(model, way, opened.named(), opened.raw)
