"""Build the page: the finding, tables, figures and problems, and all that is needed to read them, in one HTML file.

`report_page` embeds samples of some problems; `view_page` leaves all samples to the server in view.py.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from offleash.analyses.entropy.entropy import entropies_of
from offleash.analyses.entropy.report import directions_text, positions_text
from offleash.analyses.entropy.terminal import difference, label, shown_value
from offleash.comparing.compare import Comparison
from offleash.comparing.conditions import CheckedCondition
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.flips_report import cautions
from offleash.comparing.headline import headline
from offleash.comparing.leaderboard import RATE_NAMES, leaderboard
from offleash.comparing.next_steps import NextStep
from offleash.comparing.per_problem import detail
from offleash.comparing.sentences import (
    details,
    finding,
    no_change_text,
    redraw_rates,
    runs_are_text,
    single_training_caveat,
    warnings,
)
from offleash.data.run import Run
from offleash.data.tally import Per
from offleash.progress import Progress, silent
from offleash.render.escape import clipped, script_json
from offleash.render.figure import PAGE, Figure, MissingFigure
from offleash.render.json import Json
from offleash.render.numbers import whole
from offleash.render.page import chart_script_source, own_script, policy, style, template
from offleash.reporting.figures import FIGURES
from offleash.reporting.glossary import GLOSSARY, MISREADINGS
from offleash.reporting.markdown import rule_in_words
from offleash.reporting.page.charts import CompiledChart, compiled_charts, without_validation
from offleash.reporting.page.problems import MAX_BYTES, EmbeddedProblems, embed_problems, searchable_characters, table
from offleash.reporting.page.tiles import rates, tiles
from offleash.reporting.samples import SampleStore
from offleash.stats.change import METRICS
from offleash.stats.intervals import Estimate
from offleash.stats.support_classes import Rule
from offleash.version import __version__

# Tables: other comparisons in short, checkpoints, how samples were judged, and where they come from.


DIFFERENCE_COLUMNS = ("difference", "95% interval")  # columns of the table of entropies
MAX_FACT_CHARACTERS = 300  # characters of a fact of a run: a log may record a whole configuration


@dataclass(frozen=True)
class Chapter:
    """Another comparison, in short."""

    title: str
    comparison: Comparison

    @property
    def words(self) -> str:
        """The finding in a paragraph."""
        return finding(self.comparison)

    def cell(self, name: str) -> str:
        """The number of problems in a class."""
        return whole(float(getattr(self.comparison.change, name)))

    def rates(self) -> list[tuple[str, str]]:
        """The rates that are defined, with their intervals."""
        change = self.comparison.change
        ends, same = {name: change.interval[name] for name in METRICS}, redraw_rates(change)
        unchanged_texts = {name: f", unchanged model {value:.3f}" for name, value in same.items()}
        return [
            (
                name,
                f"{change.value[name]:.3f} [{ends[name].low:.3f}, "
                f"{ends[name].high:.3f}]{unchanged_texts.get(name, '')}",
            )
            for name in METRICS
            if not np.isnan(change.value[name])
        ]


@dataclass(frozen=True)
class Table:
    """A table for people: every cell is text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def verdict_table(comparison: Comparison) -> Table:
    """How the samples of both runs were judged."""
    tally, rows = comparison.counted.tally, []
    for r, run in enumerate((comparison.before, comparison.after)):
        drawn = int(tally.drawn_PR[:, r].sum())
        # a share of 0% and a share that the log does not record must look different
        read = _has_verdicts(run) and not comparison.question.drop_unread
        columns = {"correct": True, "unread": read, "failed": _has_verdicts(run), "truncated": _records_finish(run)}
        shares = [
            f"{int(getattr(tally, f'{what}_PR')[:, r].sum()) / max(drawn, 1):.1%}" if is_known else "unknown"
            for what, is_known in columns.items()
        ]
        per_problem = _range(tally.drawn_PR[:, r])
        rows.append([run.name, f"{len(tally):,}", f"{drawn:,}", per_problem, *shares, run.verifier or "as logged"])
    head = ["run", "problems", "samples", "samples per problem", "correct", "unread", "failed", "truncated", "verifier"]
    return Table(head, rows)


