"""offleash study: two models in, what RL kept, lost and found out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.commands import taking
from offleash.cli.judging import Judged
from offleash.cli.models import Decoded, K, Opened, Seed, Until
from offleash.cli.output import AsJson, console, print_json, progress, say, warn
from offleash.cli.posing import Posed, ProblemsName

if TYPE_CHECKING:
    from offleash.progress import Progress
    from offleash.studies import Cost, Studied


@taking()
def study(
    problems: ProblemsName,
    base: Annotated[str, typer.Argument(metavar="BASE", help="The model before: hf:, vllm:, endpoint: or scripted:.")],
    rl: Annotated[str, typer.Argument(metavar="RL", help="The model after RL.")],
    k: K,
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Where the two runs go: DIR/base, DIR/rl.")],
    decoded: Decoded,
    opened: Opened,
    posed: Posed,
    judged: Judged,
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
    from offleash.studied import cost_text, studied_document
    from offleash.studies import TwoModels, check_study
    from offleash.studies import study as run

    pair, way, judging = (opened.model(base), opened.model(rl)), decoded.way(), judged.judging()
    with progress(as_json) as tell:
        frame = posed.frame(problems, tell)
        asked = TwoModels(frame, pair, way, k, until, seed)
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


def _page(done: "Studied", tell: "Progress") -> Path | None:
    """The page of a study, in its folder; none while samples are missing."""
    if done.comparison is None:
        return None
    from offleash.cli.command import command_line
    from offleash.render.output import write_text
    from offleash.reporting.page.build import Telling, report_page
    from offleash.reporting.subject import subject

    path = done.folder / "report.html"
    write_text(path, report_page(subject([done.comparison]), Telling(command=command_line()), tell))
    return path


def _dry(cost: "Cost", as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json(asdict(cost))
