"""Score what a likelihood report needs and is not stored yet: samples of both runs, and traces, under both models."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import polars as pl

from offleash.analyses.likelihood.models import SIDES, RunModel, ScoreFolder, scores_under
from offleash.analyses.likelihood.traces import TraceRequest, missing, score_traces
from offleash.comparing.compare import Comparison
from offleash.data.run_folder import open_run
from offleash.data.scores import Trace, scan_scores, scored_models
from offleash.data.shards import SHARD, scan_shards
from offleash.data.tables import SAMPLES
from offleash.data.verdict import Verdict
from offleash.drawing.draw import check_model
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.samplers.registry import open_sampler
from offleash.scoring.score import Scoring, score_run
from offleash.scoring.shards import Selection

KEY = ["problem", "index"]  # the identity of a sample


@dataclass(frozen=True)
class SampleSelection:
    """Which samples of a run are scored: the first of each problem, and all correct ones on E and S problems."""

    run_model: RunModel  # of the run
    verifier: str | None
    first: int
    problems: frozenset[str]  # of classes E and S, by the run's own ids

    def selections(self) -> list[Selection]:
        """The two parts. The first is scored whatever the verdicts, so that means over it are of a fair sample."""
        right = [Selection(correct=True, problems=self.problems)] if self.problems and self.verifier else []
        return [Selection(first=self.first), *right]

    def keys(self) -> pl.DataFrame:
        """The keys (problem, index) of all selected samples."""
        samples = scan_shards(self.run_model.folder / "samples", SAMPLES).select(KEY)
        parts = [samples.filter(pl.col("index") < self.first)]
        verdicts = open_run(self.run_model.folder, verifier=self.verifier).verdicts
        if self.problems and self.verifier and verdicts is not None:
            right = (pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value).fill_null(False)
            in_problems = pl.col("problem").is_in(list(self.problems))
            parts.append(
                samples.filter(in_problems).join(verdicts.filter(right & in_problems).select(KEY), on=KEY, how="semi")
            )
        return pl.concat(parts).unique().collect(engine="streaming")


@dataclass(frozen=True)
class ScoringJob:
    """The samples of one run that one model has to score."""

    chosen: SampleSelection
    by: RunModel  # the model that scores
    named: ScoreFolder  # where its scores are stored
    wanted: int
    missing: int  # of the wanted, those without a stored score


@dataclass(frozen=True)
class ScoringEstimate:
    """What is about to be scored."""

    steps: tuple[ScoringJob, ...]
    traces: dict[str, list[Trace]] = field(default_factory=dict)  # before, after: those that its model has not scored

    @property
    def missing(self) -> int:
        return sum(step.missing for step in self.steps) + sum(map(len, self.traces.values()))

    def needs(self, run_model: RunModel) -> bool:
        """Whether a run's model has anything to score, that is whether it has to be loaded."""
        return bool(self.traces.get(run_model.side)) or any(
            step.by is run_model and step.missing for step in self.steps
        )


@dataclass(frozen=True)
class ScoringWork:
    """What was scored, in how many seconds, and notes for the reader."""

    samples: int = 0
    traces: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


def select_samples(
    comparison: Comparison, class_P: Sequence[str], run_models: tuple[RunModel, RunModel], first: int
) -> list[SampleSelection]:
    """The selection of each run; a run without texts is refused."""
    cells = pl.DataFrame({"problem": comparison.counted.problems["problem"], "cell": list(class_P)})
    changed_cells = cells.filter(pl.col("cell").is_in(["E", "S"]))
    selections = []
    for run_model, run, names in zip(
        run_models, (comparison.before, comparison.after), comparison.counted.own, strict=True
    ):
        if not any((run_model.folder / "samples").glob(SHARD)):
            raise OffleashError(
                f"{run_model.folder} has no sample texts, so there is nothing to score. Import its logs with --texts."
            )
        own_ids = frozenset(names.join(changed_cells, on="problem")["own"].to_list())
        selections.append(SampleSelection(run_model, run.verifier, first, own_ids))
    return selections


def estimate_scoring(
    chosen: Sequence[SampleSelection], run_models: tuple[RunModel, RunModel], requests: Sequence[TraceRequest]
) -> ScoringEstimate:
    """What is missing: both models score both runs, so four jobs, and the traces under both."""
    steps = []
    for selection in chosen:
        keys, folder = selection.keys(), selection.run_model.folder
        for scoring_model in run_models:
            named = scores_under(folder, scoring_model)
            stored_keys = scan_scores(folder, named.name).select(KEY) if named.name in scored_models(folder) else None
            missing_keys = (
                keys if stored_keys is None else keys.join(stored_keys.collect(engine="streaming"), on=KEY, how="anti")
            )
            steps.append(ScoringJob(selection, scoring_model, named, keys.height, missing_keys.height))
    return ScoringEstimate(tuple(steps), {request.run_model.side: missing(request) for request in requests})


def check_models(estimate: ScoringEstimate | None, run_models: tuple[RunModel, RunModel]) -> list[str]:
    """Refuse models that cannot be used before the first is loaded; returns notes on weights that a user has named.

    Loading and scoring may take hours: what is wrong with the second model has to be known before the first begins.
    """
    notes = []
    for run_model in run_models:
        needed = estimate is not None and estimate.needs(run_model)
        if needed:
            check_model(run_model.model)
        if needed or run_model.given:
            notes.append(run_model.check())
    return [note for note in notes if note]


def score_missing(
    estimate: ScoringEstimate, run_models: tuple[RunModel, RunModel], known: Sequence[str], progress: Progress
) -> ScoringWork:
    """Score what is missing; each model is loaded once, and only where it has something to score.

    Args:
        estimate: what is missing, from `estimate_scoring`.
        run_models: model and decoding of both runs.
        known: the notes of `check_models`, which has to come first.
        progress: called with a line of text as work is done.
    """
    started, samples, traces, notes = time.monotonic(), 0, 0, list(known)
    for side, run_model in zip(SIDES, run_models, strict=True):
        steps = [step for step in estimate.steps if step.by is run_model and step.missing]
        unread = estimate.traces.get(side, [])
        if not estimate.needs(run_model):
            continue
        progress(f"loading {run_model.model}")
        with closing(
            open_sampler(run_model.model)
        ) as sampler:  # before the import below: it says what is not installed
            from offleash.samplers.huggingface.scoring import Scorer

            scorer = Scorer.for_sampler(sampler)
            for step in steps:
                scoring = Scoring(step.named.model, run_model.decoding, step.named.name, step.chosen.verifier)
                for selection in step.chosen.selections():
                    done = score_run(step.chosen.run_model.folder, scorer, scoring, progress, selection)
                    samples += done.new
                if done.other_template and step.chosen.run_model.side != side:
                    notes.append(
                        f"the chat template of {run_model.model} formats prompts differently from the one that drew "
                        f"{step.chosen.run_model.run}"
                    )
            if unread:
                score_traces(run_model, unread, scorer, progress)
                traces += len(unread)
    return ScoringWork(samples, traces, time.monotonic() - started, tuple(dict.fromkeys(notes)))
