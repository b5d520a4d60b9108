"""`offleash show`: the samples of one problem of one run, with their texts, from a run folder or from logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl
from rich.console import Console
from rich.text import Text

from offleash.data.run import Run
from offleash.data.run_folder import Scratch, is_run
from offleash.data.tables import SAMPLES
from offleash.data.verdict import Verdict
from offleash.display import printable
from offleash.errors import OffleashError
from offleash.loading.import_logs import copy_logs
from offleash.loading.load import LoadOptions, RunInput, load
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, encode
from offleash.render.numbers import counted

ALL, UNVERIFIED_WORD = "all", "unverified"  # every verdict; the word for none


@dataclass(frozen=True)
class ShownSample:
    """One sample; null is what the run does not keep."""

    index: int
    verdict: str
    answer: str | None
    reason: str | None
    step: str | None
    finish: str | None
    tokens: int | None
    text: str | None


@dataclass(frozen=True)
class ShownProblem:
    """A problem of a run, and some of its samples in the order of their index."""

    run: str
    problem: str
    benchmark: str | None
    question: str | None
    gold: str | None
    verdicts: dict[str, int]  # how many samples have each
    verdict: str  # that was asked for
    samples: tuple[ShownSample, ...]

    @property
    def matching(self) -> int:
        """How many samples have the verdict that was asked for."""
        return sum(self.verdicts.values()) if self.verdict == ALL else self.verdicts.get(self.verdict, 0)


def shown_problem(
    run_input: RunInput, problem: str, verdict: str, most: int, options: LoadOptions, progress: Progress = silent
) -> ShownProblem:
    """Some samples of a problem.

    Args:
        run_input: a run folder, logs or a loaded run.
        problem: its id, as the run or a list of `compare` names it.
        verdict: correct, wrong, unread, failed or all.
        most: how many samples.
        options: how logs are read, and which verdicts are taken.
        progress: gets a line of text at every step.
    """
    scratch = Scratch()  # logs are copied there, since a run folder finds a text by its index; it goes with this call
    runs = load(*copy_logs([run_input], options, scratch, progress).inputs, options=options, progress=progress)
    if len(runs) == 1 and is_run(scratch.path / "0"):  # a log without verdicts was copied too, and has texts there
        runs = load(f"{runs[0].name}={scratch.path / '0'}", options=LoadOptions(verdicts=options.verdicts))
    if len(runs) != 1:
        raise OffleashError(f"{run_input} holds {len(runs)} runs, but show takes one. Name a file with one run.")
    run = runs[0]
    if run.verdicts is None:
        raise OffleashError(
            f"{run.name!r} holds counts, so there are no samples to show. Give a run folder or a log of samples."
        )
    row = run.problems.row(problem_row(problem, run.problems["problem"].to_list(), run.name), named=True)
    judged = (
        run.verdicts.filter(pl.col("problem") == row["problem"])
        .select("index", *_VERDICT_COLUMNS)
        .collect()
        .sort("index")
    )
    word = pl.col("verdict").cast(pl.String).fill_null(UNVERIFIED_WORD)
    drawn = _samples(run, row["problem"])
    # samples that no verifier has seen are in the run and not in its verdicts
    every = drawn.select("index").join(judged, on="index", how="full", coalesce=True).sort("index").with_columns(word)
    wanted = every if verdict == ALL else every.filter(pl.col("verdict") == verdict)
    texts = wanted.head(most).join(drawn, on="index", how="left", maintain_order="left")
    samples = tuple(
        ShownSample(*values) for values in texts.select("index", *_VERDICT_COLUMNS, *_SAMPLE_COLUMNS).iter_rows()
    )
    counts = dict(every.group_by("verdict").len().iter_rows())
    order = [*(kind.value for kind in Verdict), UNVERIFIED_WORD]
    verdicts = {kind: int(counts[kind]) for kind in order if kind in counts}
    asked = {name: row[name] for name in ("problem", "benchmark", "question", "gold")}
    return ShownProblem(run=run.name, **asked, verdicts=verdicts, verdict=verdict, samples=samples)


_VERDICT_COLUMNS = ("verdict", "answer", "reason", "step")
_SAMPLE_COLUMNS = ("finish", "tokens", "text")


def _samples(run: Run, problem: str) -> pl.DataFrame:
    """What a run keeps of the samples of a problem; nulls for the rest."""
    schema = {name: SAMPLES[name] for name in ("index", *_SAMPLE_COLUMNS)}
    if run.samples is None:
        return pl.DataFrame(schema=schema)
    known = run.samples.collect_schema().names()
    missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in known]
    return run.samples.filter(pl.col("problem") == problem).with_columns(missing).select(*schema).collect()


def problem_row(typed: str, ids: Sequence[str], where: str) -> int:
    """The row of a problem that a user names; ids that a terminal cannot show are taken as it shows them."""
    rows = [row for row, name in enumerate(ids) if name == typed]
    rows = rows or [row for row, name in enumerate(ids) if clean(name) == clean(typed)]
    if len(rows) == 1:
        return rows[0]
    near = get_close_matches(typed, ids, n=1, cutoff=0.5)
    hint = f"Did you mean {clean(near[0])!r}?" if near else f"Its problems begin with {clean(ids[0])!r}."
    raise OffleashError(f"{where!r} has no problem {clean(typed)!r}. {hint}")


def show_problem(console: Console, shown: ShownProblem) -> None:
    """Print the problem and its samples, without characters that could steer a terminal."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in shown.verdicts.items()) or "no samples"
    console.print(Text.assemble((clean(shown.problem), "bold"), f"   {clean(shown.run)}: {counts}"))
    for label, text in (("Question", shown.question), ("Gold answer", shown.gold)):
        if text:
            console.print(Text(f"{label}: {printable(text.strip())}"))
    for sample in shown.samples:
        console.print(Text(f"\n── sample {sample.index}: {_sample_facts(sample)}", style="bold"))
        text = "(the run has no text for this sample)" if sample.text is None else printable(sample.text.rstrip())
        console.print(Text(text))
    rest = shown.matching - len(shown.samples)
    kind = "" if shown.verdict == ALL else f"{shown.verdict} "
    if not shown.matching:
        step = " Judge them: offleash verify RUN." if kind and UNVERIFIED_WORD in shown.verdicts else ""
        console.print(Text(f"\nNo sample is {shown.verdict}.{step}" if kind else "\nThere are no samples."))
    elif rest > 0:
        console.print(Text(f"\n{rest:,} more {kind}{'sample' if rest == 1 else 'samples'}: --most {shown.matching}"))


def _sample_facts(sample: ShownSample) -> str:
    parts = [
        sample.verdict,
        None if sample.answer is None else f"answer {clean(sample.answer)[:200]!r}",
        None if sample.tokens is None else counted(sample.tokens, "token"),
        "cut at the token limit" if sample.finish == "length" else None,
        None if sample.reason is None else clean(sample.reason)[:200],
    ]
    return ", ".join(part for part in parts if part)


def shown_document(shown: ShownProblem) -> dict[str, Any]:
    """The JSON of `show`."""
    return {"schema": SCHEMA, **encode(shown)}
