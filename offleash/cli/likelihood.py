"""offleash likelihood: how probable both models find what either of them, and others, wrote."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli import models
from offleash.cli.reading import AsJson, Verifier, named_columns, printable, progress

if TYPE_CHECKING:
    from offleash.study.likelihoods.law import Given

Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, author, ...) of traces from COLUMN."),
]


def likelihood(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="The run folder of the model before.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run folder of the model after.")],
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
    at: Annotated[int | None, typer.Option(metavar="K", help="Classes at this budget, not the largest common.")] = None,
    decoding: Annotated[
        str | None, typer.Option("--decoding", metavar="NAME", help="How imported runs were drawn: plain or paper.")
    ] = None,
    temperature: models.Temperature = None,
    top_p: models.TopP = None,
    settings: models.Settings = None,
    raw: models.Raw = False,
    verifier: Verifier = None,
    columns: Map = None,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="decoding: the runs may be drawn in different ways.")
    ] = None,
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
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
    from offleash.report.likelihoods.words import ahead_text
    from offleash.study.likelihoods.likelihood import Asked
    from offleash.study.likelihoods.likelihood import likelihood as report
    from offleash.study.verbs import question

    drawn = (decoding, temperature, top_p)
    laws = {"before": _given(model_before, *drawn, settings, raw), "after": _given(model_after, *drawn, settings, raw)}
    asked = Asked(first, traces, named_columns(columns or [], "text=response"), scoring, laws)
    compared = question(at=at, replicates=replicates, seed=seed, allow=allow or ())
    with progress(as_json) as tell:
        found = report(
            before, after, asked, compared, verifier, tell,
            lambda ahead: print(printable(ahead_text(ahead)), file=sys.stderr),
        )  # fmt: skip
    if as_json:
        import json

        from offleash.report.likelihoods.document import likelihood_document

        print(json.dumps(likelihood_document(found), ensure_ascii=False, allow_nan=False))
    else:
        from rich.console import Console

        from offleash.report.likelihoods.terminal import show_likelihood

        show_likelihood(Console(markup=False, emoji=False, highlight=False), found)


def _given(
    model: str | None,
    decoding: str | None,
    temperature: float | None,
    top_p: float | None,
    settings: list[str] | None,
    raw: bool,
) -> "Given":
    """What the command line says of a run's law."""
    from offleash.study.likelihoods.law import Given

    said = decoding is not None or temperature is not None or top_p is not None
    way = models.decoding(decoding or "plain", temperature, top_p) if said else None
    return Given(model, way, models.named_settings(settings or []), raw)
