"""Sampling from models: draw, sweep; and enumerating a small model's completions: certify, nucleus."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.options import (
    Data,
    Decoding,
    EngineOptions,
    Flag,
    Judging,
    K,
    ModelName,
    ProblemSelection,
    Prompting,
    Seed,
    Until,
    Verdicts,
    Verifier,
)
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.problems.problem import ProblemSet
    from offleash.results.analyses import CertifyResult, NucleusResult, SweepResult
    from offleash.results.samples import DrawResult, ProblemSetResult
    from offleash.samplers.registry import Model

PROBLEMS = Data("PROBLEMS", "A benchmark, reasoning_gym:TASK, countdown:PART or a file (see: offleash problems).")


@verb
def draw(
    problems: Annotated["str | Path | pl.DataFrame | ProblemSetResult", PROBLEMS],
    model: ModelName,
    *,
    k: K,
    out: Annotated[str | Path, Flag("Run folder; an existing run is resumed.", short="-o", metavar="RUN")],
    until: Until = 0,
    seed: Seed = 0,
    verify: Annotated[bool, Flag("Judge the samples when all are drawn; --no-verify leaves that to verify.")] = True,
    verifier: Verifier = None,
    decoding: Decoding = Decoding(),
    prompting: Prompting = Prompting(),
    engine: EngineOptions = EngineOptions(),
    selection: ProblemSelection = ProblemSelection(),
    judging: Judging = Judging(),
    progress: Progress = silent,
    announce: Progress = silent,
) -> "DrawResult":
    """Draw k samples per problem from a model, each exactly once.

    Run it again after an interruption or a failure: only what is missing is drawn. A larger -k adds samples. Samples
    are judged at the end, or with --until while others are drawn: a problem then stops at its M-th correct one. Two
    draws from the same model with the same seed give the same samples: use --seed 1 for independent ones.

    Examples:
      offleash draw aime24 vllm:Qwen/Qwen2.5-1.5B -k 8192 --until 5 --decoding paper -o runs/base
      offleash draw aime24 hf:./checkpoints/rl -k 64 --max-tokens 2048 -o runs/rl
      offleash draw mine.jsonl endpoint:http://localhost:8000/v1#name -k 1024 -o runs/served

    In Python:
      >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base")
      >>> run.folder.name, run.samples
      ('base', 64)
      >>> more = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=20, out="runs/base")
      >>> more.samples, more.run.new  # the first 16 of each problem were there
      (80, 16)
    """
    from offleash.data.certificates import refuse_drawing_into
    from offleash.drawing.draw import draw_model, judge_new_samples
    from offleash.drawing.report import estimate_text
    from offleash.problems.templates import with_template
    from offleash.results.samples import DrawResult
    from offleash.samplers.sampler import sampling_params
    from offleash.verifying.verify import verify_options

    folder = Path(out)
    refuse_drawing_into(folder)
    template = template_of(prompting)
    chosen, params = models_of([model], engine, prompting)[0], sampling_params(decoding)
    verifying = verify_options(verifier, judging)
    frame = with_template(problem_frame(problems, selection, progress), template)
    summary = draw_model(
        folder,
        frame,
        chosen,
        params,
        k,
        until,
        seed,
        verifying,
        progress,
        lambda estimate: announce(estimate_text(estimate)),
        template,
    )
    return DrawResult(judge_new_samples(summary, verifying, progress) if verify else summary)


def template_of(prompting: Prompting) -> str | None:
    """The text of the template that was named, read before anything slow."""
    from offleash.problems.templates import read_template

    return None if prompting.prompt is None else read_template(Path(prompting.prompt))


def models_of(
    names: Sequence[str], engine: EngineOptions, prompting: Prompting, engines: bool = True
) -> "tuple[Model, ...]":
    """Models by name, each loaded with the same options; one that does not exist is refused before problems are read.

    ExcludedOptions `engines` no package has to be installed.
    """
    from offleash.drawing.draw import check_model
    from offleash.samplers.chat_template import chat_options
    from offleash.samplers.registry import model_of

    chat = chat_options(prompting.system, prompting.chat_kwargs, engine.raw)
    models = tuple(model_of(name, engine.settings, engine.raw, chat) for name in names)
    for model in models:
        if model.sampler in ("hf", "vllm"):  # of others only opening them tells, which is left to the draw
            check_model(model, engines)
    return models


def problem_frame(
    problems: "str | Path | pl.DataFrame | ProblemSetResult", selection: ProblemSelection, progress: Progress = silent
) -> "pl.DataFrame":
    """The problems that a user names, as a table; a table is returned unchanged."""
    import polars as pl

    from offleash.errors import OffleashError
    from offleash.results.samples import ProblemSetResult

    if isinstance(problems, str | Path):
        return read_problems(problems, selection, progress).frame
    if selection != ProblemSelection():
        raise OffleashError("These problems are already a table. Select from it first: problem_set(name, size=...).")
    frame = problems.frame if isinstance(problems, ProblemSetResult) else problems
    if not isinstance(frame, pl.DataFrame):
        raise OffleashError(
            f"Problems must be a name, a file or a polars DataFrame; found a {type(problems).__name__}."
        )
    return frame


def read_problems(name: str | Path, selection: ProblemSelection, progress: Progress = silent) -> "ProblemSet":
    """The problems of a name or a file, with notes on how they were read."""
    from offleash.loading.problem_set import load_problems

    progress(f"reading {name}")
    return load_problems(
        name, size=selection.size, seed=selection.problem_seed, source=selection.source, columns=selection.columns
    )


@verb
def sweep(
    problems: Annotated["str | Path | pl.DataFrame | ProblemSetResult", PROBLEMS],
    model: Annotated[str, Data("MODEL", "hf:, vllm:, endpoint: or scripted:. NAME=MODEL names its folder.")],
    after: Annotated[str | None, Data("MODEL2", "The model after RL, compared with the first.")] = None,
    *,
    temperature: Annotated[
        float | Sequence[float] | None,
        Flag(
            "Grid of temperatures. Default: 0.6,0.8,1.0,1.2; with --match, that of --decoding.",
            metavar="T,T,...",
            least=0,
        ),
    ] = None,
    top_p: Annotated[
        float | Sequence[float] | None,
        Flag("Grid of top-p values. Default: that of --decoding.", metavar="P,P,...", above=0, most=1),
    ] = None,
    k: K = 256,
    out: Annotated[
        str | Path,
        Flag("Folder for the runs: DIR/MODEL/t0.6-p0.95; existing ones are resumed.", short="-o", metavar="DIR"),
    ] = "runs/sweep",
    prompts: Annotated[
        Sequence[str],
        Flag("Draw under each of these prompt templates; 'own' is each problem's own prompt.", metavar="FILE,FILE,..."),
    ] = (),
    match: Annotated[bool, Flag("Also match the token entropy of MODEL, by the temperature of MODEL2.")] = False,
    figure: Annotated[str | Path | None, Flag("Write the figure: .svg, .pdf or .png.", metavar="FILE")] = None,
    seed: Seed = 0,
    verifier: Verifier = None,
    decoding: Decoding = Decoding(),
    prompting: Prompting = Prompting(),
    engine: EngineOptions = EngineOptions(),
    selection: ProblemSelection = ProblemSelection(),
    judging: Judging = Judging(),
    progress: Progress = silent,
) -> "SweepResult":
    """Draw from one or two models at every temperature and top-p of a grid, and show what they reach at each.

    Two models are compared at equal decoding, each at its own best decoding (chosen on other problems than those it is
    evaluated on), and with --match at equal token entropy. --prompts draws under several prompts, and says which
    problems that RL gained under one the base reaches under another. Run it again after an interruption or with a
    larger grid: only what is missing is drawn. Every point is an ordinary run folder.

    Examples:
      offleash sweep mine.jsonl hf:./base hf:./rl --temperature 0.6,0.8,1.0,1.2 -k 256 -o runs/sweep
      offleash sweep aime24 vllm:org/base --top-p 0.9,0.95,1.0 -k 64 -o runs/top-p
      offleash sweep mine.jsonl base=hf:./base rl=hf:./rl --match -k 1024 -o runs/match --figure match.svg
      offleash sweep mine.jsonl hf:./base hf:./rl --prompts own,brief.txt -k 256 -o runs/prompts

    In Python:
      >>> result = ol.sweep("examples/problems.jsonl", "scripted:examples/sums.json", temperature=[0.6, 1.0], k=16,
      ...                   out="runs/sweep")
      >>> sorted(path.name for path in Path("runs/sweep").glob("*/*"))
      ['t0.6-p1', 't1-p1']
    """
    from offleash.analyses.sweep.prompts import read_prompts, sweep_prompts
    from offleash.analyses.sweep.runs import DEFAULT_TEMPERATURES, grid
    from offleash.analyses.sweep.sweep import SweepRequest
    from offleash.analyses.sweep.sweep import sweep as run_sweep
    from offleash.errors import OffleashError
    from offleash.problems.templates import with_template
    from offleash.results.analyses import SweepResult
    from offleash.samplers.sampler import sampling_params
    from offleash.verifying.verify import verify_options

    if figure is not None:
        from offleash.render.export import kind_of
        from offleash.render.output import check_writable

        if prompts:
            raise OffleashError("--figure shows one prompt, but --prompts draws under several. Leave one out.")
        check_writable(Path(figure), option="--figure")
        kind_of(Path(figure))
    if prompts and prompting.prompt is not None:
        raise OffleashError(f"--prompt {prompting.prompt} and --prompts both set the prompt. Leave one out.")
    named_prompts = read_prompts([word for text in prompts for word in text.split(",")]) if prompts else ()
    template, params = template_of(prompting), sampling_params(decoding)
    # what is compared is the match or the prompts: other temperatures only where they are asked for
    default_temperatures = (params.temperature,) if match or prompts else DEFAULT_TEMPERATURES
    decodings = grid(params, as_tuple(temperature) or default_temperatures, as_tuple(top_p) or (params.top_p,))
    names = [text for text in (model, after) if text is not None]
    models = tuple((opened.label, opened) for opened in models_of(names, engine, prompting))
    verifying, frame = verify_options(verifier, judging), problem_frame(problems, selection, progress)
    if named_prompts:
        request = SweepRequest(frame, models, decodings, k, seed, match)
        return SweepResult(None, prompts=sweep_prompts(request, named_prompts, Path(out), verifying, progress))
    request = SweepRequest(with_template(frame, template), models, decodings, k, seed, match, template)
    result = SweepResult(run_sweep(request, Path(out), verifying, progress))
    return result if figure is None else result.with_figure(Path(figure))


def as_tuple(value: float | Sequence[float] | None) -> tuple[float, ...]:
    """Numbers of an option that takes one or several."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Sequence) else (value,)


