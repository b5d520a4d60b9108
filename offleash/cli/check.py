"""offleash check: does every verifier accept its gold answers and reject corrupted ones?"""

from dataclasses import replace

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.output import AsJson, print_json, progress, say
from offleash.cli.posing import Posed, ProblemSeed, ProblemsName


@taking("problem_seed", "columns", "no_cache", "referee", "referee_model")
def check(
    problems: ProblemsName,
    posed: Posed,
    judged: Judged,
    seed: ProblemSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Check problems before they are drawn: gold answers accepted, corruptions rejected. Exit 1 when there are faults.

    \b
    Examples:
      offleash check problems.jsonl --verifier math
      offleash check aime24 --from aime24_copy.jsonl --json
      offleash check reasoning_gym:leg_counting --size 20
    """
    from offleash.verifying.check import check as check_problems
    from offleash.verifying.checked import checked_document, checked_text

    with progress(as_json) as tell:
        read = replace(posed, problem_seed=seed).read(problems, tell)
        how = (judged.verifier, judged.jobs or None, judged.trust_code)
        found = check_problems(read.frame, rows=read.rows, name=how[0], jobs=how[1], trust_code=how[2], tell=tell)
    if as_json:
        print_json(checked_document(found))
    else:
        say(checked_text(found))
    if not found.sound:
        raise typer.Exit(1)
