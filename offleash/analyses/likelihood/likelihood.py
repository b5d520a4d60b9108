"""Likelihood: score what is missing, and report how likely each model finds the samples of both and others' traces.

The order of work: load and compare the runs, find the law of each (models.py), count and announce what is to be scored
(missing_scores.py), score it, and compute the tables (perplexity_by_class.py) and cross-support (cross_support.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from offleash.analyses.likelihood.cross_support import CrossSupport, Divergences, cross_support, leash
from offleash.analyses.likelihood.missing_scores import (
    ScoringEstimate,
    ScoringWork,
    check_models,
    estimate_scoring,
    score_missing,
    select_samples,
)
from offleash.analyses.likelihood.models import SIDES, ModelOverride, RunModel, run_folder, run_model_of
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
from offleash.analyses.likelihood.traces import TraceFile, TraceRequest, read_traces, sums_of, trace_request
from offleash.comparing.compare import Comparison
from offleash.comparing.per_problem import ProblemDetail, detail
from offleash.comparing.question import Question
from offleash.comparing.runs import compare_inputs
from offleash.data.run import read_origin
from offleash.data.scores import ScoredSample
from offleash.data.tally import Per
from offleash.errors import OffleashError
from offleash.loading.load import LoadOptions
from offleash.progress import Progress, silent

PAPER_SAMPLES = 32  # samples per problem, as the paper takes for its entropies (Table 5)


@dataclass(frozen=True)
class LikelihoodRequest:
    """What is to be scored and reported."""

    first: int = PAPER_SAMPLES
    traces: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # of the traces
    scoring: bool = True  # False: report from the stored scores
    overrides: Mapping[str, ModelOverride] = field(
        default_factory=dict
    )  # before, after: what the user says about a run

    @property
    def states_decoding(self) -> bool:
        """Whether the user states the decoding of a run (needed for imported runs only)."""
        return any(override.decoding is not None for override in self.overrides.values())

    def __post_init__(self) -> None:
        if self.first < 1:
            raise OffleashError(f"--first is the number of samples per problem, 1 or more; found {self.first}.")


@dataclass(frozen=True)
class TraceFileSummary:
    """How many traces of a file were scored, and why the others were not."""

    file: TraceFile
    scored: int  # by both models
    windowed: int  # of them: longer than a model's context
    reasons: Mapping[str, int]  # why others have no scores, and how many


@dataclass(frozen=True)
class Likelihood:
    """How likely each model finds the samples of both, and the traces of others."""

    comparison: Comparison
    run_models: tuple[RunModel, RunModel]
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
        return {cell: int((self.detail.class_k_P == cell).sum()) for cell in CELLS}


def likelihood(
    before: str,
    after: str,
    request: LikelihoodRequest | None = None,
    question: Question | None = None,
    verdicts: str | None = None,
    progress: Progress = silent,
    announce: Callable[[ScoringEstimate], None] = silent,
) -> Likelihood:
    """Score what is missing of two run folders and of external traces, and report.

    Args:
        before: the run folder of the model before training, as PATH or NAME=PATH.
        after: the run folder of the model after.
        request: what to score and report; None: the defaults.
        question: k, replicates and seed of the comparison.
        verdicts: the verifier whose verdicts count; None: the run's own.
        progress: called with a line of text as work is done.
        announce: called once, with what is to be scored, before a model is loaded.
    """
    request = request or LikelihoodRequest()
    folders = [run_folder(argument) for argument in (before, after)]
    (comparison,), _ = compare_inputs([before, after], LoadOptions(verdicts=verdicts), question, progress=progress)
    if comparison.question.per is not Per.PROBLEM:
        raise OffleashError("Likelihood is reported per problem. Leave out --per.")
    problems = detail(comparison)
    model_before, model_after = (
        run_model_of(side, run.name, folder, request.overrides.get(side, ModelOverride()))
        for side, run, folder in zip(SIDES, (comparison.before, comparison.after), folders, strict=True)
    )
    run_models = (model_before, model_after)
    if request.states_decoding and all(read_origin(folder) is not None for folder in folders):
        raise OffleashError("Both runs record their decoding. Leave out --decoding, --temperature and --top-p.")
    file = None if request.traces is None else read_traces(request.traces, _tally_rows(comparison), request.columns)
    requests = (
        []
        if file is None
        else [
            trace_request(run_model, file.traces, _own_samples(comparison, r)) for r, run_model in enumerate(run_models)
        ]
    )
    # Without scoring nothing is loaded, but a model that the user named is still checked against the run's.
    work = ScoringWork(notes=tuple(check_models(None, run_models)))
    if request.scoring:
        progress("counting missing scores")
        estimate = estimate_scoring(
            select_samples(comparison, problems.class_k_P.tolist(), run_models, request.first), run_models, requests
        )
        known = check_models(estimate, run_models)
        announce(estimate)
        work = score_missing(estimate, run_models, known, progress)
    progress("reading scores")
    scored = (scored_samples(problems, 0, run_models), scored_samples(problems, 1, run_models))
    if not any(part.frame.height for part in scored) and file is None:
        raise OffleashError(
            f"No sample of {comparison.before.name} or {comparison.after.name} is scored by both models. "
            "Leave out --no-scoring."
        )
    external, summary = _external_traces(file, requests)
    own_samples = [own_traces(part, run_model.run) for part, run_model in zip(scored, run_models, strict=True)]
    first_samples = [
        own_traces(part, run_model.run, request.first) for part, run_model in zip(scored, run_models, strict=True)
    ]
    progress("computing the tables")
    return Likelihood(
        comparison=comparison,
        run_models=run_models,
        first=request.first,
        work=work,
        scored=scored,
        traces=summary,
        groups=tuple(groups(problems, pl.concat([external, *own_samples]))),
        styles=tuple(styles(problems, pl.concat([external, *first_samples]))),
        cross=cross_support(problems, scored, run_models, request.first),
        leash=leash(problems, scored, run_models, request.first),
        detail=problems,
    )


def _tally_rows(comparison: Comparison) -> dict[str, int]:
    """The rows of the problems by every id that a run gives them: traces may name a problem as either run does.

    Where the runs use one id for different problems, the id of the run before counts.
    """
    rows = {problem: row for row, problem in enumerate(comparison.counted.problems["problem"].to_list())}
    for names in reversed(comparison.counted.own):
        rows |= {
            own_id: rows[problem] for own_id, problem in names.select("own", "problem").iter_rows() if problem in rows
        }
    return rows


def _own_samples(comparison: Comparison, r: int) -> dict[int, str]:
    """A run's own ids of the problems, by row of the tally."""
    rows = {problem: row for row, problem in enumerate(comparison.counted.problems["problem"].to_list())}
    ids = comparison.counted.own[r].select("own", "problem").iter_rows()
    return {rows[problem]: own_id for own_id, problem in ids if problem in rows}


def _external_traces(
    file: TraceFile | None, requests: list[TraceRequest]
) -> tuple[pl.DataFrame, TraceFileSummary | None]:
    """The external traces with both models' scores, and how many have none, and why."""
    if file is None:
        return external_traces((), {side: [] for side in SIDES}), None
    sums: dict[str, list[ScoredSample]] = {request.run_model.side: sums_of(request) for request in requests}
    frame = external_traces(file.traces, sums)
    reasons: dict[str, int] = {}
    windowed = 0
    for pair in zip(sums["before"], sums["after"], strict=True):
        missing = next((scores for scores in pair if scores.logprob_raw is None or not scores.tokens), None)
        if missing is not None:
            reason = missing.reason or "it has no tokens"
            reasons[reason] = reasons.get(reason, 0) + 1
        else:
            windowed += any((scores.windows or 1) > 1 for scores in pair)
    return frame, TraceFileSummary(file, frame.height, windowed, reasons)