def leaderboard_table(subject: FigureInput) -> Table | None:
    """Every run with pass@1, pass@k and the rates, 95% intervals below them; None where there is one comparison."""
    rows = leaderboard(subject.comparisons)
    if not rows:
        return None
    passes = ["pass@1", f"pass@{rows[0].k:,}"] if rows[0].pass_at_1 is not None else []
    cells = []
    for row in rows:
        values = [_estimate(row.pass_at_1), _estimate(row.pass_at_k)] if passes else []
        for name in RATE_NAMES:  # each rate with that of an unchanged model drawn twice in the next column
            estimate = row.rate(name)
            same = "" if estimate is None else "–" if row.redraw is None else _value(row.redraw[name])
            values += [_estimate(estimate), same]
        cells.append([row.run, *values])
    heads = [head for name in RATE_NAMES for head in (name, f"{name}, unchanged model")]
    return Table(["run", *passes, *heads], cells)


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    low, high = estimate.interval.low, estimate.interval.high
    return _value(estimate.value) + (f"\n[{low:.3f}, {high:.3f}]" if np.isfinite(low) else "")


def class_table(subject: FigureInput) -> Table:
    """P, E, S, O of each run after the first with the bounds on losses and gains, and of the union of checkpoints."""
    rows = []
    for comparison in subject.comparisons:
        change, evidence = comparison.change, comparison.evidence
        at_least = [
            "–" if bound is None else f"{bound:,}" for bound in (evidence.losses_at_least, evidence.gains_at_least)
        ]
        counts = [whole(float(getattr(change, name))) for name in "PESO"]
        rows.append([change.after, *counts, *at_least, headline(comparison).finding.words])
    # the union is counted per problem by the rule seen, so it has no place in a table of another rule or target
    together, last = subject.union, subject.comparison
    if together is not None and last.tally.per is Per.PROBLEM and last.change.rule is Rule.SEEN:
        every = [(f"union of {together.checkpoints}, {last.change.k:,} samples each", together.each_k)]
        if together.equal_k is not None:
            every.append((f"union of {together.checkpoints}, {last.change.k:,} samples in total", together.equal_k))
        rows += [[name, *map(whole, cells), "", "", ""] for name, cells in every]
    bounds = ["lost, rate fell on at least", "gained, rate rose on at least"]
    return Table(["run", "P kept", "E gained", "S lost", "O neither", *bounds, "finding"], rows)


def entropy(subject: FigureInput) -> tuple[list[str], Table] | None:
    """What became of token and answer entropy, in words and as a table; None where token entropies are not known."""
    entropies = entropies_of(subject.comparison)
    words = directions_text(entropies, 1)
    if not words:
        return None
    rows = []
    for name, measure in entropies.measures.items():
        named = label(entropies, name).replace("  ", "answer entropy, ")
        values = [shown_value(name, value) for value in measure.average.value_R.tolist()]
        rows.append([named, *values, *difference(name, measure.average, 1)])
    cell = entropies.squares[0]
    assert cell is not None, "there is a sentence for it"
    every = len(entropies.problem_P)
    problem_note = f" ({cell.problems:,} of {every:,}, where both are known)" if cell.problems < every else ""
    same = f"; on {cell.level:,} one of the two did not change" if cell.level else ""
    counts = (
        f"Per problem{problem_note}: token and answer entropy both rose on {cell.up_up:,}, both fell on "
        f"{cell.down_down:,}; only token entropy rose on {cell.up_down:,}, only answer entropy on "
        f"{cell.down_up:,}{same}."
    )
    return [line for line in (words, counts, positions_text(entropies)) if line], Table(
        ["mean", *entropies.runs, *DIFFERENCE_COLUMNS], rows
    )


