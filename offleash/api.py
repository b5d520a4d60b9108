"""The functions a notebook calls: one run in, a tally of several, a comparison of two."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from offleash.comparing import tally as counting
from offleash.comparing.compare import Comparison
from offleash.comparing.compare import compare as compare_runs
from offleash.comparing.runs import question
from offleash.data.run import Run
from offleash.data.tally import Tally
from offleash.drawing.draw import DrawnRun
from offleash.drawing.drawing import draw_arguments
from offleash.errors import OffleashError
from offleash.loading import load as loading
from offleash.loading.problem_set import problem_set
from offleash.logs.format import Options
from offleash.samplers.models import model_of
from offleash.samplers.sampler import DECODINGS, Decoding
from offleash.studies import Studied, TwoModels, study
from offleash.verifying.verify import Verified
from offleash.verifying.verify import verify as verify_run
from offleash.verifying.verifying import verifying


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
) -> Verified:
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
) -> Studied:
    """Draw two models into into/base and into/rl, verify and compare: `.comparison` is what `compare` returns."""
    asked = problems if isinstance(problems, pl.DataFrame) else problem_set(problems)
    pair = (model_of(base, settings, raw), model_of(rl, settings, raw))
    return study(TwoModels(asked, pair, decoding, str(k), until, seed), Path(into), verifying(verifier))
