"""The notebook API: load, tally, compare, verify, draw, study, train, and the page and figures of a comparison.

The package root takes most of its public names from here. What is heavy (torch, altair) is imported by the function
that needs it, so that comparing two logs needs neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.comparing import tally as counting
from offleash.comparing.arguments import question
from offleash.comparing.compare import Comparison
from offleash.comparing.compare import compare as compare_runs
from offleash.data.run import Run
from offleash.data.tally import Tally
from offleash.drawing.draw import DrawnRun, draw_arguments
from offleash.errors import OffleashError
from offleash.loading import load as loading
from offleash.loading.problem_set import problem_set
from offleash.logs.format import Options
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import DECODINGS, Decoding
from offleash.studies import StudyRequest, StudyResult, study
from offleash.verifying.verify import VerifyResult, verifying
from offleash.verifying.verify import verify as verify_run

if TYPE_CHECKING:
    import altair as alt

    from offleash.training.loop import Training

WIDTH = 520  # of a figure in a notebook


def load(path: str | Path, *, columns: Mapping[str, str] | None = None, format: str | None = None) -> Run:  # noqa: A002
    """A run from a run folder, a log file, a folder of logs, a glob, or a file of counts."""
    reading = loading.Reading(Options(columns or {}, texts=False), format)
    runs = loading.load(path, reading=reading)
    if len(runs) != 1:
        raise OffleashError(f"{path} holds {len(runs)} runs; load them one by one.")
    return runs[0]


def tally(runs: Mapping[str, Run], at: int | None = None) -> Tally:
    """How many samples of each problem were drawn and how many were correct, in runs named by the keys."""
    if not runs:
        raise OffleashError("A tally needs at least one run: tally({'base': load(...), 'rl': load(...)}).")
    return counting.tally([replace(run, name=name) for name, run in runs.items()], at).tally


def compare(
    before: Run,
    after: Run,
    *,
    rule: str = "seen",
    per: str = "problem",
    at: int | None = None,
    tau: float = 0.0,
    unread: str = "keep",
    guess: float | None = None,
    replicates: int = 10_000,
    seed: int = 0,
    allow: Sequence[str] = (),
) -> Comparison:
    """Everything that can be said of two runs; `document` turns it into JSON, `finding` into words."""
    if before.name == after.name:
        before, after = replace(before, name="before"), replace(after, name="after")
    return compare_runs(before, after, question(rule, per, at, tau, unread, guess, replicates, seed, allow))


def verify(
    folder: str | Path,
    verifier: str | None = None,
    *,
    last_number: bool = False,
    opened: bool = False,
    jobs: int = 0,
    trust_code: bool = False,
    cache: bool = True,
) -> VerifyResult:
    """Judge the samples of a run folder that have no verdict yet; each problem by its own verifier, or all by one."""
    return verify_run(Path(folder), verifying(verifier, last_number, opened, jobs, trust_code, cache))


def draw(
    problems: pl.DataFrame | str | Path,
    model: str,
    *,
    k: int,
    into: str | Path,
    until: int = 0,
    seed: int = 0,
    decoding: Decoding = DECODINGS["plain"],
    settings: Mapping[str, str] | None = None,
    raw: bool = False,
    verifier: str | None = None,
) -> DrawnRun:
    """Draw k samples of every problem from a model into a run folder; what is there already is not drawn again."""
    asked = problems if isinstance(problems, pl.DataFrame) else problem_set(problems)
    chosen = model_of(model, settings, raw)
    return draw_arguments(Path(into), asked, chosen, decoding, str(k), until, seed, verifying(verifier))


def run_study(
    problems: pl.DataFrame | str | Path,
    base: str,
    rl: str,
    *,
    k: int,
    into: str | Path,
    until: int = 0,
    seed: int = 0,
    decoding: Decoding = DECODINGS["plain"],
    settings: Mapping[str, str] | None = None,
    raw: bool = False,
    verifier: str | None = None,
) -> StudyResult:
    """Draw two models into into/base and into/rl, verify and compare: `.comparison` is what `compare` returns."""
    asked = problems if isinstance(problems, pl.DataFrame) else problem_set(problems)
    pair = (model_of(base, settings, raw), model_of(rl, settings, raw))
    return study(StudyRequest(asked, pair, decoding, str(k), until, seed), Path(into), verifying(verifier))


# The page of a comparison, its figures as charts, and training.


def write_report(path: str | Path, comparison: Comparison | Sequence[Comparison], *, command: str = "") -> Path:
    """Write the page of a comparison, or of several with one base; `command` is what the page says made it."""
    from offleash.render.output import check_place, write_text
    from offleash.reporting.figures import subject
    from offleash.reporting.page.build import PageText, report_page

    place = Path(path)
    check_place(place)
    write_text(place, report_page(subject(_several(comparison)), PageText(command=command)))
    return place


def figure(
    name: str, comparison: Comparison | Sequence[Comparison], *, width: int = WIDTH, height: int = 300
) -> "alt.Chart | alt.LayerChart | alt.HConcatChart":
    """A figure of the page by its name, as a chart of Altair: shown by a notebook, saved by its `save`."""
    import altair as alt

    from offleash.render.figure import FigureFormat, Missing
    from offleash.reporting.figures import figure as drawn
    from offleash.reporting.figures import subject

    found = drawn(name, subject(_several(comparison)), FigureFormat(width=width, height=height))
    if isinstance(found, Missing):
        raise OffleashError(f"{found.title} {found.reason}")
    return found.panels[0] if len(found.panels) == 1 else alt.hconcat(*found.panels)


def _several(comparison: Comparison | Sequence[Comparison]) -> list[Comparison]:
    several = [comparison] if isinstance(comparison, Comparison) else list(comparison)
    bases = {one.before.name for one in several}
    if len(bases) != 1:
        found = ", ".join(sorted(bases)) or "none"
        raise OffleashError(f"A report is of comparisons with one base; found {found}: give those of one base.")
    return several


def train(recipe: str | Path | Mapping[str, object], into: str | Path, overrides: Sequence[str] = ()) -> "Training":
    """Train by a recipe, a YAML file or its content, into a folder; what stands there already is gone on with."""
    from offleash.training.loop import train as train_by
    from offleash.training.recipe import read_recipe, recipe_of, set_by_name

    read = (
        recipe_of(set_by_name(recipe, overrides))
        if isinstance(recipe, Mapping)
        else read_recipe(Path(recipe), overrides)
    )
    return train_by(read, Path(into))
