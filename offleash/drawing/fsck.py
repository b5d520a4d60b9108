"""`offleash fsck`: is a run folder what was written? Reads every shard in full; every sample once and unchanged.

Nothing is modified; a finding names the step that repairs it, where there is one. The report as JSON and text follows
at the end.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.atomic import WRITING_SUFFIX
from offleash.data.run import Budget, Origin, budget_in, read_facts, read_origin
from offleash.data.run_folder import is_run, read_problems, refuse_certificate, verifiers
from offleash.data.shards import (
    CHECKSUMS,
    READ_ERRORS,
    SHARD,
    ShardChecksum,
    check_schema,
    checksum,
    first_line,
    shard_checksums,
)
from offleash.data.tables import SAMPLES, VERDICTS
from offleash.data.verifier_choice import ABOUT, recorded_versions
from offleash.drawing.resume import problem_seed, spans_of
from offleash.drawing.schedule import Span, holes, overlap
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.render.json import SCHEMA
from offleash.render.numbers import many
from offleash.samplers.seeds import sample_seeds

# Samplers whose every sample has a seed that follows from (key, problem, index), so that it can be checked; servers
# seed whole requests.
LOCAL_SAMPLERS = {"hf", "scripted"}
MAX_FINDINGS_PER_KIND = 20  # findings of one kind: a damaged disk can have thousands, and the first ones say enough


@dataclass(frozen=True)
class FsckFinding:
    """One thing that is not as it was written, or that a user should know."""

    what: str
    next_step: str = ""  # a command, where one repairs it
    wrong: bool = True  # False: a note, such as a run that is not finished; the run is good all the same


@dataclass(frozen=True)
class FsckReport:
    """The state of a run folder."""

    folder: Path
    samples: int
    shards: int
    unsealed: int  # shards without a checksum, read in full and good
    findings: tuple[FsckFinding, ...]

    @property
    def good(self) -> bool:
        """Whether everything that was written is there and unchanged; notes do not count."""
        return not any(finding.wrong for finding in self.findings)


def fsck(folder: Path, progress: Progress = silent) -> FsckReport:
    """Read all of a run folder and check it; nothing is changed.

    Checked are run.json and the problems against their hash, every shard against its checksum and in full, that each
    sample is there once, has the seed it should have and a known problem, that nothing is missing below the budget,
    that each verdict has its sample, and that each folder of verdicts has its own record.
    """
    if not folder.is_dir() or not is_run(folder):
        raise OffleashError(
            f"{folder} is not a run folder: it has no run.json. Give a folder made by `draw` or `import`."
        )
    inspection = _Inspection(folder)
    findings = [*inspection.facts(), *inspection.samples(progress), *inspection.verdicts(), *inspection.leftovers()]
    return FsckReport(folder, inspection.rows, inspection.shards, inspection.unsealed, tuple(findings))


class _Inspection:
    """What is known of a folder so far. Parts run in order: verdicts are checked against the samples read before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._origin: Origin | None = None
        self._budget = Budget()
        self._problems: frozenset[str] | None = None  # None: not known
        self._spans: dict[str, list[Span]] = defaultdict(list)
        self._has_damage = False  # whether some shard is not what was written
        self.rows = self.shards = self.unsealed = 0

    def facts(self) -> Iterator[FsckFinding]:
        """run.json and the problems."""
        try:
            self._budget = budget_in(read_facts(self._folder))
            self._origin = read_origin(self._folder)
        except OffleashError as error:
            yield FsckFinding(str(error))
            return
        refuse_certificate(self._folder)
        try:
            self._problems = frozenset(read_problems(self._folder)["problem"])
        except OffleashError as error:
            yield FsckFinding(str(error))

    def samples(self, progress: Progress) -> Iterator[FsckFinding]:
        """Every shard of samples by itself, then how they fit together: twice, gone, gaps, unfinished."""
        folder = self._folder / "samples"
        checksums = shard_checksums(folder)
        owners: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for shard in sorted(folder.glob(SHARD)):
            progress(f"{self._folder.name}: reading {shard.name}")
            self.shards += 1
            recorded_shard = checksums.get(shard.name)
            yield from self._shard(
                shard, recorded_shard if recorded_shard is not None and recorded_shard.rows else None, owners
            )
        yield from _first_findings(self._copied_samples(owners))
        yield from _first_findings(
            self._missing_shards(
                {name: recorded_shard.rows for name, recorded_shard in checksums.items() if recorded_shard.rows}
            )
        )
        if not self._has_damage:  # samples of a damaged shard would be reported as missing too: one fault, one finding
            yield from _first_findings(self._gaps())
            yield from self._unfinished_findings()

    def verdicts(self) -> Iterator[FsckFinding]:
        """Each shard is the one that was written, each verdict has a sample, and each sample at most one verdict."""
        folder = self._folder / "verdicts"
        for verifier in sorted(
            {*verifiers(self._folder), *(file.parent.name for file in folder.glob(f"*/{CHECKSUMS}"))}
        ):
            yield from _first_findings(self._verdict_folder(folder / verifier))
            spans: dict[str, list[Span]] = defaultdict(list)
            for shard in sorted((folder / verifier).glob(SHARD)):
                frame, damage = _read_shard(shard, VERDICTS)
                if frame is None:
                    yield FsckFinding(damage, self._judge_again(shard))
                    continue
                orphans = self._orphan_count(frame)
                if orphans and self.shards and not self._has_damage:
                    yield FsckFinding(
                        f"{shard} has {orphans:,} verdicts without a sample",
                        f"rm {shard}, then: {self._redo_command(verify=True)}",
                    )
                for problem, left, right in spans_of(frame):
                    spans[problem].append((left, right))
            for problem, own_spans in spans.items():
                if (repeated := overlap(own_spans)) is not None:
                    what = f"{verifier} has two verdicts on sample {repeated[0]} of problem {problem!r}"
                    yield FsckFinding(what, f"rm -r {self._folder / 'verdicts' / verifier}, then verify again")
                    break

    def _verdict_folder(self, folder: Path) -> Iterator[FsckFinding]:
        """The record and the checksums of one folder of verdicts; shards that cannot be read are named elsewhere."""
        if (folder / ABOUT).is_file() and recorded_versions(folder) is None:
            yield FsckFinding(
                f"{folder / ABOUT} does not name the verifiers of {folder.name}: the folder was renamed or copied, or "
                "the record was changed",
                f"rm -r {folder}, then: offleash verify {self._folder}",
            )
        shards = sorted(folder.glob(SHARD))
        if not (folder / CHECKSUMS).is_file():
            what = f"{folder} has no checksums: its {many(len(shards), 'shard')} can be read, but may have been changed"
            yield FsckFinding(what, wrong=False)
            return
        checksums = shard_checksums(folder)
        for shard in shards:
            actual, recorded_shard = checksum(shard), checksums.get(shard.name)
            if recorded_shard is None:
                what = f"{shard} was not written by offleash: {CHECKSUMS} beside it does not list it"
                yield FsckFinding(what, f"rm {shard}")
            elif not recorded_shard.matches(actual) and _read_shard(shard, VERDICTS)[0] is not None:
                expected = recorded_shard.blake2b or recorded_shard.pending
                what = f"{shard} was changed: its checksum is {actual}, but was {expected} when"
                yield FsckFinding(f"{what} written", self._judge_again(shard))
        for name, recorded_shard in checksums.items():
            # verdicts go with their samples: a draw that resumes removes those on a shard that is gone
            if recorded_shard.blake2b and not (folder / name).is_file() and (self._folder / "samples" / name).is_file():
                what = f"{folder / name} is missing: {recorded_shard.rows:,} verdicts were written to it"
                yield FsckFinding(what, self._judge_again(folder / name))

    def _judge_again(self, shard: Path) -> str:
        """The step that restores verdicts; those of a log's own tool have no version and come with the log."""
        remove = f"rm {shard}, then: " if shard.is_file() else ""
        return remove + (f"offleash verify {self._folder}" if "@" in shard.parent.name else "import the logs again")

    def leftovers(self) -> Iterator[FsckFinding]:
        """Files that a kill left half written; harmless, since no reader looks at them."""
        for file in sorted(self._folder.rglob(f"*{WRITING_SUFFIX}")):
            yield FsckFinding(
                f"{file} was still being written when its process ended; the next write removes it", wrong=False
            )

    def _shard(
        self, shard: Path, recorded_shard: ShardChecksum | None, owners: dict[str, list[tuple[int, int, str]]]
    ) -> Iterator[FsckFinding]:
        redo_command = f"rm {shard}, then: {self._redo_command()}"
        if recorded_shard is not None and (actual := checksum(shard)) != recorded_shard.blake2b:
            self._has_damage = True
            yield FsckFinding(
                f"{shard} was changed: its checksum is {actual}, but was {recorded_shard.blake2b} when written",
                redo_command,
            )
            return
        frame, damage = _read_shard(shard, SAMPLES)
        if frame is None or frame.select("problem", "index").null_count().sum_horizontal().sum():
            self._has_damage = True
            yield FsckFinding(damage or f"{shard} has samples without a problem or an index", redo_command)
            return
        self.rows += frame.height
        self.unsealed += recorded_shard is None
        if self._problems is not None:
            unknown_ids = sorted(set(frame["problem"].unique()) - self._problems)
            if unknown_ids:
                yield FsckFinding(
                    f"{shard} has samples of {unknown_ids[0]!r}, which is not a problem of this run", redo_command
                )
        keys = frame.select("problem", "index", "seed").sort("problem", "index")
        if (copies := keys.height - keys.select("problem", "index").n_unique()) > 0:
            yield FsckFinding(f"{shard} holds {copies:,} samples twice", redo_command)
            keys = keys.unique(["problem", "index"]).sort("problem", "index")
        spans = list(spans_of(keys))
        for problem, left, right in spans:
            self._spans[problem].append((left, right))
            owners[problem].append((left, right, shard.name))
        if self._origin is not None and self._origin.about.get("sampler") in LOCAL_SAMPLERS:
            wrong_seed = _wrong_seed(keys, spans, self._origin.key)
            if wrong_seed is not None:
                yield FsckFinding(
                    f"{shard}: sample {wrong_seed[1]} of problem {wrong_seed[0]!r} has a seed that "
                    "this run did not give it",
                    redo_command,
                )

    def _copied_samples(self, owners: Mapping[str, list[tuple[int, int, str]]]) -> Iterator[FsckFinding]:
        """Samples in two shards: a shard was copied, or two folders were merged by hand."""
        shared: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)  # problem: its first sample in both
        for problem, shards in owners.items():
            reach, last = 0, ""
            for left, right, name in sorted(shards):
                if left < reach:
                    shared[last, name].setdefault(problem, left)
                if right > reach:
                    reach, last = right, name
        for (first, second), first_shared in shared.items():
            problem, left = next(iter(first_shared.items()))
            more_text = (
                f", as are samples of {many(len(first_shared) - 1, 'more problem')}" if len(first_shared) > 1 else ""
            )
            what = f"sample {left} of problem {problem!r} is in both {first} and {second}{more_text}"
            yield FsckFinding(what, f"rm the copy (both, if in doubt), then: {self._redo_command()}")

    def _missing_shards(self, checksums: Mapping[str, int]) -> Iterator[FsckFinding]:
        """Shards that were sealed and are not there; a resumed draw marks them as gone and draws them again."""
        if self._missing_count() == 0:
            return  # what they held was drawn again
        folder = self._folder / "samples"
        for name, rows in checksums.items():
            if not (folder / name).is_file():
                yield FsckFinding(
                    f"{folder / name} is missing: {rows:,} samples were written to it", self._redo_command()
                )

    def _unfinished_findings(self) -> Iterator[FsckFinding]:
        """A note where the budget is not reached; with `until` that cannot be known without judging."""
        missing = self._missing_count()
        if missing and not self._has_damage:
            expected_samples = (self._budget.k or 0) * len(self._problems or ())
            what = f"not finished: {missing:,} of the {expected_samples:,} budgeted samples are missing"
            yield FsckFinding(what, self._redo_command(), wrong=False)

    def _missing_count(self) -> int | None:
        """Samples of the budget that are missing; None where that is not known (imported, or stopping early)."""
        k = self._budget.k
        if self._origin is None or self._problems is None or not k or self._budget.until:
            return None
        spans_below_k = [[pair for pair in self._spans.get(problem, ()) if pair[0] < k] for problem in self._problems]
        return sum(high - low for own_spans in spans_below_k for low, high in holes(own_spans, k))

    def _gaps(self) -> Iterator[FsckFinding]:
        """Indices missing below the last one of a problem: failed requests, or a shard that was removed."""
        for problem, own_spans in self._spans.items():
            end = max(right for _, right in own_spans)
            missing = holes(own_spans, end)
            if missing:
                left, right = missing[0]
                count = sum(high - low for low, high in missing)
                gap = f"the first gap is {left} to {right - 1}"
                what = f"problem {problem!r} lacks {count:,} samples before its last; {gap}"
                yield FsckFinding(what, self._redo_command())

    def _orphan_count(self, frame: pl.DataFrame) -> int:
        """Verdicts whose sample is not there."""
        count = 0
        for problem, left, right in spans_of(frame):
            overlaps = [
                (max(a, left) - left, min(b, right) - left) for a, b in self._spans.get(problem, ()) if a < right
            ]
            count += sum(
                high - low for low, high in holes([pair for pair in overlaps if pair[0] < pair[1]], right - left)
            )
        return count

    def _redo_command(self, verify: bool = False) -> str:
        """The step that restores what is missing."""
        if self._origin is None:
            return f"offleash verify {self._folder}" if verify else "import the logs again"
        return f"run the same offleash draw into {self._folder} again to draw the missing samples"


