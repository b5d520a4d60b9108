"""The verbs about problems and texts: verify, check, problems, score."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.option_groups import taking
from offleash.cli.options import (
    DecodingOptions,
    JudgingOptions,
    ModelOptions,
    ProblemOptions,
    ProblemSeed,
    ProblemsName,
    Verifier,
    named_columns,
)
from offleash.cli.output import AsJson, console, print_json, progress, say, warn
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.samplers.registry import Model
    from offleash.samplers.sampler import Decoding
    from offleash.verifying.verify import VerifyOptions, VerifyResult


@taking()
def verify(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or one JSONL file of rows.")],
    judged: JudgingOptions,
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
    from offleash.verifying.rows import file_among
    from offleash.verifying.verify import verify_arguments

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


def _verify_file(file: Path, options: "VerifyOptions", as_json: bool) -> None:
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


def _show(done: "list[VerifyResult]", as_json: bool) -> None:
    from offleash.verifying.report import verified_document, verified_text

    if as_json:
        print_json(verified_document(done))
    else:
        say("\n".join(verified_text(one) for one in done))


@taking("problem_seed", "columns", "no_cache", "referee", "referee_model")
def check(
    problems: ProblemsName,
    posed: ProblemOptions,
    judged: JudgingOptions,
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
    from offleash.verifying.check_problems import check as check_problems
    from offleash.verifying.check_problems import checked_document, checked_text

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


@taking("problem_seed")
def problems(
    posed: ProblemOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A benchmark, reasoning_gym:TASK or a file; none lists the benchmarks."),
    ] = None,
    seed: ProblemSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Show problems as JSON lines, from a benchmark, Reasoning Gym or a file of yours.

    \b
    Examples:
      offleash problems                                            (lists the benchmarks)
      offleash problems aime24 > aime24.jsonl
      offleash problems aime24 --from aime24_copy.jsonl
      offleash problems reasoning_gym:leg_counting:hard --size 50 --seed 1
      offleash problems countdown:test --size 200
      offleash problems train.parquet --size 100 --map gold=final
    """
    if name is None:
        _listed(as_json)
        return
    from offleash.problems.problem import line

    with progress(as_json) as tell:
        read = replace(posed, problem_seed=seed).read(name, tell)
    for row in read.frame.iter_rows(named=True):
        print_json(line(row))
    for note in read.notes:
        warn(f"{note.text}{f' ({note.rows:,})' if note.rows else ''}")
    warn(f"{read.frame.height:,} problems")


def _listed(as_json: bool) -> None:
    from offleash.problems.benchmarks import listing

    rows = listing()
    if as_json:
        print_json(rows)
        return
    from rich import box
    from rich.table import Table

    table = Table("name", "paper", "verifier", "guess", "hub id", "checked", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(table.columns):
        column.no_wrap, column.overflow = number != 4, "fold"
    for row in rows:
        cells = (row["name"], row["paper"], row["verifier"], row["guess"], row["hub"] or row["source"])
        table.add_row(*("" if cell is None else str(cell) for cell in cells), "yes" if row["checked"] else "no")
    console().print(table)
    say("paper: problems in arXiv:2507.14843. checked: whether id and columns were seen on the hub itself.")
    say("Files (JSONL, JSON, CSV, Parquet) are given by their path; reasoning_gym:TASK:hard is the hard setting.")


Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Read NAME (id, prompt, text, finish) of rows from COLUMN."),
]


@taking("max_tokens", "stop")
def score(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or one JSONL file of rows.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="Who scores: hf:PATH@REVISION+ADAPTER.")],
    decoded: DecodingOptions,
    opened: ModelOptions,
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
    from offleash.scoring.score import score_folders, selected
    from offleash.verifying.rows import file_among

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
    from offleash.scoring.score import score_file

    def each(row: ScoredRow) -> None:
        if as_json:
            print_json(row_document(row))

    with progress(as_json) as tell:
        done = score_file(file, model, decoding, columns, each, tell)
    if as_json:
        sys.stdout.flush()
    else:
        say(file_text(done))
