"""The run folder on disk: run.json, problems and append-only Parquet shards, safe against a kill at any moment.

One writer at a time holds its lock; a shard appears under its name only when it is complete.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import mkdtemp
from weakref import finalize

import polars as pl

from offleash.data.atomic import (
    WRITING_SUFFIX,
    open_no_link,
    refuse_links,
    refuse_special_files,
    remove_leftovers,
    symlink_error,
    write_text_atomically,
)
from offleash.data.run import (
    CERTIFICATE,
    RUN_FILE,
    Budget,
    Origin,
    Run,
    budget_in,
    origin_in,
    problem_set_hash,
    read_facts,
    read_origin,
    rewrite_budget,
    write_facts,
)
from offleash.data.shards import (
    CHECKSUMS,
    SHARD,
    add_shard,
    cast_to_schema,
    first_line,
    mark_missing_shards,
    next_shard,
    record_missing_checksums,
    refuse_changed_shard,
    replace_shard,
    scan_shards,
    write_atomically,
)
from offleash.data.tables import SAMPLES, VERDICTS, Note, as_problems
from offleash.data.verifier_choice import ABOUT, choose_verdicts, folder_name
from offleash.errors import OffleashError

__all__ = [
    "PROBLEMS_FILE",
    "RUN_FILE",
    "RunFolder",
    "Scratch",
    "append_to_run",
    "claim_run",
    "create_run",
    "folder_name",
    "is_run",
    "open_run",
    "read_facts",
    "read_origin",
    "read_problems",
    "refuse_certificate",
    "refuse_other_folder",
    "verifiers",
    "write_facts",
]
PROBLEMS_FILE = "problems.parquet"
FAILURES_FILE = "failures.jsonl"
_LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """A run on disk, open for appending; made by `create_run`, `append_to_run` or `claim_run`."""

    path: Path

    def begin(self, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget, origin: Origin) -> None:
        """Write what a draw starts with: run.json first, so that a kill at any moment leaves a run to go on with."""
        write_facts(self.path, name, problems, facts, budget, origin)
        self.write_problems(problems)

    def clear(self) -> None:
        """Drop what a draw without samples has left: its failures, and notes and verdicts on shards that are gone."""
        notes = [self.path / "samples" / CHECKSUMS, *(self.path / "verdicts").glob(f"*/{CHECKSUMS}")]
        for file in (*self.verdict_shards(), self.path / FAILURES_FILE, *notes):
            file.unlink(missing_ok=True)

    def forget_shards(self) -> None:
        """Note the shards that are gone as such: what they held is to be drawn again."""
        mark_missing_shards(self.path / "samples")

    def write_problems(self, problems: pl.DataFrame) -> None:
        write_atomically(self.path / PROBLEMS_FILE, problems)

    def raise_budget(self, budget: Budget) -> None:
        rewrite_budget(self.path, budget)

    def write_samples(self, frame: pl.DataFrame) -> str:
        """Add samples as a new shard; its name."""
        return add_shard(self.path / "samples", frame, SAMPLES)

    def write_verdicts(self, verifier: str, frame: pl.DataFrame, shard: str | None = None) -> None:
        """Add verdicts; under the name of a shard of samples they replace those on it: verdicts are opinions."""
        folder = self.path / "verdicts" / folder_name(verifier)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / shard if shard is not None else next_shard(folder)
        replace_shard(file, cast_to_schema(frame, VERDICTS).sort("problem", "index"))

    def write_verifier_metadata(self, verifier: str, text: str) -> None:
        """A note beside a verifier's verdicts on what they are made with; written before the first of them."""
        file = self.path / "verdicts" / folder_name(verifier) / ABOUT
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(file, text + "\n")
        except OSError as error:
            raise OffleashError(
                f"{file} could not be written ({error.strerror}). Check disk space and permissions."
            ) from None
        record_missing_checksums(file.parent)

    def sample_shards(self) -> list[Path]:
        return sorted((self.path / "samples").glob(SHARD))

    def verdict_shards(self) -> list[Path]:
        return sorted((self.path / "verdicts").glob(f"*/{SHARD}"))

    def verdicts_of_shard(self, verifier: str, shard: str) -> pl.DataFrame | None:
        """The verdicts already given on a shard of samples; refused where they are not what was written."""
        file = self.path / "verdicts" / folder_name(verifier) / shard
        if not file.is_file():
            return None
        verdicts = scan_shards(file.parent, VERDICTS, shard)  # first: one that is cut off is refused as damaged
        refuse_changed_shard(file)
        return verdicts.collect()


def is_run(path: Path) -> bool:
    """Whether a folder is a run; one that was never finished is an error, since its tables would read as logs."""
    if (path / RUN_FILE).is_file():
        refuse_special_files(path)
        return True
    if (path / PROBLEMS_FILE).is_file() and ((path / _LOCK).exists() or (path / "verdicts").is_dir()):
        raise OffleashError(f"{path} is a run folder whose import did not finish. Remove it and import again.")
    return False


@contextlib.contextmanager
def create_run(
    path: Path, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget | None = None
) -> Iterator[RunFolder]:
    """A new run folder; refused where one exists, since facts are written once."""
    with claim_run(path) as run:
        if is_run(path):
            raise _not_empty_error(path)
        problems = as_problems(problems)
        run.write_problems(problems)
        yield run
        write_facts(path, name, problems, facts, budget or Budget())  # last: a folder without run.json is no run


@contextlib.contextmanager
def append_to_run(path: Path) -> Iterator[RunFolder]:
    """An existing run folder, for more samples or verdicts; one writer at a time."""
    refuse_certificate(path)
    with claim_run(path) as run:
        yield run


