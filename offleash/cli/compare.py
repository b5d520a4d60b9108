"""The verbs about a comparison: compare, figure, report, view."""

from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.option_groups import taking
from offleash.cli.options import Jobs, LogFormat, LogOptions, QuestionOptions, Runs, TrustCode
from offleash.cli.output import AsJson, console, print_json, progress, say
from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from offleash.comparing.arguments import Union
    from offleash.comparing.compare import Comparison
    from offleash.comparing.figures.figure_input import FigureInput
    from offleash.comparing.flips import Flips
    from offleash.progress import Progress
    from offleash.reporting.view import ViewServer
    from offleash.verifying.logs import Disagreement


@taking()
def compare(
    runs: Runs,
    asked: QuestionOptions,
    logs: LogOptions,
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
    from offleash.comparing.arguments import compare_arguments, flips_arguments, verified_first
    from offleash.comparing.flips import can_flip, flippable
    from offleash.loading.import_logs import ReadableArguments, with_texts
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
        nullcontext(ReadableArguments(named)) if page is None else with_texts(named, how, tell) as read,
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
    from offleash.verifying.logs import show_disagreements

    screen = console()
    show_disagreements(screen, judged)
    show(screen, comparisons, together)
    show_flips(screen, turned)


def _write_page(
    path: Path, comparisons: "list[Comparison]", together: "Union | None", turned: "list[Flips]", tell: "Progress"
) -> None:
    from offleash.cli.output import command_line
    from offleash.render.output import write_text
    from offleash.reporting.figures import subject
    from offleash.reporting.page.build import PageText, report_page

    write_text(path, report_page(subject(comparisons, together, turned), PageText(command=command_line()), tell))


def _compare_certificates(
    runs: list[str], asked: QuestionOptions, logs: LogOptions, word: str, chosen: dict[str, bool], as_json: bool
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


# known without drawing anything; a test holds them equal to the figures there are
NAMES = (
    "passes",
    "plane",
    "support",
    "evidence",
    "accuracy",
    "entropy",
    "positions",
    "distinct",
    "guessing",
    "portfolio",
    "benchmarks",
    "checkpoints",
    "perplexity",
)
COLUMN, WIDEST = 236, 4000  # pixels


@taking(log_format=LogFormat)
def figure(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which figure: {', '.join(NAMES)}.")],
    runs: Runs,
    asked: QuestionOptions,
    logs: LogOptions,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="A file .pdf, .svg or .png.")],
    width: Annotated[
        int | None, typer.Option(metavar="PX", help="Width of the figure; default: a column of a paper, 236.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One figure of a comparison as PDF, SVG or PNG, with the caption that says how to read it.

    Drawn to the width of a column and readable in grey; with --width at any other.

    \b
    Examples:
      offleash figure passes runs/base runs/rl -o passes.pdf
      offleash figure plane runs/base runs/rl -o plane.svg --width 480
      offleash figure checkpoints base step100 step200 -o steps.png
    """
    if name not in NAMES:
        raise unknown("figure", name, NAMES)
    if width is not None and not 150 <= width <= WIDEST:
        raise OffleashError(f"A figure is 150 to {WIDEST:,} pixels wide; found --width {width}.")
    from offleash.render.export import kind_of, write_figure
    from offleash.render.figure import PAPER, FigureFormat, Missing
    from offleash.render.output import check_place
    from offleash.reporting.figures import figure as draw_figure
    from offleash.reporting.figures import subject_of

    kind_of(out)
    check_place(out)
    look = (
        PAPER
        if width is None
        else FigureFormat(width, max(PAPER.height, min(300, width * 3 // 5)), width <= 1.5 * COLUMN)
    )
    with (
        progress(as_json) as tell,
        subject_of(runs, logs.reading(), asked.question(), *asked.names, progress=tell) as subject,
    ):
        drawn = draw_figure(name, subject, look)
    if isinstance(drawn, Missing):
        raise OffleashError(f"The figure {name!r} cannot be drawn: {drawn.reason}.")
    write_figure(drawn, out)
    if as_json:
        told = {"figure": name, "path": str(out), "title": drawn.title, "caption": drawn.caption, "alt": drawn.alt}
        print_json(told)
    else:
        say(f"{drawn.title}\n{drawn.caption}\n{out}")


ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".tex": "latex"}
FORMATS = ("html", "md", "latex")


@taking(log_format=LogFormat)
def report(
    runs: Runs,
    asked: QuestionOptions,
    logs: LogOptions,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where it goes; report.html unless another format is asked."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="html (a page), md (a pull request), latex (rows of a table)."),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="With --format latex: put the 95% intervals beside the rates.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """One page to open, understand and send on: what RL kept, lost and found, and whether to believe it.

    The page is a single file that needs no network: the finding with its uncertainty, figures with how to read them,
    and a table of problems that opens down to the single sample. Large studies hold the problems that were lost and
    found and a sample of the others; `offleash view` shows everything.

    \b
    Examples:
      offleash report runs/base runs/rl -o report.html
      offleash report base=logs/base.jsonl rl=logs/rl.jsonl
      offleash report base.csv rl.csv -o report.html         (counts: no samples to show, all else is there)
      offleash report runs/base step100 step200 step300      (checkpoints: each against the first)
      offleash report runs/base runs/rl --format md          (for a pull request; to the screen without -o)
      offleash report runs/base runs/rl --format latex       (rows as in Table 1 of arXiv:2507.14843)
    """
    from offleash.comparing.sentences import finding
    from offleash.render.output import check_place, write_text
    from offleash.reporting.figures import subject_of

    kind = _kind(format_name, out)
    if intervals and kind != "latex":
        raise OffleashError(
            f"--intervals is for --format latex, and this report is {kind}, which has them; leave it out."
        )
    path = out or (Path("report.html") if kind == "html" else None)
    if path is not None:
        check_place(path)
    with (
        progress(as_json) as tell,
        subject_of(
            runs, logs.reading(), asked.question(), *asked.names, texts=kind == "html", progress=tell
        ) as subject,
    ):
        text = _written(kind, subject, intervals, tell)
    if path is None and not as_json:
        print(text, end="")
        return
    if path is not None:
        write_text(path, text)
    _say(path, kind, text, finding(subject.one), as_json)


def _kind(format_name: str | None, out: Path | None) -> str:
    """Which kind of report: the one named, else by the ending of the file."""
    if format_name is not None:
        if format_name not in FORMATS:
            raise unknown("format of a report", format_name, FORMATS)
        return format_name
    ending = "" if out is None else out.suffix.lower()
    if ending and ending not in ENDINGS:
        raise OffleashError(f"{out} ends in {ending!r}; a report is .html, .md or .tex: name one, or say --format.")
    return ENDINGS.get(ending, "html")


def _written(kind: str, subject: "FigureInput", intervals: bool, tell: "Progress") -> str:
    from offleash.cli.output import command_line

    command = command_line()
    if kind == "md":
        from offleash.reporting.markdown import markdown

        return markdown(subject.comparisons, subject.together, command)
    if kind == "latex":
        from offleash.reporting.latex import latex

        return latex(subject.comparisons, intervals)
    from offleash.reporting.page.build import PageText, report_page

    return report_page(subject, PageText(command=command), tell)


def _say(path: Path | None, kind: str, text: str, found: str, as_json: bool) -> None:
    size = len(text.encode())
    if as_json:
        place = {"report": str(path)} if path is not None else {"text": text}
        print_json({**place, "format": kind, "bytes": size, "finding": found})
        return
    say(f"{found}\nReport: {path} ({size / 1e6:.1f} MB)" if kind == "html" else f"Report: {path}")


@taking(log_format=LogFormat)
def view(
    runs: Runs,
    asked: QuestionOptions,
    logs: LogOptions,
    port: Annotated[int, typer.Option(metavar="N", help="The port of 127.0.0.1 to serve on; 0: any free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """The page of `report` with everything behind it: every sample of every problem, read when it is looked at.

    It is served on 127.0.0.1, to this machine alone, until Ctrl-C. Samples stay in their run folders; logs of other
    tools are copied to a scratch place first, which is removed at the end.

    \b
    Examples:
      offleash view runs/base runs/rl --open
      offleash view base=logs/base.jsonl rl=logs/rl.jsonl
      offleash view runs/base runs/rl --port 8000            (from elsewhere: ssh -L 8000:127.0.0.1:8000 HOST)
      offleash view runs/base runs/rl --json                 (prints the address as JSON, and serves)
    """
    from offleash.cli.output import command_line
    from offleash.reporting.figures import subject_of
    from offleash.reporting.page.build import PageText, view_page
    from offleash.reporting.samples import SampleStore
    from offleash.reporting.view import ViewServer, check_port

    check_port(port)
    with ExitStack() as held:
        with progress(as_json) as tell:
            subject = held.enter_context(
                subject_of(runs, logs.reading(), asked.question(), *asked.names, texts=True, progress=tell)
            )
            page = view_page(subject, PageText(command=command_line()), tell)
        server = held.enter_context(ViewServer(SampleStore(subject.one), page, port))
        _serve(server, open_, as_json)


def _serve(server: "ViewServer", in_browser: bool, as_json: bool) -> None:
    """Say where the page is, and serve it until Ctrl-C."""
    import json
    import sys
    import webbrowser

    print(json.dumps({"url": server.url}) if as_json else f"{server.url}   (Ctrl-C to stop)", flush=True)
    if in_browser and not webbrowser.open(server.url):
        print(f"No browser was found; open {server.url} by hand.", file=sys.stderr)
    server.serve()
    print("Stopped; nothing was changed.", file=sys.stderr if as_json else sys.stdout, flush=True)
