"""From what a user names to comparisons: load the runs, compare them, and list the problems whose class can flip.

Each of several runs after the first is compared with the first; checkpoints of one training run also have a union.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from offleash.comparing.checkpoints import CheckpointUnion, check_runs_are, several_runs_of, union
from offleash.comparing.compare import Comparison, compare_all
from offleash.comparing.question import Question, RunsAre
from offleash.data.run import Run
from offleash.data.run_folder import Scratch, is_run, verifiers
from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown
from offleash.loading.arguments import parse_argument
from offleash.loading.load import LoadOptions, RunInput, input_names, load
from offleash.progress import Progress, silent

if TYPE_CHECKING:  # verifiers and their sandbox are imported where samples are judged, not to compare counts
    from offleash.comparing.flips import Flips, StoredVerdicts
    from offleash.verifying.logs import Disagreement
    from offleash.verifying.verify import VerifyOptions


@dataclass(frozen=True)
class ComparisonInputs:
    """What is compared: the runs as they are to be loaded, and the scratch folder that copies of logs go to.

    Whoever holds it holds the scratch folder, so the texts of the samples can be read as long as it lives.
    """

    runs: Sequence[RunInput]
    options: LoadOptions = field(default_factory=LoadOptions)
    before: str | None = None  # the names of the runs to compare; None: the first, and all others
    after: str | None = None
    copied: Mapping[str, tuple[Note, ...]] | None = None  # notes of logs that were copied; None: none were
    judged: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)  # notes of logs that were copied to be judged
    scratch: Scratch = field(default_factory=Scratch)
    originals: "ComparisonInputs | None" = None  # what the user named, where logs were copied

    def verified(
        self, options: "VerifyOptions", progress: Progress = silent
    ) -> "tuple[ComparisonInputs, tuple[Disagreement, ...]]":
        """The same runs judged by the verifier of the options, and where the tools that wrote logs disagree with it."""
        from offleash.verifying.logs import verify_inputs

        if self.options.verdicts is not None:
            raise OffleashError(
                f"--verifier {options.verifier} judges the samples, while --verdicts {self.options.verdicts} uses "
                "stored verdicts. Leave one out."
            )
        runs, name, disagreements = verify_inputs(self.runs, self.options, options, self.scratch, progress)
        notes = {disagreement.run: disagreement.notes for disagreement in disagreements}
        judged = replace(self, runs=runs, options=LoadOptions(verdicts=name), judged=notes)
        return judged, tuple(disagreements)

    def with_texts(self, progress: Progress = silent) -> "ComparisonInputs":
        """The same runs with logs copied to run folders, where the text of a sample is found by its index.

        Reading a log keeps answers and verdicts, not texts: those of a large log do not fit into memory.
        """
        if self.copied is not None:
            return self
        from offleash.loading.import_logs import copy_logs  # counts have no texts, and should load fast

        read = copy_logs(self.runs, self.options, self.scratch, progress)
        return replace(self, runs=read.inputs, copied=read.notes, originals=self)

    def command_arguments(self) -> tuple[dict[str, str], list[str]]:
        """How to name the runs in another command: by their names, and the options that they are read with.

        Runs in memory have no argument, and neither have logs that were copied to be judged: the copies are deleted.
        """
        if self.originals is not None:
            return self.originals.command_arguments()
        named = {
            name: str(run)
            for name, run in zip(input_names(self.runs), self.runs, strict=True)
            if isinstance(run, str | Path) and not self.scratch.holds(parse_argument(str(run)).paths[0])
        }
        flags = self.options.reading_flags()
        if self.options.verdicts is not None:
            flags["--verdicts"] = [self.options.verdicts]
        return named, [word for flag, values in flags.items() for value in values for word in (flag, value)]

    def compare(
        self, question: Question | None = None, progress: Progress = silent
    ) -> tuple[list[Comparison], CheckpointUnion | None]:
        """The first run against each of the others; several checkpoints also against the first as their union."""
        comparisons, together = compare_inputs(
            self.runs, self.options, question, self.before, self.after, progress, {**self.judged, **(self.copied or {})}
        )
        for comparison in comparisons:  # its runs may lie in the scratch folder, which stays as long as any of them
            comparison.compute_once("scratch", lambda _: self.scratch)
        return comparisons, together

    def flips(self, comparisons: Sequence[Comparison], progress: Progress = silent) -> "list[Flips]":
        """For each comparison, the problems whose class depends on how samples are judged."""
        return flips_of_inputs(self.runs, comparisons, self.options, progress)


def compare_inputs(
    inputs: Sequence[RunInput],
    options: LoadOptions | None = None,
    question: Question | None = None,
    before: str | None = None,
    after: str | None = None,
    progress: Progress = silent,
    copied: Mapping[str, tuple[Note, ...]] | None = None,
) -> tuple[list[Comparison], CheckpointUnion | None]:
    """Load the runs and compare the first with each of the others; several checkpoints also as their union.

    `copied` has the notes of logs that were copied into run folders, by run.
    """
    runs = load(*inputs, options=options, progress=progress)
    runs = [replace(run, notes=(copied or {}).get(run.name, ()) + run.notes) for run in runs]
    runs = _select(runs, before, after)
    # notes on the inputs as a whole go to the first run, which every comparison shares
    notes = tuple(note for note in (_unquoted_glob(inputs), _verifier_versions(runs)) if note is not None)
    runs = [replace(runs[0], notes=notes + runs[0].notes), *runs[1:]]
    question = replace(question or Question(), split_by=options.options.split_by if options else None)
    check_runs_are(runs, question.runs_are)
    progress(f"comparing {', '.join(run.name for run in runs)}")
    comparisons = compare_all(runs, question)
    several = several_runs_of(comparisons)
    if several is None or several.value is not RunsAre.CHECKPOINTS:
        return comparisons, None
    return comparisons, union(runs, question.at)


def flips_of_inputs(
    inputs: Sequence[RunInput],
    comparisons: Sequence[Comparison],
    options: LoadOptions | None = None,
    progress: Progress = silent,
) -> "list[Flips]":
    """For each comparison of these inputs, the problems whose class depends on how samples are judged."""
    from offleash.comparing.flips import StoredVerdicts, flips

    stored = {
        name: _stored_verdicts(str(comparison), options or LoadOptions())
        for name, comparison in zip(input_names(inputs), inputs, strict=True)
        if isinstance(comparison, str | Path)
    }
    selected = []
    for comparison in comparisons:
        progress(
            f"{comparison.before.name} and {comparison.after.name}: which classes depend on how samples are judged"
        )
        selected.append(
            flips(
                comparison,
                stored.get(comparison.before.name, StoredVerdicts()),
                stored.get(comparison.after.name, StoredVerdicts()),
            )
        )
    return selected


def _stored_verdicts(text: str, options: LoadOptions) -> "StoredVerdicts":
    """The verdicts of every verifier that has judged all run folders of an argument."""
    from offleash.comparing.flips import StoredVerdicts

    paths = parse_argument(text).paths
    if not all(is_run(path) for path in paths):
        return StoredVerdicts(quote(text))
    known = set.intersection(*(set(verifiers(path)) for path in paths))
    runs = {name: load(text, options=replace(options, verdicts=name))[0] for name in sorted(known)}
    verdicts = {name: run.verdicts for name, run in runs.items() if run.verdicts is not None}
    return StoredVerdicts(" ".join(quote(str(path)) for path in paths), folder=True, verdicts=verdicts)


def _unquoted_glob(inputs: Sequence[RunInput]) -> Note | None:
    """A note where an unquoted glob was expanded by the shell: every file then became a run of its own."""
    named = [Path(name) for name in inputs if isinstance(name, str | Path)]
    folders = Counter(str(path.parent) for path in named if path.is_file())
    folder, files = folders.most_common(1)[0] if folders else ("", 0)
    # three runs may well be meant as checkpoints; more files of one folder rarely are
    if len(inputs) < 4 or files < 3:
        return None
    taken = f"{files} files in {folder} were read as {files} runs"
    return Note(f"{taken}; to merge the seeds or benchmarks of one run, quote the glob ('{folder}/*')")


def _verifier_versions(runs: Sequence[Run]) -> Note | None:
    """A note where two versions of a verifier judged the runs: a change may then be the verifier's own."""
    by = {run.name: run.verifier for run in runs if run.verifier and "@" in run.verifier}
    if len({verifier.split("@")[0] for verifier in by.values()}) != 1 or len(set(by.values())) == 1:
        return None
    judged = ", ".join(f"{name} by {verifier}" for name, verifier in by.items())
    text = "the runs were judged by different versions of a verifier"
    return Note(f"{text} ({judged}); rerun offleash verify on the older one", warning=True, code="verifier_versions")


def _select(runs: list[Run], before: str | None, after: str | None) -> list[Run]:
    """The runs in the order of the comparison: the one before, then the one after or all others."""
    by_name = {run.name: run for run in runs}
    for name in (before, after):
        if name is not None and name not in by_name:
            raise unknown("run", name, by_name)
    first = by_name[before] if before is not None else runs[0]
    if after is not None and by_name[after] is first:
        raise OffleashError(
            f"{first.name!r} is both the run before and the run after. Choose two different runs of "
            f"{', '.join(by_name)}."
        )
    others = [by_name[after]] if after is not None else [run for run in runs if run is not first]
    return [first, *others]
