"""Further analyses: entropy, likelihood and strategies of runs; plan_samples and plan_training; and theory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.errors import OffleashError
from offleash.options import (
    Allow,
    At,
    Columns,
    Data,
    Decoding,
    EngineOptions,
    ExcludedOptions,
    Flag,
    Jobs,
    Reading,
    Replicates,
    Seed,
    SplitBy,
    Verdicts,
)
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.data.run import Run
    from offleash.results.analyses import (
        EntropyResult,
        LikelihoodResult,
        PlanResult,
        StrategiesResult,
        TheoryResult,
        TrainingPlanResult,
    )


@verb
def entropy(
    *runs: Annotated[
        "str | Path | Run | pl.DataFrame",
        Data("RUN...", "Run folders, log files, folders or quoted globs, the base first; NAME=PATH names one."),
    ],
    at: At = None,
    allow: Allow = (),
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    verdicts: Verdicts = None,
    split_by: SplitBy = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "EntropyResult":
    """Token entropy and answer entropy of runs: can local uncertainty rise while global diversity falls?

    Accuracy, response length, token entropy and answer entropy of each run and their differences from the first, per
    benchmark and averaged; a 2x2 table of token and answer entropy, up or down; where tokens are uncertain; distinct
    answers against k. Token entropies are stored by draw, or by: offleash score RUN --model hf:MODEL --first 32.

    Examples:
      offleash entropy runs/base runs/rl
      offleash entropy runs/base runs/rl --at 32               (as in the paper: the first 32 samples per problem)
      offleash entropy runs/base runs/step100 runs/step200     (each against the first)
      offleash entropy base.jsonl rl.jsonl --json              (logs: accuracy and answer entropy)

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
      >>> verified = ol.verify("runs/base")
      >>> result = ol.entropy("runs/base")
      >>> result.ok
      True
    """
    from offleash.analyses.entropy.entropy import entropies_of_inputs
    from offleash.comparing.question import question
    from offleash.loading.load import load_options, run_inputs
    from offleash.results.analyses import EntropyResult

    runs = run_inputs(runs)
    settings = question(at=at, replicates=replicates, seed=seed, allow=allow)
    return EntropyResult(entropies_of_inputs(runs, load_options(runs, reading, split_by, verdicts), settings, progress))


@verb
def likelihood(
    before: Annotated[str | Path, Data("BEFORE", "Run folder of the model before RL.")],
    after: Annotated[str | Path, Data("AFTER", "Run folder of the model after RL.")],
    *,
    traces: Annotated[
        str | Path | None,
        Flag('External traces: rows {"problem", "text", "author", "correct"?}.', metavar="FILE"),
    ] = None,
    first: Annotated[int, Flag("Only the first N samples of each problem.", metavar="N", least=1)] = 32,
    scoring: Annotated[bool, Flag("Compute missing scores; --no-scoring uses only stored ones.")] = True,
    model_before: Annotated[
        str | None, Flag("hf:PATH of BEFORE's model, if the run does not record it.", metavar="MODEL")
    ] = None,
    model_after: Annotated[
        str | None, Flag("hf:PATH of AFTER's model, if the run does not record it.", metavar="MODEL")
    ] = None,
    at: At = None,
    allow: Allow = (),
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    verdicts: Verdicts = None,
    columns: Columns = {},  # noqa: B006  never changed
    decoding: Annotated[Decoding | None, ExcludedOptions("top_k", "min_p", "max_tokens", "stop")] = None,
    engine: EngineOptions = EngineOptions(),
    progress: Progress = silent,
    announce: Progress = silent,
) -> "LikelihoodResult":
    """Perplexity by class, the other model's likelihood on lost and gained problems, and KL divergence.

    Scores what is missing under both models at the decoding of the runs: the first samples of each problem, the
    correct samples of problems that only one model reached, and external traces. Run it again to resume. For imported
    runs, --decoding, --temperature and --top-p say how they were drawn.

    Examples:
      offleash likelihood runs/base runs/rl
      offleash likelihood runs/base runs/rl --traces traces.jsonl
      offleash likelihood runs/base runs/rl --model-before hf:Qwen/Qwen2.5-1.5B --model-after hf:./checkpoints/rl
      offleash likelihood runs/base runs/rl --no-scoring --json

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
      >>> again = ol.draw("test.jsonl", "hf:base", k=8, seed=1, max_tokens=18, out="runs/rl")
      >>> verified = ol.verify("runs/base", "runs/rl")
      >>> result = ol.likelihood("runs/base", "runs/rl", first=4, at=4)
      >>> result.ok
      True
    """
    from offleash.analyses.likelihood.likelihood import LikelihoodRequest
    from offleash.analyses.likelihood.likelihood import likelihood as run_likelihood
    from offleash.analyses.likelihood.models import ModelOverride
    from offleash.analyses.likelihood.report import estimate_text
    from offleash.comparing.question import question
    from offleash.results.analyses import LikelihoodResult
    from offleash.samplers.sampler import sampling_params

    params = None if decoding is None else sampling_params(decoding)
    overrides: dict[str, ModelOverride] = {
        side: ModelOverride(model, params, engine.settings, engine.raw)
        for side, model in (("before", model_before), ("after", model_after))
    }
    request = LikelihoodRequest(first, None if traces is None else Path(traces), columns, scoring, overrides)
    settings = question(at=at, replicates=replicates, seed=seed, allow=allow)
    result = run_likelihood(
        str(before),
        str(after),
        request,
        settings,
        verdicts,
        progress,
        lambda estimate: announce(estimate_text(estimate)),
    )
    return LikelihoodResult(result)


@verb
def strategies(
    *runs: Annotated[
        str | Path, Data("BEFORE AFTER", "Two run folders, or logs with the texts of samples; NAME=PATH names one.")
    ],
    by: Annotated[
        str, Flag("How to identify a strategy: countdown, steps, program or FILE.py:FUNCTION.", metavar="NAME")
    ],
    show: Annotated[
        int, Flag("Number of lost and gained strategies to show, each with a sample.", metavar="N", least=0)
    ] = 5,
    again: Annotated[bool, Flag("Recompute strategies that are stored in the run folders.")] = False,
    jobs: Jobs = 0,
    at: At = None,
    allow: Allow = (),
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    verdicts: Verdicts = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "StrategiesResult":
    """Which strategies RL kept, lost and gained: support, novelty and richness of methods, not of answers.

    A fingerprint identifies how a correct sample got to its answer. Strategies are computed once and stored in the run
    folder. Your own function takes (problem: dict with id, question, gold, details; text: str) and returns a str or
    None.

    Examples:
      offleash strategies runs/base runs/rl --by countdown
      offleash strategies runs/base runs/rl --by steps --at 256
      offleash strategies base.jsonl rl.jsonl --by program --json
      offleash strategies runs/base runs/rl --by methods.py:kind

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
      >>> again = ol.draw("test.jsonl", "hf:base", k=8, seed=1, max_tokens=18, out="runs/rl")
      >>> verified = ol.verify("runs/base", "runs/rl")
      >>> ol.strategies("runs/base", "runs/rl", by="countdown").ok
      True
    """
    from offleash.analyses.strategies.strategies import compare_strategies
    from offleash.comparing.question import question
    from offleash.loading.load import load_options
    from offleash.results.analyses import StrategiesResult

    for run in runs:
        if not isinstance(run, str | Path):
            raise OffleashError(f"Strategies are read from run folders and logs, not from a {type(run).__name__}.")
    paths, settings = [str(run) for run in runs], question(at=at, replicates=replicates, seed=seed, allow=allow)
    options = load_options(paths, reading, None, verdicts)
    return StrategiesResult(compare_strategies(paths, by, settings, options, jobs, show, progress, again))


@verb
def plan_samples(
    *runs: Annotated[
        "str | Path | Run | pl.DataFrame", Data("PILOT...", "Pilot runs: folders, logs or counts; NAME=PATH.")
    ],
    settle: Annotated[
        float,
        Flag("Share of the reached problems for which a loss could be significant.", metavar="SHARE", above=0, below=1),
    ] = 0.9,
    until: Annotated[
        int | None,
        Flag("Stop sampling a problem at its M-th correct sample. Default: as many as needed.", metavar="M", least=1),
    ] = None,
    verdicts: Verdicts = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "PlanResult":
    """Plan from a pilot: the budget at which the loss of a problem could be significant, and its cost.

    Examples:
      offleash plan samples runs/pilot
      offleash plan samples base.csv --settle 0.8 --json

    In Python:
      >>> result = ol.plan_samples("examples/counts/base.csv", "examples/counts/rl.csv")
      >>> len(result.plans)
      2
    """
    from offleash.analyses.planning import plan
    from offleash.loading.load import load, load_options, run_inputs
    from offleash.results.analyses import PlanResult

    runs = run_inputs(runs)
    pilots = load(*runs, options=load_options(runs, reading, None, verdicts), progress=progress)
    return PlanResult(tuple(plan(run, settle, until) for run in pilots))


@verb
def plan_training(
    run: Annotated[
        "str | Path | Run | pl.DataFrame",
        Data("COUNTS", "The base on the training problems: counts, a run folder or a log; NAME=PATH."),
    ],
    *,
    group: Annotated[int, Flag("Samples per group.", metavar="G", least=2, most=65_536)] = 16,
    groups: Annotated[int, Flag("Groups per training step.", metavar="N", least=1, most=1_000_000)] = 64,
    curriculum: Annotated[
        str | Path | None,
        Flag("Write weights for a curriculum: .csv, or .jsonl and .parquet as TRL and verl read.", metavar="FILE"),
    ] = None,
    figure: Annotated[str | Path | None, Flag("Write the figure: .svg, .pdf or .png.", metavar="FILE")] = None,
    verdicts: Verdicts = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "TrainingPlanResult":
    """Plan a training run: which groups would teach nothing, and which problems a group would never see solved.

    From the base's counts on the training problems: the share of groups that are all wrong or all right at group sizes
    from 8 to 512, problems that are too rare for a group, weights for a curriculum, and from a run folder with
    solutions those that training is likely to miss.

    Examples:
      offleash plan training examples/counts/base.csv --group 16
      offleash plan training runs/base --group 32 --curriculum weights.parquet --figure groups.svg
      offleash plan training base.csv --json

    In Python:
      >>> plan = ol.plan_training("examples/counts/base.csv", group=16).plan
      >>> [signal.size for signal in plan.signals]
      [8, 16, 32, 64, 128, 256, 512]
    """
    from offleash.analyses.group_signal.plan import WEIGHT_FILES, plan_groups, write_weights
    from offleash.loading.load import load, load_options, run_inputs
    from offleash.render.output import check_writable
    from offleash.results.analyses import TrainingPlanResult

    if curriculum is not None:
        if Path(curriculum).suffix.lower() not in WEIGHT_FILES:
            raise OffleashError(
                f"--curriculum {curriculum} should end in {' or '.join(WEIGHT_FILES)}. Choose another name."
            )
        check_writable(Path(curriculum), option="--curriculum")
    if figure is not None:
        from offleash.render.export import kind_of

        kind_of(Path(figure))
        check_writable(Path(figure), option="--figure")
    inputs = run_inputs((run,))
    (base,) = load(*inputs, options=load_options(inputs, reading, None, verdicts), progress=progress)
    result = TrainingPlanResult(plan_groups(base, group, groups))
    if curriculum is not None:
        write_weights(result.plan, base, Path(curriculum))
    if figure is not None:
        result.save(figure)
    return result


@verb
def theory(
    *,
    seed: Seed = 0,
    figures: Annotated[str | Path | None, Flag("Write the figures (SVG) to this folder.", metavar="DIR")] = None,
    progress: Progress = silent,
) -> "TheoryResult":
    """Test the paper's theory (appendix C) in small exact worlds; half a minute on one core.

    Each statement holds, holds only under a condition, or fails, with the smallest counterexample found by a search
    over random worlds. Then: which mechanism shrinks support: finite groups, shared parameters, both or neither.

    Examples:
      offleash theory
      offleash theory --seed 1 --json
      offleash theory --figures figures/

    In Python:
      >>> result = ol.theory()  # doctest: +SKIP
      >>> result.figures  # doctest: +SKIP
    """
    from offleash.results.analyses import TheoryResult

    if figures is not None:
        from offleash.render.output import check_writable

        check_writable(Path(figures) / "world.svg", option="--figures")
    from offleash.analyses.theory.mechanisms import examine

    try:
        result = TheoryResult(examine(seed, progress))
        if figures is None:
            return result
        progress(f"writing figures to {figures}")
        return result.with_figures(Path(figures))
    except KeyboardInterrupt:
        raise OffleashError("Interrupted. offleash theory saves no partial results: run it again.") from None
