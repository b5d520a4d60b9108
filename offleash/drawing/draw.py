"""Drawing samples of every problem from a model into a run folder, each exactly once, resumable after a kill.

`draw` puts together what the other files here do; `draw_model` checks what it is given before it loads the model.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from offleash.data.run import Budget, Origin
from offleash.data.run_folder import RunFolder, claim_run, is_run, refuse_other_folder
from offleash.drawing.backlog import Backlog
from offleash.drawing.loop import DrawLoop, DrawProgress, Verification
from offleash.drawing.resume import (
    StoredSamples,
    drop_orphans,
    open_for_drawing,
    origin_of,
    read_stored_samples,
    refuse_other_options,
    with_prompts,
)
from offleash.drawing.schedule import Schedule, Stage
from offleash.drawing.workers import JudgeQueue, SamplerWorkers
from offleash.errors import OffleashError
from offleash.options import MAX_SAMPLES_PER_PROBLEM, PAPER
from offleash.problems.benchmarks import GYM, PROBLEMS
from offleash.progress import Progress, peak_memory_mb, silent
from offleash.samplers.huggingface.loading import check_folder, settings_of
from offleash.samplers.registry import EXTRAS, Model, open_sampler
from offleash.samplers.sampler import Sampler, SamplingParams
from offleash.verifying.cases import CasesByProblem, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, extraction_of, open_judge, stored_name, verify, verify_shards


@dataclass(frozen=True)
class DrawRequest:
    """What is to be drawn, with options checked; the problems and the decoding are given beside it."""

    model: str  # as the user names it: the seeds of all samples depend on it
    k: int
    until: int = 0  # stop a problem at this many successes; 0: draw all k
    seed: int = 0
    prompt: str | None = None  # the template that made the prompts; None: each problem's own

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_SAMPLES_PER_PROBLEM:
            raise OffleashError(f"k must be 1 to {MAX_SAMPLES_PER_PROBLEM:,} samples per problem; found -k {self.k}.")
        if self.until < 0:
            raise OffleashError(f"--until must be 1 success or more; found --until {self.until}.")
        if self.seed < 0:
            raise OffleashError(f"The random seed must be 0 or more; found --seed {self.seed}.")


@dataclass(frozen=True)
class DrawEstimate:
    """What a draw is about to do, known before the first request."""

    folder: Path
    drawing: DrawRequest
    decoding: SamplingParams
    problems: int
    settled: int  # problems that need no more samples
    samples: int  # that the run already has
    most: int  # samples that the run can have in the end
    verifier: str | None


@dataclass(frozen=True)
class DrawSummary:
    """What a draw did. Samples, tokens and truncated are those of the whole run, with earlier draws."""

    folder: Path
    drawing: DrawRequest
    problems: int
    samples: int
    new: int  # samples of this draw
    tokens: int
    truncated: int
    settled: int
    reached: int | None  # problems with a success; None where nothing was judged
    failed: int  # requests of this draw
    missing: int  # samples of those requests
    reasons: Mapping[str, int]
    seconds: float
    forwarded: int | None
    peak_memory_mb: float
    verifier: str | None
    doubt: str | None = None  # a suspicion that the samples cannot settle (drawing/duplicates.py)
    stuck: int = 0  # problems with failed requests
    without_samples: int = 0  # of these, problems without any sample
    verdicts: Mapping[str, int] | None = None  # of all samples, where they were judged after the draw
    unjudged: str = ""  # why they could not be judged: drawing does not wait for a judge


def draw(
    folder: Path,
    problems: pl.DataFrame,
    sampler: Sampler,
    decoding: SamplingParams,
    drawing: DrawRequest,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Callable[[DrawEstimate], None] = silent,
) -> DrawSummary:
    """Draw what is missing of a run, each sample exactly once.

    Args:
        folder: the run folder; new, or a run of the same model, decoding, problems and seed, which is resumed.
        problems: a table of problems (PROBLEMS); each is asked its prompt, or else its question.
        sampler: who answers; left open.
        decoding: how tokens are drawn; part of the seeds.
        drawing: how many samples, and when a problem stops.
        verifying: with `until`, who judges samples while others are drawn. Verdicts are written beside them.
        progress: gets a line as the draw advances.
        announce: gets the estimate before the first request.

    Raises:
        OffleashError: where the folder holds another run, samples repeat more than they can, or the sampler fails for
            good. What was drawn is kept, and the same call resumes.
    """
    refuse_greedy_copies(decoding, drawing.k)
    with claim_run(folder) as run:
        origin = origin_of(sampler, drawing.model, decoding, drawing.seed, drawing.until, problems, drawing.prompt)
        with _judging(str(folder), problems, origin, drawing.until, verifying or VerifyOptions()) as judge_setup:
            open_run = open_for_drawing(run, problems, origin, Budget(drawing.k, drawing.until))
            drop_orphans(run)
            verification = judge_setup.verification(run, progress) if judge_setup else None
            stored = read_stored_samples(run, verification.name if verification else None)
            names = open_run.problems["problem"].to_list()
            schedule = Schedule(names, stored.problems, open_run.chunks, drawing.k, drawing.until)
            announce(_estimate(folder, drawing, decoding, stored, schedule, verification))
            loop = DrawLoop(run, open_run, sampler, decoding, schedule, verification)
            draw_progress = DrawProgress(progress, schedule, stored.samples)
            loop.work(draw_progress)
            seconds = time.monotonic() - draw_progress.started
    writer, reasons = loop.writer, loop.reasons
    return DrawSummary(
        folder=folder,
        drawing=drawing,
        problems=len(schedule.records),
        samples=stored.samples + writer.samples,
        new=writer.samples,
        tokens=stored.tokens + writer.tokens,
        truncated=stored.truncated + writer.truncated,
        settled=schedule.count(Stage.SETTLED),
        reached=schedule.reached if verification else None,
        failed=reasons.total(),
        missing=loop.missing,
        reasons=dict(reasons.most_common()),
        seconds=seconds,
        forwarded=sampler.forwarded,
        peak_memory_mb=peak_memory_mb(),
        verifier=verification.name if verification else None,
        doubt=loop.duplicates.doubt,
        stuck=schedule.count(Stage.STUCK),
        without_samples=sum(record.stage is Stage.STUCK and not record.drawn for record in schedule.records.values()),
    )


def judge_new_samples(summary: DrawSummary, options: VerifyOptions, progress: Progress = silent) -> DrawSummary:
    """Judge the samples of a draw that has no judge of its own (`until`).

    Samples are facts and verdicts can wait: where there is no judge model, no sandbox or no gold answer, the reason is
    kept, and `offleash verify` judges later.
    """
    if summary.drawing.until or not summary.samples:
        return summary
    try:
        result = verify(summary.folder, options, progress)
    except OffleashError as error:
        return replace(summary, unjudged=str(error))
    stored = read_stored_samples(RunFolder(summary.folder), result.verifier)
    reached = sum(problem.hits > 0 for problem in stored.problems.values())
    return replace(summary, verifier=result.verifier, reached=reached, verdicts=result.verdicts)


def refuse_greedy_copies(decoding: SamplingParams, k: int) -> None:
    """Refuse greedy decoding with k above 1: all samples would be one text, and pass@k the same for every k."""
    if decoding.temperature == 0 and k > 1:
        raise OffleashError(
            f"At temperature 0, all {k:,} samples of a problem would be identical. Use --temperature 1, or -k 1."
        )


@dataclass(frozen=True)
class _JudgeSetup:
    """A judge, the gold answers it judges by, and whether samples begin inside a reasoning block."""

    judge: Judge
    cases: CasesByProblem
    opened: bool

    def verification(self, run: RunFolder, progress: Progress) -> Verification:
        """Who judges what is drawn; what the run already has is judged first, since it counts towards `until`."""
        name = stored_name(self.judge, [verifier for _, verifier in self.cases.values()])
        verify_shards(run, self.judge, self.cases, self.opened, progress)

        def start(workers: SamplerWorkers, backlog: Backlog) -> JudgeQueue:
            return JudgeQueue(self.judge, self.cases, self.opened, workers.events, backlog)

        return Verification(name, start)


@contextmanager
def _judging(
    where: str, problems: pl.DataFrame, origin: Origin, until: int, options: VerifyOptions
) -> Iterator[_JudgeSetup | None]:
    """The judge of a draw that stops early; a problem that cannot be judged is refused before anything is written."""
    if not until:
        yield None
        return
    extraction = extraction_of(origin, options.extraction)
    cases = problem_cases(with_prompts(problems), options.verifier, extraction, where)
    with open_judge(replace(options, extraction=extraction)) as judge:
        refuse_unreadable(judge, cases, where)
        yield _JudgeSetup(judge, cases, extraction.opened)


def _estimate(
    folder: Path,
    drawing: DrawRequest,
    decoding: SamplingParams,
    stored: StoredSamples,
    schedule: Schedule,
    verification: Verification | None,
) -> DrawEstimate:
    return DrawEstimate(
        folder=folder,
        drawing=drawing,
        decoding=decoding,
        problems=len(schedule.records),
        settled=schedule.count(Stage.SETTLED),
        samples=stored.samples,
        most=schedule.most,
        verifier=verification.name if verification else None,
    )


# Options of `offleash draw`, checked before the model is loaded, and the budgets of arXiv:2507.14843.


LARGEST = 16_384  # the paper's largest budget, for problems that are not in it
MATHS_BUDGET, OTHER_BUDGET = 8_192, 2_048  # of its models of 1.5B and 7B; half of it for 14B
MATHS_BENCHMARKS = {"aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench", "mathvista", "mathvision"}
PAPER_TASK_BUDGETS: Mapping[str, int] = {  # of Reasoning Gym, where a figure shows it (its largest k)
    "graph_color": 2_048,
    "palindrome_generation": 1_024,
    "prime_factorization": 8_192,
    "advanced_geometry": 4_096,
    "dice": 8_192,
    "leg_counting": 1_024,
    "family_relationships": 1_024,
    "power_function": 1_024,
}


def draw_model(
    folder: Path,
    problems: pl.DataFrame,
    model: Model,
    decoding: SamplingParams,
    k: int | str,
    until: int = 0,
    seed: int = 0,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Callable[[DrawEstimate], None] = silent,
    prompt: str | None = None,
) -> DrawSummary:
    """Draw from a model by its name. What can be refused without the model is refused before it is loaded."""
    drawing = check_draw(folder, problems, model, decoding, k, until, seed, prompt)
    if until:  # the judge is needed while drawing: what it cannot judge is refused now, not after minutes of loading
        options = verifying or VerifyOptions()
        with open_judge(options) as judge:
            cases = problem_cases(with_prompts(problems), options.verifier, options.extraction, str(folder))
            refuse_unreadable(judge, cases, str(folder))
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:
        return draw(folder, problems, sampler, decoding, drawing, verifying, progress, announce)


def check_draw(
    folder: Path,
    problems: pl.DataFrame,
    model: Model,
    decoding: SamplingParams,
    k: int | str,
    until: int,
    seed: int,
    prompt: str | None = None,
) -> DrawRequest:
    """The request, checked as far as the options and the folder allow without loading the model."""
    with_prompts(problems)
    drawing = DrawRequest(str(model), budget(k, problems), until, seed, prompt)
    refuse_greedy_copies(decoding, drawing.k)
    refuse_other_folder(folder)
    if is_run(folder):
        refuse_other_options(folder, model, decoding, seed, until, prompt)
    return drawing


def check_model(model: Model, engines: bool = True) -> None:
    """Refuse a model that cannot be opened, as far as that shows without loading it.

    A study checks its second model by this, hours before it is loaded. Without `engines`, no server is asked and no
    package has to be installed: what is planned here may run elsewhere.
    """
    if model.sampler not in ("hf", "vllm"):
        if engines or model.sampler == "scripted":
            open_sampler(model).close()  # cheap: no weights are loaded
        return
    if model.sampler == "hf":
        settings_of(model)
    if model.sampler == "hf" and engines:
        missing_packages = [name for name in ("torch", "transformers") if find_spec(name) is None]
        if missing_packages:
            raise OffleashError(f"hf: needs {missing_packages[0]}, which is not installed. Run {EXTRAS['hf']}.")
    if model.sampler == "hf" or not _has_files(model.name, "config.json", "params.json"):
        check_folder(model.name)
    adapter = Path(model.adapter).expanduser()
    is_local = model.adapter.startswith((".", "/", "~")) or model.adapter.count("/") > 1 or adapter.exists()
    if model.adapter and is_local and not _has_files(model.adapter, "adapter_config.json"):
        problem = "has no adapter_config.json" if adapter.is_dir() else "is not a folder"
        raise OffleashError(f"{model.adapter} {problem}. Give a folder saved by PEFT, or a name on the hub.")


def budget(k: int | str, problems: pl.DataFrame) -> int:
    """The number of samples per problem: as given, or the paper's for these problems."""
    if k == PAPER:
        return paper_budget(problems)
    try:
        return int(k)
    except ValueError:
        raise OffleashError(f"k must be a number of samples per problem, or 'paper'; found -k {k}.") from None


