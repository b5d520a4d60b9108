"""Build the page: the finding, the figures, the problems, and all that is needed to read them, in one file."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from markupsafe import Markup

from offleash.comparing.figures.subject import Subject
from offleash.comparing.flips_report import cautions
from offleash.comparing.sentences import finding, warnings
from offleash.progress import Progress, silent
from offleash.render.bundle import charting, own_script, policy, style
from offleash.render.escape import script_json
from offleash.render.figure import PAGE, Figure, Missing
from offleash.render.page import template
from offleash.reporting.amounts import rule_in_words
from offleash.reporting.figures import FIGURES
from offleash.reporting.glossary import GLOSSARY, MISLEADS
from offleash.reporting.page.chapters import Chapter, entropy, reassurance, sources, standing, steps, thinned
from offleash.reporting.page.charts import panels, unchecked
from offleash.reporting.page.problems import Held, chosen
from offleash.reporting.page.rows import letters, table
from offleash.reporting.page.tiles import rates, tiles
from offleash.reporting.samples import Shelf
from offleash.version import __version__

LIBRARIES = ("numpy", "scipy", "polars", "altair", "vl-convert-python")


@dataclass(frozen=True)
class Telling:
    """What a page says beside its comparison."""

    command: str = ""  # that made it
    headline: str = ""  # before the finding
    sentences: Sequence[str] = ()
    chapters: Sequence[Chapter] = ()  # other comparisons, in short


def report_page(subject: Subject, telling: Telling | None = None, progress: Progress = silent) -> str:
    """A page that needs nothing but itself: all figures, and the samples of some problems."""
    progress("page: choosing the problems it holds")
    shelf = Shelf(subject.one)
    held = chosen(subject.detail, shelf) if _looks(shelf) else Held({}, _nothing_to_see(shelf))
    return _page(subject, telling or Telling(), held, served=False, progress=progress)


def view_page(subject: Subject, telling: Telling | None = None, progress: Progress = silent) -> str:
    """The same page for a server that hands out every sample of every problem."""
    shelf = Shelf(subject.one)
    words = "Every sample of every problem, read from the run folders." if _looks(shelf) else _nothing_to_see(shelf)
    return _page(subject, telling or Telling(), Held({}, words), served=_looks(shelf), progress=progress)


def _page(subject: Subject, telling: Telling, held: Held, served: bool, progress: Progress) -> str:
    one, detail = subject.one, subject.detail
    found: list[Figure | Missing] = []
    for name, draw in FIGURES.items():
        progress(f"page: figure {name}")
        with unchecked():
            found.append(draw(subject, PAGE))
    progress("page: putting it together")
    scripts = [charting(), own_script()]
    about = {
        "runs": [one.change.before, one.change.after],
        "k": one.change.k,
        "served": served,
        "problems": table(detail, set(held.documents)),
    }
    return template("page.html.j2").render(
        one=one,
        change=one.change,
        problems=len(detail.class_P),
        telling=telling,
        finding=finding(one),
        rule=rule_in_words(one),
        tiles=tiles(one),
        thinned=thinned(one),
        rates=rates(one),
        warnings=[*warnings(one), *([] if subject.turned is None else cautions(subject.turned))],
        reassurance=reassurance(one),
        standing=standing(one),
        entropy=entropy(subject),
        notes=[f"{note.text}{f' ({note.rows:,})' if note.rows else ''}" for note in dict.fromkeys(one.notes)],
        steps=steps(subject),
        figures=[(figure, panels(figure)) for figure in found if isinstance(figure, Figure)],
        missing=[figure for figure in found if isinstance(figure, Missing)],
        held=held.words + _without_texts(subject),
        searched=f"{letters(len(detail.class_P)):,}",
        documents={row: Markup(text) for row, text in held.documents.items()},
        about=Markup(script_json(about)),
        glossary=GLOSSARY,
        misleads=MISLEADS,
        sources=sources(one),
        versions=f"offleash {__version__}, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        policy=policy(scripts, served),
        style=Markup(style()),
        scripts=[Markup(script) for script in scripts],
        served=served,
    )


def _looks(shelf: Shelf) -> bool:
    """Whether there is a sample to look at, of either run."""
    return any(shelf.run(r).verdicts is not None for r in range(2))


def _without_texts(subject: Subject) -> str:
    """A sentence where there are samples and their texts were not read."""
    runs = [run for run in (subject.one.before, subject.one.after) if run.verdicts is not None]
    lacking = [run.name for run in runs if run.samples is None or "text" not in run.samples.collect_schema().names()]
    if not lacking:
        return ""
    return (
        f" The texts of {' and '.join(lacking)} were not read, so answers and verdicts stand alone: a file that "
        "--split-by takes apart is read without them; write each run to a file of its own to see them."
    )


def _nothing_to_see(shelf: Shelf) -> str:
    names = " and ".join(shelf.run(r).name for r in range(2))
    return (
        f"{names} hold counts alone, so no answer and no sample can be shown here; the figures that need answers are "
        "left out. Give logs or run folders with samples to look at them."
    )
