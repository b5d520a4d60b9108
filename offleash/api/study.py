"""study: a base and one or more models after RL, drawn, judged and compared, from flags or from a study file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from offleash.api.draw import models_of, problem_frame, template_of
from offleash.errors import OffleashError
from offleash.options import (
    Data,
    Decoding,
    EngineOptions,
    FailIf,
    Flag,
    Judging,
    OptionalK,
    ProblemSelection,
    Prompting,
    Seed,
    Until,
    Verifier,
)
from offleash.progress import Progress, silent
from offleash.signatures import describe, missing_error, verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.comparing.conditions import Condition
    from offleash.results.samples import ProblemSetResult, StudyResult
    from offleash.studies.study import StudyRequest
    from offleash.verifying.verify import VerifyOptions


@verb
def study(
    problems: Annotated[
        "str | Path | pl.DataFrame | ProblemSetResult",
        Data("PROBLEMS", "Benchmarks (aime24,math500), reasoning_gym:TASK or a file; or a study file (.yaml)."),
    ],
    *models: Annotated[
        str, Data("[BASE RL...]", "The model before RL and one or more after it; NAME=MODEL names a run.")
    ],
    k: OptionalK = None,
    out: Annotated[
        str | Path | None,
        Flag("Folder for the runs: DIR/base and DIR/rl, or by the names of the models.", short="-o", metavar="DIR"),
    ] = None,
    until: Until = 0,
    seed: Seed = 0,
    dry_run: Annotated[bool, Flag("Check everything and print the cost, without drawing.")] = False,
    verifier: Verifier = None,
    fail_if: FailIf = (),
    decoding: Decoding = Decoding(),
    prompting: Prompting = Prompting(),
    engine: EngineOptions = EngineOptions(),
    selection: ProblemSelection = ProblemSelection(),
    judging: Judging = Judging(),
    command: str = "",
    progress: Progress = silent,
    announce: Progress = silent,
) -> "StudyResult":
    """Draw from models before and after RL, judge their samples and compare them: models in, one answer out.

    Run it again to resume. One model is in memory at a time. The run folders work with every other command;
    DIR/report.html is the report. A study file has the sections models, benchmarks, decodings and budgets, and every
    option below by its name; options that are typed win over the file. --dry-run needs no hub, server or GPU.

    Examples:
      offleash study aime24 vllm:Qwen/Qwen2.5-1.5B vllm:./checkpoints/rl -k 8192 --until 5 --decoding paper -o runs/aime
      offleash study mine.jsonl hf:./base hf:./base+./lora -k 1024 --until 5 --max-tokens 512 -o runs/mine
      offleash study aime24,math500 vllm:org/base vllm:org/rl -k paper --set max_num_seqs=64 -o runs/two --dry-run
      offleash study mine.jsonl hf:./base s100=hf:./step100 s200=hf:./step200 -k 256 -o runs/steps
      offleash study examples/studies/acereason-7b.yaml --dry-run

    In Python:
      >>> result = ol.study("examples/problems.jsonl", "scripted:examples/sums.json", "scripted:examples/sums.json",
      ...                   k=64, out="runs/study")
      >>> result.comparison.change.P, result.report.name
      (2.0, 'report.html')
    """
    from offleash.results.samples import StudyResult
    from offleash.studies.study_file import is_study_file
    from offleash.verifying.verify import verify_options

    call = _Call(
        tuple(models), k, out, until, seed, verifier, tuple(fail_if), decoding, prompting, engine, selection, judging
    )
    if is_study_file(problems):
        assert isinstance(problems, str | Path)
        plans = list(_plans_of_file(Path(problems), call))
    else:
        plans = list(_plans_of_flags(problems, call))
    verifying = verify_options(plans[0].call.verifier, plans[0].call.judging)
    conditions = [_conditions(plan.call) for plan in plans]
    requests = [_request(plan, dry_run, progress) for plan in plans]
    for plan, (request, _) in zip(plans, requests, strict=True):
        announce(_cost_text(plan, request))
    if dry_run or len(plans) > 1:  # of several, all are checked before the first is drawn
        for plan, (request, known) in zip(plans, requests, strict=True):
            _check(request, plan.folder, verifying, progress, engines=not dry_run, problems=known)
    if dry_run:
        results = [StudyResult(request.cost()) for request, _ in requests]
    else:
        results = [
            _run(request, plan.folder, verifying, checks, command, progress, announce)
            for plan, (request, _), checks in zip(plans, requests, conditions, strict=True)
        ]
    if len(plans) == 1:
        return results[0]
    folder = Path(plans[0].call.out or ".")
    return StudyResult.of_several(folder, {plan.name: done for plan, done in zip(plans, results, strict=True)})


@dataclass(frozen=True)
class _Call:
    """The options of a study, from flags or from a file."""

    models: tuple[str, ...]
    k: int | str | None
    out: str | Path | None
    until: int
    seed: int
    verifier: str | None
    fail_if: tuple[str, ...]
    decoding: Decoding
    prompting: Prompting
    engine: EngineOptions
    selection: ProblemSelection
    judging: Judging


@dataclass(frozen=True)
class _Plan:
    """One benchmark at one decoding: a study of its own."""

    name: str  # among several
    folder: Path
    problems: Any
    call: _Call


def _plans_of_flags(problems: Any, call: _Call) -> Iterator[_Plan]:
    """A plan per benchmark of a list (aime24,math500); a file that has a comma in its name is one."""
    listed = isinstance(problems, str) and "," in problems and not Path(problems).exists()
    names = [name.strip() for name in problems.split(",") if name.strip()] if listed else [problems]
    _check_complete(call)
    for name in names:
        folder = Path(call.out or "") / _folder_name(name) if len(names) > 1 else Path(call.out or "")
        yield _Plan(str(name) if isinstance(name, str | Path) else "", folder, name, call)


def _plans_of_file(path: Path, call: _Call) -> Iterator[_Plan]:
    """A plan per benchmark and decoding of a study file; what was typed wins over the file."""
    from offleash.studies.study_file import read_study_file

    if call.models:
        raise OffleashError(f"{path} names its models, and so does the command: {call.models[0]}. Leave one out.")
    file = read_study_file(path, describe(study))
    options = file.options
    defaults = {name: option.default for name, option in describe(study).options.items()}
    plain = {
        name: _typed_or_stored(getattr(call, name), defaults[name], options.get(name))
        for name in ("k", "out", "until", "seed", "verifier", "fail_if")
    }
    groups = {
        name: _with_options(getattr(call, name), options) for name in ("prompting", "engine", "selection", "judging")
    }
    full_call = replace(call, models=(file.models.base, *file.models.rl), **plain, **groups)
    counts = len(file.benchmarks), len(file.decodings)
    for entry in file.benchmarks:
        values = {"size": entry.size, "problem_seed": entry.problem_seed, "source": entry.source}
        selection = _with_options(
            full_call.selection, {name: value for name, value in values.items() if value is not None}
        )
        budget = call.k if call.k is not None else file.budget(entry.name) or full_call.k
        for number, decoding in enumerate(file.decodings):
            chosen = _with_options(call.decoding, {**options, **decoding})
            parts = [_folder_name(entry.name)] if counts[0] > 1 else []
            parts += [_decoding_name(chosen, number)] if counts[1] > 1 else []
            plan_call = replace(full_call, k=budget, decoding=chosen, selection=selection)
            _check_complete(plan_call)
            name = f"{entry.name}{f' {parts[-1]}' if counts[1] > 1 else ''}"
            yield _Plan(name, Path(plan_call.out or "") / "-".join(parts), entry.name, plan_call)


def _typed_or_stored(typed: object, default: object, stored: object) -> Any:
    """A value that was typed, else that of the file, else the default."""
    return typed if typed != default or stored is None else stored


def _with_options(group: Any, options: Mapping[str, object]) -> Any:
    """A group of options: what was typed, else what the file says, else the defaults."""
    default = type(group)()
    values = {field.name: getattr(group, field.name) for field in fields(group)}
    return replace(
        group,
        **{name: _typed_or_stored(value, getattr(default, name), options.get(name)) for name, value in values.items()},
    )


def _check_complete(call: _Call) -> None:
    """Refuse a study without a base, a model after RL, a budget or a folder."""
    if len(call.models) < 2:
        first_model = call.models[0] if call.models else "none"
        raise OffleashError(
            f"study needs a base and a model after RL; found {first_model}. Write: study PROBLEMS BASE RL."
        )
    declared = describe(study)
    for name in ("k", "out"):
        if getattr(call, name) is None:
            raise missing_error("study", declared.options[name])


def _conditions(call: _Call) -> "tuple[Condition, ...]":
    """The conditions of --fail-if; one on more samples than would be drawn is refused before they are."""
    from offleash.comparing.conditions import check_budget, parse_conditions

    conditions = parse_conditions(call.fail_if)
    if isinstance(call.k, int):
        for condition in conditions:
            check_budget(condition, call.k)
    return conditions


def _folder_name(name: object) -> str:
    from offleash.data.run_folder import folder_name

    return folder_name(Path(str(name)).name.partition(".")[0] if "/" in str(name) else str(name))


def _decoding_name(decoding: Decoding, number: int) -> str:
    changed = [
        f"{short}{value:g}"
        for short, value in (("t", decoding.temperature), ("p", decoding.top_p))
        if value is not None
    ]
    return "-".join([decoding.decoding, *changed]) if changed or not number else f"{decoding.decoding}-{number}"


def _request(plan: _Plan, dry_run: bool, progress: Progress) -> "tuple[StudyRequest, bool]":
    """What a plan asks for, and whether its problems are known: a dry run counts those of benchmarks."""
    from offleash.problems.templates import with_template
    from offleash.samplers.sampler import sampling_params
    from offleash.studies.study import StudyRequest

    call = plan.call
    template = template_of(call.prompting)
    models = models_of(call.models, call.engine, call.prompting, engines=not dry_run)
    frame = _problem_frame(plan.problems, call.selection) if dry_run else None
    known = frame is None
    if frame is None:
        frame = with_template(problem_frame(plan.problems, call.selection, progress), template)
    assert call.k is not None
    params = sampling_params(call.decoding)
    return StudyRequest(frame, models, params, call.k, call.until, call.seed, template), known


def _problem_frame(problems: Any, selection: ProblemSelection) -> "pl.DataFrame | None":
    """As many problems as a benchmark has, without fetching or generating them; None for files and tables."""
    from offleash.loading.problem_set import placeholders

    if not isinstance(problems, str) or selection.source is not None:
        return None
    return placeholders(problems, selection.size)


def _cost_text(plan: _Plan, request: "StudyRequest") -> str:
    from offleash.studies.study import cost_text

    text = cost_text(request, request.cost())
    return f"{plan.name}: {text}" if plan.folder != Path(plan.call.out or "") else text


def _check(
    request: "StudyRequest",
    folder: Path,
    verifying: "VerifyOptions",
    progress: Progress,
    *,
    engines: bool,
    problems: bool,
) -> None:
    from offleash.studies.study import check_study

    check_study(request, folder, verifying, progress, engines, problems)


def _run(
    request: "StudyRequest",
    folder: Path,
    verifying: "VerifyOptions",
    conditions: "tuple[Condition, ...]",
    command: str,
    progress: Progress,
    announce: Progress,
) -> "StudyResult":
    """Draw, judge and compare one benchmark at one decoding."""
    from offleash.comparing.conditions import check_conditions
    from offleash.drawing.report import estimate_text, summary_text
    from offleash.results.comparison import ComparisonResult
    from offleash.results.samples import StudyResult
    from offleash.studies.study import study as run_study

    done = run_study(
        request,
        folder,
        verifying,
        progress=progress,
        announce=lambda estimate: announce(estimate_text(estimate)),
        drawn=lambda run: announce(summary_text(run, alone=False)),
    )
    if not done.comparisons or done.inputs is None:
        return StudyResult(request.cost(), done)
    checked = check_conditions(conditions, done.comparisons)
    result = ComparisonResult(done.inputs, done.comparisons, done.union, conditions=checked)
    page = result.save(folder / "report.html", command=command, progress=progress)
    return StudyResult(request.cost(), done, result, page)
