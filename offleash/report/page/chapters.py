"""The tables of the page: other comparisons in short, steps of a training, how samples stand, where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.report.figures.figure import Subject
from offleash.report.page.safe import clipped
from offleash.report.page.tiles import shown
from offleash.report.words import finding
from offleash.study.compare import Comparison
from offleash.support.change import METRICS
from offleash.tables.run import Run

FACT = 300  # letters of a fact of a run


@dataclass(frozen=True)
class Chapter:
    """Another comparison, told in short."""

    title: str
    comparison: Comparison

    @property
    def words(self) -> str:
        return finding(self.comparison)

    def cell(self, name: str) -> str:
        return shown(float(getattr(self.comparison.change, name)))

    def rates(self) -> list[tuple[str, str]]:
        change = self.comparison.change
        ends = {name: change.interval[name] for name in METRICS}
        return [
            (name, f"{change.value[name]:.3f} [{ends[name].low:.3f}, {ends[name].high:.3f}]")
            for name in METRICS
            if not np.isnan(change.value[name])
        ]


@dataclass(frozen=True)
class Table:
    """A table for people: every cell is text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def standing(one: Comparison) -> Table:
    """How the samples of both runs were judged."""
    tally, rows = one.counted.tally, []
    for r, run in enumerate((one.before, one.after)):
        drawn = int(tally.drawn_PR[:, r].sum())
        told = {"correct": True, "unread": _judged(run), "failed": _judged(run), "truncated": _ends(run)}
        shares = [
            f"{int(getattr(tally, f'{what}_PR')[:, r].sum()) / max(drawn, 1):.1%}" if known else "not known"
            for what, known in told.items()
        ]
        a_problem = _range(tally.drawn_PR[:, r])
        rows.append([run.name, f"{len(tally):,}", f"{drawn:,}", a_problem, *shares, run.verifier or "as logged"])
    head = ["run", "problems", "samples", "samples a problem", "correct", "unread", "failed", "truncated", "verifier"]
    return Table(head, rows)


def steps(subject: Subject) -> Table | None:
    """Each checkpoint against the first run, and all of them together; None where there is one comparison."""
    if len(subject.comparisons) < 2:
        return None
    k = subject.one.change.k
    head = ["run", "pass@1", f"pass@{k:,}", "P", "E", "S", "O", *METRICS]
    rows = []
    for one in subject.comparisons:
        change = one.change
        reached = (change.P + change.E) / change.problems if change.problems else float("nan")
        cells = [shown(float(getattr(change, name))) for name in "PESO"]
        values = [_value(change.value[name]) for name in METRICS]
        rows.append([change.after, _value(float(one.curves["after"].value_K[0])), _value(reached), *cells, *values])
    together = subject.together
    if together is not None:
        blank = ["", "", "", ""]
        name = f"any of {together.checkpoints}, {k:,} samples of each"
        rows.append([name, "", "", *map(shown, together.each_k), *blank])
        if together.equal_k is not None:
            rows.append([f"any of {together.checkpoints}, {k:,} in all", "", "", *map(shown, together.equal_k), *blank])
    return Table(head, rows)


def sources(one: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is known of who answered, run by run."""
    return [
        (run.name, [(key, clipped(value, FACT)) for key, value in run.facts.items()]) for run in (one.before, one.after)
    ]


def reassurance(one: Comparison) -> str:
    """What was looked for and not found, where there is no warning; and what could not be looked for."""
    runs = (one.before, one.after)
    looked, unseen = [f"k = {one.change.k:,} is not small"], []
    for what, known in (
        ("samples without a readable answer or a verdict", all(_judged(run) for run in runs)),
        ("samples cut at the token limit", all(_ends(run) for run in runs)),
        ("problems reached only as often as by blind guessing", one.guessing.floor is not None),
    ):
        if known:
            looked.append(f"there are few or no {what}")
        else:
            unseen.append(what)
    checked = f"Of what was checked nothing would change the reading: {'; '.join(looked)}."
    return f"{checked} Not known of these runs: {'; '.join(unseen)}." if unseen else checked


def _ends(run: Run) -> bool:
    """Whether a run says how its samples ended."""
    if run.samples is None:
        return False
    return not run.samples.filter(pl.col("finish").is_not_null()).select("finish").head(1).collect().is_empty()


def _judged(run: Run) -> bool:
    """Whether a run has verdicts of samples, and not only counts."""
    return run.verdicts is not None


def _range(drawn_P: np.ndarray) -> str:
    least, most = int(drawn_P.min()), int(drawn_P.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _value(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
