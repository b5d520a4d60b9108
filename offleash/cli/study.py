"""offleash study: two models in, what RL kept, lost and found out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli import models
from offleash.cli.judging import Jobs, NoCache, Referee, RefereeModel, TrustCode
from offleash.cli.problems import Map, ProblemSeed, ProblemsName, Size, Source
from offleash.cli.reading import AsJson, named_columns, printable, progress

if TYPE_CHECKING:
    from offleash.study.load import Progress
    from offleash.study.two_models import Cost, Studied


def study(
    problems: ProblemsName,
    base: Annotated[str, typer.Argument(metavar="BASE", help="The model before: hf:, vllm:, endpoint: or scripted:.")],
    rl: Annotated[str, typer.Argument(metavar="RL", help="The model after RL.")],
    k: Annotated[str, typer.Option("-k", metavar="K", help="Samples a problem; paper: the paper's budget.")],
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Where the two runs go: DIR/base, DIR/rl.")],
    until: Annotated[int, typer.Option(metavar="M", help="Stop a problem at its M-th success; 0: draw all.")] = 0,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same samples.")] = 0,
    decoding: models.DecodingName = "plain",
    temperature: models.Temperature = None,
    top_p: models.TopP = None,
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
    referee: Referee = None,
    referee_model: RefereeModel = None,
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
    from offleash.report.drawn import drawn_text, prospect_text
    from offleash.report.studied import cost_text, studied_document
    from offleash.study.problems import load_problems
    from offleash.study.two_models import TwoModels, check_study
    from offleash.study.two_models import study as run
    from offleash.study.verifying import verifying

    pair = (models.model(base, settings, raw), models.model(rl, settings, raw))
    way = models.decoding(decoding, temperature, top_p, top_k, min_p, max_tokens, stop)
    judging = verifying(verifier, False, False, jobs, trust_code, not no_cache, referee, referee_model)
    mapped = named_columns(columns or [], "gold=answer")

    def say(text: str) -> None:
        print(printable(text), file=sys.stderr)

    with progress(as_json) as tell:
        tell(f"reading {problems}")
        frame = load_problems(problems, size=size, seed=problem_seed, source=source, columns=mapped).frame
        asked = TwoModels(frame, pair, way, k, until, seed)
        cost = asked.cost()
        say(cost_text(asked, cost))
        if dry:
            check_study(asked, into, judging, tell)
            _dry(cost, as_json)
            return
        done = run(
            asked, into, judging, None, tell,
            lambda prospect: say(prospect_text(prospect)), lambda drawn: say(drawn_text(drawn, alone=False)),
        )  # fmt: skip
        path = _page(done, tell)
    if as_json:
        import json

        print(json.dumps(studied_document(done, path), ensure_ascii=False, allow_nan=False))
    elif done.comparison is not None:
        from rich.console import Console

        from offleash.report.terminal import show

        show(Console(markup=False, emoji=False, highlight=False), [done.comparison])
        print(f"\nAgain: offleash compare {into / 'base'} {into / 'rl'}   What to doubt: ... --flips\nReport: {path}")
    if done.comparison is None or any(drawn.failed for drawn in done.drawn):
        raise typer.Exit(1)


def _page(done: "Studied", tell: "Progress") -> Path | None:
    """The page of a study, in its folder; none while samples are missing."""
    if done.comparison is None:
        return None
    from offleash.cli.command import command_line
    from offleash.report.page.build import Telling, report_page
    from offleash.report.place import write_text
    from offleash.report.subject import subject

    path = done.folder / "report.html"
    write_text(path, report_page(subject([done.comparison]), Telling(command=command_line()), tell))
    return path


def _dry(cost: "Cost", as_json: bool) -> None:
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(cost)))
