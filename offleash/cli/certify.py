"""offleash certify: the exact support of a model above epsilon."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from offleash.cli import models
from offleash.cli.judging import Jobs, NoCache, Referee, RefereeModel, TrustCode
from offleash.cli.problems import Map, ProblemSeed, ProblemsName, Size, Source
from offleash.cli.reading import AsJson, named_columns, printable, progress


def certify(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER.")],
    into: Annotated[Path, typer.Option("-o", "--into", metavar="CERT", help="The folder to begin or go on with.")],
    epsilon: Annotated[
        float | None, typer.Option(metavar="P", help="Find every completion that is more probable than this.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", metavar="K", help="Instead: epsilon = -ln(0.05)/K. Default 8192: 3.66e-4.")
    ] = None,
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
        str | None, typer.Option(metavar="NAME", help="Judge with it, not with each problem's own.")
    ] = None,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    no_cache: NoCache = False,
    referee: Referee = None,
    referee_model: RefereeModel = None,
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
    from offleash.report.certificate import certified_document, certified_text, planned_text
    from offleash.study.certify import certify_arguments, threshold
    from offleash.study.problems import load_problems
    from offleash.study.verifying import verifying

    above = threshold(epsilon, k)
    chosen = models.model(model, settings, raw)
    way = models.decoding(decoding, temperature, top_p, top_k, min_p, max_tokens, stop)
    judging = verifying(verifier, False, False, jobs, trust_code, not no_cache, referee, referee_model)
    mapped = named_columns(columns or [], "gold=answer")
    with progress(as_json) as tell:
        tell(f"reading {problems}")
        frame = load_problems(problems, size=size, seed=problem_seed, source=source, columns=mapped).frame
        done = certify_arguments(
            into, frame, chosen, way, above, judging, tell,
            lambda planned: print(printable(planned_text(planned)), file=sys.stderr),
        )  # fmt: skip
    if as_json:
        import json

        print(json.dumps(certified_document(done), ensure_ascii=False, allow_nan=False))
    else:
        print(printable(certified_text(done)))
    if done.troubles:
        raise typer.Exit(1)
