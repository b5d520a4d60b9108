"""`compare --verifier`: samples from other tools' logs verified here, and where the tools' own verdicts differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.text import Text

from offleash.data.run_folder import is_run, open_run, verifiers
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.arguments import Argument, distinct_names, distinct_paths, parse_argument
from offleash.loading.import_logs import Scratch, import_logs
from offleash.loading.load import LoadOptions, RunInput
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import Json
from offleash.verifying.report import notes
from offleash.verifying.verify import VerificationResult, VerifyOptions, open_judge, verify_with

EXAMPLES = 20


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
    differences: tuple[Difference, ...]  # some of them, one a distinct answer


def verify_inputs(
    inputs: Sequence[RunInput],
    loading: LoadOptions,
    options: VerifyOptions,
    scratch: Scratch,
    progress: Progress = silent,
) -> tuple[list[RunInput], str, list[Disagreement]]:
    """Judge the runs that are named: logs are imported into the scratch folder first, run folders keep the verdicts.

    Returns the inputs to compare instead, the name that the verdicts are stored under, and where tools disagree.
    """
    for one in inputs:
        if not isinstance(one, str | Path):
            raise OffleashError(
                f"--verifier {options.verifier} reads the texts of samples, and a {type(one).__name__} has none. "
                "Name the run folder or the log that it came from."
            )
    texts = [str(one) for one in inputs]
    parsed = distinct_paths([parse_argument(text) for text in texts])
    names = distinct_names([argument.name for argument in parsed])
    out: list[RunInput] = []
    found, name = [], ""
    with open_judge(options, progress) as judge:
        for number, (argument, run) in enumerate(zip(parsed, names, strict=True)):
            folder = _folder(texts[number], argument, number, scratch, loading, progress)
            tool = next((known for known in verifiers(folder) if "@" not in known), None)
            done = verify_with(judge, folder, options, progress)
            name = done.verifier
            out.append(f"{run}={folder}")
            found.append(_disagreement(run, folder, tool, done))
    return out, name, found


def _folder(
    text: str, argument: Argument, number: int, scratch: Scratch, loading: LoadOptions, progress: Progress
) -> Path:
    runs = [path for path in argument.paths if is_run(path)]
    if len(runs) == len(argument.paths) == 1:
        return runs[0]
    if runs:
        raise OffleashError(
            f"{text} names several run folders; verify them first: offleash verify {' '.join(map(str, runs))}."
        )
    if loading.options.split_by is not None:
        raise OffleashError(
            f"--verifier judges one run per file, and {text} is to be split by {loading.options.split_by!r}. Write "
            "each run to a file of its own first."
        )
    options = replace(loading.options, texts=True)
    return import_logs(text, scratch.path / str(number), replace(loading, options=options), progress).folder


def _disagreement(run: str, folder: Path, tool: str | None, done: VerificationResult) -> Disagreement:
    if tool is None:
        return Disagreement(run, None, done, 0, 0, 0, ())
    ours, theirs = open_run(folder, verifier=done.verifier), open_run(folder, verifier=tool)
    assert ours.verdicts is not None, "it was verified"
    assert theirs.verdicts is not None, "the tool's verdicts are there"
    correct = Verdict.CORRECT.value
    both = (
        ours.verdicts.join(
            theirs.verdicts.filter(pl.col("verdict").is_not_null()).select("problem", "index", tool=pl.col("verdict")),
            on=["problem", "index"],
        )
        .select("problem", "index", "answer", "verdict", "tool", "reason")
        .collect(engine="streaming")
    )
    tool_only = both.filter((pl.col("tool") == correct) & (pl.col("verdict") != correct))
    ours_only = both.filter((pl.col("tool") != correct) & (pl.col("verdict") == correct))
    golds = dict(ours.problems.select("problem", "gold").iter_rows())
    some = pl.concat([tool_only, ours_only]).unique(["problem", "answer"], maintain_order=True).head(EXAMPLES)
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
        for row in some.iter_rows(named=True)
    )
    return Disagreement(run, tool, done, both.height, tool_only.height, ours_only.height, differences)


# The disagreements as JSON and in the terminal.


SHOWN = 5


def disagreements_json(found: Sequence[Disagreement]) -> list[Json]:
    """The key `verified` of `compare --verifier --json`."""
    return [
        {
            "run": one.run,
            "verifier": one.verified.verifier,
            "verdicts": dict(one.verified.verdicts),
            "steps": dict(one.verified.steps),
            "tool": one.tool,
            "compared": one.compared,
            "tool_only_correct": one.tool_only,
            "only_now_correct": one.ours_only,
            "differences": [vars(difference) for difference in one.differences],
            "notes": notes(one.verified),
        }
        for one in found
    ]


def show_disagreements(console: Console, found: Sequence[Disagreement]) -> None:
    """Print what was judged, and where the log's tool says otherwise."""
    for one in found:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in one.verified.verdicts.items() if count)
        console.print(Text(f"{clean(one.run)}: judged by {one.verified.verifier}: {counts}"))
        if one.tool is None:
            console.print(Text("  the log had no verdicts of its own", style="dim"))
        elif not one.tool_only + one.ours_only:
            console.print(Text(f"  {clean(one.tool)} agrees on all {one.compared:,} samples", style="dim"))
        else:
            said = f"{one.tool_only:,} correct for it alone, {one.ours_only:,} correct now alone"
            apart = f"{one.tool_only + one.ours_only:,} of {one.compared:,} samples"
            console.print(Text(f"  {clean(one.tool)} disagrees on {apart}: {said}"))
        for each in one.differences[:SHOWN]:
            why = f" ({clean(each.reason)})" if each.reason else ""
            console.print(
                Text(
                    f"    {clean(each.problem)} sample {each.index}: gold {clean(str(each.gold))}, answer "
                    f"{clean(str(each.answer))}: {each.tool} there, {each.ours} now{why}"
                )
            )
        for note in notes(one.verified):
            console.print(Text(f"  ! {clean(note)}", style="yellow"))
    if found:
        console.print()
