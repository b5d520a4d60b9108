"""Judging and scoring texts: verify, score; and problems: problem_set, check."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.api.draw import PROBLEMS, problem_frame, read_problems
from offleash.errors import OffleashError
from offleash.options import (
    Columns,
    Completions,
    Data,
    Decoding,
    EngineOptions,
    ExcludedOptions,
    Flag,
    GoldFrom,
    Jobs,
    Judging,
    Opened,
    ProblemSelection,
    Prompting,
    Threshold,
    TrustCode,
    Verdicts,
    Verifier,
)
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.results.samples import CheckResult, ProblemSetResult, ScoreResult, VerifyResult
    from offleash.scoring.rows import ScoredRow
    from offleash.verifying.rows import Outcome
    from offleash.verifying.verify import VerifyOptions

RUNS = Data("RUN...", "Run folders, or one JSONL file of rows.")
SHOWN = 20  # failures of a file of rows


@verb
def verify(
    *runs: Annotated[str | Path, RUNS],
    verifier: Verifier = None,
    also: Annotated[
        Sequence[str],
        Flag("Also judge with this verifier, for compare --flips. Repeatable.", metavar="NAME"),
    ] = (),
    last_number: Annotated[bool, Flag("If no answer is marked, take the last number in the text.")] = False,
    opened: Opened = False,
    problems: GoldFrom = None,
    judging: Judging = Judging(),
    each: "Callable[[Outcome], None] | None" = None,
    progress: Progress = silent,
) -> "VerifyResult":
    """Extract the answer of every sample and judge it: correct, wrong, unread or failed.

    Each distinct answer to a problem is judged once. Run it again after an interruption, after a failure or with more
    samples: only what is missing is judged.

    Examples:
      offleash verify runs/base runs/rl                     each problem by its own verifier
      offleash verify runs/base runs/rl --verifier math
      offleash verify runs/base runs/rl --verifier rewards.py:compute_score
      offleash verify runs/base runs/rl --also string       by two, then, with the one that counts:
      offleash compare runs/base runs/rl --verdicts math --flips
      offleash verify runs/code --problems humaneval        tests that the samples' log did not keep
      offleash verify rows.jsonl --verifier math --json     rows {"id", "gold", "text"}, one verdict per line
      offleash verify runs/base --verifier model_judge --judge http://localhost:8000/v1 --judge-model NAME

    In Python:
      >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base")
      >>> result = ol.verify(run.folder)
      >>> ol.verify("examples/rows.jsonl", verifier="math").rows[0].verdict
      <Verdict.CORRECT: 'correct'>
    """
    from offleash.loading.problem_set import load_problems
    from offleash.results.samples import VerifyResult
    from offleash.verifying.cases import ExtractionOptions
    from offleash.verifying.rows import file_among
    from offleash.verifying.verify import verify_folders, verify_options

    paths = [str(run) for run in runs]
    file = file_among(paths, "Verify")
    if file is not None and (also or problems):
        raise OffleashError(
            "--also and --problems are for run folders; rows have their own gold answers. Leave them out."
        )
    options = verify_options(verifier, judging, ExtractionOptions(last_number, opened))
    if problems is not None:
        options = replace(options, problems=load_problems(str(problems)).frame)
    if file is not None:
        return _verify_rows(file, options, each, progress)
    return VerifyResult(tuple(verify_folders(paths, options, also, progress)))


def _verify_rows(
    file: Path, options: "VerifyOptions", each: "Callable[[Outcome], None] | None", progress: Progress
) -> "VerifyResult":
    from offleash.results.samples import VerifyResult
    from offleash.verifying.rows import verify_file

    counts: dict[str, Counter[str]] = {"verdicts": Counter(), "steps": Counter()}
    rows: list[Outcome] = []
    failures: list[str] = []

    def count(row: "Outcome") -> None:
        counts["verdicts"][row.verdict.value] += 1
        counts["steps"][row.step or "nothing"] += 1
        if row.verdict.value == "failed" and len(failures) < SHOWN:
            failures.append(f"{row.id}: {row.reason}")
        (each or rows.append)(row)

    unreadable_golds = verify_file(file, options, count, progress)
    lines = "\n".join(f"  row {row.id!r}: {row.reason}" for row in unreadable_golds[:SHOWN])
    message = f"{len(unreadable_golds)} rows have a gold answer that the verifier cannot read:\n{lines}"
    error = OffleashError(message) if unreadable_golds else None
    return VerifyResult((), tuple(rows), counts, tuple(failures), of_rows=True, unreadable=error)


@verb
def score(
    *runs: Annotated[str | Path, RUNS],
    model: Annotated[str, Flag("Model to score with: hf:PATH@REVISION+ADAPTER.", metavar="MODEL")],
    name: Annotated[
        str | None, Flag("Store the scores under this name instead of the model's.", metavar="NAME")
    ] = None,
    first: Annotated[int | None, Flag("Only the first N samples of each problem.", metavar="N", least=1)] = None,
    only: Annotated[str | None, Flag("Score only these samples.", choices=("correct",))] = None,
    verdicts: Verdicts = None,
    columns: Columns = {},  # noqa: B006  never changed
    decoding: Annotated[Decoding, ExcludedOptions("max_tokens", "stop")] = Decoding(),
    prompting: Annotated[Prompting, ExcludedOptions("prompt")] = Prompting(),
    engine: EngineOptions = EngineOptions(),
    each: "Callable[[ScoredRow], None] | None" = None,
    progress: Progress = silent,
) -> "ScoreResult":
    """Log-probability, token entropy and perplexity of given texts under a model.

    Scores every sample of a run, whichever model drew it, or rows {"prompt", "text"}, under the model's own
    distribution and, if one is given, under a decoding. Run it again after an interruption or with more samples: only
    what is missing is scored.

    Examples:
      offleash score runs/base --model hf:./checkpoints/rl
      offleash score runs/rl --model hf:Qwen/Qwen2.5-1.5B --decoding paper
      offleash score runs/rl --model hf:./checkpoints/rl --first 32        (token entropies, as in the paper)
      offleash score traces.jsonl --model hf:./checkpoints/rl --map text=response --json

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
      >>> result = ol.score("runs/base", model="hf:base")
      >>> result.ok
      True
    """
    from offleash.results.samples import ScoreResult
    from offleash.samplers.chat_template import chat_options
    from offleash.samplers.registry import model_of
    from offleash.samplers.sampler import sampling_params
    from offleash.scoring.score import score_file, score_folders, selected
    from offleash.verifying.rows import file_among

    chat = chat_options(prompting.system, prompting.chat_kwargs, engine.raw)
    chosen, params = model_of(model, engine.settings, engine.raw, chat), sampling_params(decoding)
    paths = [str(run) for run in runs]
    file = file_among(paths, "Score")
    if file is not None:
        if any(option is not None for option in (name, verdicts, first, only)):
            raise OffleashError(
                "--name, --verdicts, --first and --only are for run folders. Leave them out for a file of rows."
            )
        rows: list[ScoredRow] = []
        scored = score_file(file, chosen, params, columns, each or rows.append, progress)
        return ScoreResult(rows=tuple(rows), file=scored)
    if columns:
        raise OffleashError("--map is for a file of rows; the columns of a run folder are fixed. Leave it out.")
    done = score_folders(paths, chosen, params, name, verdicts, progress, selected(first, only))
    return ScoreResult(tuple(done))


@verb
def problem_set(
    name: Annotated[
        str | Path | None,
        Data("[NAME]", "A benchmark, reasoning_gym:TASK or a file. Without it: lists the benchmarks."),
    ] = None,
    *,
    selection: ProblemSelection = ProblemSelection(),
    progress: Progress = silent,
    announce: Progress = silent,
) -> "ProblemSetResult":
    """The problems of a benchmark, of Reasoning Gym or of your own file, as JSON lines.

    Examples:
      offleash problems                                            (lists the benchmarks)
      offleash problems aime24 > aime24.jsonl
      offleash problems aime24 --from aime24_copy.jsonl
      offleash problems reasoning_gym:leg_counting:hard --size 50 --problem-seed 1
      offleash problems countdown:test --size 200
      offleash problems train.parquet --size 100 --map gold=final

    In Python:
      >>> problems = ol.problem_set("examples/problems.jsonl")
      >>> problems.frame["problem"].to_list()
      ['sum', 'speed', 'planet', 'double']
    """
    import polars as pl

    from offleash.problems.benchmarks import listing
    from offleash.results.samples import ProblemSetResult

    if name is None:
        return ProblemSetResult(pl.DataFrame(listing(), infer_schema_length=None))
    read = read_problems(name, selection, progress)
    for note in read.notes:
        announce(f"{note.text}{f' ({note.rows:,})' if note.rows else ''}")
    announce(f"{read.frame.height:,} problems")
    return ProblemSetResult(read.frame, read)


@verb
def check(
    problems: Annotated["str | Path | pl.DataFrame | ProblemSetResult", PROBLEMS],
    *,
    verifier: Verifier = None,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    threshold: Threshold = 1.0,
    completions: Completions = None,
    selection: ProblemSelection = ProblemSelection(),
    progress: Progress = silent,
) -> "CheckResult":
    """Check problems before drawing: are gold answers accepted and corrupted ones rejected? Exit code 1 if not.

    Examples:
      offleash check problems.jsonl --verifier math
      offleash check problems.jsonl --verifier rewards.py:compute_score
      offleash check aime24 --from aime24_copy.jsonl --json
      offleash check reasoning_gym:leg_counting --size 20

    In Python:
      >>> ol.check("examples/problems.jsonl").ok
      True
    """
    from offleash.results.samples import CheckResult
    from offleash.verifying.check_problems import check as check_problems
    from offleash.verifying.verify import call_options

    call = call_options(verifier, Judging(threshold=threshold, completions=completions))
    rows = {}
    if isinstance(problems, str | Path):
        read = read_problems(problems, selection, progress)
        frame, rows = read.frame, dict(read.rows)
    else:
        frame = problem_frame(problems, selection, progress)
    checked = check_problems(
        frame, rows=rows, name=verifier, jobs=jobs or None, trust_code=trust_code, call=call, progress=progress
    )
    return CheckResult(checked)