def averaging_note(comparison: Comparison) -> str:
    """Why the tiles need not be whole numbers or equal the totals of the table of problems; empty where they do."""
    tally, k = comparison.counted.tally, comparison.change.k
    if comparison.change.rule is not Rule.SEEN or ((tally.drawn_PR == k) | tally.stopped_PR).all():
        return ""
    return (
        f"Some problems have more than k = {k:,} samples. The numbers above are averages over all subsets of k of "
        "them, so they need not be whole; tests, and the classes of single problems in the figures and the table, use "
        "all samples of each run and may add up differently."
    )


def sources(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is known of who answered, run by run."""
    return [
        (run.name, [(key, clipped(value, MAX_FACT_CHARACTERS)) for key, value in run.facts.items()])
        for run in (comparison.before, comparison.after)
    ]


def passed_checks(comparison: Comparison) -> str:
    """Which checks raised no warning, and which could not be made; shown where there is no warning."""
    runs = (comparison.before, comparison.after)
    passed_texts, not_checked = [f"k = {comparison.change.k:,} is large enough"], []
    for what, known in (
        (
            "samples without a readable answer",
            all(_has_verdicts(run) for run in runs) and not comparison.question.drop_unread,
        ),
        ("samples on which the verifier failed", all(_has_verdicts(run) for run in runs)),
        ("samples cut at the token limit", all(_records_finish(run) for run in runs)),
        ("problems solved only as often as by blind guessing", comparison.guessing.floor is not None),
    ):
        if known:
            passed_texts.append(f"few or no {what}")
        else:
            not_checked.append(what)
    passed_text = f"No check raised a warning: {'; '.join(passed_texts)}."
    return f"{passed_text} Not available for these runs: {'; '.join(not_checked)}." if not_checked else passed_text


def _records_finish(run: Run) -> bool:
    """Whether a run says how its samples ended."""
    if run.samples is None:
        return False
    return not run.samples.filter(pl.col("finish").is_not_null()).select("finish").head(1).collect().is_empty()


def _has_verdicts(run: Run) -> bool:
    """Whether a run has verdicts of samples, and not only counts."""
    return run.verdicts is not None


def _range(drawn_P: np.ndarray) -> str:
    """Samples per problem: one number, or from the fewest to the most."""
    least, most = int(drawn_P.min()), int(drawn_P.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _value(value: float) -> str:
    """A rate in three digits; a dash where it is undefined."""
    return "–" if np.isnan(value) else f"{value:.3f}"


# The page: everything put into its template.


# those whose versions can change a number or a picture
LIBRARIES = ("numpy", "scipy", "polars", "altair", "vl-convert-python")


MOST_RUNS = 12  # runs after the first that a page shows in full: each adds its figures and its table of problems


@dataclass(frozen=True)
class PageText:
    """What a page says beside its comparison."""

    command: str = ""  # that made it
    headline: str = ""  # before that of the comparison
    sentences: Sequence[str] = ()
    chapters: Sequence[Chapter] = ()  # other comparisons, in short
    steps: Sequence[NextStep] = ()  # what to do next
    conditions: Sequence[CheckedCondition] = ()  # of --fail-if


def shown_runs(subject: FigureInput) -> list[FigureInput]:
    """Each comparison that the page shows in full, as figures take it: all, or a spread that ends with the last.

    Classes that depend on doubtful verdicts are known for the last only.
    """
    every = subject.comparisons
    chosen = np.linspace(0, len(every) - 1, min(len(every), MOST_RUNS)).round().astype(int).tolist()
    parts = [FigureInput((every[i],), None, detail(every[i])) for i in chosen[:-1]]
    return [*parts, replace(subject, comparisons=every[-1:], union=None)]


def report_page(subject: FigureInput, page_text: PageText | None = None, progress: Progress = silent) -> str:
    """A page that needs nothing but itself: all figures, and the samples of some problems."""
    progress("page: choosing problems to embed")
    parts = shown_runs(subject)
    embedded = []
    for part in parts:
        store = SampleStore(part.comparison)
        samples = embed_problems(part.detail, store, MAX_BYTES // len(parts)) if _has_samples(store) else None
        embedded.append(samples or EmbeddedProblems({}, _no_samples_text(store)))
    return _page(subject, parts, page_text or PageText(), embedded, served=False, progress=progress)


def view_page(subject: FigureInput, page_text: PageText | None = None, progress: Progress = silent) -> str:
    """The same page for a server that hands out every sample of every problem of `shown_runs`."""
    parts = shown_runs(subject)
    embedded, any_samples = [], False
    for part in parts:
        store = SampleStore(part.comparison)
        any_samples |= _has_samples(store)
        embedded_text = "Every sample of every problem, read from the run folders."
        embedded.append(EmbeddedProblems({}, embedded_text if _has_samples(store) else _no_samples_text(store)))
    return _page(subject, parts, page_text or PageText(), embedded, served=any_samples, progress=progress)


@dataclass(frozen=True)
class RunPart:
    """What a page shows of one comparison; of several the reader chooses one."""

    subject: FigureInput
    number: int  # its place in the selector
    suffix: str  # of ids: empty for the last, which is shown first
    figures: list[tuple[Figure, list[CompiledChart]]]
    missing: list[MissingFigure]
    embedded: EmbeddedProblems
    cautions: list[str]

    @property
    def comparison(self) -> Comparison:
        return self.subject.comparison

    def words(self) -> dict[str, Any]:
        """Everything that the template prints of it."""
        comparison = self.comparison
        return {
            "number": self.number,
            "suffix": self.suffix,
            "change": comparison.change,
            "headline": headline(comparison),
            "details": details(comparison),
            "rule": rule_in_words(comparison),
            "tiles": tiles(comparison),
            "averaging_note": averaging_note(comparison),
            "rates": rates(comparison),
            "warnings": [*warnings(comparison), *self.cautions],
            # without any gain it is part of the finding
            "absence": no_change_text(comparison) if comparison.evidence.E else "",
            "passed_checks": passed_checks(comparison),
            "verdict_table": verdict_table(comparison),
            "entropy": entropy(self.subject),
            "notes": [
                f"{note.text}{f' ({note.rows:,})' if note.rows else ''}" for note in dict.fromkeys(comparison.notes)
            ],
            "figures": self.figures,
            "missing": self.missing,
            "held": self.embedded.words + _missing_texts(self.subject),
            "sources": sources(comparison),
            "documents": {row: Markup(text) for row, text in self.embedded.documents.items()},
        }


def _part(
    subject: FigureInput, number: int, last: int, embedded: EmbeddedProblems, names: Sequence[str], progress: Progress
) -> RunPart:
    """One comparison with its figures.

    Every figure is tried: one that these runs do not allow returns Missing with a reason, which the page lists.
    """
    drawn = _draw_figures(subject, names, progress)
    flips = [] if subject.flips is None else cautions(subject.flips)
    return RunPart(
        subject,
        number,
        "" if number == last else f"-{number}",
        [(figure, compiled_charts(figure)) for figure in drawn if isinstance(figure, Figure)],
        [figure for figure in drawn if isinstance(figure, MissingFigure)],
        embedded,
        flips,
    )


def _draw_figures(subject: FigureInput, names: Sequence[str], progress: Progress) -> list[Figure | MissingFigure]:
    """Figures by their names."""
    drawn = []
    for name in names:
        progress(f"page: {subject.comparison.change.after}, figure {name}")
        with without_validation():
            drawn.append(FIGURES[name](subject, PAGE))
    return drawn


ALL_RUNS = ("passes", "checkpoints")  # figures that show several runs together


def _page(
    subject: FigureInput,
    subjects: Sequence[FigureInput],
    page_text: PageText,
    embedded: Sequence[EmbeddedProblems],
    served: bool,
    progress: Progress,
) -> str:
    """The page from its template.

    What comes from a log is escaped by the template, or by `script_json` where it is data of a script: only our own
    style, scripts and JSON are marked as safe.
    """
    comparison, several, last = subject.comparison, len(subject.comparisons) > 1, len(subjects) - 1
    # with several runs, the figure of all of them has a place of its own
    names = [name for name in FIGURES if not several or name != "checkpoints"]
    parts = [
        _part(part, number, last, run_problems, names, progress)
        for number, (part, run_problems) in enumerate(zip(subjects, embedded, strict=True))
    ]
    shared_figures = (
        [figure for figure in _draw_figures(subject, ALL_RUNS, progress) if isinstance(figure, Figure)]
        if several
        else []
    )
    progress("page: assembling")
    # the policy names these scripts by their hash, so they must be the exact texts that the template embeds
    scripts = [chart_script_source(), own_script()]
    return template("page.html.j2").render(
        comparison=comparison,
        change=comparison.change,
        problems=len(subject.detail.class_P),
        page_text=page_text,
        parts=[part.words() for part in parts],
        left_out=len(subject.comparisons) - len(subjects),
        single_training=single_training_caveat(subject.several),
        runs_are=None if subject.several is None else runs_are_text(subject.several),
        leaderboard=leaderboard_table(subject),
        classes=class_table(subject),
        shared=[(figure, compiled_charts(figure)) for figure in shared_figures],
        searched=f"{searchable_characters(len(subject.detail.class_P)):,}",
        about=Markup(script_json(_about(parts, served))),
        glossary=GLOSSARY,
        misleads=MISREADINGS,
        versions=f"offleash {__version__}, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        policy=policy(scripts, served),
        style=Markup(style()),
        scripts=[Markup(script) for script in scripts],
        served=served,
    )


def _about(parts: Sequence[RunPart], served: bool) -> Json:
    """The data of the page's scripts: the last comparison, and of several what differs in each."""
    last = parts[-1]
    tables = [table(part.subject.detail, set(part.embedded.documents)) for part in parts]
    about: Json = {
        "runs": [last.comparison.change.before, last.comparison.change.after],
        "k": last.comparison.change.k,
        "served": served,
        "problems": tables[-1],
    }
    if len(parts) > 1:
        about["comparisons"] = [
            {"runs": [part.comparison.change.before, part.comparison.change.after], "suffix": part.suffix}
            # all comparisons are on the same problems, whose ids and texts are in `problems`
            | {"problems": {name: columns[name] for name in ("class", "correct", "drawn", "p", "sure", "held")}}
            for part, columns in zip(parts, tables, strict=True)
        ]
    return about


def _has_samples(store: SampleStore) -> bool:
    """Whether there is a sample to look at, of either run."""
    return any(store.run(r).verdicts is not None for r in range(2))


def _missing_texts(subject: FigureInput) -> str:
    """A sentence where there are samples and their texts were not read."""
    runs = [run for run in (subject.comparison.before, subject.comparison.after) if run.verdicts is not None]
    without_texts = [
        run.name for run in runs if run.samples is None or "text" not in run.samples.collect_schema().names()
    ]
    if not without_texts:
        return ""
    return (
        f" The sample texts of {' and '.join(without_texts)} were not read, so only answers and verdicts are shown. "
        "With --split-by a file is read without texts; put each run into its own file to see them."
    )


def _no_samples_text(store: SampleStore) -> str:
    """Why the page has no samples, and what would give it some."""
    names = " and ".join(store.run(r).name for r in range(2))
    return (
        f"{names} have counts only, so there are no answers or samples to show; the figures that need answers are left "
        "out. Compare logs or run folders with samples to see them."
    )