def _read_shard(shard: Path, schema: dict[str, pl.DataType]) -> tuple[pl.DataFrame | None, str]:
    """A shard read in full, every page of it; None and the trouble where that cannot be."""
    try:
        check_schema(shard, schema)
        return pl.read_parquet(shard), ""
    except OffleashError as error:
        return None, str(error).rstrip(".")
    except READ_ERRORS as error:
        return None, f"{shard} is damaged ({first_line(error)})"


def _wrong_seed(keys: pl.DataFrame, spans: list[tuple[str, int, int]], key: str) -> tuple[str, int] | None:
    """The first sample (problem, index) whose seed does not follow from the run's key."""
    seeds = keys["seed"].fill_null(0).to_numpy()
    start = 0
    for problem, left, right in spans:
        expected = sample_seeds(problem_seed(key, problem), left, right - left)
        other = np.flatnonzero(seeds[start : start + right - left] != expected)
        if other.size:
            return problem, left + int(other[0])
        start += right - left
    return None


def _first_findings(findings: Iterator[FsckFinding]) -> Iterator[FsckFinding]:
    """The first findings of a kind, and how many more there are."""
    dropped_count = 0
    for number, finding in enumerate(findings):
        if number < MAX_FINDINGS_PER_KIND:
            yield finding
        else:
            dropped_count += 1
    if dropped_count:
        yield FsckFinding(f"and {dropped_count:,} more like this")


def fsck_document(runs: Sequence[FsckReport]) -> dict[str, object]:
    """Inspected runs as JSON."""
    return {
        "schema": SCHEMA,
        "runs": [
            {
                "folder": str(report.folder),
                "good": report.good,
                "samples": report.samples,
                "shards": report.shards,
                "unsealed": report.unsealed,
                "findings": [
                    {"what": finding.what, "next_step": finding.next_step or None, "wrong": finding.wrong}
                    for finding in report.findings
                ],
            }
            for report in runs
        ],
    }


def fsck_text(report: FsckReport) -> str:
    """An inspected run in words."""
    fault_count = sum(finding.wrong for finding in report.findings)
    state = "good" if report.good else f"{many(fault_count, 'fault')}"
    lines = [f"{report.folder}: {many(report.samples, 'sample')} in {many(report.shards, 'shard')}: {state}"]
    if report.unsealed:
        lines.append(f"  {many(report.unsealed, 'shard')} without a checksum, read in full and intact")
    for finding in report.findings:
        lines.append(f"  {'wrong' if finding.wrong else 'note'}: {finding.what}")
        if finding.next_step:
            lines.append(f"    next: {finding.next_step}")
    return "\n".join(lines)