def paper_budget(problems: pl.DataFrame) -> int:
    """The budget of arXiv:2507.14843 for a benchmark; its largest for problems that are not in it."""
    budgets = {name or "": _benchmark_budget(name or "") for name in problems["benchmark"].unique().sort()}
    if len(set(budgets.values())) > 1:
        budgets_text = ", ".join(f"{name or 'without a benchmark'} {k:,}" for name, k in budgets.items())
        raise OffleashError(
            f"The paper's budgets differ between these benchmarks ({budgets_text}). Draw each into its own folder: "
            "`offleash compare 'runs/base-*' 'runs/rl-*'` combines them."
        )
    return next(iter(budgets.values()), LARGEST)


def _has_files(folder: str, *names: str) -> bool:
    """Whether a local folder has one of these files; False for names on the hub."""
    return any((Path(folder).expanduser() / name).is_file() for name in names)


def _benchmark_budget(name: str) -> int:
    """The budget of one benchmark; of Reasoning Gym that of the task, where the paper has a figure of it."""
    if name in MATHS_BENCHMARKS:
        return MATHS_BUDGET
    if name in PROBLEMS and PROBLEMS[name].paper is not None:
        return OTHER_BUDGET
    family, _, task = name.partition(":")
    return PAPER_TASK_BUDGETS.get(task.partition(":")[0], LARGEST) if family == GYM else LARGEST
