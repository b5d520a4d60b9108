"""frontier: pass@1 against retention between a base and a model after RL, and the point to use."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.api.draw import as_tuple, models_of, problem_frame, template_of
from offleash.errors import OffleashError
from offleash.options import (
    Data,
    Decoding,
    EngineOptions,
    Flag,
    Judging,
    K,
    ProblemSelection,
    Prompting,
    Seed,
    Verifier,
)
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.analyses.frontier.runs import FrontierSource
    from offleash.results.analyses import FrontierResult
    from offleash.results.samples import ProblemSetResult

WEIGHTS = (0.25, 0.5, 0.75)  # of RL in the first blends
HOTTER = (1.2, 1.4)  # times the temperature of the decoding: temperatures where none are named


@verb
def frontier(
    problems: Annotated[
        "str | Path | pl.DataFrame | ProblemSetResult",
        Data("PROBLEMS", "A benchmark, reasoning_gym:TASK or a file of problems."),
    ],
    base: Annotated[str, Data("BASE", "The model before RL, or its run folder with 2k samples.")],
    rl: Annotated[str, Data("RL", "The model after RL, or its run folder.")],
    *checkpoints: Annotated[
        str, Data("[CHECKPOINT...]", "Further models or run folders, each a point; NAME=... names it.")
    ],
    k: K,
    out: Annotated[
        str | Path, Flag("Folder for the runs, DIR/report.html is the page.", short="-o", metavar="DIR")
    ] = "runs/frontier",
    floor: Annotated[
        float, Flag("Least retention: SRR relative to that of the base drawn again.", metavar="R", above=0, most=1)
    ] = 0.95,
    weights: Annotated[
        Sequence[float] | float | None,
        Flag("Weights of RL in the blends: 0 is BASE, 1 is RL.", metavar="W,W,...", above=0, below=1),
    ] = None,
    refine: Annotated[int, Flag("Blends drawn where retention crosses the floor, at most.", metavar="N", least=0)] = 2,
    temperatures: Annotated[
        Sequence[float] | float | None,
        Flag("Other temperatures of RL. Default: 1.2 and 1.4 times the decoding's.", metavar="T,T,...", above=0),
    ] = None,
    held_out: Annotated[
        float, Flag("Share of the problems that confirm the recommended point.", metavar="SHARE", above=0, below=1)
    ] = 0.5,
    dry_run: Annotated[bool, Flag("Check everything and print the cost, without drawing.")] = False,
    figure: Annotated[str | Path | None, Flag("Write the figure: .svg, .pdf or .png.", metavar="FILE")] = None,
    seed: Seed = 0,
    verifier: Verifier = None,
    decoding: Decoding = Decoding(),
    prompting: Prompting = Prompting(),
    engine: EngineOptions = EngineOptions(),
    selection: ProblemSelection = ProblemSelection(),
    judging: Judging = Judging(),
    command: str = "",
    progress: Progress = silent,
    announce: Progress = silent,
) -> "FrontierResult":
    """Measure what first-try accuracy costs in reach, and recommend the model to use.

    Draws blends of the two models, other temperatures of RL and the checkpoints given; further blends where retention
    crosses the floor. Recommended is the highest pass@1 among the points whose SRR, divided by that of the base drawn
    again, is at least the floor. It is chosen on one part of the problems and confirmed on the others. Run it again to
    resume: only what is missing is drawn. A run folder in place of a model is used as it is.

    Examples:
      offleash frontier mine.jsonl hf:./base hf:./rl -k 1024 --max-tokens 512 -o runs/frontier
      offleash frontier mine.jsonl hf:./base hf:./rl s100=hf:./step100 -k 256 --floor 0.98 --figure frontier.pdf
      offleash frontier mine.jsonl runs/base runs/rl runs/step100 -k 256 -o runs/frontier
      offleash frontier math500 vllm:org/base vllm:./rl -k 256 --decoding paper --dry-run

    In Python:
      >>> result = ol.frontier("examples/problems.jsonl", "scripted:examples/sums.json", "scripted:examples/sums.json",
      ...                      k=8, out="runs/frontier")
      >>> result.recommended is None  # the base against itself
      True
    """
    from offleash.analyses.frontier.frontier import frontier as measure_frontier
    from offleash.analyses.frontier.report import cost_text
    from offleash.analyses.frontier.runs import FrontierRequest, check_frontier, source_of
    from offleash.drawing.draw import budget
    from offleash.problems.templates import with_template
    from offleash.results.analyses import FrontierResult
    from offleash.samplers.sampler import sampling_params
    from offleash.verifying.verify import verify_options

    if figure is not None:
        from offleash.render.export import kind_of
        from offleash.render.output import check_writable

        check_writable(Path(figure), option="--figure")
        kind_of(Path(figure))
    params, template, verifying = sampling_params(decoding), template_of(prompting), verify_options(verifier, judging)
    sources: list[FrontierSource] = []
    for text, default in ((base, "base"), (rl, "rl"), *((checkpoint, "") for checkpoint in checkpoints)):
        taken = [source.label for source in sources]
        sources.append(
            source_of(text, default, lambda name: models_of([name], engine, prompting, not dry_run)[0], taken)
        )
    frame = with_template(problem_frame(problems, selection, progress), template)
    hotter = tuple(round(params.temperature * factor, 3) for factor in HOTTER)
    request = FrontierRequest(
        frame,
        sources[0],
        sources[1],
        tuple(sources[2:]),
        params,
        budget(k, frame),
        floor,
        WEIGHTS if weights is None else as_tuple(weights),
        tuple(value for value in as_tuple(temperatures) or hotter if value != params.temperature),
        refine,
        held_out,
        seed,
        template,
    )
    if weights is not None and not request.can_blend:
        source = next(source for source in sources[:2] if source.folder is None)
        raise OffleashError(
            f"--weights needs two model folders (hf: or vllm:, without an adapter); found {source.name}. Give "
            "folders, or leave --weights out."
        )
    announce(cost_text(request, request.cost()))
    if dry_run:
        check_frontier(request, Path(out), progress, engines=False)
        return FrontierResult(request.cost())
    result = FrontierResult(request.cost(), measure_frontier(request, Path(out), verifying, progress))
    return result.written(None if figure is None else Path(figure), Path(out) / "report.html", command)
