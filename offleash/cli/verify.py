"""offleash verify: verdicts for samples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.output import AsJson, print_json, progress, say
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.verifying.verify import Verified, Verifying


@taking()
def verify(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or one JSONL file of rows.")],
    judged: Judged,
    also: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Judge with this verifier too, for compare --flips.")
    ] = None,
    last_number: Annotated[
        bool, typer.Option("--last-number", help="Where no answer is marked, take the last number of the text.")
    ] = False,
    opened: Annotated[
        bool, typer.Option("--opened", help="The prompt ended in <think>: a text without </think> is unfinished.")
    ] = False,
    problems: Annotated[
        str | None,
        typer.Option(metavar="PROBLEMS", help="Take gold answers, tests and verifiers from these (offleash problems)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the answer of every sample and judge it: correct, wrong, unread or failed.

    Each distinct answer to a problem is decided once. Run it again after a kill, a failure or more samples: only what
    is missing is judged.

    \b
    Examples:
      offleash verify runs/base runs/rl                     each problem by its own verifier
      offleash verify runs/base runs/rl --verifier math
      offleash verify runs/base runs/rl --also string       by two, then, with the one that counts:
      offleash compare runs/base runs/rl --verifier math --flips
      offleash verify runs/code --problems humaneval        tests that the samples' log did not keep
      offleash verify rows.jsonl --verifier math --json     rows {"id", "gold", "text"}, one verdict a line
      offleash verify runs/base --verifier referee --referee http://localhost:8000/v1 --referee-model judge
    """
    from offleash.verifying.given import file_among
    from offleash.verifying.verifying import verify_arguments

    options = judged.judging(last_number, opened, problems)
    file = file_among(runs, "Verify")
    if file is not None:
        if also or problems:
            raise OffleashError("--also and --problems are for run folders; rows bring their own gold answers.")
        _verify_file(file, options, as_json)
        return
    with progress(as_json) as tell:
        done = verify_arguments(runs, options, also or [], tell)
    _show(done, as_json)


def _verify_file(file: Path, options: "Verifying", as_json: bool) -> None:
    import sys
    from collections import Counter

    from offleash.verifying.report import outcome_document, outcomes_text
    from offleash.verifying.rows import Outcome, verify_file

    verdicts: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    failures: list[str] = []

    def each(outcome: Outcome) -> None:
        verdicts[outcome.verdict.value] += 1
        steps[outcome.step or "nothing"] += 1
        if outcome.verdict.value == "failed":
            failures.append(f"{outcome.id}: {outcome.reason}")
        if as_json:
            print_json(outcome_document(outcome))

    with progress(as_json) as tell:
        refused = verify_file(file, options, each, tell)
    if as_json:
        sys.stdout.flush()
    else:
        say(outcomes_text(verdicts, steps, failures[:20]))
    if refused:
        lines = "\n".join(f"  row {outcome.id!r}: {outcome.reason}" for outcome in refused[:20])
        raise OffleashError(f"{len(refused)} rows have a gold answer that cannot be judged against:\n{lines}")


def _show(done: "list[Verified]", as_json: bool) -> None:
    from offleash.verifying.report import verified_document, verified_text

    if as_json:
        print_json(verified_document(done))
    else:
        say("\n".join(verified_text(one) for one in done))
