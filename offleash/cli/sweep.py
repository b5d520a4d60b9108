"""offleash sweep: support as a function of the decoding, for one model or two."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli import models
from offleash.cli.judging import Jobs, NoCache, TrustCode
from offleash.cli.problems import Map, ProblemSeed, ProblemsName, Size, Source
from offleash.cli.reading import AsJson, named_columns, printable, progress

Label = "NAME=MODEL names its folder."


def sweep(
    problems: ProblemsName,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"hf:, vllm:, endpoint: or scripted:. {Label}")],
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
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same samples.")] = 0,
    decoding: models.DecodingName = "plain",
    top_k: models.TopK = None,
    min_p: models.MinP = None,
    max_tokens: models.MaxTokens = None,
    stop: models.Stop = None,
    settings: models.Settings = None,
    raw: models.Raw = False,
    size: Size = None,
    problem_seed: ProblemSeed = 0,
    source: Source = None,
    columns: Map = None,
    verifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge all problems with it, not each with its own.")
    ] = None,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    no_cache: NoCache = False,
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
    from offleash.report.decoding.sweep import show_sweep, swept_document
    from offleash.study.decoding.grid import USUAL, grid, numbers, split_label
    from offleash.study.decoding.sweep import Asked
    from offleash.study.decoding.sweep import sweep as run
    from offleash.study.problems import load_problems
    from offleash.study.verifying import verifying

    if figure is not None:
        _check_place(figure)
    way = models.decoding(decoding, None, None, top_k, min_p, max_tokens, stop)
    usual = (way.temperature,) if match else USUAL
    temperatures = usual if temperature is None else numbers(temperature, "--temperature")
    ways = grid(way, temperatures, (way.top_p,) if top_p is None else numbers(top_p, "--top-p"))
    named = [split_label(text) for text in (model, after) if text is not None]
    chosen = tuple((label, models.model(text, settings, raw)) for label, text in named)
    judging = verifying(verifier, False, False, jobs, trust_code, not no_cache)
    mapped = named_columns(columns or [], "gold=answer")
    with progress(as_json) as tell:
        tell(f"reading {problems}")
        frame = load_problems(problems, size=size, seed=problem_seed, source=source, columns=mapped).frame
        found = run(Asked(frame, chosen, ways, k, seed, match), into, judging, tell)
    if figure is not None:
        from offleash.report.figures.decoding import support_by_decoding
        from offleash.report.figures.export import write_figure

        write_figure(support_by_decoding(found), figure)
    if as_json:
        import json

        print(json.dumps(swept_document(found), ensure_ascii=False, allow_nan=False))
    else:
        from rich.console import Console

        show_sweep(Console(markup=False, emoji=False, highlight=False), found)
        if figure is not None:
            print(printable(f"Figure: {figure}"))
    if found.missing or found.unmatched:
        raise typer.Exit(1)


def _check_place(figure: Path) -> None:
    """Refuse a figure that could not be written, before anything is drawn."""
    from offleash.report.figures.export import kind_of
    from offleash.report.place import check_place

    kind_of(figure)
    check_place(figure)
