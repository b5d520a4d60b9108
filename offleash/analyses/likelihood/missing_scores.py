"""Score what a likelihood report needs and does not find: samples of both runs, and traces, under both models."""

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

KEY = ["problem", "index"]


@dataclass(frozen=True)
class SampleSelection:
    """Which samples of a run are scored: the first of each problem, and the right ones of problems that one reached."""

    law: RunModel  # of the run
    verifier: str | None
    first: int
    problems: frozenset[str]  # E and S, by the run's own ids

    def selections(self) -> list[Selection]:
        """The two parts; the verdict chooses nothing in the first."""
        right = [Selection(correct=True, problems=self.problems)] if self.problems and self.verifier else []
        return [Selection(first=self.first), *right]

    def keys(self) -> pl.DataFrame:
        """The samples that are chosen."""
        samples = scan_shards(self.law.folder / "samples", SAMPLES).select(KEY)
        parts = [samples.filter(pl.col("index") < self.first)]
        verdicts = open_run(self.law.folder, verifier=self.verifier).verdicts
        if self.problems and self.verifier and verdicts is not None:
            right = (pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value).fill_null(False)
            here = pl.col("problem").is_in(list(self.problems))
            parts.append(samples.filter(here).join(verdicts.filter(right & here).select(KEY), on=KEY, how="semi"))
        return pl.concat(parts).unique().collect(engine="streaming")


@dataclass(frozen=True)
class ScoringJob:
    """The samples of one run that one model is to score."""

    chosen: SampleSelection
    by: RunModel
    named: ScoreFolder
    wanted: int
    missing: int


@dataclass(frozen=True)
class ScoringEstimate:
    """What is about to be scored."""

    steps: tuple[ScoringJob, ...]
    traces: dict[str, list[Trace]] = field(default_factory=dict)  # before, after: those that the model has not read

    @property
    def missing(self) -> int:
        return sum(step.missing for step in self.steps) + sum(map(len, self.traces.values()))

    def needs(self, law: RunModel) -> bool:
        """Whether a law's model has anything to score."""
        return bool(self.traces.get(law.side)) or any(step.by is law and step.missing for step in self.steps)


@dataclass(frozen=True)
class ScoringWork:
    """What was scored, in how many seconds, and what a reader should know of it."""

    samples: int = 0
    traces: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


def chosen_of(
    one: Comparison, class_P: Sequence[str], laws: tuple[RunModel, RunModel], first: int
) -> list[SampleSelection]:
    """What is chosen of both runs."""
    cells = pl.DataFrame({"problem": one.counted.problems["problem"], "cell": list(class_P)})
    crossed = cells.filter(pl.col("cell").is_in(["E", "S"]))
    out = []
    for law, run, names in zip(laws, (one.before, one.after), one.counted.own, strict=True):
        if not any((law.folder / "samples").glob(SHARD)):
            raise OffleashError(
                f"{law.folder} keeps no texts of samples, so there is nothing to score; import its logs with --texts."
            )
        own = frozenset(names.join(crossed, on="problem")["own"].to_list())
        out.append(SampleSelection(law, run.verifier, first, own))
    return out


def prospect(
    chosen: Sequence[SampleSelection], laws: tuple[RunModel, RunModel], wanted: Sequence[TraceRequest]
) -> ScoringEstimate:
    """What is missing, run by run and model by model."""
    steps = []
    for some in chosen:
        keys, folder = some.keys(), some.law.folder
        for by in laws:
            named = scores_under(folder, by)
            there = scan_scores(folder, named.name).select(KEY) if named.name in scored_models(folder) else None
            left = keys if there is None else keys.join(there.collect(engine="streaming"), on=KEY, how="anti")
            steps.append(ScoringJob(some, by, named, keys.height, left.height))
    return ScoringEstimate(tuple(steps), {one.law.side: missing(one) for one in wanted})


def check_models(ahead: ScoringEstimate | None, laws: tuple[RunModel, RunModel]) -> list[str]:
    """Refuse what can be told of both models before the first is loaded; notes on weights that a user has named."""
    notes = []
    for law in laws:
        needed = ahead is not None and ahead.needs(law)
        if needed:
            check_model(law.model)
        if needed or law.given:
            notes.append(law.check())
    return [note for note in notes if note]


def score_missing(
    ahead: ScoringEstimate, laws: tuple[RunModel, RunModel], known: Sequence[str], progress: Progress
) -> ScoringWork:
    """Score what is missing; each model is loaded once, and only where it has something to score.

    `known` are notes of `check_models`, which comes first.
    """
    started, samples, traces, notes = time.monotonic(), 0, 0, list(known)
    for side, law in zip(SIDES, laws, strict=True):
        steps = [step for step in ahead.steps if step.by is law and step.missing]
        unread = ahead.traces.get(side, [])
        if not ahead.needs(law):
            continue
        progress(f"loading {law.model}")
        with closing(open_sampler(law.model)) as sampler:  # first: it says what is not installed
            from offleash.samplers.huggingface.scoring import Scorer

            scorer = Scorer.of(sampler)
            for step in steps:
                scoring = Scoring(step.named.model, law.decoding, step.named.name, step.chosen.verifier)
                for selection in step.chosen.selections():
                    done = score_run(step.chosen.law.folder, scorer, scoring, progress, selection)
                    samples += done.new
                if done.other_template and step.chosen.law.side != side:
                    notes.append(f"prompts become another text for {law.model} than for the model that drew "
                                 f"{step.chosen.law.run} (chat template)")  # fmt: skip
            if unread:
                score_traces(law, unread, scorer, progress)
                traces += len(unread)
    return ScoringWork(samples, traces, time.monotonic() - started, tuple(dict.fromkeys(notes)))
