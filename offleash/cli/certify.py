"""offleash certify: the exact support of a model above epsilon."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.models import Decoded, Opened
from offleash.cli.output import AsJson, print_json, progress, say, warn
from offleash.cli.posing import Posed, ProblemsName


@taking()
def certify(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER.")],
    into: Annotated[Path, typer.Option("-o", "--into", metavar="CERT", help="The folder to begin or go on with.")],
    decoded: Decoded,
    opened: Opened,
    posed: Posed,
    judged: Judged,
    epsilon: Annotated[
        float | None, typer.Option(metavar="P", help="Find every completion that is more probable than this.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", metavar="K", help="Instead: epsilon = -ln(0.05)/K. Default 8192: 3.66e-4.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find every completion that is more probable than epsilon, without sampling, and judge it.

    Every prefix above epsilon goes through the model once. There is no sampling noise: all correct completions above
    epsilon, and bounds on the chance of a correct sample. Run it again after a kill: only what is missing is done.

    \b
    Examples:
      offleash certify problems.jsonl hf:./base --epsilon 3.66e-4 --max-tokens 64 -o certs/base
      offleash certify problems.jsonl hf:./rl -k 8192 --max-tokens 64 -o certs/rl
      offleash compare certs/base certs/rl
    """
    from offleash.analyses.certificates.certificate import certified_document, certified_text, planned_text
    from offleash.analyses.certificates.certify import certify_arguments, threshold

    above, chosen, way, judging = threshold(epsilon, k), opened.model(model), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        done = certify_arguments(
            into, frame, chosen, way, above, judging, tell, lambda planned: warn(planned_text(planned))
        )
    if as_json:
        print_json(certified_document(done))
    else:
        say(certified_text(done))
    if done.troubles:
        raise typer.Exit(1)