@contextlib.contextmanager
def claim_run(path: Path) -> Iterator[RunFolder]:
    """A folder that this process alone writes to: a run, or an empty one in which a run may begin."""
    refuse_other_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OffleashError(f"{path} cannot be created ({error.strerror}). Choose another folder with -o.") from None
    with _locked(path):
        refuse_links(path)
        remove_leftovers(path)
        yield RunFolder(path)


def refuse_other_folder(path: Path) -> None:
    """Refuse a path in which no run is and none may begin."""
    if path.is_file():
        raise OffleashError(f"{path} is a file, but a run is a folder. Choose another name with -o.")
    allowed_files = (_LOCK, RUN_FILE + WRITING_SUFFIX)  # left by a draw that was killed before it began
    if path.is_dir() and not is_run(path) and any(entry.name not in allowed_files for entry in path.iterdir()):
        raise _not_empty_error(path)


def open_run(path: Path, name: str | None = None, verifier: str | None = None) -> Run:
    """A run folder as a run, read lazily; the verdicts of one verifier."""
    document = read_facts(path)
    _refuse_kind(path, document)
    problems = _checked_problems(path, document)
    choice = choose_verdicts(path, path / "verdicts", verifiers(path), verifier)
    chosen = choice.name
    facts, origin = document.get("facts"), origin_in(document, path)
    name = name or str(document.get("name") or path.name)
    choice_text = f"{name}: using the verdicts of {chosen}, the newest version"
    others_text = f"also available: {', '.join(choice.passed_over)} (--verdicts NAME)"
    notes = (Note(f"{choice_text}; {others_text}", warning=True, code="verdicts_chosen"),) if choice.passed_over else ()
    return Run(
        name=name,
        problems=problems,
        verdicts=scan_shards(path / "verdicts" / folder_name(chosen), VERDICTS)
        if chosen
        else _unverified_samples(path),
        samples=scan_shards(path / "samples", SAMPLES) if any((path / "samples").glob(SHARD)) else None,
        verifier=chosen,
        budget=budget_in(document),
        facts={str(key): str(value) for key, value in facts.items()} if isinstance(facts, dict) else {},
        unverified_hint=""
        if chosen
        else f"To judge them: offleash verify {quote(str(path))}, or compare with --verifier NAME.",
        draw=origin.key if origin is not None else "",
        notes=notes,
    )


def refuse_certificate(path: Path) -> None:
    """Refuse a folder whose kind is another, where a run is wanted."""
    _refuse_kind(path, read_facts(path))


def _refuse_kind(path: Path, document: Mapping[str, object]) -> None:
    facts = document.get("facts")
    if isinstance(facts, dict) and facts.get("kind") == CERTIFICATE:
        raise OffleashError(
            f"{path} is a certificate: it holds completions and their probabilities, not samples. Compare it with "
            "another certificate (offleash compare), or draw a run."
        )


def read_problems(path: Path) -> pl.DataFrame:
    """The problems of a run folder, checked against the hash that was written with them."""
    return _checked_problems(path, read_facts(path))


def _checked_problems(path: Path, document: Mapping[str, object]) -> pl.DataFrame:
    problems = _problems(path / PROBLEMS_FILE)
    if document.get("problem_set") != problem_set_hash(problems):
        raise OffleashError(
            f"{path / PROBLEMS_FILE} does not hold the {document.get('problems')} problems that {RUN_FILE} lists: "
            "it was changed or truncated. Restore it or import the logs again."
        )
    return problems


def verifiers(path: Path) -> list[str]:
    """Names of the verifiers whose verdicts a run folder holds."""
    folder = path / "verdicts"
    return sorted(entry.name for entry in folder.iterdir() if any(entry.glob(SHARD))) if folder.is_dir() else []


def _unverified_samples(path: Path) -> pl.LazyFrame:
    """Samples that nobody has judged, as verdicts that are null."""
    samples = scan_shards(path / "samples", SAMPLES).select("problem", "index")
    return samples.with_columns([pl.lit(None, kind).alias(column) for column, kind in list(VERDICTS.items())[2:]])


def _problems(file: Path) -> pl.DataFrame:
    try:
        problems = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OffleashError(
            f"{file} cannot be read ({first_line(error)}). Restore it or import the logs again."
        ) from None
    if "problem" not in problems.columns:
        raise OffleashError(f"{file} has no column 'problem'. Restore it or import the logs again.")
    return as_problems(problems)


def _not_empty_error(path: Path) -> OffleashError:
    return OffleashError(f"{path} exists and is not empty. Choose another folder with -o, or remove it first.")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time; the lock goes with the process, also when it is killed. What the file holds is kept."""
    import fcntl

    try:
        descriptor = open_no_link(path / _LOCK, os.O_RDWR)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise symlink_error(path / _LOCK, path) from None
        raise OffleashError(
            f"{path / _LOCK} cannot be opened ({error.strerror}). Check permissions, or copy the run to a folder of "
            "your own."
        ) from None
    with os.fdopen(descriptor, "rb", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OffleashError(
                f"Another process is writing to {path}. Wait for it to finish, or choose another folder."
            ) from None
        yield


# Temporary run folders: logs whose samples are to be read again are copied into them.


class Scratch:
    """A temporary folder, made when it is first used and deleted with the last reference to it."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder, made now if it is not there yet."""
        if self._path is None:
            self._path = Path(mkdtemp(prefix="offleash-"))
            finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        return self._path

    def holds(self, path: Path) -> bool:
        """Whether a path is in it."""
        return self._path is not None and path.is_relative_to(self._path)
