"""The result of a comparison, and what is made of it: figures, reports, the viewer.

A result made from logs holds copies of them in a scratch folder, so that its samples can be read; the folder goes with
the result.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from offleash.errors import OffleashError, unknown
from offleash.progress import Progress, silent
from offleash.results.result import WIDTH, Metric, Result, console_of, print_text, shown, truncated_repr, unknown_ending

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from rich.console import Console

    from offleash.analyses.certificates.compare import CertifiedComparison
    from offleash.analyses.frontier.frontier import Frontier
    from offleash.comparing.checkpoints import CheckpointUnion
    from offleash.comparing.compare import Comparison
    from offleash.comparing.conditions import CheckedCondition
    from offleash.comparing.evidence import Evidence
    from offleash.comparing.figures.figure_input import FigureInput
    from offleash.comparing.flips import Flips
    from offleash.comparing.headline import Headline
    from offleash.comparing.next_steps import NextStep
    from offleash.comparing.runs import ComparisonInputs
    from offleash.render.figure import Figure, FigureFormat
    from offleash.reporting.problem_lists import ProblemList
    from offleash.reporting.view import ViewServer
    from offleash.stats.change import SupportChange
    from offleash.stats.curves import Curve
    from offleash.verifying.logs import Disagreement

WIDTHS = (150, 4_000)  # pixels of a figure
CONDITION_FAILS = 3  # exit code
FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".tex": "latex"}  # of reports, by ending


def any_condition_fails(conditions: "Sequence[CheckedCondition]") -> bool:
    """Whether a condition of `fail_if` fails; one that is not decided does not."""
    return any(checked.outcome == "fails" for checked in conditions)


def conditions_json(conditions: "Sequence[CheckedCondition]") -> dict[str, Any]:
    """The key `conditions` of a document; nothing where there are none."""
    from offleash.render.json import encode

    return {"conditions": encode(conditions)} if conditions else {}


def show_conditions(out: "Console", conditions: "Sequence[CheckedCondition]") -> None:
    """Print every condition with its value and outcome, last: it decides the exit code."""
    if not conditions:
        return
    from offleash.reporting.comparison import condition_lines

    for line in condition_lines(conditions):
        out.print(line, soft_wrap=True)


@dataclass(frozen=True, repr=False, eq=False)
class ComparisonResult(Result):
    """One run against another, or several checkpoints each against the first; of certificates, `certified`.

    >>> result = ol.compare("examples/counts/base.csv", "examples/counts/rl.csv")
    >>> print(result.change)
    base -> rl, per problem, rule seen, k=1024
    P 142  E 5  S 21  O 32
    SRR 0.871 [0.814, 0.915]  NDR 0.034 [0.013, 0.072]  SDS 0.065 [0.026, 0.133]  NSCR -0.095 [-0.155, -0.038]
    unchanged model, drawn twice: SRR 0.960  NDR 0.040  SDS 0.077  NSCR 0.000
    >>> result.save("report.md").name
    'report.md'
    """

    inputs: "ComparisonInputs"
    comparisons: "tuple[Comparison, ...]" = ()
    union: "CheckpointUnion | None" = None  # what several checkpoints reach together
    flips: "tuple[Flips, ...]" = ()  # where asked for: problems whose class depends on how samples are judged
    verified: "tuple[Disagreement, ...]" = ()  # runs that were judged first
    certified: "tuple[CertifiedComparison, ...]" = ()
    report: Path | None = None  # the page that was written
    listing: "ProblemList | None" = None  # where asked for: the lost, gained, fallen or risen problems
    csv: Path | None = None  # the table of problems that was written
    conditions: "tuple[CheckedCondition, ...]" = ()  # of `fail_if`, on every run after the first
    schema_only: bool = False  # the JSON Schema of a comparison was asked for, and nothing was compared
    _figure_inputs: "dict[str, FigureInput]" = field(default_factory=dict, init=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether no condition of `fail_if` fails."""
        return not any_condition_fails(self.conditions)

    @property
    def exit_code(self) -> int:
        """What the command line exits with: 3 if a condition fails."""
        return 0 if self.ok else CONDITION_FAILS

    @property
    def comparison(self) -> "Comparison":
        """The comparison; with several checkpoints, that of the last."""
        return self.of_samples()[-1]

    def of_samples(self) -> "tuple[Comparison, ...]":
        """The comparisons; refused where certificates were compared, which have no samples."""
        if not self.comparisons:
            raise OffleashError("Certificates have no samples. Their comparison is in .certified.")
        return self.comparisons

    @property
    def change(self) -> "SupportChange":
        """P, E, S, O and the rates computed from them, with intervals."""
        return self.comparison.change

    @property
    def SRR(self) -> Metric:
        """Support retention rate: the share of what the run before reaches that the run after still reaches."""
        return self._metric("SRR")

    @property
    def NDR(self) -> Metric:
        """Net discovery rate: the share of what the run after reaches that the run before does not."""
        return self._metric("NDR")

    @property
    def SDS(self) -> Metric:
        """Support dynamic score: the harmonic mean of SRR and NDR."""
        return self._metric("SDS")

    @property
    def NSCR(self) -> Metric:
        """Net support change rate: gains minus losses, over all that either run reaches."""
        return self._metric("NSCR")

    def _metric(self, name: str) -> Metric:
        return Metric(self.change.value[name], self.change.interval[name])

    @property
    def problems(self) -> "pl.DataFrame":
        """Every problem with its class, counts, p-values, question and gold answer; of several runs, of the last."""
        from offleash.comparing.per_problem import problem_table

        return problem_table(self.comparison)

    def summary(self) -> str:
        """What was found in a paragraph, the table of classes and the rates with their intervals."""
        return self.finding if self.certified else f"{self.finding}\n\n{self.change}"

    def to_frame(self) -> "pl.DataFrame":
        """A row per run compared with the first: P, E, S, O, the rates and their intervals, the shares reached."""
        if self.certified:
            return super().to_frame()
        import polars as pl

        rows = []
        for comparison in self.comparisons:
            change = comparison.change
            row: dict[str, Any] = {"before": change.before, "after": change.after, "k": change.k}
            row |= {name: float(getattr(change, name)) for name in "PESO"}
            for name, value in change.value.items():
                interval = change.interval[name]
                row |= {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}
            for side, reached in (("before", change.P + change.S), ("after", change.P + change.E)):
                row[f"pass@1_{side}"] = float(comparison.curves[side].value_K[0])
                row[f"reached_{side}"] = reached / change.problems if change.problems else float("nan")
            rows.append(row)
        return pl.DataFrame(rows).with_columns(pl.col(pl.Float64).fill_nan(None))

    @property
    def curves(self) -> "dict[str, Curve]":
        """pass@k of both runs (`before`, `after`, `difference`) and the rates, against k, with intervals."""
        return self.comparison.curves

    @property
    def evidence(self) -> "Evidence":
        """What chance alone would give, and which losses and gains are significant."""
        return self.comparison.evidence

    @property
    def headline(self) -> "Headline":
        """The result in one sentence: `str` of it is the text, `.finding` one word of six."""
        from offleash.comparing.headline import headline

        return headline(self.comparison)

    @property
    def next_steps(self) -> "list[NextStep]":
        """What is worth doing next, as commands; none for runs that were not named by a path."""
        from offleash.comparing.next_steps import next_steps

        return next_steps(self.comparison, *self.inputs.command_arguments())

    @property
    def finding(self) -> str:
        """What was found, in a few sentences."""
        if self.certified:
            from offleash.analyses.certificates.report import certified_finding

            return certified_finding(self.certified[-1])
        from offleash.comparing.sentences import finding

        return finding(self.comparison)

    def to_dict(self) -> dict[str, Any]:
        if self.schema_only:
            from offleash.reporting.schema import compare_schema

            return compare_schema()
        if self.certified:
            from offleash.analyses.certificates.report import certified_json

            return certified_json(self.certified)
        from offleash.reporting.comparison import document

        whole = document(self.comparisons, self.union, self.flips, self.verified, self.conditions)
        return whole if self.listing is None else {**whole, "listed": self.listing.to_json()}

    def show(self, console: "Console | None" = None) -> None:
        out = console_of(console)
        if self.schema_only:
            out.file.write(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
            return
        if self.certified:
            from offleash.analyses.certificates.report import show_certified

            show_certified(out, self.certified)
            return
        if self.listing is not None:
            from offleash.reporting.problem_lists import show_list

            show_list(out, self.listing)
            self._print_table(out)
            show_conditions(out, self.conditions)
            return
        from offleash.reporting.comparison import show, show_headline

        if self.verified:
            from offleash.verifying.logs import show_disagreements

            show_disagreements(out, self.verified)
        show(out, self.comparisons, self.union)
        if self.flips:
            from offleash.comparing.flips_report import show_flips

            show_flips(out, self.flips)
        show_headline(out, self.comparison, self.next_steps)
        print_text(
            out,
            f"  Report: {self.report}" if self.report else "  Page with figures and samples: add --report report.html",
        )
        self._print_table(out)
        show_conditions(out, self.conditions)

    def _print_table(self, out: "Console") -> None:
        if self.csv is not None:
            print_text(out, f"Problems: {self.csv}")

    def save(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002
        intervals: bool = False,
        command: str = "",
        progress: Progress = silent,
    ) -> Path:
        """Write it: .html (a page with figures and samples), .md, .tex (rows of a table), .json or .txt.

        Args:
            path: the file; its ending says the format.
            format: html, md or latex, whatever the ending.
            intervals: put the 95% intervals beside the rates of LaTeX rows.
            command: what the page says made it.
            progress: gets a line of text at every step.
        """
        target = Path(path)
        kind = format or FORMATS.get(target.suffix.lower())
        if kind is None:
            return super().save(target) if target.suffix.lower() in (".json", ".txt") else self._refuse(target)
        from offleash.render.output import check_writable, write_text

        check_writable(target)
        write_text(target, self.report_text(kind, intervals, command, progress))
        return target

    def _refuse(self, target: Path) -> Path:
        raise unknown_ending(target, (*dict.fromkeys(FORMATS), ".json", ".txt"))

    def report_text(
        self,
        format: str,  # noqa: A002
        intervals: bool = False,
        command: str = "",
        progress: Progress = silent,
    ) -> str:
        """The report as text: html, md or latex."""
        if format not in FORMATS.values():
            raise unknown("report format", format, FORMATS.values())
        if intervals and format != "latex":
            raise OffleashError(f"intervals applies to latex only; {format} reports always have them. Leave it out.")
        if format == "latex":
            from offleash.reporting.latex import latex

            return latex(self.of_samples(), intervals)
        if format == "md":
            from offleash.reporting.markdown import markdown

            return markdown(self.of_samples(), self.union, command, self.conditions)
        from offleash.reporting.page.build import PageText, report_page

        page_text = PageText(command=command, steps=self.next_steps, conditions=self.conditions)
        return report_page(self.with_texts(progress), page_text, progress)

    def figure(self, name: str, *, width: int | None = None) -> "FigureResult":
        """One of the figures of the page: `passes`, `plane`, `support`, ... (docs/report.md)."""
        if width is not None and not WIDTHS[0] <= width <= WIDTHS[1]:
            raise OffleashError(f"A figure can be {WIDTHS[0]} to {WIDTHS[1]:,} pixels wide. Found {width}.")
        drawn = FigureResult(name, self.subject(), width)
        drawn.figure_at(drawn.look)  # an unknown name, or a figure that cannot be drawn, is said here
        return drawn

    def subject(self) -> "FigureInput":
        """The comparisons as figures take them."""
        from offleash.reporting.figures import subject

        if "plain" not in self._figure_inputs:
            self._figure_inputs["plain"] = subject(self.of_samples(), self.union, self.flips)
        return self._figure_inputs["plain"]

    def with_texts(self, progress: Progress = silent) -> "FigureInput":
        """The same, where the texts of samples can be read too: logs are copied to the scratch folder first."""
        from offleash.comparing.flips import can_flip
        from offleash.reporting.figures import subject

        if "texts" not in self._figure_inputs:
            question = self.comparison.question
            inputs = self.inputs.with_texts(progress)
            same = inputs is self.inputs or inputs.runs is self.inputs.runs
            comparisons, union = (self.comparisons, self.union) if same else inputs.compare(question, progress)
            flips = self.flips or (inputs.flips(comparisons[-1:], progress) if can_flip(question) else ())
            self._figure_inputs["texts"] = subject(comparisons, union, flips)
        return self._figure_inputs["texts"]

    def __repr__(self) -> str:
        if not self.comparisons:
            return super().__repr__()
        text = "\n".join(wrap(str(self.headline), WIDTH))
        return truncated_repr(f"{text}\n\n{shown(self)}")

    def _repr_html_(self) -> str | None:
        from offleash.reporting.notebook import notebook_html

        return notebook_html(self.comparison) if self.comparisons else None


@dataclass(frozen=True, repr=False, eq=False)
class FigureResult(Result):
    """A figure: shown by a notebook, saved as PDF, SVG or PNG at the width of a paper's column.

    >>> plane = ol.compare("examples/counts/base.csv", "examples/counts/rl.csv").figure("plane")
    >>> plane.save("plane.svg").name
    'plane.svg'
    """

    name: str
    subject: "FigureInput | Frontier"
    width: int | None = None  # pixels; None: a column in a file, wider in a notebook
    path: Path | None = None  # where it was written

    @property
    def look(self) -> "FigureFormat":
        """The size that a file gets."""
        from offleash.render.figure import PAPER, FigureFormat

        if self.width is None:
            return PAPER
        height = max(PAPER.height, min(300, self.width * 3 // 5))
        return FigureFormat(self.width, height, self.width <= 1.5 * (PAPER.width or 0))

    def figure_at(self, look: "FigureFormat") -> "Figure":
        from offleash.comparing.figures.figure_input import FigureInput
        from offleash.render.figure import MissingFigure
        from offleash.reporting.figures import figure

        if not isinstance(self.subject, FigureInput):
            from offleash.analyses.frontier.figures import retention_by_pass_1

            return retention_by_pass_1(self.subject, look)
        drawn = figure(self.name, self.subject, look)
        if isinstance(drawn, MissingFigure):
            raise OffleashError(f"The figure {self.name!r} cannot be drawn: {drawn.reason}.")
        return drawn

    @property
    def chart(self) -> "alt.Chart | alt.LayerChart | alt.HConcatChart":
        """The figure as a chart of Altair, to be changed or saved like any other."""
        import altair as alt

        from offleash.render.figure import FigureFormat

        facets = self.figure_at(FigureFormat(width=self.width or 520)).facets
        return facets[0] if len(facets) == 1 else alt.hconcat(*facets)

    def to_dict(self) -> dict[str, Any]:
        drawn = self.figure_at(self.look)
        path = None if self.path is None else str(self.path)
        return {"figure": self.name, "path": path, "title": drawn.title, "caption": drawn.caption, "alt": drawn.alt}

    def show(self, console: "Console | None" = None) -> None:
        drawn = self.figure_at(self.look)
        print_text(console, f"{drawn.title}\n{drawn.caption}" + (f"\n{self.path}" if self.path else ""))

    def save(self, path: str | Path) -> Path:
        """Write it as .pdf, .svg or .png."""
        from offleash.render.export import kind_of, write_figure
        from offleash.render.output import check_writable

        target = Path(path)
        kind_of(target)
        check_writable(target)
        write_figure(self.figure_at(self.look), target)
        return target

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.chart._repr_mimebundle_(**options)


@dataclass(frozen=True, repr=False, eq=False)
class ReportResult(Result):
    """A report that was written to a file, or its text where no file was named.

    >>> page = ol.report("examples/counts/base.csv", "examples/counts/rl.csv", format="latex")
    >>> page.path is None, page.save("rows.tex").name
    (True, 'rows.tex')
    """

    path: Path | None
    format: str
    text: str
    finding: str
    conditions: "tuple[CheckedCondition, ...]" = ()  # of `fail_if`

    @property
    def ok(self) -> bool:
        return not any_condition_fails(self.conditions)

    @property
    def exit_code(self) -> int:
        return 0 if self.ok else CONDITION_FAILS

    def to_dict(self) -> dict[str, Any]:
        output = {"report": str(self.path)} if self.path is not None else {"text": self.text}
        about = {"format": self.format, "bytes": len(self.text.encode()), "finding": self.finding}
        return {**output, **about, **conditions_json(self.conditions)}

    def save(self, path: str | Path) -> Path:
        """Write the report under another name: .html, .md or .tex, as it was made; .json as `to_dict` gives it."""
        target = Path(path)
        if FORMATS.get(target.suffix.lower()) != self.format:
            return super().save(target)
        from offleash.render.output import check_writable, write_text

        check_writable(target)
        write_text(target, self.text)
        return target

    def show(self, console: "Console | None" = None) -> None:
        if self.path is None:
            console_of(console).file.write(self.text)
        elif self.format == "html":
            print_text(console, f"{self.finding}\nReport: {self.path} ({len(self.text.encode()) / 1e6:.1f} MB)")
        else:
            print_text(console, f"Report: {self.path}")
        if self.path is not None:  # else the text is the report itself, which has them
            show_conditions(console_of(console), self.conditions)


@dataclass(frozen=True, repr=False, eq=False)
class ViewSession(Result):
    """The viewer, listening on this machine: `serve()` answers until Ctrl-C or `close()`.

    >>> session = ol.view("examples/counts/base.csv", "examples/counts/rl.csv")
    >>> session.close()
    """

    url: str
    server: "ViewServer"
    comparison: ComparisonResult  # whose scratch folder the samples are read from
    in_browser: bool = False  # open the page once it is served

    def to_dict(self) -> dict[str, Any]:
        return {"url": self.url}

    def show(self, console: "Console | None" = None) -> None:
        print_text(console, f"{self.url}   (Ctrl-C to stop)")

    def serve(self, each: object = None) -> None:
        """Answer requests until Ctrl-C or `close()`; the page has no documents to pass on to `each`."""
        import sys
        import webbrowser

        with self.server:
            if self.in_browser and not webbrowser.open(self.url):
                print(f"No browser was found; open {self.url} by hand.", file=sys.stderr)
            self.server.serve()

    def close(self) -> None:
        """Stop listening."""
        self.server.close()
