"""offleash score: how probable texts are under a model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.columns import named_columns
from offleash.cli.commands import taking
from offleash.cli.models import Decoded, Opened
from offleash.cli.options import Verifier
from offleash.cli.output import AsJson, print_json, progress, say
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.samplers.models import Model
    from offleash.samplers.sampler import Decoding

Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Read NAME (id, prompt, text, finish) of rows from COLUMN."),
]


@taking("max_tokens", "stop")
def score(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or one JSONL file of rows.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="Who scores: hf:PATH@REVISION+ADAPTER.")],
    decoded: Decoded,
    opened: Opened,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Keep the scores under this name, not under the model's.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N samples of each problem, e.g. 32.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="WORD", help="Only these samples: correct.")] = None,
    verifier: Verifier = None,
    columns: Map = None,
    as_json: AsJson = False,
) -> None:
    """Log-probability, token entropy and perplexity of given texts under a model.

    Of every sample of a run, whoever drew it, or of rows {"prompt", "text"}. Under the model's own distribution, and
    under a decoding where one is given. Run it again after a kill or with more samples: only what is missing is scored.

    \b
    Examples:
      offleash score runs/base --model hf:./checkpoints/rl
      offleash score runs/rl --model hf:Qwen/Qwen2.5-1.5B --decoding paper
      offleash score runs/rl --model hf:./checkpoints/rl --first 32        (token entropies, as the paper has them)
      offleash score traces.jsonl --model hf:./checkpoints/rl --map text=response --json
    """
    from offleash.scoring.verb import score_folders, selected
    from offleash.verifying.given import file_among

    chosen, way = opened.model(model), decoded.way()
    file = file_among(runs, "Score")
    if file is not None:
        if any(one is not None for one in (name, verifier, first, only)):
            raise OffleashError(
                "--name, --verifier, --first and --only are for run folders; the sums of rows are printed."
            )
        _score_file(file, chosen, way, named_columns(columns, "text=response"), as_json)
        return
    if columns:
        raise OffleashError("--map is for a file of rows; a run folder has columns of its own.")
    with progress(as_json) as tell:
        done = score_folders(runs, chosen, way, name, verifier, tell, selected(first, only))
    from offleash.scoring.report import scored_document, scored_text

    if as_json:
        print_json(scored_document(done))
    else:
        say("\n".join(scored_text(one) for one in done))


def _score_file(file: Path, model: "Model", decoding: "Decoding", columns: dict[str, str], as_json: bool) -> None:
    from offleash.scoring.report import file_text, row_document
    from offleash.scoring.rows import ScoredRow
    from offleash.scoring.verb import score_file

    def each(row: ScoredRow) -> None:
        if as_json:
            print_json(row_document(row))

    with progress(as_json) as tell:
        done = score_file(file, model, decoding, columns, each, tell)
    if as_json:
        sys.stdout.flush()
    else:
        say(file_text(done))
