"""`compare --verifier`: samples from other tools' logs verified here, and where the tools' own verdicts differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.text import Text

from offleash.data.run_folder import Scratch, is_run, open_run, verifiers
from offleash.data.tables import Note
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.arguments import Argument, disambiguate_names, distinct_names, parse_argument
from offleash.loading.import_logs import import_logs
from offleash.loading.load import LoadOptions, RunInput
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import Json, encode
from offleash.verifying.report import notes, verdict_counts
from offleash.verifying.verify import VerificationResult, VerifyOptions, open_judge, verify_with

EXAMPLES = 20  # samples listed per run, one per distinct answer: more would repeat the same few causes


@dataclass(frozen=True)
class Difference:
    """One sample of which the tool and our verifier disagree whether it is correct."""

    problem: str
    index: int
    answer: str | None
    gold: str | None
    tool: str
    ours: str
    reason: str | None


@dataclass(frozen=True)
class Disagreement:
    """How the verdicts of a log's own tool compare with those given now."""

    run: str
    tool: str | None  # whose verdicts the log had; None: it had none
    verified: VerificationResult
    compared: int  # samples with both verdicts
    tool_only: int  # correct for the tool alone
    ours_only: int  # correct for us alone
    differences: tuple[Difference, ...]  # some of them, one per distinct answer
    notes: tuple[Note, ...] = ()  # on what was read or left out of the log
    kept: bool = True  # the verdicts are in a run folder of the user's


def verify_inputs(
    inputs: Sequence[RunInput],
    loading: LoadOptions,
    options: VerifyOptions,
    scratch: Scratch,
    progress: Progress = silent,
) -> tuple[list[RunInput], str, list[Disagreement]]:
    """Judge runs before they are compared.

    Args:
        inputs: run folders, which keep the verdicts, or logs of other tools, which are imported into `scratch` first.
        loading: how logs are read.
        options: how samples are judged.
        scratch: a folder that lives as long as the comparison.
        progress: gets a line as work is done.

    Returns:
        The inputs to compare instead, the name that the verdicts are stored under, and where tools disagree.
    """
    for run_input in inputs:
        if not isinstance(run_input, str | Path):
            raise OffleashError(
                f"--verifier {options.verifier} reads the texts of samples, but a {type(run_input).__name__} has none. "
                "Name the run folder or the log that it came from."
            )
    texts = [str(run_input) for run_input in inputs]
    parsed_arguments = disambiguate_names([parse_argument(text) for text in texts])
    names = distinct_names([argument.name for argument in parsed_arguments])
    judged_inputs: list[RunInput] = []
    disagreements, name = [], ""
    with open_judge(options, progress) as judge:
        for number, (argument, run) in enumerate(zip(parsed_arguments, names, strict=True)):
            folder, read_notes = _folder(texts[number], argument, number, scratch, loading, progress)
            # our own verdicts are stored with a version (math@1+0.9.0), a tool's under its bare name
            logged_verifier = next((stored for stored in verifiers(folder) if "@" not in stored), None)
            try:
                result = verify_with(judge, folder, options, progress)
            except OffleashError as error:  # of a copy of a log, which the user has never seen
                raise OffleashError(str(error).replace(str(folder), run)) from None
            name = result.verifier
            judged_inputs.append(f"{run}={folder}")
            disagreement = _disagreement(run, folder, logged_verifier, result)
            disagreements.append(replace(disagreement, notes=read_notes, kept=is_run(argument.paths[0])))
    return judged_inputs, name, disagreements


def _folder(
    text: str, argument: Argument, number: int, scratch: Scratch, loading: LoadOptions, progress: Progress
) -> tuple[Path, tuple[Note, ...]]:
    """The run folder to judge, the one that is named or a log imported with its texts; and notes on that import."""
    runs = [path for path in argument.paths if is_run(path)]
    if len(runs) == len(argument.paths) == 1:
        return runs[0], ()
    if runs:
        raise OffleashError(
            f"{text} names several run folders. Verify them first: offleash verify {' '.join(map(str, runs))}."
        )
    if loading.options.split_by is not None:
        raise OffleashError(
            f"--verifier judges one run per file, but {text} would be split by {loading.options.split_by!r}. Write "
            "each run to a file of its own first."
        )
    options = replace(loading, options=replace(loading.options, texts=True))
    log_import = import_logs(
        text, scratch.path / str(number), options, progress, answers=bool(loading.options.columns.get("answer"))
    )
    return log_import.folder, log_import.notes


