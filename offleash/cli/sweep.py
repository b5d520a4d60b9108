"""offleash sweep: support as a function of the decoding, for one model or two."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.models import Decoded, Opened, Seed
from offleash.cli.output import AsJson, console, print_json, progress, say
from offleash.cli.posing import Posed, ProblemsName

if TYPE_CHECKING:
    from offleash.analyses.sweep.sweep import Swept
    from offleash.samplers.sampler import Decoding

Label = "NAME=MODEL names its folder."


@taking("temperature", "top_p", "referee", "referee_model")
def sweep(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"hf:, vllm:, endpoint: or scripted:. {Label}")],
    decoded: Decoded,
    opened: Opened,
    posed: Posed,
    judged: Judged,
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
    from offleash.analyses.sweep.sweep import Asked
    from offleash.analyses.sweep.sweep import sweep as run

    ways = _grid(decoded.way(), temperature, top_p, match)
    named = [split_label(text) for text in (model, after) if text is not None]
    chosen = tuple((label, opened.model(text)) for label, text in named)
    judging = judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        found = run(Asked(frame, chosen, ways, k, seed, match), into, judging, tell)
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


def _draw(found: "Swept", figure: Path) -> None:
    from offleash.analyses.sweep.figures import support_by_decoding
    from offleash.render.export import write_figure

    write_figure(support_by_decoding(found), figure, "--figure")


def _check_place(figure: Path) -> None:
    """Refuse a figure that could not be written, before anything is drawn."""
    from offleash.render.output import check_place

    check_place(figure, option="--figure")
    from offleash.render.export import kind_of

    kind_of(figure)
