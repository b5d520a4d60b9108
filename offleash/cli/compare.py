"""offleash compare: what RL kept, lost and found."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.asking import Asked
from offleash.cli.commands import taking
from offleash.cli.judging import Jobs, TrustCode
from offleash.cli.options import Logs, Runs
from offleash.cli.output import AsJson, console, print_json, progress, say

if TYPE_CHECKING:
    from offleash.comparing.checkpoints import Union
    from offleash.comparing.compare import Comparison
    from offleash.comparing.flips import Flips
    from offleash.progress import Progress
    from offleash.verifying.logs import Disagreement


@taking()
def compare(
    runs: Runs,
    asked: Asked,
    logs: Logs,
    certified: Annotated[
        str | None,
        typer.Option("--question", help="Of certificates: completion (default) or mass; both are shown."),
    ] = None,
    flips: Annotated[
        bool, typer.Option("--flips", help="List the problems whose class depends on how samples are judged.")
    ] = False,
    verify: Annotated[
        str | None, typer.Option("--verify", metavar="NAME", help="Judge the samples with this verifier first.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write it as a page (.html), samples and all.")
    ] = None,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """What RL kept, lost and found, how sure that is, and what chance alone would give.

    \b
    Examples:
      offleash compare runs/base runs/rl
      offleash compare base=logs/base/samples_aime24.jsonl rl=logs/rl/samples_aime24.jsonl
      offleash compare 'base/output-rs*.jsonl' 'rl/output-rs*.jsonl' --at 64
      offleash compare base.csv rl.csv                       (columns problem,n,c)
      offleash compare outputs.jsonl --split-by model --before base --after rl
      offleash compare base step100 step200 step300          (checkpoints: each against the first, and their union)
      offleash compare runs/base runs/rl --report report.html
      offleash compare runs/base runs/rl --flips             (what to look at before believing it)
      offleash compare base.jsonl rl.jsonl --verify math     (judge other tools' samples anew, and count differences)
      offleash compare certs/base certs/rl                   (of offleash certify: without sampling noise)
    """
    from offleash.analyses.certificates.compare import named_certificates
    from offleash.analyses.entropy.entropy import read_now
    from offleash.comparing.flips import can_flip, flippable
    from offleash.comparing.runs import compare_arguments, flips_arguments, verified_first
    from offleash.loading.texts import Readable, with_texts
    from offleash.render.output import PAGES, check_place

    if named_certificates(runs, asked.rule, certified):
        chosen = {"--flips": flips, "--verify": verify is not None, "--report": page is not None}
        _compare_certificates(runs, asked, logs, certified or "completion", chosen, as_json)
        return
    question = asked.question()
    if flips:
        flippable(question)
    if page is not None:
        check_place(page, PAGES)
    with (
        progress(as_json) as tell,
        verified_first(runs, logs.reading(), verify, jobs, trust_code, tell) as (named, how, judged),
        nullcontext(Readable(named)) if page is None else with_texts(named, how, tell) as read,
    ):
        comparisons, together = compare_arguments(read.arguments, how, question, *asked.names, tell, read.notes)
        if verify is not None or page is not None:
            read_now(comparisons)
        turned = flips_arguments(named, comparisons, how, tell) if flips else []
        if page is not None:
            doubts = turned or (flips_arguments(named, comparisons[-1:], how, tell) if can_flip(question) else [])
            _write_page(page, comparisons, together, doubts, tell)
    if as_json:
        from offleash.reporting.comparison import document

        print_json(document(comparisons, together, turned, judged))
        return
    _show(comparisons, together, turned, judged)
    say(f"\nReport: {page}" if page is not None else "\nAs a page with figures and samples: --report report.html")


def _show(
    comparisons: "list[Comparison]", together: "Union | None", turned: "list[Flips]", judged: "list[Disagreement]"
) -> None:
    from offleash.comparing.flips_report import show_flips
    from offleash.reporting.comparison import show
    from offleash.verifying.disagreements import show_disagreements

    screen = console()
    show_disagreements(screen, judged)
    show(screen, comparisons, together)
    show_flips(screen, turned)


def _write_page(
    path: Path, comparisons: "list[Comparison]", together: "Union | None", turned: "list[Flips]", tell: "Progress"
) -> None:
    from offleash.cli.command import command_line
    from offleash.render.output import write_text
    from offleash.reporting.page.build import Telling, report_page
    from offleash.reporting.subject import subject

    write_text(path, report_page(subject(comparisons, together, turned), Telling(command=command_line()), tell))


def _compare_certificates(
    runs: list[str], asked: Asked, logs: Logs, word: str, chosen: dict[str, bool], as_json: bool
) -> None:
    from offleash.analyses.certificates.compare import certified_question, compare_certificates
    from offleash.analyses.certificates.report import certified_json, show_certified

    samples_only = {
        "--at": asked.at is not None,
        "--per": asked.per != "problem",
        "--tau": bool(asked.tau),
        "--unread": asked.unread != "keep",
        "--guess": asked.guess is not None,
        **chosen,
    }
    sought = certified_question(word, asked.replicates, asked.seed, samples_only)
    with progress(as_json) as tell:
        comparisons = compare_certificates(runs, sought, logs.verifier, *asked.names, tell)
    if as_json:
        print_json(certified_json(comparisons))
    else:
        show_certified(console(), comparisons)
