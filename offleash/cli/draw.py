"""offleash draw: samples from a model."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from offleash.cli import models
from offleash.cli.judging import Jobs, NoCache, Referee, RefereeModel, TrustCode
from offleash.cli.problems import Map, ProblemSeed, ProblemsName, Size, Source
from offleash.cli.reading import AsJson, named_columns, printable, progress


def draw(
    problems: ProblemsName,
    model: models.ModelName,
    k: Annotated[str, typer.Option("-k", metavar="K", help="Samples a problem; paper: the paper's budget.")],
    into: Annotated[Path, typer.Option("-o", "--into", metavar="RUN", help="The run folder to begin or go on with.")],
    until: Annotated[int, typer.Option(metavar="M", help="Stop a problem at its M-th success; 0: draw all.")] = 0,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same samples; another one independent samples.")
    ] = 0,
    decoding: models.DecodingName = "plain",
    temperature: models.Temperature = None,
    top_p: models.TopP = None,
    top_k: models.TopK = None,
    min_p: models.MinP = None,
    max_tokens: models.MaxTokens = None,
    stop: models.Stop = None,
    settings: models.Settings = None,
    raw: models.Raw = False,
    size: Size = None,
    problem_seed: ProblemSeed = 0,
    source: Source = None,
    columns: Map = None,
    verifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --until: judge with it, not with each problem's own.")
    ] = None,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    no_cache: NoCache = False,
    referee: Referee = None,
    referee_model: RefereeModel = None,
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
    from offleash.report.drawn import drawn_document, drawn_text, prospect_text
    from offleash.study.drawing import draw_arguments
    from offleash.study.problems import load_problems
    from offleash.study.verifying import verifying

    chosen = models.model(model, settings, raw)
    way = models.decoding(decoding, temperature, top_p, top_k, min_p, max_tokens, stop)
    judging = verifying(verifier, False, False, jobs, trust_code, not no_cache, referee, referee_model)
    mapped = named_columns(columns or [], "gold=answer")
    with progress(as_json) as tell:
        tell(f"reading {problems}")
        frame = load_problems(problems, size=size, seed=problem_seed, source=source, columns=mapped).frame
        done = draw_arguments(
            into, frame, chosen, way, k, until, seed, judging, tell,
            lambda prospect: print(printable(prospect_text(prospect)), file=sys.stderr),
        )  # fmt: skip
    if as_json:
        import json

        print(json.dumps(drawn_document(done), ensure_ascii=False, allow_nan=False))
    else:
        print(printable(drawn_text(done)))
    if done.failed:
        raise typer.Exit(1)
