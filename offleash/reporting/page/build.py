"""Build the page: the finding, tables, figures and problems, and all that is needed to read them, in one HTML file.

`report_page` embeds samples of some problems; `view_page` leaves all samples to the server in view.py.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import polars as pl
from markupsafe import Markup

from offleash.analyses.entropy.entropy import entropies_of
from offleash.analyses.entropy.report import directions_text, positions_text
from offleash.analyses.entropy.terminal import difference, label, shown_value
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.flips_report import cautions
from offleash.comparing.headline import headline
from offleash.comparing.next_steps import NextStep
from offleash.comparing.sentences import (
    absence,
    details,
    finding,
    redraw_rates,
    runs_are_text,
    single_training,
    warnings,
)
from offleash.data.run import Run
from offleash.data.tally import Per
from offleash.progress import Progress, silent
from offleash.render.escape import clipped, script_json
from offleash.render.figure import PAGE, Figure, MissingFigure
from offleash.render.numbers import whole
from offleash.render.page import chart_script_source, own_script, policy, style, template
from offleash.reporting.figures import FIGURES
from offleash.reporting.glossary import GLOSSARY, MISREADINGS
from offleash.reporting.markdown import rule_in_words
from offleash.reporting.page.charts import compiled_charts, without_validation
from offleash.reporting.page.problems import EmbeddedProblems, embed_problems, searchable_letters, table
from offleash.reporting.page.tiles import rates, tiles
from offleash.reporting.samples import SampleStore
from offleash.stats.change import METRICS
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
        unchanged = {name: f", unchanged model {value:.3f}" for name, value in same.items()}
        return [
            (name, f"{change.value[name]:.3f} [{ends[name].low:.3f}, {ends[name].high:.3f}]{unchanged.get(name, '')}")
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


def checkpoint_table(subject: FigureInput) -> Table | None:
    """Each checkpoint against the first run, and all of them together; None where there is one comparison."""
    if len(subject.comparisons) < 2:
        return None
    last, seen = subject.comparison, subject.comparison.change.rule is Rule.SEEN
    k, by_problem = last.change.k, last.tally.per is Per.PROBLEM
    passes = ["pass@1", f"pass@{k:,}" if seen else "share reached"] if by_problem else []
    rows = []
    for comparison in subject.comparisons:
        change = comparison.change
        reached = (change.P + change.E) / change.problems if change.problems else float("nan")
        cells = [whole(float(getattr(change, name))) for name in "PESO"]
        same = redraw_rates(change)
        # each rate with that of an unchanged model drawn twice in the next column
        values = [_value(rates.get(name, np.nan)) for name in METRICS for rates in (change.value, same)]
        first = [_value(float(comparison.curves["after"].value_K[0])), _value(reached)] if by_problem else []
        rows.append([change.after, *first, *cells, *values])
    # the union is counted per problem by the rule seen, so it has no place in a table of another rule or target
    together = subject.union
    if together is not None and by_problem and seen:
        every = [(f"union of {together.checkpoints}, {k:,} samples each", together.each_k)]
        if together.equal_k is not None:
            every.append((f"union of {together.checkpoints}, {k:,} samples in total", together.equal_k))
        # the union has no rates, since no intervals are computed for it
        rows += [[name, "", "", *map(whole, cells), *[""] * 2 * len(METRICS)] for name, cells in every]
    heads = [head for name in METRICS for head in (name, f"{name}, unchanged model")]
    return Table(["run", *passes, "P", "E", "S", "O", *heads], rows)


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
    passed, not_checked = [f"k = {comparison.change.k:,} is large enough"], []
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
            passed.append(f"few or no {what}")
        else:
            not_checked.append(what)
    checked = f"No check raised a warning: {'; '.join(passed)}."
    return f"{checked} Could not be checked for these runs: {'; '.join(not_checked)}." if not_checked else checked


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


@dataclass(frozen=True)
class PageText:
    """What a page says beside its comparison."""

    command: str = ""  # that made it
    headline: str = ""  # before that of the comparison
    sentences: Sequence[str] = ()
    chapters: Sequence[Chapter] = ()  # other comparisons, in short
    steps: Sequence[NextStep] = ()  # what to do next


def report_page(subject: FigureInput, page_text: PageText | None = None, progress: Progress = silent) -> str:
    """A page that needs nothing but itself: all figures, and the samples of some problems."""
    progress("page: choosing problems to embed")
    store = SampleStore(subject.comparison)
    embedded = (
        embed_problems(subject.detail, store) if _has_samples(store) else EmbeddedProblems({}, _no_samples_text(store))
    )
    return _page(subject, page_text or PageText(), embedded, served=False, progress=progress)


def view_page(subject: FigureInput, page_text: PageText | None = None, progress: Progress = silent) -> str:
    """The same page for a server that hands out every sample of every problem."""
    store = SampleStore(subject.comparison)
    words = (
        "Every sample of every problem, read from the run folders." if _has_samples(store) else _no_samples_text(store)
    )
    return _page(
        subject, page_text or PageText(), EmbeddedProblems({}, words), served=_has_samples(store), progress=progress
    )


def _page(
    subject: FigureInput, page_text: PageText, embedded: EmbeddedProblems, served: bool, progress: Progress
) -> str:
    """The page from its template.

    What comes from a log is escaped by the template, or by `script_json` where it is data of a script: only our own
    style, scripts and JSON are marked as safe.
    """
    comparison, detail = subject.comparison, subject.detail
    drawn: list[Figure | MissingFigure] = []
    # every figure is tried: one that these runs do not allow returns Missing with a reason, which the page lists
    for name, draw in FIGURES.items():
        progress(f"page: figure {name}")
        with without_validation():
            drawn.append(draw(subject, PAGE))
    progress("page: assembling")
    # the policy names these scripts by their hash, so they must be the exact texts that the template embeds
    scripts = [chart_script_source(), own_script()]
    about = {
        "runs": [comparison.change.before, comparison.change.after],
        "k": comparison.change.k,
        "served": served,
        "problems": table(detail, set(embedded.documents)),
    }
    return template("page.html.j2").render(
        comparison=comparison,
        change=comparison.change,
        problems=len(detail.class_P),
        page_text=page_text,
        headline=headline(comparison),
        details=details(comparison),
        rule=rule_in_words(comparison),
        tiles=tiles(comparison),
        averaging_note=averaging_note(comparison),
        rates=rates(comparison),
        warnings=[*warnings(comparison), *([] if subject.flips is None else cautions(subject.flips))],
        single_training=single_training(subject.several),
        absence=absence(comparison) if comparison.evidence.E else "",  # without any gain it is part of the finding
        runs_are=None if subject.several is None else runs_are_text(subject.several),
        passed_checks=passed_checks(comparison),
        verdict_table=verdict_table(comparison),
        entropy=entropy(subject),
        notes=[f"{note.text}{f' ({note.rows:,})' if note.rows else ''}" for note in dict.fromkeys(comparison.notes)],
        steps=checkpoint_table(subject),
        figures=[(figure, compiled_charts(figure)) for figure in drawn if isinstance(figure, Figure)],
        missing=[figure for figure in drawn if isinstance(figure, MissingFigure)],
        held=embedded.words + _missing_texts(subject),
        searched=f"{searchable_letters(len(detail.class_P)):,}",
        documents={row: Markup(text) for row, text in embedded.documents.items()},
        about=Markup(script_json(about)),
        glossary=GLOSSARY,
        misleads=MISREADINGS,
        sources=sources(comparison),
        versions=f"offleash {__version__}, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        policy=policy(scripts, served),
        style=Markup(style()),
        scripts=[Markup(script) for script in scripts],
        served=served,
    )


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
