"""offleash check: does every verifier accept its gold answers and reject corrupted ones?"""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.reading import AsJson, progress


def check(
    problems: Annotated[
        str,
        typer.Argument(metavar="PROBLEMS", help="A file, a benchmark or reasoning_gym:TASK (see: offleash problems)."),
    ],
    verifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge every problem with it, whatever the problems name.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A local copy of the benchmark, instead of the hub.")
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", help="A random sample of this many.")] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the sample, or of generated problems.")] = 0,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run programs even where the system cannot isolate them.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Worker processes; as many as cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check problems before they are drawn: gold answers accepted, corruptions rejected. Exit 1 when there are faults.

    \b
    Examples:
      offleash check problems.jsonl --verifier math
      offleash check aime24 --from aime24_copy.jsonl --json
      offleash check reasoning_gym:leg_counting --size 20
    """
    from offleash.report.checked import checked_document, checked_text
    from offleash.study.check import check as check_problems
    from offleash.study.problems import load_problems

    with progress(as_json) as tell:
        read = load_problems(problems, size=size, seed=seed, source=source)
        found = check_problems(read.frame, rows=read.rows, name=verifier, jobs=jobs, trust_code=trust_code, tell=tell)
    if as_json:
        import json

        print(json.dumps(checked_document(found), ensure_ascii=False, allow_nan=False))
    else:
        print(checked_text(found))
    if not found.sound:
        raise typer.Exit(1)
