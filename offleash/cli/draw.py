"""The verbs that draw from a model: draw, certify, nucleus, study, sweep."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.option_groups import taking
from offleash.cli.options import (
    DecodingOptions,
    JudgingOptions,
    K,
    ModelName,
    ModelOptions,
    ProblemOptions,
    ProblemsName,
    Seed,
    Until,
    Verifier,
)
from offleash.cli.output import AsJson, console, print_json, progress, say, warn

if TYPE_CHECKING:
    from offleash.analyses.sweep.sweep import SweepResult
    from offleash.progress import Progress
    from offleash.samplers.sampler import Decoding
    from offleash.studies import Cost, StudyResult

UntilVerifier = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --until: judge with it, not with each problem's own.")
]


@taking(verifier=UntilVerifier)
def draw(
    problems: ProblemsName,
    model: ModelName,
    k: K,
    into: Annotated[Path, typer.Option("-o", "--into", metavar="RUN", help="The run folder to begin or go on with.")],
    decoded: DecodingOptions,
    opened: ModelOptions,
    posed: ProblemOptions,
    judged: JudgingOptions,
    until: Until = 0,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same samples; another one independent samples.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw k samples of every problem from a model, each exactly once.

    Run it again after a kill or a failure: only what is missing is drawn. A larger -k adds samples. With --until,
    samples are judged while others are drawn, and a problem stops at its M-th success. Two draws of the same model with
    the same seed are the same samples: give --seed 1 for independent ones.

    \b
    Examples:
      offleash draw aime24 vllm:Qwen/Qwen2.5-1.5B -k 8192 --until 5 --decoding paper -o runs/base
      offleash draw aime24 hf:./checkpoints/rl -k 64 --max-tokens 2048 -o runs/rl
      offleash draw mine.jsonl endpoint:http://localhost:8000/v1#name -k 1024 -o runs/served
    """
    from offleash.data.certificates import refuse_drawing_into
    from offleash.drawing.draw import draw_arguments
    from offleash.drawing.report import drawn_document, drawn_text, prospect_text

    refuse_drawing_into(into)
    chosen, way, judging = opened.model(model), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        done = draw_arguments(
            into, frame, chosen, way, k, until, seed, judging, tell, lambda prospect: warn(prospect_text(prospect))
        )
    if as_json:
        print_json(drawn_document(done))
    else:
        say(drawn_text(done))
    if done.failed:
        raise typer.Exit(1)


