"""The verbs of analyses: entropy, likelihood, plan, theory, strategies."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.option_groups import taking
from offleash.cli.options import BudgetOptions, DecodingOptions, Jobs, LogOptions, ModelOptions, Verifier, named_columns
from offleash.cli.output import AsJson, console, print_json, progress, say, warn
from offleash.errors import OffleashError

if TYPE_CHECKING:
    from offleash.analyses.likelihood.models import ModelOverride
    from offleash.analyses.theory.mechanisms import TheoryReport

At = Annotated[int | None, typer.Option(metavar="K", help="The first K samples of each problem (the paper: 32).")]


@taking(at=At)
def entropy(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, log files, folders, quoted globs; NAME=PATH. Base first."),
    ],
    sized: BudgetOptions,
    logs: LogOptions,
    as_json: AsJson = False,
) -> None:
    """Token entropy and answer entropy of runs: can local uncertainty rise while global diversity falls?

    Accuracy, response length, token entropy and answer entropy of each run and their differences from the first, per
    benchmark and averaged; the 2x2 of token and answer entropy, up or down; where tokens are uncertain; different
    answers against k. Token entropies are kept by draw, or come with: offleash score RUN --model hf:MODEL --first 32.

    \b
    Examples:
      offleash entropy runs/base runs/rl
      offleash entropy runs/base runs/rl --at 32               (as the paper: the first 32 samples of each problem)
      offleash entropy runs/base runs/step100 runs/step200     (each against the first)
      offleash entropy base.jsonl rl.jsonl --json              (logs: accuracy and answer entropy)
    """
    from offleash.analyses.entropy.entropy import entropy_arguments

    with progress(as_json) as tell:
        found = entropy_arguments(runs, logs.reading(), sized.question(), tell)
    if as_json:
        from offleash.analyses.entropy.report import entropy_document

        print_json(entropy_document(found))
    else:
        from offleash.analyses.entropy.terminal import show_entropies

        show_entropies(console(), found)


Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, author, ...) of traces from COLUMN."),
]

ClassesAt = Annotated[int | None, typer.Option(metavar="K", help="Classes at this budget, not the largest common.")]


@taking("decoding", "top_k", "min_p", "max_tokens", "stop", at=ClassesAt)
def likelihood(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="The run folder of the model before.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run folder of the model after.")],
    decoded: DecodingOptions,
    opened: ModelOptions,
    sized: BudgetOptions,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Traces of others: rows {"problem", "text", "author", "correct"?}.'),
    ] = None,
    first: Annotated[int, typer.Option(metavar="N", help="Score the first N samples of each problem.")] = 32,
    scoring: Annotated[
        bool, typer.Option("--scoring/--no-scoring", help="Score what is missing; or report only what stands.")
    ] = True,
    model_before: Annotated[
        str | None, typer.Option(metavar="MODEL", help="hf:PATH, where BEFORE does not say who drew it.")
    ] = None,
    model_after: Annotated[str | None, typer.Option(metavar="MODEL", help="Likewise of AFTER.")] = None,
    decoding: Annotated[
        str | None, typer.Option("--decoding", metavar="NAME", help="How imported runs were drawn: plain or paper.")
    ] = None,
    verifier: Verifier = None,
    columns: Map = None,
    as_json: AsJson = False,
) -> None:
    """Perplexity by class, the other model's chance on lost and found problems, and the length of the leash.

    Scores what is missing under both models at the decoding of the runs: the first samples of each problem, the
    correct ones of problems that only one model reached, and traces of others. Run it again after a kill: it goes on.

    \b
    Examples:
      offleash likelihood runs/base runs/rl
      offleash likelihood runs/base runs/rl --traces traces.jsonl
      offleash likelihood runs/base runs/rl --model-before hf:Qwen/Qwen2.5-1.5B --model-after hf:./checkpoints/rl
      offleash likelihood runs/base runs/rl --no-scoring --json
    """
    from offleash.analyses.likelihood.likelihood import LikelihoodRequest
    from offleash.analyses.likelihood.likelihood import likelihood as report
    from offleash.analyses.likelihood.report import ahead_text

    sides = (("before", model_before), ("after", model_after))
    laws = {side: _given(model, decoding, decoded, opened) for side, model in sides}
    asked = LikelihoodRequest(first, traces, named_columns(columns, "text=response"), scoring, laws)
    with progress(as_json) as tell:
        found = report(before, after, asked, sized.question(), verifier, tell, lambda ahead: warn(ahead_text(ahead)))
    if as_json:
        from offleash.analyses.likelihood.report import likelihood_document

        print_json(likelihood_document(found))
    else:
        from offleash.analyses.likelihood.terminal import show_likelihood

        show_likelihood(console(), found)


def _given(model: str | None, decoding: str | None, decoded: DecodingOptions, opened: ModelOptions) -> "ModelOverride":
    """What the command line says of a run's law."""
    from offleash.analyses.likelihood.models import ModelOverride

    said = decoding is not None or decoded.temperature is not None or decoded.top_p is not None
    way = replace(decoded, decoding=decoding or "plain").way() if said else None
    return ModelOverride(model, way, opened.named(), opened.raw)


