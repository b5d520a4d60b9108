"""The rollouts of a training run that is still running: what is new in its folder since the last look, read once.

`RolloutFolder.refresh` reads what is new: rows appended to JSONL files, whole files of Parquet. The readers are those
of offleash/logs; here is only what they do not know: that files grow, are torn, written again and renamed. What is kept
of a sample is a few numbers (`RolloutSample`), by step and file, so that the samples of a file that is written again
are replaced, and a group that arrives in pieces is one group in the end.

What is counted is what the folder holds: a batch that a trainer logs twice counts once, a file that was written again
counts as it is now. Samples of a file that was deleted after it was read stay.
"""

import os
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from offleash.data.content import CONTENT, with_content
from offleash.data.tables import TRUNCATED, as_problems, question_hash
from offleash.errors import OffleashError
from offleash.files.archives import IncompleteFileError
from offleash.files.detect import Container, Head, read_head
from offleash.files.rows import Row
from offleash.files.tail import ReadMark, new_rows
from offleash.loading.merge import PROBLEM_FIELDS, without_first_rows
from offleash.logs.format import Format, Ids, Log, Options, Skip
from offleash.logs.frames import NoSamplesError
from offleash.logs.registry import FORMATS, format_named
from offleash.logs.training import REPEATED, SPLIT_MARKERS, column_named
from offleash.verifiers.extraction.extract import ANSWER_STEPS, extract

