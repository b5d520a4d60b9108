"""offleash report: one page that says what was found and leads down to the single sample."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.asking import Asked
from offleash.cli.commands import taking
from offleash.cli.options import LogFormat, Logs, Runs
from offleash.cli.output import AsJson, print_json, progress, say
from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from offleash.comparing.figures.subject import Subject
    from offleash.progress import Progress

ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".tex": "latex"}
FORMATS = ("html", "md", "latex")


@taking(log_format=LogFormat)
def report(
    runs: Runs,
    asked: Asked,
    logs: Logs,
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
    from offleash.reporting.subject import subject_of

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


def _written(kind: str, subject: "Subject", intervals: bool, tell: "Progress") -> str:
    from offleash.cli.command import command_line

    command = command_line()
    if kind == "md":
        from offleash.reporting.markdown import markdown

        return markdown(subject.comparisons, subject.together, command)
    if kind == "latex":
        from offleash.reporting.latex import latex

        return latex(subject.comparisons, intervals)
    from offleash.reporting.page.build import Telling, report_page

    return report_page(subject, Telling(command=command), tell)


def _say(path: Path | None, kind: str, text: str, found: str, as_json: bool) -> None:
    size = len(text.encode())
    if as_json:
        place = {"report": str(path)} if path is not None else {"text": text}
        print_json({**place, "format": kind, "bytes": size, "finding": found})
        return
    say(f"{found}\nReport: {path} ({size / 1e6:.1f} MB)" if kind == "html" else f"Report: {path}")
