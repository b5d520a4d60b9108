"""offleash cut: what top-p cuts off, exactly."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.models import Opened
from offleash.cli.options import Verifier
from offleash.cli.output import AsJson, console, print_json, progress


@taking()
def cut(
    certificates: Annotated[
        list[Path], typer.Argument(metavar="CERT...", help="Certificates made with top-p 1 (offleash certify).")
    ],
    opened: Opened,
    top_p: Annotated[str, typer.Option("--top-p", metavar="P,P,...", help="What to cut with.")] = "0.8,0.9,0.95,0.99",
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Cut the law of this temperature, not the certificate's own.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Where the certificate's model stands now: hf:PATH.")
    ] = None,
    verifier: Verifier = None,
    as_json: AsJson = False,
) -> None:
    """What top-p cuts off: correct completions that it sets to exactly zero, from exact certificates.

    Every correct completion of a certificate is read again, token by token, under each top-p. One that has a token in
    a tail that is cut can never be drawn: no budget brings it back. The model is opened as it was for the certificate,
    but for what --set and --raw say.

    \b
    Examples:
      offleash cut certs/base certs/rl
      offleash cut certs/rl --top-p 0.9,0.95 --temperature 0.6
      offleash cut certs/base --model hf:./base --json
    """
    from offleash.analyses.certificates.cutoff import cut_arguments
    from offleash.analyses.certificates.decoding_cutoff import cutoff_document, show_cutoff
    from offleash.analyses.sweep.runs import numbers

    chosen = None if model is None else replace(opened, settings=None).model(model)
    with progress(as_json) as tell:
        found = cut_arguments(
            certificates, numbers(top_p, "--top-p"), temperature, chosen, verifier, tell, opened.named(), opened.raw
        )
    if as_json:
        print_json(cutoff_document(found))
        return
    show_cutoff(console(), found)