@verb
def certify(
    problems: Annotated["str | Path | pl.DataFrame | ProblemSetResult", PROBLEMS],
    model: Annotated[str, Data("MODEL", "hf:PATH@REVISION+ADAPTER.")],
    *,
    out: Annotated[str | Path, Flag("Output folder; an existing one is resumed.", short="-o", metavar="CERT")],
    epsilon: Annotated[
        float | None, Flag("Find every completion that is more probable than this.", metavar="P", above=0, below=1)
    ] = None,
    at: Annotated[
        int | None, Flag("Set epsilon by a budget instead: -ln(0.05)/K. Default: 8192 (3.66e-4).", metavar="K", least=1)
    ] = None,
    verifier: Verifier = None,
    decoding: Decoding = Decoding(),
    prompting: Prompting = Prompting(),
    engine: EngineOptions = EngineOptions(),
    selection: ProblemSelection = ProblemSelection(),
    judging: Judging = Judging(),
    progress: Progress = silent,
    announce: Progress = silent,
) -> "CertifyResult":
    """Find every completion that is more probable than epsilon, without sampling, and judge it.

    Every prefix above epsilon goes through the model once. The result has no sampling noise: all correct completions
    above epsilon, and bounds on the probability of a correct sample. Run it again to resume.

    Examples:
      offleash certify problems.jsonl hf:./base --epsilon 3.66e-4 --max-tokens 64 -o certs/base
      offleash certify problems.jsonl hf:./rl --at 8192 --max-tokens 64 -o certs/rl
      offleash compare certs/base certs/rl

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> result = ol.certify("test.jsonl", "hf:base", epsilon=0.05, max_tokens=18, out="certs/base")
      >>> result.run.certified, result.ok
      (3, True)
    """
    from offleash.analyses.certificates.certify import certify_model, threshold
    from offleash.analyses.certificates.report import planned_text
    from offleash.problems.templates import with_template
    from offleash.results.analyses import CertifyResult
    from offleash.samplers.sampler import sampling_params
    from offleash.verifying.verify import verify_options

    above, (chosen,) = threshold(epsilon, at), models_of([model], engine, prompting)
    params, verifying, template = sampling_params(decoding), verify_options(verifier, judging), template_of(prompting)
    frame = with_template(problem_frame(problems, selection, progress), template)
    run = certify_model(
        Path(out),
        frame,
        chosen,
        params,
        above,
        verifying,
        progress,
        lambda planned: announce(planned_text(planned)),
        template,
    )
    return CertifyResult(run)


