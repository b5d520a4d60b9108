"""Sweep: what one or two models reach at every decoding of a grid, and how much of a change is due to the decoding."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.analyses.sweep.best import BestDecoding, best_against_best
from offleash.analyses.sweep.match import EntropyMatch, NoMatchError, match_runs
from offleash.analyses.sweep.points import PointLocation, SweepPoint, points
from offleash.analyses.sweep.runs import SweepModel, SweepRuns, decoding_label, labels, open_runs, run_path
from offleash.comparing.tally import AlignedTally, tally
from offleash.data.run import Run
from offleash.data.tables import Note
from offleash.data.tally import Tally
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.registry import Model
from offleash.samplers.sampler import SamplingParams
from offleash.stats.binomials import Float
from offleash.stats.change import SupportChange, support_change
from offleash.stats.intervals import strata
from offleash.stats.support_classes import reach_PRK, thinned_cells
from offleash.verifying.verify import VerifyOptions


@dataclass(frozen=True)
class SweepRequest:
    """What is to be swept: one model, or the one before and the one after; each with a label, '' for its own name."""

    problems: pl.DataFrame
    models: tuple[tuple[str, Model], ...]
    decodings: tuple[SamplingParams, ...]
    k: int | str  # a number, or 'paper'
    seed: int = 0
    match: bool = False  # also at equal token entropy
    prompt: str | None = None  # the template that made the problems' prompts; None: each problem's own

    def __post_init__(self) -> None:
        if self.match and len(self.models) < 2:
            raise OffleashError("--match gives the second model the token entropy of the first; name two models.")
        if self.match and any(decoding.temperature == 0 for decoding in self.decodings):
            raise OffleashError("At temperature 0 there is no entropy to match; found --temperature 0 with --match.")


@dataclass(frozen=True)
class Sweep:
    """Support as a function of the decoding."""

    folder: Path
    members: tuple[SweepModel, ...]
    decodings: tuple[SamplingParams, ...]
    k: int
    problems: int
    points: tuple[SweepPoint, ...]  # decodings in the order given, at each of them the models
    changes: tuple[SupportChange, ...]  # of two models at equal decoding, one per decoding
    best: BestDecoding | None
    matched: tuple[EntropyMatch, ...]  # per decoding, where `match` is set
    unmatched: tuple[tuple[SamplingParams, str], ...]  # decodings that no temperature matches: why
    notes: tuple[Note, ...]
    new: int  # samples drawn now
    missing: int  # samples that could not be drawn
    seconds: float
    tally: Tally  # of the points, in their order

    def of(self, label: str) -> list[SweepPoint]:
        return [point for point in self.points if point.label == label]


def sweep(
    request: SweepRequest, folder: Path, verifying: VerifyOptions | None = None, progress: Progress = silent
) -> Sweep:
    """Draw, judge and compare every model at every decoding; after a kill or with a larger grid, it resumes.

    Args:
        request: problems, one or two models, decodings, k and seed.
        folder: gets one run folder per model and decoding; what is there already is kept.
        verifying: verifier, extraction and workers.
        progress: called with what is being drawn or matched.

    Returns:
        A point per model and decoding; with two models also their support change at each decoding, both at their best
        decodings, and, where `request.match` is set, at equal token entropy.
    """
    started = time.monotonic()
    members = _members(request, folder)
    with _open(request, folder, verifying, progress) as runs_of:
        runs_of.check(members, request.decodings)
        runs = _draw_all(runs_of, members, request.decodings)
        ordered = [runs[member.label, decoding] for decoding in request.decodings for member in members]
        progress("counting")
        aligned = tally(ordered, runs_of.budget, request.seed)
        matched, unmatched = [], []
        for number, decoding in enumerate(request.decodings if request.match else (), 1):
            stage = f"matching {number} of {len(request.decodings)}"
            pair = runs[members[0].label, decoding], runs[members[1].label, decoding]
            try:
                matched.append(match_runs(runs_of, (members[0], members[1]), decoding, pair, stage))
            except NoMatchError as error:  # the other decodings, and the table, are worth having
                unmatched.append((decoding, str(error)))
    locations = [
        PointLocation(member.label, decoding, run_path(folder, member.label, decoding))
        for decoding in request.decodings
        for member in members
    ]
    has_two_models = len(members) == 2
    return Sweep(
        folder,
        members,
        request.decodings,
        aligned.tally.head,
        len(aligned.tally),
        points(locations, ordered, aligned, aligned.tally.head),
        tuple(_changes(aligned, request.seed)) if has_two_models else (),
        _best(aligned, request.decodings, request.seed) if has_two_models else None,
        tuple(matched),
        tuple(unmatched),
        aligned.notes,
        runs_of.new,
        runs_of.missing,
        time.monotonic() - started,
        aligned.tally,
    )


def check_sweep(
    request: SweepRequest, folder: Path, verifying: VerifyOptions | None = None, progress: Progress = silent
) -> None:
    """Refuse before the first sample what is wrong with any folder, model, problem or verifier of a sweep."""
    with _open(request, folder, verifying, progress) as runs_of:
        runs_of.check(_members(request, folder), request.decodings)


def _members(request: SweepRequest, folder: Path) -> tuple[SweepModel, ...]:
    named = labels(request.models, folder)
    return tuple(SweepModel(label, model) for label, (_, model) in zip(named, request.models, strict=True))


def _open(
    request: SweepRequest, folder: Path, verifying: VerifyOptions | None, progress: Progress
) -> AbstractContextManager[SweepRuns]:
    settings = (request.problems, request.k, request.seed, verifying or VerifyOptions(), progress, request.prompt)
    return open_runs(folder, *settings)


def _draw_all(
    runs_of: SweepRuns, members: Sequence[SweepModel], decodings: Sequence[SamplingParams]
) -> dict[tuple[str, SamplingParams], Run]:
    """Every run, model by model: each is loaded at most once, since one model is in memory at a time."""
    runs, number, total = {}, 0, len(members) * len(decodings)
    for member in members:
        for decoding in decodings:
            number += 1
            name = f"{member.label} at {decoding_label(decoding)}"
            runs[member.label, decoding] = runs_of.run(member, decoding, name, f"{number} of {total}: {name}")
    return runs


def _changes(aligned: AlignedTally, seed: int) -> list[SupportChange]:
    """The second model against the first at every decoding."""
    names = aligned.tally.runs  # at each decoding first the model before, then the one after
    pairs = zip(names[::2], names[1::2], strict=True)
    return [support_change(aligned.tally, *pair, k=aligned.tally.head, seed=seed) for pair in pairs]


def _best(aligned: AlignedTally, decodings: Sequence[SamplingParams], seed: int) -> BestDecoding | None:
    counts, k_K = aligned.tally, np.array([aligned.tally.head])
    reach_PR = reach_PRK(counts, k_K)[:, :, 0]

    def redraw_of(rows_P: NDArray[np.bool_], before: int, after: int) -> Float:
        pair = counts.pair(counts.runs[2 * before], counts.runs[2 * after + 1]).rows(rows_P)
        redraw_3K = thinned_cells(pair, k_K, redraw=True).redraw_3K
        assert redraw_3K is not None
        return redraw_3K[:, 0]

    stratum_P = strata(counts.benchmark_P)
    return best_against_best(reach_PR[:, ::2], reach_PR[:, 1::2], decodings, stratum_P, seed, redraw_of=redraw_of)