@taking()
def certify(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER.")],
    into: Annotated[Path, typer.Option("-o", "--into", metavar="CERT", help="The folder to begin or go on with.")],
    decoded: DecodingOptions,
    opened: ModelOptions,
    posed: ProblemOptions,
    judged: JudgingOptions,
    epsilon: Annotated[
        float | None, typer.Option(metavar="P", help="Find every completion that is more probable than this.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", metavar="K", help="Instead: epsilon = -ln(0.05)/K. Default 8192: 3.66e-4.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find every completion that is more probable than epsilon, without sampling, and judge it.

    Every prefix above epsilon goes through the model once. There is no sampling noise: all correct completions above
    epsilon, and bounds on the chance of a correct sample. Run it again after a kill: only what is missing is done.

    \b
    Examples:
      offleash certify problems.jsonl hf:./base --epsilon 3.66e-4 --max-tokens 64 -o certs/base
      offleash certify problems.jsonl hf:./rl -k 8192 --max-tokens 64 -o certs/rl
      offleash compare certs/base certs/rl
    """
    from offleash.analyses.certificates.certify import certify_arguments, threshold
    from offleash.analyses.certificates.report import certified_document, certified_text, planned_text

    above, chosen, way, judging = threshold(epsilon, k), opened.model(model), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        done = certify_arguments(
            into, frame, chosen, way, above, judging, tell, lambda planned: warn(planned_text(planned))
        )
    if as_json:
        print_json(certified_document(done))
    else:
        say(certified_text(done))
    if done.troubles:
        raise typer.Exit(1)


@taking()
def nucleus(
    certificates: Annotated[
        list[Path], typer.Argument(metavar="CERT...", help="Certificates made with top-p 1 (offleash certify).")
    ],
    opened: ModelOptions,
    top_p: Annotated[str, typer.Option("--top-p", metavar="P,P,...", help="What to cut with.")] = "0.8,0.9,0.95,0.99",
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Cut the law of this temperature, not the certificate's own.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Where the certificate's model stands now: hf:PATH.")
    ] = None,
    verifier: Verifier = None,
    as_json: AsJson = False,
) -> None:
    """What top-p cuts off: correct completions that it sets to exactly zero, from exact certificates.

    Every correct completion of a certificate is read again, token by token, under each top-p. One that has a token in
    a tail that is cut can never be drawn: no budget brings it back. The model is opened as it was for the certificate,
    but for what --set and --raw say.

    \b
    Examples:
      offleash nucleus certs/base certs/rl
      offleash nucleus certs/rl --top-p 0.9,0.95 --temperature 0.6
      offleash nucleus certs/base --model hf:./base --json
    """
    from offleash.analyses.certificates.nucleus import cut_arguments
    from offleash.analyses.certificates.report import cutoff_document, show_cutoff
    from offleash.analyses.sweep.runs import numbers

    chosen = None if model is None else replace(opened, settings=None).model(model)
    with progress(as_json) as tell:
        found = cut_arguments(
            certificates, numbers(top_p, "--top-p"), temperature, chosen, verifier, tell, opened.named(), opened.raw
        )
    if as_json:
        print_json(cutoff_document(found))
        return
    show_cutoff(console(), found)


@taking()
def study(
    problems: ProblemsName,
    base: Annotated[str, typer.Argument(metavar="BASE", help="The model before: hf:, vllm:, endpoint: or scripted:.")],
    rl: Annotated[str, typer.Argument(metavar="RL", help="The model after RL.")],
    k: K,
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Where the two runs go: DIR/base, DIR/rl.")],
    decoded: DecodingOptions,
    opened: ModelOptions,
    posed: ProblemOptions,
    judged: JudgingOptions,
    until: Until = 0,
    seed: Seed = 0,
    dry: Annotated[bool, typer.Option("--dry-run", help="Check, say what it would cost, and draw nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw from two models, judge their samples and compare them: two models in, one answer out.

    Run it again after a kill: it goes on where it was. One model is in memory at a time. The two run folders can be
    used by every other command; DIR/report.html is the page of the result.

    \b
    Examples:
      offleash study aime24 vllm:Qwen/Qwen2.5-1.5B vllm:./checkpoints/rl -k 8192 --until 5 --decoding paper -o runs/aime
      offleash study mine.jsonl hf:./base hf:./base+./lora -k 1024 --until 5 --max-tokens 512 -o runs/mine
      offleash study aime24 vllm:org/base vllm:org/rl -k paper --set tensor_parallel_size=2 -o runs/aime --dry-run
    """
    from offleash.drawing.report import drawn_text, prospect_text
    from offleash.studies import StudyRequest, check_study, cost_text, studied_document
    from offleash.studies import study as run

    pair, way, judging = (opened.model(base), opened.model(rl)), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        asked = StudyRequest(frame, pair, way, k, until, seed)
        cost = asked.cost()
        warn(cost_text(asked, cost))
        if dry:
            check_study(asked, into, judging, tell)
            _dry(cost, as_json)
            return
        done = run(
            asked, into, judging, None, tell,
            lambda prospect: warn(prospect_text(prospect)), lambda drawn: warn(drawn_text(drawn, alone=False)),
        )  # fmt: skip
        path = _page(done, tell)
    if as_json:
        print_json(studied_document(done, path))
    elif done.comparison is not None:
        from offleash.reporting.comparison import show

        show(console(), [done.comparison])
        say(f"\nAgain: offleash compare {into / 'base'} {into / 'rl'}   What to doubt: ... --flips\nReport: {path}")
    if done.comparison is None or any(drawn.failed for drawn in done.drawn):
        raise typer.Exit(1)


def _page(done: "StudyResult", tell: "Progress") -> Path | None:
    """The page of a study, in its folder; none while samples are missing."""
    if done.comparison is None:
        return None
    from offleash.cli.output import command_line
    from offleash.render.output import write_text
    from offleash.reporting.figures import subject
    from offleash.reporting.page.build import PageText, report_page

    path = done.folder / "report.html"
    write_text(path, report_page(subject([done.comparison]), PageText(command=command_line()), tell))
    return path


def _dry(cost: "Cost", as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json(asdict(cost))


Label = "NAME=MODEL names its folder."


@taking("temperature", "top_p", "referee", "referee_model")
def sweep(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"hf:, vllm:, endpoint: or scripted:. {Label}")],
    decoded: DecodingOptions,
    opened: ModelOptions,
    posed: ProblemOptions,
    judged: JudgingOptions,
    after: Annotated[
        str | None, typer.Argument(metavar="MODEL2", help="The model after RL, compared with the first.")
    ] = None,
    temperature: Annotated[
        str | None,
        typer.Option(metavar="T,T,...", help="Default 0.6,0.8,1.0,1.2; with --match that of --decoding."),
    ] = None,
    top_p: Annotated[
        str | None, typer.Option("--top-p", metavar="P,P,...", help="Default: that of --decoding.")
    ] = None,
    k: Annotated[str, typer.Option("-k", metavar="K", help="Samples a problem at every decoding.")] = "256",
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Runs go to DIR/MODEL/t0.6-p0.95.")] = Path(
        "runs/sweep"
    ),
    match: Annotated[
        bool, typer.Option("--match", help="Also give MODEL2 the token entropy of MODEL, by its temperature.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Support against temperature: .svg, .png or .pdf.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Draw one or two models at every temperature and top-p of a grid, and show what they reach at each.

    Two models are compared at equal decoding, each at its own best one (chosen on other problems than it is valued on),
    and with --match at equal token entropy. Run it again after a kill or with a larger grid: only what is missing is
    drawn. Every point is an ordinary run folder.

    \b
    Examples:
      offleash sweep mine.jsonl hf:./base hf:./rl --temperature 0.6,0.8,1.0,1.2 -k 256 -o runs/sweep
      offleash sweep aime24 vllm:org/base --top-p 0.9,0.95,1.0 -k 64 -o runs/top-p
      offleash sweep mine.jsonl base=hf:./base rl=hf:./rl --match -k 1024 -o runs/match --figure match.svg
    """
    if figure is not None:
        _check_place(figure)
    from offleash.analyses.sweep.report import show_sweep, swept_document
    from offleash.analyses.sweep.runs import split_label
    from offleash.analyses.sweep.sweep import SweepRequest
    from offleash.analyses.sweep.sweep import sweep as run

    ways = _grid(decoded.way(), temperature, top_p, match)
    named = [split_label(text) for text in (model, after) if text is not None]
    chosen = tuple((label, opened.model(text)) for label, text in named)
    judging = judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        found = run(SweepRequest(frame, chosen, ways, k, seed, match), into, judging, tell)
    try:
        if figure is not None:
            _draw(found, figure)
    finally:  # a figure that cannot be written is no reason to lose the rest
        if as_json:
            print_json(swept_document(found))
        else:
            show_sweep(console(), found)
    if figure is not None and not as_json:
        say(f"Figure: {figure}")
    if found.missing or found.unmatched:
        raise typer.Exit(1)


def _grid(way: "Decoding", temperature: str | None, top_p: str | None, match: bool) -> "tuple[Decoding, ...]":
    """Every decoding that is asked for."""
    from offleash.analyses.sweep.runs import USUAL, grid, numbers

    usual = (way.temperature,) if match else USUAL
    temperatures = usual if temperature is None else numbers(temperature, "--temperature")
    return grid(way, temperatures, (way.top_p,) if top_p is None else numbers(top_p, "--top-p"))


def _draw(found: "SweepResult", figure: Path) -> None:
    from offleash.analyses.sweep.figures import support_by_decoding
    from offleash.render.export import write_figure

    write_figure(support_by_decoding(found), figure, "--figure")


def _check_place(figure: Path) -> None:
    """Refuse a figure that could not be written, before anything is drawn."""
    from offleash.render.output import check_place

    check_place(figure, option="--figure")
    from offleash.render.export import kind_of

    kind_of(figure)
