"""A study in one call: draw from a base and one or more models after RL, verify, compare each with the base.

One model is in memory at a time, and every run can be resumed. At the end of the file: the expected cost and the
result, as text and JSON.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.analyses.sweep.runs import label_candidates
from offleash.comparing.checkpoints import CheckpointUnion
from offleash.comparing.compare import Comparison
from offleash.comparing.question import Question
from offleash.comparing.runs import ComparisonInputs
from offleash.data.run_folder import is_run
from offleash.drawing.draw import (
    DrawEstimate,
    DrawRequest,
    DrawSummary,
    budget,
    check_draw,
    check_model,
    draw_model,
)
from offleash.drawing.report import summary_document
from offleash.drawing.resume import with_prompts
from offleash.errors import OffleashError
from offleash.loading.load import LoadOptions
from offleash.progress import Progress, silent
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import many
from offleash.reporting.comparison import document
from offleash.samplers.registry import Model
from offleash.samplers.sampler import SamplingParams, decoding_text
from offleash.samplers.seeds import seed_of
from offleash.verifying.cases import before_drawing, problem_cases, refuse_unreadable
from offleash.verifying.verify import VerificationResult, VerifyOptions, open_judge, verify_with

BASE, RL = "base", "rl"  # the folders of the runs, where models have no names of their own


@dataclass(frozen=True)
class Cost:
    """What a study may cost, known before it starts; the fields are the JSON of a dry run."""

    problems: int
    k: int
    until: int
    least: int  # samples drawn if every one is correct
    most: int  # samples drawn if none is correct
    tokens: int  # per sample, at most


@dataclass(frozen=True)
class StudyRequest:
    """What to compare."""

    problems: pl.DataFrame
    models: tuple[Model, ...]  # the base, then one or more after RL
    decoding: SamplingParams
    k: int | str  # a number, or 'paper'
    until: int = 0
    seed: int = 0
    prompt: str | None = None  # the template that made the problems' prompts

    def cost(self) -> Cost:
        k = DrawRequest("", budget(self.k, self.problems), self.until, self.seed).k
        min_samples = min(self.until or k, k)
        N = self.problems.height
        return Cost(
            N, k, self.until, len(self.models) * N * min_samples, len(self.models) * N * k, self.decoding.max_tokens
        )

    def seeds(self) -> tuple[int, ...]:
        """Seeds of the draws: equal, since samples hash the model too; different for two draws of one model."""
        seeds, drawn = [], Counter[str]()
        for model in map(str, self.models):
            again = ("second", *([drawn[model]] if drawn[model] > 1 else []))
            seeds.append(seed_of(self.seed, *again) >> 1 if drawn[model] else self.seed)  # 63 bits: JSON is signed
            drawn[model] += 1
        return tuple(seeds)

    def names(self) -> tuple[str, ...]:
        """The folders of the runs: NAME of NAME=MODEL, else base and rl; of several after RL, parts of their paths."""
        base, *others = self.models
        names = [base.label or BASE]
        for model in others:
            candidates = iter([RL]) if len(others) == 1 else label_candidates(model)
            name = model.label or next(name for name in candidates if name not in names)
            if name in names:
                raise OffleashError(
                    f"Two models in the study are called {name!r}. Give one another name: NAME={model}."
                )
            names.append(name)
        return tuple(names)


@dataclass(frozen=True)
class StudyRuns:
    """All runs, and the comparisons of the base with each of the others: none while samples are missing."""

    folder: Path
    drawn: tuple[DrawSummary, ...]
    verified: tuple[VerificationResult, ...]
    comparisons: tuple[Comparison, ...] = ()
    inputs: ComparisonInputs | None = None  # of the comparisons
    union: CheckpointUnion | None = None  # what several models after RL reach together


def study(
    request: StudyRequest,
    folder: Path,
    verifying: VerifyOptions | None = None,
    question: Question | None = None,
    progress: Progress = silent,
    announce: Callable[[DrawEstimate], None] = silent,
    drawn: Callable[[DrawSummary], None] = lambda _: None,
) -> StudyRuns:
    """Draw from every model into a folder of its own, verify and compare; the same call again resumes.

    Args:
        request: problems, models, decoding and budget.
        folder: the study's folder; the run folders are in it (`StudyRequest.names`).
        verifying: verifier and workers; None: the defaults.
        question: settings of the comparison; None: the defaults.
        progress: called with a line of text at every step.
        announce: called with the estimate of each draw before it starts.
        drawn: called with the summary of each run once it is drawn.

    Returns:
        All runs and the comparisons, of which there are none while samples are missing.
    """
    check_study(request, folder, verifying, progress)
    runs: list[DrawSummary] = []
    names = request.names()
    for name, model, seed in zip(names, request.models, request.seeds(), strict=True):
        settings = (request.problems, model, request.decoding, request.k, request.until, seed)
        runs.append(draw_model(folder / name, *settings, verifying, progress, announce, request.prompt))
        drawn(runs[-1])
    # a problem without any sample is left out of a comparison; one with some missing would count as not reached
    if any(run.stuck > run.without_samples or not run.samples for run in runs):
        return StudyRuns(folder, tuple(runs), ())
    judged = () if request.until else _verify_runs(folder, names, verifying or VerifyOptions(), progress)
    paths = [f"{name}={folder / name}" for name in names]
    # an earlier study may have left verdicts of another verifier in these folders
    inputs = ComparisonInputs(paths, LoadOptions(verdicts=judged[0].verifier if judged else runs[0].verifier))
    comparisons, union = inputs.compare(question, progress)
    return StudyRuns(folder, tuple(runs), judged, tuple(comparisons), inputs, union)


def check_study(
    request: StudyRequest,
    folder: Path,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    engines: bool = True,
    problems: bool = True,
) -> None:
    """Refuse before the first sample what cannot work: a folder, a model, or a gold answer that cannot be read.

    Args:
        request: problems, models, decoding and budget.
        folder: the study's folder.
        verifying: verifier and workers.
        progress: called with a line of text at every step.
        engines: whether servers are asked and engines looked for; a plan for another machine needs neither.
        problems: whether the problems are known, so that their gold answers can be checked.
    """
    if folder.is_file():
        raise OffleashError(f"{folder} is a file, but a study needs a folder. Choose another name with -o.")
    if is_run(folder):
        raise OffleashError(f"{folder} is a run folder, but a study is a folder of runs. Choose another name with -o.")
    for name, model, seed in zip(request.names(), request.models, request.seeds(), strict=True):
        settings = (request.problems, model, request.decoding, request.k, request.until, seed)
        check_draw(folder / name, *settings, request.prompt)
    for model in {str(model): model for model in request.models}.values():
        progress(f"checking {model}")
        check_model(model, engines)
    if not problems:
        return
    options, where = verifying or VerifyOptions(), "this study"
    read = before_drawing(options.extraction)
    cases = problem_cases(with_prompts(request.problems), options.verifier, read, where)
    progress("reading gold answers")
    with open_judge(options) as judge:
        refuse_unreadable(judge, cases, where)


def _verify_runs(
    folder: Path, names: Sequence[str], options: VerifyOptions, progress: Progress
) -> tuple[VerificationResult, ...]:
    with open_judge(options, progress) as judge:
        return tuple(verify_with(judge, folder / name, options, progress) for name in names)


def cost_text(request: StudyRequest, cost: Cost) -> str:
    """What a study may cost, before anything is loaded."""
    until_text = (
        f"{many(cost.least, 'sample')} if all are correct, {cost.most:,} if none are: "
        f"sampling of a problem stops after {many(cost.until, 'correct sample')}"
        if cost.until
        else many(cost.most, "sample")
    )
    *first, last = map(str, request.models)
    return (
        f"Study of {', '.join(first)} and {last} on {many(cost.problems, 'problem')}, k = {cost.k:,}, "
        f"{decoding_text(request.decoding)}.\n  Cost: {until_text}; at most {cost.most * cost.tokens:,} tokens."
    )


def total_cost(costs: Sequence[Cost]) -> Cost:
    """The cost of several studies: sums, and as `tokens` the largest number of all samples together."""
    return Cost(
        problems=sum(cost.problems for cost in costs),
        k=max(cost.k for cost in costs),
        until=max(cost.until for cost in costs),
        least=sum(cost.least for cost in costs),
        most=sum(cost.most for cost in costs),
        tokens=sum(cost.most * cost.tokens for cost in costs),
    )


def studies_document(folder: Path | None, cost: Cost, documents: Mapping[str, Json]) -> Json:
    """The JSON of several studies: each as it would be alone, under its name, and the cost of all."""
    whole: Json = encode({"schema": SCHEMA, "folder": folder, "samples_at_most": cost.most})
    return whole | {"tokens_at_most": cost.tokens, "studies": dict(documents)}


def study_document(study_runs: StudyRuns, page: Path | None = None) -> Json:
    """The JSON of `compare` and of the draws; without the comparison while samples are missing."""
    compared, union = study_runs.comparisons, study_runs.union
    comparison_json = document(compared, union) if compared else {"schema": SCHEMA}
    drawn = [summary_document(run) for run in study_runs.drawn]
    whole: Json = comparison_json | encode({"drawn": drawn, "folder": study_runs.folder, "report": page})
    return whole