def _disagreement(run: str, folder: Path, logged_verifier: str | None, result: VerificationResult) -> Disagreement:
    """Count the samples that only one of the two calls correct; what is not correct is one class for this."""
    if logged_verifier is None:
        return Disagreement(run, None, result, 0, 0, 0, ())
    our_run, logged_run = open_run(folder, verifier=result.verifier), open_run(folder, verifier=logged_verifier)
    assert our_run.verdicts is not None, "it was verified"
    assert logged_run.verdicts is not None, "the tool's verdicts are there"
    correct = Verdict.CORRECT.value
    both = (
        our_run.verdicts.join(
            logged_run.verdicts.filter(pl.col("verdict").is_not_null()).select(
                "problem", "index", tool=pl.col("verdict")
            ),
            on=["problem", "index"],
        )
        .select("problem", "index", "answer", "verdict", "tool", "reason")
        .collect(engine="streaming")
    )
    tool_only = both.filter((pl.col("tool") == correct) & (pl.col("verdict") != correct))
    ours_only = both.filter((pl.col("tool") != correct) & (pl.col("verdict") == correct))
    golds = dict(our_run.problems.select("problem", "gold").iter_rows())
    examples = pl.concat([tool_only, ours_only]).unique(["problem", "answer"], maintain_order=True).head(EXAMPLES)
    differences = tuple(
        Difference(
            row["problem"],
            row["index"],
            row["answer"],
            golds.get(row["problem"]),
            row["tool"],
            row["verdict"],
            row["reason"],
        )
        for row in examples.iter_rows(named=True)
    )
    return Disagreement(run, logged_verifier, result, both.height, tool_only.height, ours_only.height, differences)


# The disagreements as JSON and in the terminal.


DIFFERENCES_SHOWN = 5  # differences per run in the terminal; --json has EXAMPLES


def disagreements_json(disagreements: Sequence[Disagreement]) -> list[Json]:
    """The key `verified` of `compare --verifier --json`."""
    return [
        encode(
            {
                "run": disagreement.run,
                "verifier": disagreement.verified.verifier,
                "verdicts": disagreement.verified.verdicts,
                "steps": disagreement.verified.steps,
                "tool": disagreement.tool,
                "compared": disagreement.compared,
                "tool_only_correct": disagreement.tool_only,
                "only_now_correct": disagreement.ours_only,
                "differences": disagreement.differences,
                "notes": notes(disagreement.verified, disagreement.kept),
            }
        )
        for disagreement in disagreements
    ]


def show_disagreements(console: Console, disagreements: Sequence[Disagreement]) -> None:
    """Print what was judged, and where the log's tool says otherwise."""
    for disagreement in disagreements:
        result = disagreement.verified
        console.print(Text(f"{clean(disagreement.run)}: judged by {result.verifier}: {verdict_counts(result)}"))
        differing = disagreement.tool_only + disagreement.ours_only
        if disagreement.tool is None:
            console.print(Text("  the log had no verdicts of its own", style="dim"))
        elif not differing:
            agrees = f"  {clean(disagreement.tool)} agrees on all {disagreement.compared:,} samples"
            console.print(Text(agrees, style="dim"))
        else:
            console.print(
                Text(
                    f"  {clean(disagreement.tool)} disagrees on {differing:,} of {disagreement.compared:,} samples: "
                    f"{disagreement.tool_only:,} correct only in the log, {disagreement.ours_only:,} correct only now"
                )
            )
        for difference in disagreement.differences[:DIFFERENCES_SHOWN]:
            reason_text = f" ({clean(difference.reason)})" if difference.reason else ""
            console.print(
                Text(
                    f"    {clean(difference.problem)} sample {difference.index}: gold {clean(str(difference.gold))}, "
                    f"answer {clean(str(difference.answer))}: {difference.tool} in the log, "
                    f"{difference.ours} now{reason_text}"
                )
            )
        for note in notes(result, disagreement.kept):
            console.print(Text(f"  ! {clean(note)}", style="yellow"))
    if disagreements:
        console.print()