@verb
def nucleus(
    *certificates: Annotated[str | Path, Data("CERT...", "Certificates made with top-p 1 (offleash certify).")],
    top_p: Annotated[float | Sequence[float], Flag("Values of top-p to test.", metavar="P,P,...", above=0, most=1)] = (
        0.8,
        0.9,
        0.95,
        0.99,
    ),
    temperature: Annotated[
        float | None, Flag("Apply top-p at this temperature instead of the certificate's.", metavar="T", least=0)
    ] = None,
    model: Annotated[str | None, Flag("Current path of the certificate's model: hf:PATH.", metavar="MODEL")] = None,
    verdicts: Verdicts = None,
    engine: EngineOptions = EngineOptions(),
    progress: Progress = silent,
) -> "NucleusResult":
    """What top-p cuts off: correct completions whose probability it sets to zero, from exact certificates.

    Every correct completion of a certificate is rescored, token by token, under each top-p. One with a token in the
    truncated tail can never be sampled, whatever the budget. The model is loaded as it was for the certificate, except
    for --set and --raw.

    Examples:
      offleash nucleus certs/base certs/rl
      offleash nucleus certs/rl --top-p 0.9,0.95 --temperature 0.6
      offleash nucleus certs/base --model hf:./base --json

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
      >>> result = ol.certify("test.jsonl", "hf:base", epsilon=0.05, max_tokens=18, out="certs/base")
      >>> cut, = ol.nucleus("certs/base", top_p=[0.9, 0.99]).cuts
    """
    from offleash.analyses.certificates.nucleus import cut_certificates
    from offleash.results.analyses import NucleusResult
    from offleash.samplers.registry import model_of

    chosen: Model | None = None if model is None else model_of(model, None, engine.raw)
    folders = [Path(certificate) for certificate in certificates]
    cuts = cut_certificates(
        folders, as_tuple(top_p), temperature, chosen, verdicts, progress, engine.settings, engine.raw
    )
    return NucleusResult(tuple(cuts))
