"""compare, and what can be made from a comparison: report, figure, view, show. Also load and tally, for notebooks.

Every option is declared here and nowhere else (offleash/options.py says how). Heavy modules are imported by the
function that needs them: comparing two files of counts needs neither torch nor altair.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from offleash.errors import OffleashError
from offleash.options import (
    Allow,
    At,
    Data,
    ExcludedOptions,
    FailIf,
    Flag,
    GoldFrom,
    Judging,
    Opened,
    OptionsOf,
    Reading,
    Replicates,
    Seed,
    SplitBy,
    Verdicts,
    Verifier,
)
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.data.run import Run
    from offleash.results.comparison import ComparisonResult, FigureResult, ReportResult, ViewSession

RUNS = Data(
    "BEFORE AFTER...",
    "Run folders, log files, folders, quoted globs or files of counts; NAME=PATH names one.",
    unless="schema",
)
LISTS = ("lost", "gained", "fell", "rose")
PROBLEM_FILES = (".jsonl", ".parquet")
# options that report lacks, and those that figure and view lack: they decide nothing
COMPARE_ONLY = ("report", "flips", "question", "schema", "list", "out", "csv")
NOT_DRAWN = (*COMPARE_ONLY, "fail_if")


@verb
def compare(
    *runs: Annotated["str | Path | Run | pl.DataFrame", RUNS],
    at: At = None,
    rule: Annotated[
        str | None,
        Flag(
            "When a problem counts as reached. Default: seen; certified for certificates.",
            choices=("seen", "above", "confident", "posterior", "certified"),
        ),
    ] = None,
    per: Annotated[str, Flag("What to count.", choices=("problem", "answer", "solution"))] = "problem",
    tau: Annotated[float, Flag("Success rate threshold for the rule 'above'.", metavar="RATE", least=0, below=1)] = 0.0,
    unread: Annotated[
        str, Flag("Keep samples without a readable answer (as not correct), or drop them.", choices=("keep", "drop"))
    ] = "keep",
    guess: Annotated[
        float | None,
        Flag("Probability that a blind guess is correct, on every problem.", metavar="RATE", least=0, below=1),
    ] = None,
    before: Annotated[str | None, Flag("Name of the run to compare with. Default: the first.", metavar="NAME")] = None,
    after: Annotated[str | None, Flag("Name of the run to compare. Default: all others.", metavar="NAME")] = None,
    runs_are: Annotated[
        str | None,
        Flag(
            "What several runs after the first are. Checkpoints also have a union and a trend. Default: by their names "
            "(step100, seed1), else methods.",
            choices=("checkpoints", "seeds", "methods"),
        ),
    ] = None,
    question: Annotated[
        str | None,
        Flag(
            "For certificates, what must exceed epsilon: one correct completion or their total mass. Both are shown.",
            choices=("completion", "mass"),
        ),
    ] = None,
    flips: Annotated[bool, Flag("List the problems whose class depends on how samples are judged.")] = False,
    report: Annotated[
        str | Path | None, Flag("Also write an HTML page with figures and samples.", metavar="FILE")
    ] = None,
    schema: Annotated[bool, Flag("Print the JSON Schema of what --json prints, and nothing else.")] = False,
    list: Annotated[  # noqa: A002
        str | None,
        Flag(
            "Print the problems of a list instead: lost and gained by class, fell and rose by significance.",
            choices=LISTS,
        ),
    ] = None,
    out: Annotated[
        str | Path | None,
        Flag(
            "Write the problems of --list: .jsonl or .parquet, for draw, train, TRL and verl.",
            short="-o",
            metavar="FILE",
        ),
    ] = None,
    csv: Annotated[
        str | Path | None, Flag("Write a table of all problems: class, counts, p-values.", metavar="FILE")
    ] = None,
    fail_if: FailIf = (),
    allow: Allow = (),
    replicates: Replicates = 10_000,
    seed: Seed = 0,
    verdicts: Verdicts = None,
    verifier: Verifier = None,
    problems: GoldFrom = None,
    opened: Opened = False,
    split_by: SplitBy = None,
    reading: Reading = Reading(),
    judging: Annotated[Judging, ExcludedOptions("threshold")] = Judging(),
    command: str = "",
    progress: Progress = silent,
) -> "ComparisonResult":
    """What RL kept, lost and gained, with error bars and with what chance alone would produce.

    Each of several runs after the first is compared with the first, and tests are corrected over all of them;
    checkpoints of one training run (--runs-are) are also compared as their union.
    With --verifier, samples are judged first, those in other tools' logs too, and disagreements with the logs' own
    verdicts are counted.

    Examples:
      offleash compare runs/base runs/rl
      offleash compare base=logs/base/samples_aime24.jsonl rl=logs/rl/samples_aime24.jsonl
      offleash compare 'base/output-rs*.jsonl' 'rl/output-rs*.jsonl' --at 64
      offleash compare base.csv rl.csv                       (columns problem,n,c)
      offleash compare outputs.jsonl --split-by model --before base --after rl
      offleash compare wide.csv --map base:c=c_base --map rl:c=c_rl --map n=k
      offleash compare base step100 step200 step300          (checkpoints: each against the first, and their union)
      offleash compare base grpo dapo --runs-are methods     (each against the first; tests corrected over both)
      offleash compare runs/base runs/rl --report report.html
      offleash compare runs/base runs/rl --flips             (what to check before believing it)
      offleash compare --schema > compare.schema.json        (to validate what --json prints)
      offleash compare runs/base runs/rl --list lost --out lost.jsonl    (problems to draw from or to train on)
      offleash compare runs/base runs/rl --fail-if 'SRR<0.95' --fail-if 'pass@1<0.3'     (for CI: exit code 3)
      offleash compare base.jsonl rl.jsonl --verifier math   (judge the samples of other tools' logs)
      offleash compare certs/base certs/rl                   (from offleash certify: no sampling noise)

    In Python:
      >>> result = ol.compare("examples/counts/base.csv", "examples/counts/rl.csv", at=64)
      >>> round(result.change.S, 1), round(result.change.E, 1)  # lost and gained, on average over 64 samples
      (12.6, 10.0)
      >>> page = result.save("report.html")
      >>> checked = ol.compare("examples/counts/base.csv", "examples/counts/rl.csv", fail_if=["SRR<0.95"])
      >>> print(*checked.conditions)
      rl: SRR<0.95 fails (0.871 [0.814, 0.915]; unchanged model 0.960)
    """
    from offleash.comparing.question import question as question_of
    from offleash.comparing.runs import ComparisonInputs
    from offleash.loading.arguments import inputs_are_certificates
    from offleash.loading.load import LoadOptions, load_options, run_inputs
    from offleash.results.comparison import ComparisonResult

    if schema:
        return ComparisonResult(ComparisonInputs(()), schema_only=True)
    if verifier is None and (judging != Judging() or problems is not None or opened):
        raise OffleashError(
            "--problems, --opened, --jobs, --no-cache, --judge and other options for judging need a verifier. "
            "Add --verifier NAME."
        )
    _check_problem_files(list, out, csv)
    conditions: Any = ()
    if fail_if:  # a condition that names no metric is refused before anything is read
        from offleash.comparing.conditions import parse_conditions

        conditions = parse_conditions(fail_if, per)
    runs = run_inputs(runs)
    inputs = ComparisonInputs(runs, load_options(runs, reading, split_by, verdicts), before, after)
    if any(":" in name for name in reading.columns):  # one file with columns for several runs
        from offleash.loading.wide import wide_runs

        wide = wide_runs(runs, inputs.options, inputs.scratch, progress, judged=verifier is not None)
        load_settings = LoadOptions(verdicts=verdicts)  # --map and the like were for reading it
        inputs = replace(inputs, runs=wide.inputs, options=load_settings, copied=wide.notes)
        runs = tuple(wide.inputs)
    if inputs_are_certificates(runs, rule, question):
        from offleash.analyses.certificates.compare import certified_question, compare_certificates

        sample_options = {
            "--at": at is not None,
            "--per": per != "problem",
            "--tau": bool(tau),
            "--unread": unread != "keep",
            "--guess": guess is not None,
            "--flips": flips,
            "--verifier": verifier is not None,
            "--report": report is not None,
            "--list": list is not None,
            "--out": out is not None,
            "--csv": csv is not None,
            "--runs-are": runs_are is not None,
            "--fail-if": bool(conditions),
        }
        certified_settings = certified_question(question or "completion", replicates, seed, sample_options)
        certified = compare_certificates(runs, certified_settings, verdicts, before, after, progress)
        return ComparisonResult(inputs, certified=tuple(certified))
    settings = question_of(rule or "seen", per, at, tau, unread, guess, replicates, seed, allow, runs_are)
    if flips:
        from offleash.comparing.flips import check_flips

        check_flips(settings)
    if report is not None:
        from offleash.render.output import PAGE_SUFFIXES, check_writable

        check_writable(Path(report), PAGE_SUFFIXES)
    judged: Any = ()
    if verifier is not None:
        from offleash.loading.problem_set import load_problems
        from offleash.verifiers.registry import chosen_verifier
        from offleash.verifying.cases import ExtractionOptions
        from offleash.verifying.verify import verify_options

        try:
            own = chosen_verifier(verifier).own
        except OffleashError as error:
            hint = " For stored verdicts use --verdicts NAME." if str(error).startswith("There is no verifier") else ""
            raise OffleashError(f"{error}{hint}") from None
        if own is not None:
            judging = replace(judging, threshold=reading.threshold)  # one option for logs and for the verifier
        extraction = ExtractionOptions(opened=opened, extracted=bool(reading.columns.get("answer")))
        golds = load_problems(str(problems)).frame if problems is not None else None
        verify_settings = replace(verify_options(verifier, judging, extraction, golds), partial=True)
        inputs, judged = inputs.verified(verify_settings, progress)
    named = inputs  # the next step for a flip names what the user gave, not copies
    if report is not None:
        inputs = inputs.with_texts(progress)
    comparisons, union = inputs.compare(settings, progress)
    flips_by_run = named.flips(comparisons, progress) if flips else []
    page = None if report is None else Path(report)
    result = ComparisonResult(inputs, tuple(comparisons), union, tuple(flips_by_run), judged, report=page)
    if conditions:
        from offleash.comparing.conditions import check_conditions

        result = replace(result, conditions=check_conditions(conditions, comparisons))
    if list is not None or csv is not None:
        result = replace(result, **_problem_files(result, list, out, csv))
    if page is not None:
        result.save(page, command=command, progress=progress)
    return result


def _check_problem_files(name: str | None, out: str | Path | None, csv: str | Path | None) -> None:
    """Refuse files of problems that could not be written before anything is compared."""
    if out is None and csv is None:
        return
    from offleash.render.output import check_writable

    if out is not None and name is None:
        raise OffleashError(f"--out {out} writes the problems of a list. Add --list lost, gained, fell or rose.")
    for option, path, endings in (("--out", out, PROBLEM_FILES), ("--csv", csv, (".csv",))):
        if path is not None and Path(path).suffix.lower() not in endings:
            raise OffleashError(f"{option} {path} should end in {' or '.join(endings)}. Choose another name.")
        if path is not None:
            check_writable(Path(path), option=option)


def _problem_files(
    result: "ComparisonResult", name: str | None, out: str | Path | None, csv: str | Path | None
) -> dict[str, Any]:
    """The list of problems that --list names, written where --out says, and the table of --csv."""
    from offleash.reporting.problem_lists import problem_list, write_problems, write_table

    written_files: dict[str, Any] = {}
    if name is not None:
        listing = problem_list(result.comparison, name)
        written_files["listing"] = listing if out is None else write_problems(listing, Path(out))
    if csv is not None:
        write_table(result.comparisons, Path(csv))
        written_files["csv"] = Path(csv)
    return written_files


# report, figure and view take the options of `compare`, and each makes one thing of the comparison.


REPORT_FORMATS = ("html", "md", "latex")


@verb
def report(
    *runs: Annotated["str | Path | Run | pl.DataFrame", RUNS],
    out: Annotated[
        str | Path | None,
        Flag("Output file. Default: report.html; standard output for md and latex.", short="-o", metavar="FILE"),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        Flag(
            "html (a page), md (for a pull request), latex (rows of a table). Default: by the file name.",
            choices=REPORT_FORMATS,
        ),
    ] = None,
    intervals: Annotated[bool, Flag("In LaTeX rows, add the 95% intervals to the rates.")] = False,
    command: str = "",
    progress: Progress = silent,
    **options: Annotated[Any, OptionsOf(compare, without=COMPARE_ONLY)],
) -> "ReportResult":
    """One page to read and share: what RL kept, lost and gained, and whether to believe it.

    The page is a single file that works offline: the finding with its uncertainty, figures with how to read them, and a
    table of problems that expands to individual samples. For large studies it holds the lost and gained problems and a
    selection of the others; `offleash view` shows everything.

    Examples:
      offleash report runs/base runs/rl -o report.html
      offleash report base=logs/base.jsonl rl=logs/rl.jsonl
      offleash report base.csv rl.csv -o report.html         (counts: everything except samples)
      offleash report runs/base step100 step200 step300      (checkpoints: each against the first)
      offleash report runs/base runs/rl --format md          (for a pull request; printed without -o)
      offleash report runs/base runs/rl --format latex       (rows as in Table 1 of arXiv:2507.14843)

    In Python:
      >>> page = ol.report("examples/counts/base.csv", "examples/counts/rl.csv", out="report.md")
      >>> page.path.name, page.format
      ('report.md', 'md')
    """
    from offleash.render.output import check_writable
    from offleash.results.comparison import ReportResult

    kind = _format(format, None if out is None else Path(out))
    if intervals and kind != "latex":
        raise OffleashError(
            f"--intervals is for --format latex; this report is {kind}, which always has them. Leave it out."
        )
    path = Path(out) if out is not None else Path("report.html") if kind == "html" else None
    if path is not None:
        check_writable(path)
    result = _samples(compare(*runs, progress=progress, **options))
    text = result.report_text(kind, intervals, command, progress)
    if path is not None:
        from offleash.render.output import write_text

        write_text(path, text)
    return ReportResult(path, kind, text, result.finding, result.conditions)


def _format(name: str | None, out: Path | None) -> str:
    """The format of a report: the one named, else by the file's extension."""
    from offleash.results.comparison import FORMATS

    ending = "" if out is None else out.suffix.lower()
    if name is None and ending and ending not in FORMATS:
        raise OffleashError(
            f"{out} ends in {ending!r}, but a report is .html, .md or .tex. Use one of these, or --format."
        )
    return name or FORMATS.get(ending, "html")


def _samples(result: "ComparisonResult") -> "ComparisonResult":
    if result.certified:
        raise OffleashError(
            "Certificates hold exact probabilities, not samples, so they have no report, figure or view. "
            "Use offleash compare, with --json for programs."
        )
    return result


# listed here so that --help need not import the figures; a test checks that the two lists agree
FIGURES = (
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


@verb
def figure(
    name: Annotated[str, Data("NAME", f"Which figure: {', '.join(FIGURES)}; or your own FILE.py:NAME.")],
    *runs: Annotated["str | Path | Run | pl.DataFrame", RUNS],
    out: Annotated[str | Path, Flag("Output file: .pdf, .svg or .png.", short="-o", metavar="FILE")],
    width: Annotated[
        int | None, Flag("Width in pixels. Default: 236, one column of a paper.", metavar="PX", least=150, most=4_000)
    ] = None,
    progress: Progress = silent,
    **options: Annotated[Any, OptionsOf(compare, without=NOT_DRAWN)],
) -> "FigureResult":
    """One figure of a comparison as PDF, SVG or PNG, with a caption that says how to read it.

    One column of a paper wide and readable in grayscale; --width changes the size.

    Examples:
      offleash figure passes runs/base runs/rl -o passes.pdf
      offleash figure plane runs/base runs/rl -o plane.svg --width 480
      offleash figure checkpoints base step100 step200 -o steps.png
      offleash figure ranks.py:ranks runs/base runs/rl -o ranks.svg

    In Python:
      >>> ol.figure("plane", "examples/counts/base.csv", "examples/counts/rl.csv", out="plane.svg").path.name
      'plane.svg'
    """
    from dataclasses import replace

    from offleash.render.export import kind_of
    from offleash.render.output import check_writable

    if name not in FIGURES:
        from offleash.reporting.figures import own_figure

        own_figure(name)  # an unknown name is refused before the runs are read
    path = Path(out)
    kind_of(path)
    check_writable(path)
    separate_runs = not options.get("split_by") and not options.get("columns")  # each argument is one run
    if name == "checkpoints" and separate_runs and len(runs) < 3:
        raise OffleashError(
            f"The figure checkpoints shows several runs against the first; found {len(runs)}. Name a base and two or "
            "more checkpoints."
        )
    drawn = _samples(compare(*runs, progress=progress, **options)).figure(name, width=width)
    drawn.save(path)
    return replace(drawn, path=path)


@verb
def view(
    *runs: Annotated["str | Path | Run | pl.DataFrame", RUNS],
    port: Annotated[
        int, Flag("Port to serve on (127.0.0.1). 0: any free port.", metavar="N", least=0, most=65_535)
    ] = 0,
    open: Annotated[bool, Flag("Open the page in the browser.")] = False,  # noqa: A002
    problem: Annotated[str | None, Flag("Open the page at this problem.", metavar="ID")] = None,
    command: str = "",
    progress: Progress = silent,
    **options: Annotated[Any, OptionsOf(compare, without=NOT_DRAWN)],
) -> "ViewSession":
    """The page of `report` with every sample of every problem, loaded on demand.

    It is served on 127.0.0.1, to this machine only, until Ctrl-C. Samples stay in their run folders; other tools' logs
    are copied to a temporary folder first, which is removed at the end.

    Examples:
      offleash view runs/base runs/rl --open
      offleash view runs/base runs/rl --open --problem aime24-7
      offleash view base=logs/base.jsonl rl=logs/rl.jsonl
      offleash view runs/base runs/rl --port 8000            (from another machine: ssh -L 8000:127.0.0.1:8000 HOST)
      offleash view runs/base runs/rl --json                 (prints the address as JSON, and serves)

    In Python:
      >>> session = ol.view("examples/counts/base.csv", "examples/counts/rl.csv")
      >>> session.url.startswith("http://127.0.0.1:")
      True
      >>> session.close()  # or session.serve(), until Ctrl-C
    """
    from offleash.reporting.page.build import PageText, shown_runs, view_page
    from offleash.reporting.samples import SampleStore
    from offleash.reporting.view import ViewServer, check_port, problem_fragment
    from offleash.results.comparison import ViewSession

    check_port(port)
    result = _samples(compare(*runs, progress=progress, **options))
    subject = result.with_texts(progress)
    place = "" if problem is None else problem_fragment(subject.comparison, problem)
    page = view_page(subject, PageText(command=command, steps=result.next_steps), progress)
    server = ViewServer([SampleStore(part.comparison) for part in shown_runs(subject)], page, port)
    return ViewSession(server.url + place, server, result, open)
