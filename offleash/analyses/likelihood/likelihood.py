"""Likelihood: score what is missing, and report how probable both models find what either of them, or others, wrote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from offleash.analyses.likelihood.cross_support import CrossSupport, Divergences, cross_support, leash
from offleash.analyses.likelihood.missing_scores import (
    ScoringEstimate,
    ScoringWork,
    check_models,
    chosen_of,
    prospect,
    score_missing,
)
from offleash.analyses.likelihood.models import SIDES, ModelOverride, RunModel, law_of, run_folder
from offleash.analyses.likelihood.perplexity_by_class import (
    CELLS,
    Style,
    TraceGroup,
    external_traces,
    groups,
    own_traces,
    styles,
)
from offleash.analyses.likelihood.samples import ScoredSamples, scored_samples
from offleash.analyses.likelihood.traces import TraceFile, TraceRequest, read_traces, sums_of, wanted_by
from offleash.comparing.compare import Comparison
from offleash.comparing.per_problem import ProblemDetail, detail
from offleash.comparing.question import Question
from offleash.comparing.runs import compare_inputs
from offleash.data.run import read_origin
from offleash.data.scores import Sums
from offleash.data.tally import Per
from offleash.errors import OffleashError
from offleash.loading.load import LoadOptions
from offleash.progress import Progress, silent

FIRST = 32  # samples of each problem, as the paper takes for its entropies


@dataclass(frozen=True)
class LikelihoodRequest:
    """What is to be scored and reported."""

    first: int = FIRST
    traces: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # of the traces
    scoring: bool = True  # False: report what stands
    laws: Mapping[str, ModelOverride] = field(default_factory=dict)  # before, after

    @property
    def drawn_otherwise(self) -> bool:
        """Whether the user says how runs were drawn."""
        return any(law.decoding is not None for law in self.laws.values())

    def __post_init__(self) -> None:
        if self.first < 1:
            raise OffleashError(f"--first is a number of samples a problem, 1 or more; found {self.first}.")


@dataclass(frozen=True)
class TraceFileSummary:
    """What became of the rows of a file of traces."""

    file: TraceFile
    scored: int  # by both models
    windowed: int  # of them: longer than a model's context
    reasons: Mapping[str, int]  # why others have no sums


@dataclass(frozen=True)
class Likelihood:
    """How probable both models find what either of them, and others, wrote."""

    comparison: Comparison
    laws: tuple[RunModel, RunModel]
    first: int
    work: ScoringWork
    scored: tuple[ScoredSamples, ScoredSamples]
    traces: TraceFileSummary | None
    groups: tuple[TraceGroup, ...]
    styles: tuple[Style, ...]
    cross: CrossSupport
    leash: Divergences
    detail: ProblemDetail

    @property
    def classes(self) -> dict[str, int]:
        """How many problems are of each class among the first k samples."""
        return {cell: int((self.detail.class_P == cell).sum()) for cell in CELLS}


def likelihood(
    before: str,
    after: str,
    asked: LikelihoodRequest | None = None,
    question: Question | None = None,
    verdicts: str | None = None,
    progress: Progress = silent,
    announce: Callable[[ScoringEstimate], None] = silent,
) -> Likelihood:
    """Score what is missing of two run folders and of external traces, and report."""
    what = asked or LikelihoodRequest()
    folders = [run_folder(argument) for argument in (before, after)]
    (one,), _ = compare_inputs([before, after], LoadOptions(verdicts=verdicts), question, progress=progress)
    if one.question.per is not Per.PROBLEM:
        raise OffleashError("Likelihood is told by problem; leave out --per.")
    told = detail(one)
    law_before, law_after = (
        law_of(side, run.name, folder, what.laws.get(side, ModelOverride()))
        for side, run, folder in zip(SIDES, (one.before, one.after), folders, strict=True)
    )
    laws = (law_before, law_after)
    if what.drawn_otherwise and all(read_origin(folder) is not None for folder in folders):
        raise OffleashError("Both runs say how they were drawn; leave out --decoding, --temperature and --top-p.")
    file = None if what.traces is None else read_traces(what.traces, _places(one), what.columns)
    wanted = [] if file is None else [wanted_by(law, file.traces, _own(one, r)) for r, law in enumerate(laws)]
    work = ScoringWork(notes=tuple(check_models(None, laws)))
    if what.scoring:
        progress("counting what is to be scored")
        ahead = prospect(chosen_of(one, told.class_P.tolist(), laws, what.first), laws, wanted)
        known = check_models(ahead, laws)
        announce(ahead)
        work = score_missing(ahead, laws, known, progress)
    progress("reading scores")
    scored = (scored_samples(told, 0, laws), scored_samples(told, 1, laws))
    if not any(part.frame.height for part in scored) and file is None:
        raise OffleashError(
            f"No sample of {one.before.name} or {one.after.name} is scored by both models; leave out --no-scoring."
        )
    external, read = _external(file, wanted)
    mine = [own_traces(part, law.run) for part, law in zip(scored, laws, strict=True)]
    heads = [own_traces(part, law.run, what.first) for part, law in zip(scored, laws, strict=True)]
    progress("adding up")
    return Likelihood(
        comparison=one,
        laws=laws,
        first=what.first,
        work=work,
        scored=scored,
        traces=read,
        groups=tuple(groups(told, pl.concat([external, *mine]))),
        styles=tuple(styles(told, pl.concat([external, *heads]))),
        cross=cross_support(told, scored, laws, what.first),
        leash=leash(told, scored, laws, what.first),
        detail=told,
    )


def _places(one: Comparison) -> dict[str, int]:
    """The rows of the problems by every id that a run gives them."""
    found = {problem: place for place, problem in enumerate(one.counted.problems["problem"].to_list())}
    for names in reversed(one.counted.own):
        found |= {
            own: found[problem] for own, problem in names.select("own", "problem").iter_rows() if problem in found
        }
    return found


def _own(one: Comparison, r: int) -> dict[int, str]:
    """A run's own ids of the problems, by row."""
    place = {problem: place for place, problem in enumerate(one.counted.problems["problem"].to_list())}
    rows = one.counted.own[r].select("own", "problem").iter_rows()
    return {place[problem]: own for own, problem in rows if problem in place}


def _external(file: TraceFile | None, wanted: list[TraceRequest]) -> tuple[pl.DataFrame, TraceFileSummary | None]:
    """The external traces with both models' sums, and what became of those that have none."""
    if file is None:
        return external_traces((), {side: [] for side in SIDES}), None
    sums: dict[str, list[Sums]] = {some.law.side: sums_of(some) for some in wanted}
    frame = external_traces(file.traces, sums)
    reasons: dict[str, int] = {}
    windowed = 0
    for pair in zip(sums["before"], sums["after"], strict=True):
        bad = next((one for one in pair if one.logprob_raw is None or not one.tokens), None)
        if bad is not None:
            reason = bad.reason or "it has no tokens"
            reasons[reason] = reasons.get(reason, 0) + 1
        else:
            windowed += any((one.windows or 1) > 1 for one in pair)
    return frame, TraceFileSummary(file, frame.height, windowed, reasons)
