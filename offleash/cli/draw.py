"""offleash draw: samples from a model."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.models import Decoded, K, ModelName, Opened, Until
from offleash.cli.output import AsJson, print_json, progress, say, warn
from offleash.cli.posing import Posed, ProblemsName

UntilVerifier = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --until: judge with it, not with each problem's own.")
]


@taking(verifier=UntilVerifier)
def draw(
    problems: ProblemsName,
    model: ModelName,
    k: K,
    into: Annotated[Path, typer.Option("-o", "--into", metavar="RUN", help="The run folder to begin or go on with.")],
    decoded: Decoded,
    opened: Opened,
    posed: Posed,
    judged: Judged,
    until: Until = 0,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same samples; another one independent samples.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw k samples of every problem from a model, each exactly once.

    Run it again after a kill or a failure: only what is missing is drawn. A larger -k adds samples. With --until,
    samples are judged while others are drawn, and a problem stops at its M-th success. Two draws of the same model with
    the same seed are the same samples: give --seed 1 for independent ones.

    \b
    Examples:
      offleash draw aime24 vllm:Qwen/Qwen2.5-1.5B -k 8192 --until 5 --decoding paper -o runs/base
      offleash draw aime24 hf:./checkpoints/rl -k 64 --max-tokens 2048 -o runs/rl
      offleash draw mine.jsonl endpoint:http://localhost:8000/v1#name -k 1024 -o runs/served
    """
    from offleash.data.certificates import refuse_drawing_into
    from offleash.drawing.drawing import draw_arguments
    from offleash.drawing.report import drawn_document, drawn_text, prospect_text

    refuse_drawing_into(into)
    chosen, way, judging = opened.model(model), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        done = draw_arguments(
            into, frame, chosen, way, k, until, seed, judging, tell, lambda prospect: warn(prospect_text(prospect))
        )
    if as_json:
        print_json(drawn_document(done))
    else:
        say(drawn_text(done))
    if done.failed:
        raise typer.Exit(1)