@taking("split_by")
def plan(
    runs: Annotated[
        list[str], typer.Argument(metavar="PILOT...", help="Pilot runs: folders, logs or counts; NAME=PATH.")
    ],
    logs: LogOptions,
    settle: Annotated[float, typer.Option(metavar="SHARE", help="Share of the reached problems to settle.")] = 0.9,
    until: Annotated[
        int | None, typer.Option(metavar="M", help="Stop a problem at M successes, not at those needed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """From a pilot: the budget that would settle the open problems, and its cost.

    \b
    Examples:
      offleash plan runs/pilot
      offleash plan base.csv --settle 0.8 --json
    """
    from offleash.analyses.planning import plan as plan_run
    from offleash.analyses.planning import plan_document, plan_table
    from offleash.loading.load import load

    with progress(as_json) as tell:
        plans = [plan_run(run, settle, until) for run in load(*runs, reading=logs.reading(), progress=tell)]
    if as_json:
        documents = [plan_document(one) for one in plans]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for one in plans:
        console().print(plan_table(one))


def theory(
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random worlds and of the trainings.")] = 0,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures (SVG) into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The paper's statements (appendix C), run and tested in small exact worlds; half a minute on one core.

    Each statement holds, holds only under a condition, or fails, with the smallest counterexample that a search over
    random worlds found. Then which mechanism shrinks support: finite groups, shared parameters, both or neither.

    \b
    Examples:
      offleash theory
      offleash theory --seed 1 --json
      offleash theory --figures figures/
    """
    if seed < 0:
        raise OffleashError(f"A seed is 0 or above; found --seed {seed}.")
    if figures is not None:
        from offleash.render.output import check_place

        check_place(figures / "world.svg", option="--figures")
    try:
        _examine(seed, figures, as_json)
    except KeyboardInterrupt:
        raise OffleashError("The theory was interrupted; it keeps nothing of its work, and begins anew.") from None


def _examine(seed: int, figures: Path | None, as_json: bool) -> None:
    from offleash.analyses.theory.mechanisms import examine
    from offleash.analyses.theory.report import show_theory, theory_document

    with progress(as_json) as tell:
        found = examine(seed, tell)
    written: list[Path] = []
    try:
        if figures is not None:
            written = _drawn(found, figures, as_json)
    finally:  # figures that cannot be written are no reason to lose the rest
        if as_json:
            print_json(theory_document(found))
        else:
            show_theory(console(), found)
    for path in written:
        (warn if as_json else say)(str(path))


def _drawn(found: "TheoryReport", figures: Path, as_json: bool) -> list[Path]:
    from offleash.analyses.theory.figures import write_figures

    with progress(as_json) as tell:
        tell(f"drawing into {figures}")
        return write_figures(found, figures)


Seed = Annotated[int, typer.Option(help="Seed of the intervals.")]


@taking("split_by", seed=Seed)
def strategies(
    sized: BudgetOptions,
    logs: LogOptions,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="BEFORE AFTER", help="Two run folders, or logs that keep texts; NAME=PATH."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What tells them apart: countdown, steps, program, or FILE.py:FUNCTION."),
    ] = None,
    show: Annotated[int, typer.Option(metavar="N", help="Lost and new strategies to show, with a sample each.")] = 5,
    again: Annotated[bool, typer.Option("--again", help="Read again what is stored in the run folders.")] = False,
    jobs: Jobs = 0,
    as_json: AsJson = False,
) -> None:
    """Which strategies RL kept, lost and gained: support, novelty and richness of methods, not of answers.

    A fingerprint reads how a correct sample got to its answer. Strategies are stored in the run folder and read once.
    A function of your own takes (problem: dict with id, question, gold, details; text: str) and gives a str or None.

    \b
    Examples:
      offleash strategies runs/base runs/rl --by countdown
      offleash strategies runs/base runs/rl --by steps --at 256
      offleash strategies base.jsonl rl.jsonl --by program --json
      offleash strategies runs/base runs/rl --by methods.py:kind
    """
    if show < 0:
        raise OffleashError(f"--show takes a number of strategies, from 0; found {show}.")
    from offleash.analyses.strategies.strategies import ways as compared

    if by is None:
        raise OffleashError("Say what tells strategies apart: --by countdown, steps, program, or FILE.py:FUNCTION.")
    with progress(as_json) as tell:
        found = compared(runs or [], by, sized.question(), logs.reading(), jobs, show, tell, again)
    if as_json:
        from offleash.analyses.strategies.report import ways_json

        print_json(ways_json(found))
    else:
        from offleash.analyses.strategies.terminal import show_ways

        show_ways(console(), found)
