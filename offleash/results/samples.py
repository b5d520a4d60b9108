"""Results about samples and problems: drawn, judged, scored, imported, checked."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offleash.errors import OffleashError
from offleash.results.comparison import ComparisonResult, conditions_json, show_conditions
from offleash.results.result import Result, console_of, frame_of, json_text, print_text, truncated_repr

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from offleash.comparing.compare import Comparison
    from offleash.drawing.draw import DrawSummary
    from offleash.drawing.fsck import FsckReport
    from offleash.loading.import_logs import LogImport
    from offleash.problems.problem import ProblemSet
    from offleash.reporting.show import ShownProblem, ShownSample
    from offleash.scoring.rows import ScoredRow
    from offleash.scoring.score import ScoredFile, ScoredRun
    from offleash.studies.study import Cost, StudyRuns
    from offleash.verifying.check_problems import ProblemCheck
    from offleash.verifying.rows import Outcome
    from offleash.verifying.verify import VerificationResult

# what a study has of its comparison
SHARED = ("SRR", "NDR", "SDS", "NSCR", "change", "curves", "evidence", "finding", "headline")


@dataclass(frozen=True, repr=False, eq=False)
class DrawResult(Result):
    """A run after a draw.

    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base")
    >>> run.ok, run.to_dict()["tokens"]
    (True, 256)
    """

    run: "DrawSummary"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.run.folder

    @property
    def samples(self) -> int:
        """Samples that the run has now."""
        return self.run.samples

    @property
    def ok(self) -> bool:
        return not self.run.failed

    def to_dict(self) -> dict[str, Any]:
        from offleash.drawing.report import summary_document

        return summary_document(self.run)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.drawing.report import summary_text

        print_text(console, summary_text(self.run))


@dataclass(frozen=True, repr=False, eq=False)
class StudyResult(Result):
    """Models drawn, judged and compared with the base; of a dry run, only the cost.

    Several benchmarks or decodings are studies of their own, in `studies`.

    >>> plan = ol.study("examples/problems.jsonl", "scripted:examples/sums.json", "scripted:examples/sums.json",
    ...                 k=64, out="runs/study", dry_run=True)
    >>> plan.cost.problems, plan.cost.most  # samples of both models
    (4, 512)
    """

    cost: "Cost"
    study: "StudyRuns | None" = None
    result: ComparisonResult | None = None  # None: samples are missing, or it was a dry run
    report: Path | None = None
    studies: "Mapping[str, StudyResult]" = field(default_factory=dict)  # of several benchmarks or decodings, by name
    folder: Path | None = None  # of several

    @classmethod
    def of_several(cls, folder: Path, studies: "Mapping[str, StudyResult]") -> "StudyResult":
        """The studies of several benchmarks or decodings as one; the cost is that of all."""
        from offleash.studies.study import total_cost

        return cls(total_cost([study.cost for study in studies.values()]), studies=studies, folder=folder)

    @property
    def comparison(self) -> "Comparison":
        """What was found; of several models after RL, for the last."""
        if self.studies:
            raise OffleashError(f"There are {len(self.studies)} comparisons. Choose one: studies[NAME].comparison.")
        if self.study is None:
            raise OffleashError("This was a dry run, so nothing was compared. Run the study without dry_run.")
        if self.result is None:
            raise OffleashError("Samples are missing, so nothing was compared. Run the same study again to resume.")
        return self.result.comparison

    @property
    def problems(self) -> "pl.DataFrame":
        """Every problem with its class, counts and p-values: see ComparisonResult.problems."""
        return self._single_comparison().problems

    def _single_comparison(self) -> ComparisonResult:
        _ = self.comparison  # says why there is none
        assert self.result is not None
        return self.result

    def __getattr__(self, name: str) -> Any:
        # SRR, NDR, SDS and NSCR, the finding and the curves are those of the comparison
        if name in SHARED:
            return getattr(self._single_comparison(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def ok(self) -> bool:
        if self.studies:
            return all(study.ok for study in self.studies.values())
        if self.study is None:
            return True
        drawn = self.result is not None and not any(run.failed for run in self.study.drawn)
        return drawn and (self.result is None or self.result.ok)

    @property
    def exit_code(self) -> int:
        """1 if samples are missing, else that of the comparison: 3 if a condition of `fail_if` fails."""
        if self.studies:
            return max(study.exit_code for study in self.studies.values())
        drawn = self.study is None or not any(run.failed for run in self.study.drawn)
        return self.result.exit_code if drawn and self.result is not None else super().exit_code

    def to_dict(self) -> dict[str, Any]:
        from offleash.render.json import encode
        from offleash.studies.study import studies_document, study_document

        if self.studies:
            documents = {name: study.to_dict() for name, study in self.studies.items()}
            return studies_document(self.folder, self.cost, documents)
        if self.study is None:
            cost: dict[str, Any] = encode(self.cost)
            return cost
        conditions = {} if self.result is None else conditions_json(self.result.conditions)
        return {**study_document(self.study, self.report), **conditions}

    def show(self, console: "Console | None" = None) -> None:
        if self.studies:
            for name, study in self.studies.items():
                print_text(console, f"\n{name}")
                study.show(console)
            tokens = f"{self.cost.tokens:,} tokens"
            print_text(console, f"\nAll {len(self.studies)} studies: at most {self.cost.most:,} samples and {tokens}.")
            return
        if self.study is None or self.result is None:
            what = "Samples are missing; run the same study again to resume." if self.study else "Nothing was drawn."
            print_text(console, f"At most {self.cost.most:,} samples of {self.cost.problems:,} problems. {what}")
            return
        from offleash.reporting.comparison import show, show_headline

        show(console_of(console), self.result.comparisons, self.result.union)
        folders = " ".join(str(run.folder) for run in self.study.drawn)
        print_text(
            console,
            f"\nTo compare again: offleash compare {folders}   (--flips: which classes depend on the "
            f"verdicts)\nReport: {self.report}",
        )
        show_headline(console_of(console), self.result.comparison, self.result.next_steps)
        show_conditions(console_of(console), self.result.conditions)

    def summary(self) -> str:
        """What was found: see ComparisonResult.summary; of a dry run, its cost."""
        return super().summary() if self.result is None else self.result.summary()

    def to_frame(self) -> "pl.DataFrame":
        """The comparison as a row: see ComparisonResult.to_frame; of a dry run, its cost."""
        return super().to_frame() if self.result is None else self.result.to_frame()

    def _repr_html_(self) -> str | None:
        return None if self.result is None else self.result._repr_html_()

    def save(self, path: str | Path) -> Path:
        """Write the comparison: see ComparisonResult.save."""
        return super().save(path) if self.result is None else self.result.save(path)

    def figure(self, name: str) -> Result:
        """A figure of the comparison."""
        return super().figure(name) if self.result is None else self.result.figure(name)


@dataclass(frozen=True, repr=False, eq=False)
class VerifyResult(Result):
    """Run folders that were judged, or the rows of a file.

    >>> result = ol.verify("examples/rows.jsonl", verifier="math")
    >>> result.ok, [row.verdict.value for row in result.rows]
    (True, ['correct', 'correct', 'correct', 'wrong', 'unread', 'unread', 'wrong', 'failed'])
    """

    runs: "tuple[VerificationResult, ...]" = ()
    rows: "tuple[Outcome, ...]" = ()  # in the order of the file; empty where a callback took them
    counts: Mapping[str, Counter[str]] = field(default_factory=dict)  # of rows: by verdict and by step
    failures: tuple[str, ...] = ()  # of rows: some of them
    of_rows: bool = False
    unreadable: OffleashError | None = None  # rows whose gold answer cannot be judged against

    @property
    def ok(self) -> bool:
        """Whether every gold answer was readable and, of every run or file, at least one sample could be judged."""
        verdicts = [self.counts["verdicts"]] if self.of_rows else [run.verdicts for run in self.runs]
        return self.unreadable is None and not any(0 < sum(each.values()) == each["failed"] for each in verdicts)

    @property
    def pending_error(self) -> OffleashError | None:
        return self.unreadable

    @property
    def lines(self) -> bool:
        return self.of_rows

    def to_dict(self) -> Any:
        from offleash.verifying.report import outcome_json, verification_json

        return [outcome_json(row) for row in self.rows] if self.of_rows else verification_json(self.runs)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.verifying.report import outcomes_text, verification_text

        if self.of_rows:
            print_text(console, outcomes_text(self.counts["verdicts"], self.counts["steps"], self.failures))
        else:
            print_text(console, "\n".join(verification_text(run) for run in self.runs))


@dataclass(frozen=True, repr=False, eq=False)
class ScoreResult(Result):
    """Run folders whose samples were scored, or the rows of a file.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
    >>> scored, = ol.score("runs/base", model="hf:base").runs
    """

    runs: "tuple[ScoredRun, ...]" = ()
    rows: "tuple[ScoredRow, ...]" = ()  # in the order of the file; empty where a callback took them
    file: "ScoredFile | None" = None

    @property
    def lines(self) -> bool:
        return self.file is not None

    def to_dict(self) -> Any:
        from offleash.scoring.report import row_document, scored_document

        return scored_document(self.runs) if self.file is None else [row_document(row) for row in self.rows]

    def show(self, console: "Console | None" = None) -> None:
        from offleash.scoring.report import file_text, scored_text

        print_text(console, "\n".join(map(scored_text, self.runs)) if self.file is None else file_text(self.file))


@dataclass(frozen=True, repr=False, eq=False)
class ShowResult(Result):
    """Samples of one problem of one run.

    >>> written = Path("log.jsonl").write_text('{"problem": "1+1", "response": "It is 2", "correct": true}')
    >>> ol.show("log.jsonl", "1+1").samples[0].text
    'It is 2'
    """

    shown: "ShownProblem"

    @property
    def samples(self) -> "tuple[ShownSample, ...]":
        """The samples, in the order of their index."""
        return self.shown.samples

    def to_frame(self) -> "pl.DataFrame":
        """The samples, a row each."""
        return frame_of(self.to_dict()["samples"])

    def to_dict(self) -> dict[str, Any]:
        from offleash.reporting.show import shown_document

        return shown_document(self.shown)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.reporting.show import show_problem

        show_problem(console_of(console), self.shown)


@dataclass(frozen=True, repr=False, eq=False)
class ImportResult(Result):
    """Logs of another tool as a run folder.

    >>> written = Path("log.jsonl").write_text('{"problem": "1+1", "response": "2", "correct": true}')
    >>> log = ol.import_logs("log.jsonl", out="runs/base")
    >>> log.to_dict()["samples"]
    1
    """

    logs: "LogImport"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.logs.folder

    def to_dict(self) -> dict[str, Any]:
        from offleash.loading.import_logs import import_document

        return import_document(self.logs)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.loading.import_logs import import_text

        print_text(console, import_text(self.logs))


@dataclass(frozen=True, repr=False, eq=False)
class CheckResult(Result):
    """Whether verifiers accept the gold answers of problems and reject corruptions of them.

    >>> result = ol.check("examples/problems.jsonl")
    >>> result.ok, result.to_dict()["problems"]
    (True, 4)
    """

    check: "ProblemCheck"

    @property
    def ok(self) -> bool:
        return self.check.sound

    def to_dict(self) -> dict[str, Any]:
        from offleash.verifying.check_problems import check_json

        return check_json(self.check)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.verifying.check_problems import check_text

        print_text(console, check_text(self.check))


@dataclass(frozen=True, repr=False, eq=False)
class FsckResult(Result):
    """Run folders that were read in full and checked.

    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base")
    >>> report, = ol.fsck(run.folder).runs
    >>> report.samples, report.findings
    (64, ())
    """

    runs: "tuple[FsckReport, ...]"

    @property
    def ok(self) -> bool:
        return all(run.good for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        from offleash.drawing.fsck import fsck_document

        return fsck_document(self.runs)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.drawing.fsck import fsck_text

        print_text(console, "\n".join(map(fsck_text, self.runs)))


@dataclass(frozen=True, repr=False, eq=False)
class ProblemSetResult(Result):
    """Problems as a table, one row per problem; without a name, the benchmarks there are.

    >>> problems = ol.problem_set("examples/problems.jsonl", size=2)
    >>> problems.frame["gold"].to_list()
    ['30', 'B']
    """

    frame: "pl.DataFrame"
    problems: "ProblemSet | None" = None

    def __len__(self) -> int:
        return self.frame.height

    def to_frame(self) -> "pl.DataFrame":
        """The table itself."""
        return self.frame

    @property
    def lines(self) -> bool:
        return self.problems is not None

    def to_dict(self) -> list[dict[str, Any]]:
        from offleash.problems.problem import line

        rows = self.frame.iter_rows(named=True)
        return [dict(row) for row in rows] if self.problems is None else [line(row) for row in rows]

    def show(self, console: "Console | None" = None) -> None:
        if self.problems is not None:
            console_of(console).file.write(json_text(self, lines=True) + "\n")
            return
        from offleash.problems.benchmarks import show_benchmarks

        show_benchmarks(console_of(console), self.to_dict())

    def __repr__(self) -> str:
        shown = [name for name in ("problem", "question", "gold", "name", "about") if name in self.frame.columns]
        return truncated_repr(repr(self.frame.select(shown)))


@dataclass(frozen=True, repr=False, eq=False)
class FormatsResult(Result):
    """The formats of logs that are recognised.

    >>> sorted(ol.show_formats().formats[0])
    ['about', 'examples', 'name']
    """

    formats: tuple[dict[str, Any], ...]

    def to_dict(self) -> list[dict[str, Any]]:
        return list(self.formats)

    def show(self, console: "Console | None" = None) -> None:
        from rich import box
        from rich.table import Table

        table = Table("format", "description", "files", box=box.SIMPLE_HEAD)
        for log_format in self.formats:
            table.add_row(log_format["name"], log_format["about"], ", ".join(log_format["examples"]))
        console_of(console).print(table)


def row_document(row: "Outcome | ScoredRow") -> dict[str, Any]:
    """One row of a file that was verified or scored, as `--json` prints it."""
    from offleash.scoring.report import row_document as scored_row
    from offleash.scoring.rows import ScoredRow
    from offleash.verifying.report import outcome_json

    return scored_row(row) if isinstance(row, ScoredRow) else outcome_json(row)