# Formats that are recognised in the folder of a training run, in the order of recognition.
TRAINERS = ("trl", "verl", "prime_rl", "nemo_rl", "skyrl", "open_instruct", "swift", "tinker", "areal", "art")
# Files that may hold rollouts; ".1" is of a log that was rotated. Weights and tokenizers are not opened.
ROLLOUT_NAME = re.compile(r"\.(jsonl|ndjson|parquet)(\.(gz|bz2|xz|zst|\d+))*$", re.IGNORECASE)
READ_WHOLE = (b"PAR1", b"\x1f\x8b", b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd")  # how Parquet and compressed files begin
STEP_COLUMNS = ("step", "global_step", "iteration")  # of a table that is no trainer's, unless --map step= names one

Signature = tuple[int, int, int]  # of a file: size, time of its last change, inode


class RolloutSample(NamedTuple):
    """What is kept of a sample."""

    problem: int  # its number among the problems of the training
    group: int | None  # hash of the group that the log names; None: a group is the samples of a problem in a step
    verdict: str | None
    text: int | None  # hash; None where the log keeps no texts
    answer: int | None  # hash; None where none was found
    truncated: bool | None  # None where the log does not say


class StepBatch(NamedTuple):
    """Which samples are counted together: those of a step, the ones of an evaluation apart."""

    step: int
    evaluation: bool


@dataclass(frozen=True)
class LoggedProblem:
    """A problem as the log describes it."""

    label: str  # its id, or the hash of its text
    question: str | None
    gold: str | None
    benchmark: str | None
    identity: str | None
    contents: str | None


# Verdicts and answers of samples in place of the log's own, from their problems and their entries.
Judged = Callable[[Sequence[LoggedProblem], pl.DataFrame], tuple[list[str | None], list[str | None]]]


class RowError(OffleashError):
    """A row that cannot be read, as its reader says it."""


@dataclass
class RolloutFile:
    """One file of the folder, and what was read of it."""

    path: Path
    signature: Signature = (0, 0, 0)
    tail: ReadMark = field(default_factory=ReadMark)
    format: Format | None = None  # None: not of a trainer
    head: Head | None = None
    context: tuple[Row, ...] = ()  # the last rows read, which some formats need with the next ones
    samples: dict[StepBatch, list[RolloutSample]] = field(default_factory=dict)
    repeated: int = 0  # samples that another file, or another line, has too
    damaged: int = 0  # rows that cannot be read
    fault: str = ""  # why the first of them cannot
    waiting: str = ""  # why it will be tried again: it is not complete


@dataclass
class Changes:
    """What a look at the folder found new."""

    batches: set[StepBatch] = field(default_factory=set)  # whose samples are other than before
    samples: int = 0  # that were read
    bytes: int = 0  # that were read


class RolloutFolder:
    """The rollouts below a folder.

    Args:
        folder: Where the trainer writes.
        options: How its files are read (--map, --threshold, --tokenizer).
        format_name: --log-format; None: recognised by content, among the formats of trainers.
        judged: Gives verdicts and answers in place of the log's own.
    """

    def __init__(
        self, folder: Path, options: Options, format_name: str | None = None, judged: Judged | None = None
    ) -> None:
        if not folder.is_dir():
            raise OffleashError(f"{folder} is not a folder. Give the folder in which the trainer writes its rollouts.")
        self.folder = folder
        self.files: dict[Path, RolloutFile] = {}
        self.problems: list[LoggedProblem] = []
        self.by_batch: dict[StepBatch, dict[Path, list[RolloutSample]]] = {}
        self.verifier: str | None = None  # whose verdicts these are
        self._step = options.columns.get("step")
        self._options = replace(
            options, columns={role: name for role, name in options.columns.items() if role != "step"}
        )
        self._format = None if format_name is None else format_named(format_name)
        self._judge = judged
        self._numbers: dict[tuple[object, ...], int] = {}  # of problems, by content
        self._order: list[tuple[NaturalKey, Path]] = []  # all files in natural order

    def refresh(self) -> Changes:
        """Read what is new; what is not complete yet is left for the next look.

        Raises:
            OffleashError: The files cannot be read with these options, such as a reward that must be chosen.
        """
        changes, signatures = Changes(), self._scan()
        changed = {path for path, signature in signatures.items() if self._is_new(path, signature)}
        # What a file repeats of the one before it may be known only now.
        changed |= {follower for path in changed if (follower := self._neighbour(path, 1)) and self._repeats(follower)}
        for path in sorted(changed, key=natural_key):
            self._read(path, signatures.get(path), changes)
        return changes

    def samples_of(self, batch: StepBatch) -> list[RolloutSample]:
        """The samples of a step, in all files."""
        return [sample for samples in self.by_batch.get(batch, {}).values() for sample in samples]

    @property
    def trainer(self) -> str | None:
        """The format of most files; None: nothing was recognised yet."""
        names = Counter(file.format.name for file in self.files.values() if file.format is not None)
        return names.most_common(1)[0][0] if names else None

    # Which files there are.

    def _scan(self) -> dict[Path, Signature]:
        """The files that may hold rollouts, with what changes when they do."""
        listed: dict[Path, Signature] = {}
        for folder, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.startswith(".") or not ROLLOUT_NAME.search(name):
                    continue
                path = Path(folder, name)
                try:
                    stat = path.stat()
                except OSError:  # renamed or deleted since it was listed
                    continue
                if stat.st_size:
                    listed[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        self._follow_renames(listed)
        for path in listed.keys() - self.files.keys():
            insort(self._order, (natural_key(path), path))
            self.files[path] = RolloutFile(path)
        return listed

    def _follow_renames(self, listed: dict[Path, Signature]) -> None:
        """A file that got another name is forgotten under the old one: logs are rotated by renaming them."""
        missing_paths = [path for path in self.files if path not in listed]
        replaced = [path for path in self.files if path in listed and listed[path][2] != self.files[path].signature[2]]
        inodes = {signature[2] for path, signature in listed.items() if path not in self.files}
        for path in (*missing_paths, *replaced):
            if self.files[path].signature[2] in inodes:
                self._forget(self.files[path], Changes())
                del self.files[path]
                self._order.remove((natural_key(path), path))

    def _is_new(self, path: Path, signature: Signature) -> bool:
        return self.files[path].signature != signature or bool(self.files[path].waiting)

    def _neighbour(self, path: Path, distance: int) -> Path | None:
        place = bisect_left(self._order, (natural_key(path), path)) + distance
        return self._order[place][1] if 0 <= place < len(self._order) else None

    def _repeats(self, path: Path) -> bool:
        """Whether a file was read whose beginning may repeat the file before it."""
        file = self.files[path]
        parquet = file.head is not None and file.head.container is Container.PARQUET
        return parquet and file.format is not None and file.format.skip is not None

    # Reading one of them.

    def _read(self, path: Path, signature: Signature | None, changes: Changes) -> None:
        file = self.files[path]
        file.waiting = ""
        try:
            with path.open("rb") as opened:
                whole = opened.read(4).startswith(READ_WHOLE)
            if whole:
                self._read_whole(file, changes)
            else:
                while self._read_rows(file, changes):
                    pass
        except IncompleteFileError:
            file.waiting = "the file is not complete"
        except (OSError, OffleashError):
            if path.exists():
                raise  # else it was renamed or deleted meanwhile, and what was read of it stays
        file.signature = signature or file.signature

    def _read_whole(self, file: RolloutFile, changes: Changes) -> None:
        """Read a file that cannot be read in pieces: Parquet, or compressed."""
        head = read_head(file.path)
        changes.bytes += file.path.stat().st_size
        kind = self._recognise(head)
        if kind is None:
            return
        complete_file = RolloutFile(file.path, format=kind, head=head)
        try:
            self._add(complete_file, head, self._skip_reader(kind, file.path), changes)
        except RowError as error:
            complete_file.damaged, complete_file.fault = complete_file.damaged + 1, str(error)
        self._forget(file, changes)  # only now: a file that is being written again counts as it was until it is whole
        self._assign(file, complete_file)

    def _read_rows(self, file: RolloutFile, changes: Changes) -> bool:
        """Read the complete new rows of a JSONL file; whether there are more at once."""
        new = new_rows(file.path, file.tail)
        changes.bytes += new.tail.offset - (0 if new.rewritten else file.tail.offset)
        if new.rewritten:
            self._forget(file, changes)
            self._assign(file, RolloutFile(file.path))
        file.tail, file.waiting = new.tail, "the last line is not complete" if new.torn else ""
        if new.rows and file.head is None:
            first = new.rows[0]
            file.head = Head(file.path, Container.JSONL, tuple(first.values), first.values)
            file.format = self._recognise(file.head)
        if file.format is None:
            return new.more
        file.damaged += new.damaged
        if new.rows and self._skip_reader(file.format, file.path) is not None:
            file.repeated += len(new.rows)
        elif new.rows:
            self._add_rows(file, new.rows, changes)
        return new.more

    def _add_rows(self, file: RolloutFile, new: tuple[Row, ...], changes: Changes) -> None:
        """Add the samples of new rows; where one of them cannot be read, each row by itself."""
        assert file.head is not None, "it was recognised by its head"
        assert file.format is not None, "it was recognised"
        rows = (*file.context, *new)
        skip = Skip("read before", file.context[-1].number) if file.context else None
        try:
            self._add(file, replace(file.head, rows=rows), skip, changes)
        except RowError:
            for row in new:
                try:
                    self._add(file, replace(file.head, rows=(row,)), None, changes)
                except RowError as error:
                    file.damaged, file.fault = file.damaged + 1, file.fault or str(error)
        context = file.format.rollouts.context if file.format.rollouts is not None else 0
        file.context = rows[len(rows) - context :]

    def _add(self, file: RolloutFile, head: Head, skip: Skip | None, changes: Changes) -> None:
        """Add the samples behind a head to a file. If one of them cannot be read, none is added (RowError)."""
        assert file.format is not None, "it was recognised"
        options = replace(self._options, split_by=self._step_column(file.format, head), texts=True)
        log = file.format.read(file.path, head, options)
        first_rows = skip.rows if skip is not None and skip.rows is not None else 0
        try:
            frames = list(without_first_rows(log.frames, first_rows))
        except NoSamplesError:
            frames = []
        except IncompleteFileError:
            raise
        except OffleashError as error:
            raise RowError(str(error)) from None
        row_count = sum(frame.height for frame in frames)
        changes.samples += row_count
        if skip is not None and skip.rows is None:
            file.repeated += row_count
            return
        file.repeated += sum(note.rows for note in log.notes if note.code == REPEATED)
        file.repeated += first_rows if head.rows is None else 0  # rows of context are no repeats
        self.verifier = self.verifier or log.verifier
        for frame in frames:
            if frame.height:
                self._add_frame(file, head, log, frame, changes)

    def _add_frame(self, file: RolloutFile, head: Head, log: Log, frame: pl.DataFrame, changes: Changes) -> None:
        """Add the samples of a frame of entries to the batches of their steps."""
        numbers = self._problem_numbers(frame, log.ids)
        if self._judge is not None:
            verdicts, answers = self._judge([self.problems[number] for number in numbers], frame)
        else:
            verdicts, answers = frame["verdict"].to_list(), _answers(frame)
        groups = frame["problem"].to_list() if log.ids is Ids.GROUP else [None] * frame.height
        evaluations = self._evaluations(file, head, frame)
        columns = (numbers, groups, verdicts, frame["text"], answers, frame["finish"], frame["split"], evaluations)
        for number, group, verdict, text, answer, finish, step, evaluation in zip(*columns, strict=True):
            batch = StepBatch(0 if step is None else int(float(step)), evaluation)  # no step: before the first
            sample = RolloutSample(
                number,
                None if group is None else hash((file.path, group)),  # such ids are of one file
                verdict,
                None if text is None else hash(text),
                None if answer is None else hash(answer),
                None if finish is None else finish == TRUNCATED,
            )
            samples = file.samples.setdefault(batch, [])
            samples.append(sample)
            self.by_batch.setdefault(batch, {})[file.path] = samples
            changes.batches.add(batch)

    def _evaluations(self, file: RolloutFile, head: Head, frame: pl.DataFrame) -> list[bool]:
        """Whether each sample of a frame is of an evaluation."""
        assert file.format is not None, "it was recognised"
        if file.format.rollouts is None:
            return [False] * frame.height
        path, rule = file.path.relative_to(self.folder), file.format.rollouts.evaluation
        if head.rows is not None:
            by_row = {row.number: rule(path, row.values) for row in head.rows}
            return [by_row[number] for number in frame["row"]]
        marker = column_named(SPLIT_MARKERS, head.columns)
        if marker is None or head.container is not Container.PARQUET:
            return [rule(path, head.first)] * frame.height
        markers = pl.read_parquet(file.path, columns=[marker], glob=False)[marker].to_list()
        return [rule(path, {marker: markers[number - 1]}) for number in frame["row"]]

    def _forget(self, file: RolloutFile, changes: Changes) -> None:
        """Drop the samples of a file, which were written again or have another name now."""
        for batch in file.samples:
            known_samples = self.by_batch.get(batch, {})
            known_samples.pop(file.path, None)
            if not known_samples:
                self.by_batch.pop(batch, None)
            changes.batches.add(batch)

    def _assign(self, file: RolloutFile, content: RolloutFile) -> None:
        """Give a file the content that was read now."""
        for name in ("tail", "format", "head", "context", "samples", "repeated", "damaged", "fault"):
            setattr(file, name, getattr(content, name))
        for batch, samples in file.samples.items():
            self.by_batch.setdefault(batch, {})[file.path] = samples

    # What its format and its problems are.

    def _recognise(self, head: Head) -> Format | None:
        """The trainer's format of a file; a format that the user names is taken as it is."""
        if self._format is not None:
            return self._format
        formats = (FORMATS[name] for name in TRAINERS)
        return next((kind for kind in formats if kind.recognise(head)), None)

    def _skip_reader(self, kind: Format, path: Path) -> Skip | None:
        """What of a file repeats the one before it."""
        before = self._neighbour(path, -1)
        if kind.skip is None or before is None:
            return None
        return kind.skip([before, path]).get(path)

    def _step_column(self, kind: Format, head: Head) -> str | None:
        """The column of the training step: the one mapped, the format's, one of a usual name; None: there is none."""
        if self._step is not None:
            return self._step
        if kind.rollouts is not None and kind.rollouts.step_in is not None:
            return kind.rollouts.steps[0] if kind.rollouts.step_in(head.path) is not None else None
        known = kind.rollouts.steps if kind.rollouts is not None else STEP_COLUMNS
        column = column_named(known, head.columns)
        if column is None and kind.rollouts is None:
            raise OffleashError(
                f"{head.path} has no column {' or '.join(STEP_COLUMNS)}. Name the training step: --map step=COLUMN."
            )
        return column or known[0]

    def _problem_numbers(self, frame: pl.DataFrame, ids: Ids) -> list[int]:
        """The number of the problem of each entry; equal contents under equal ids are one problem in all files."""
        with_codes = frame.with_columns(code=pl.struct(PROBLEM_FIELDS).hash())
        distinct = with_codes.select("code", *PROBLEM_FIELDS).unique("code", maintain_order=True)
        hashes = [None if text is None else question_hash(text) for text in distinct["question"]]
        table = with_content(as_problems(distinct.with_columns(hash=pl.Series(hashes, dtype=pl.String))))
        numbers: dict[int, int] = {}
        for code, row in zip(distinct["code"], table.iter_rows(named=True), strict=True):
            numbers[code] = self._number(row, ids)
        return [numbers[code] for code in with_codes["code"]]

    def _number(self, row: dict[str, object], ids: Ids) -> int:
        own_id = None if ids is Ids.GROUP or row["problem"] == row["hash"] else row["problem"]
        content = tuple(row[name] for name in CONTENT)
        if ids is Ids.GROUP and not any(content):  # groups without any text have nothing in common with others
            own_id = row["problem"]
        key = (row["benchmark"], row["identity"]) if row["identity"] else (row["benchmark"], own_id, *content)
        number = self._numbers.setdefault(key, len(self.problems))
        if number == len(self.problems):
            label = str(row["identity"] or own_id or row["hash"] or row["problem"])
            named = {name: _text(row[name]) for name in ("question", "gold", "benchmark", "identity", "contents")}
            self.problems.append(LoggedProblem(label, **named))
        return number


def _answers(frame: pl.DataFrame) -> list[str | None]:
    """The answers that the log has; where it has none, those that the texts mark."""
    if frame["answer"].null_count() < frame.height:
        return frame["answer"].to_list()
    truncated = (frame["finish"] == TRUNCATED).fill_null(False)
    return [
        None if text is None else extract(text, ANSWER_STEPS, is_truncated).answer
        for text, is_truncated in zip(frame["text"], truncated, strict=True)
    ]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


NaturalKey = tuple[tuple[int, int, str], ...]


def natural_key(path: Path) -> NaturalKey:
    """Sort key by which digits compare as numbers: step 9 before step 10."""
    parts = re.split(r"(\d+)", os.fspath(path))
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
