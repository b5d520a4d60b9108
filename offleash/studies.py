"""A study in one call: draw from two models, verify, compare. One model is in memory at a time.

Both runs can be resumed. At the end of the file: the expected cost and the result, as text and JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

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
from offleash.render.json import Json, encode
from offleash.render.numbers import many
from offleash.reporting.comparison import SCHEMA, document
from offleash.samplers.registry import Model
from offleash.samplers.sampler import SamplingParams, decoding_text
from offleash.samplers.seeds import seed_of
from offleash.verifying.cases import before_drawing, problem_cases, refuse_unreadable
from offleash.verifying.verify import VerificationResult, VerifyOptions, open_judge, verify_with

RUN_FOLDERS = ("base", "rl")  # the folders of the two runs


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
    models: tuple[Model, Model]  # base, RL
    decoding: SamplingParams
    k: int | str  # a number, or 'paper'
    until: int = 0
    seed: int = 0

    def cost(self) -> Cost:
        k = DrawRequest("", budget(self.k, self.problems), self.until, self.seed).k
        least = min(self.until or k, k)
        N = self.problems.height
        return Cost(N, k, self.until, 2 * N * least, 2 * N * k, self.decoding.max_tokens)

    def seeds(self) -> tuple[int, int]:
        """Seeds of the two draws: equal, since samples hash the model too; different for two draws of one model."""
        same = str(self.models[0]) == str(self.models[1])
        return self.seed, seed_of(self.seed, "second") >> 1 if same else self.seed  # 63 bits: JSON readers are signed


@dataclass(frozen=True)
class StudyRuns:
    """Both runs and their comparison, which is None while samples are missing."""

    folder: Path
    drawn: tuple[DrawSummary, ...]
    verified: tuple[VerificationResult, ...]
    comparison: Comparison | None
    inputs: ComparisonInputs | None = None  # of the comparison


def study(
    request: StudyRequest,
    folder: Path,
    verifying: VerifyOptions | None = None,
    question: Question | None = None,
    progress: Progress = silent,
    announce: Callable[[DrawEstimate], None] = silent,
    drawn: Callable[[DrawSummary], None] = lambda _: None,
) -> StudyRuns:
    """Draw from both models into folder/base and folder/rl, verify and compare; the same call again resumes.

    Args:
        request: problems, models, decoding and budget.
        folder: the study's folder; the two run folders are in it.
        verifying: verifier and workers; None: the defaults.
        question: settings of the comparison; None: the defaults.
        progress: called with a line of text at every step.
        announce: called with the estimate of each draw before it starts.
        drawn: called with the summary of each run once it is drawn.

    Returns:
        Both runs and their comparison, which is None while samples are missing.
    """
    check_study(request, folder, verifying, progress)
    runs: list[DrawSummary] = []
    for name, model, seed in zip(RUN_FOLDERS, request.models, request.seeds(), strict=True):
        settings = (request.problems, model, request.decoding, request.k, request.until, seed)
        runs.append(draw_model(folder / name, *settings, verifying, progress, announce))
        drawn(runs[-1])
    # a problem without any sample is left out of a comparison; one with some missing would count as not reached
    if any(run.stuck > run.without_samples or not run.samples for run in runs):
        return StudyRuns(folder, tuple(runs), (), None)
    judged = () if request.until else _verify_runs(folder, verifying or VerifyOptions(), progress)
    paths = [f"{name}={folder / name}" for name in RUN_FOLDERS]
    # an earlier study may have left verdicts of another verifier in these folders
    inputs = ComparisonInputs(paths, LoadOptions(verdicts=judged[0].verifier if judged else runs[0].verifier))
    comparisons, _ = inputs.compare(question, progress)
    return StudyRuns(folder, tuple(runs), judged, comparisons[0], inputs)


def check_study(
    request: StudyRequest, folder: Path, verifying: VerifyOptions | None = None, progress: Progress = silent
) -> None:
    """Refuse before the first sample what cannot work: a folder, a model, or a gold answer that cannot be read."""
    if folder.is_file():
        raise OffleashError(f"{folder} is a file, but a study needs a folder. Choose another name with -o.")
    if is_run(folder):
        raise OffleashError(
            f"{folder} is a run folder, but a study is a folder of two runs. Choose another name with -o."
        )
    for name, model, seed in zip(RUN_FOLDERS, request.models, request.seeds(), strict=True):
        check_draw(folder / name, request.problems, model, request.decoding, request.k, request.until, seed)
    for model in {str(model): model for model in request.models}.values():
        progress(f"checking {model}")
        check_model(model)
    options, where = verifying or VerifyOptions(), "this study"
    cases = problem_cases(with_prompts(request.problems), options.verifier, before_drawing(options.extraction), where)
    progress("reading gold answers")
    with open_judge(options) as judge:
        refuse_unreadable(judge, cases, where)


def _verify_runs(folder: Path, options: VerifyOptions, progress: Progress) -> tuple[VerificationResult, ...]:
    with open_judge(options, progress) as judge:
        return tuple(verify_with(judge, folder / name, options, progress) for name in RUN_FOLDERS)


def cost_text(request: StudyRequest, cost: Cost) -> str:
    """What a study may cost, before anything is loaded."""
    until_text = (
        f"{many(cost.least, 'sample')} if all are correct, {cost.most:,} if none are: "
        f"sampling of a problem stops after {many(cost.until, 'correct sample')}"
        if cost.until
        else many(cost.most, "sample")
    )
    return (
        f"Study of {request.models[0]} and {request.models[1]} on {many(cost.problems, 'problem')}, k = {cost.k:,}, "
        f"{decoding_text(request.decoding)}.\n  Cost: {until_text}; at most {cost.most * cost.tokens:,} tokens."
    )


def study_document(study_runs: StudyRuns, page: Path | None = None) -> Json:
    """The JSON of `compare` and of the two draws; without the comparison while samples are missing."""
    comparison_json = document([study_runs.comparison]) if study_runs.comparison is not None else {"schema": SCHEMA}
    drawn = [summary_document(run) for run in study_runs.drawn]
    whole: Json = comparison_json | encode({"drawn": drawn, "folder": study_runs.folder, "report": page})
    return whole
