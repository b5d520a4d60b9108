"""The run folder on disk: run.json and append-only Parquet shards, safe against a kill at any moment."""

import contextlib
import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError, unknown
from offleash.tables.problem import as_problems
from offleash.tables.run import Budget, Run, problem_set_hash
from offleash.tables.samples import SAMPLES
from offleash.tables.verdicts import VERDICTS

SCHEMA = 1
RUN_FILE = "run.json"
_SHARD = "*.parquet"
_LOCK = ".lock"
LATER = "reason"  # a column that runs of the first weeks lack


@dataclass(frozen=True)
class RunFolder:
    """A run on disk, open for appending; made by `create_run` or `append_to_run`."""

    path: Path

    def write_samples(self, frame: pl.DataFrame) -> None:
        _write_shard(self.path / "samples", frame, SAMPLES)

    def write_verdicts(self, verifier: str, frame: pl.DataFrame, shard: str | None = None) -> None:
        """Add verdicts; under the name of a shard of samples they replace those on it: verdicts are opinions."""
        folder = self.path / "verdicts" / folder_name(verifier)
        if shard is None:
            _write_shard(folder, frame, VERDICTS)
            return
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / shard, _as(frame, VERDICTS).sort("problem", "index"))

    def write_about(self, verifier: str, text: str) -> None:
        """A note beside a verifier's verdicts on what they were made with."""
        file = self.path / "verdicts" / folder_name(verifier) / "about.json"
        file.write_text(text + "\n", encoding="utf-8")

    def sample_shards(self) -> list[Path]:
        return sorted((self.path / "samples").glob(_SHARD))

    def verdicts_on(self, verifier: str, shard: str) -> pl.DataFrame | None:
        """The verdicts already given on a shard of samples."""
        file = self.path / "verdicts" / folder_name(verifier) / shard
        return _shards(file.parent, VERDICTS, shard).collect() if file.is_file() else None


def is_run(path: Path) -> bool:
    """Whether a folder is a run; one that was never finished is an error, since its tables would read as logs."""
    if (path / RUN_FILE).is_file():
        return True
    if (path / "problems.parquet").is_file() and ((path / _LOCK).exists() or (path / "verdicts").is_dir()):
        raise OffleashError(f"{path} is a run folder whose import did not finish; remove it and import again.")
    return False


@contextlib.contextmanager
def create_run(
    path: Path, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget | None = None
) -> Iterator[RunFolder]:
    """A new run folder; refused where one exists, since facts are written once."""
    if is_run(path) or path.is_file() or (path.exists() and any(entry.name != _LOCK for entry in path.iterdir())):
        raise OffleashError(f"{path} exists and is not empty; choose another folder with -o, or remove it first.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OffleashError(f"{path} cannot be made ({error.strerror}); choose another folder with -o.") from None
    problems = as_problems(problems)
    with _locked(path):
        _replace(path / "problems.parquet", problems)
        yield RunFolder(path)
        write_facts(path, name, problems, facts, budget or Budget())  # last: a folder without run.json is no run


@contextlib.contextmanager
def append_to_run(path: Path) -> Iterator[RunFolder]:
    """An existing run folder, for more samples or verdicts; one writer at a time."""
    read_facts(path)
    with _locked(path):
        for leftover in path.rglob("*.writing"):
            leftover.unlink()
        yield RunFolder(path)


def write_facts(path: Path, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget) -> None:
    import offleash

    document = {
        "schema": SCHEMA,
        "name": name,
        "problems": problems.height,
        "problem_set": problem_set_hash(problems),
        "budget": {"k": budget.k, "until": budget.until},
        "facts": facts,
        "versions": {"offleash": offleash.__version__, "polars": pl.__version__, "python": platform.python_version()},
    }
    temporary = path / f"{RUN_FILE}.writing"
    temporary.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path / RUN_FILE)


def read_facts(path: Path) -> dict[str, object]:
    """run.json, checked; a run of another schema version is refused."""
    try:
        document = json.loads((path / RUN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OffleashError(f"{path} is not a run folder: it has no {RUN_FILE}.") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise OffleashError(f"{path / RUN_FILE} is damaged ({error}); restore it or import the logs again.") from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise OffleashError(
            f"{path} was written with schema version {found!r} and this offleash reads version {SCHEMA}; "
            "use the offleash version named under 'versions' in its run.json, or import the logs again."
        )
    return dict(document)


def open_run(path: Path, name: str | None = None, verifier: str | None = None) -> Run:
    """A run folder as a run, read lazily; the verdicts of one verifier."""
    document = read_facts(path)
    problems = read_problems(path)
    budget = document.get("budget")
    known = budget if isinstance(budget, dict) else {}
    chosen = _verifier(path, verifier)
    facts = document.get("facts")
    return Run(
        name=name or str(document.get("name") or path.name),
        problems=problems,
        verdicts=_shards(path / "verdicts" / folder_name(chosen), VERDICTS) if chosen else _unverified(path),
        samples=_shards(path / "samples", SAMPLES) if any((path / "samples").glob(_SHARD)) else None,
        verifier=chosen,
        budget=Budget(known.get("k"), int(known.get("until") or 0)),
        facts={str(key): str(value) for key, value in facts.items()} if isinstance(facts, dict) else {},
        unverified_hint=f"no verifier has judged {path} yet" if not chosen else "",
    )


def read_problems(path: Path) -> pl.DataFrame:
    """The problems of a run folder, checked against the hash that was written with them."""
    document = read_facts(path)
    problems = _problems(path / "problems.parquet")
    if document.get("problem_set") != problem_set_hash(problems):
        raise OffleashError(
            f"{path / 'problems.parquet'} does not hold the {document.get('problems')} problems that {RUN_FILE} names; "
            "it was changed or cut. Restore it or import the logs again."
        )
    return problems


def verifiers(path: Path) -> list[str]:
    """Names of the verifiers whose verdicts a run folder holds."""
    folder = path / "verdicts"
    return sorted(entry.name for entry in folder.iterdir() if any(entry.glob(_SHARD))) if folder.is_dir() else []


def folder_name(verifier: str) -> str:
    """A verifier's name as a folder's: lm-eval's 'exact_match,strict' would not do on every system."""
    return re.sub(r"[^A-Za-z0-9_.@+-]+", "-", verifier).strip("-.") or "verifier"


def _verifier(path: Path, wanted: str | None) -> str | None:
    """The folder of verdicts to read: the one named, else the newest version of the one verifier that there is."""
    known = verifiers(path)
    names = {name.partition("@")[0] for name in known if "@" in name}
    if wanted is not None:
        exact = folder_name(wanted)
        versions = [exact] if exact in known else [name for name in known if name.startswith(f"{exact}@")]
        if not versions:
            raise unknown("verifier with verdicts in " + str(path), wanted, names.union(known))
        return max(versions, key=_version)
    if len(known) > 1 and (len(names) > 1 or not all("@" in name for name in known)):
        raise OffleashError(
            f"{path} has verdicts of several verifiers: {', '.join(known)}; choose one with --verifier."
        )
    return max(known, key=_version, default=None)


def _version(name: str) -> list[list[tuple[int, int, str]]]:
    """A key by which versions sort: revision, then library, numbers by size (10 after 9), a pre-release before it."""
    parts = (re.findall(r"\d+|[A-Za-z]+", part) for part in name.partition("@")[2].split("+"))
    end = (0, 0, "")
    return [[*((1, int(word), "") if word.isdigit() else (-1, 0, word) for word in words), end] for words in parts]


def _unverified(path: Path) -> pl.LazyFrame:
    """Samples that nobody has judged, as verdicts that are null."""
    samples = _shards(path / "samples", SAMPLES).select("problem", "index")
    return samples.with_columns([pl.lit(None, kind).alias(column) for column, kind in list(VERDICTS.items())[2:]])


def _shards(folder: Path, schema: dict[str, pl.DataType], only: str = _SHARD) -> pl.LazyFrame:
    files = sorted(folder.glob(only))
    if not files:
        raise OffleashError(f"{folder} holds no shards; the run has no samples yet.")
    for file in files:
        try:
            found = pl.read_parquet_schema(file)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise OffleashError(
                f"{file} is damaged or cut off ({_first_line(error)}); restore it or draw it again."
            ) from None
        missing = [column for column in schema if column not in found and column != LATER]
        if missing:
            raise OffleashError(f"{file} lacks the columns {missing}; it was not written by this version of offleash.")
        changed = [column for column in schema if column in found and found[column] != schema[column]]
        if changed:
            raise OffleashError(
                f"{file}: column {changed[0]!r} is {found[changed[0]]} and should be {schema[changed[0]]}; the shard "
                "was edited. Restore it or import the logs again."
            )
    return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore")


def _problems(file: Path) -> pl.DataFrame:
    try:
        found = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OffleashError(
            f"{file} cannot be read ({_first_line(error)}); restore it or import the logs again."
        ) from None
    if "problem" not in found.columns:
        raise OffleashError(f"{file} has no column 'problem'; restore it or import the logs again.")
    return as_problems(found)


def _as(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(column) for column, kind in schema.items() if column not in frame.columns]
    return frame.with_columns(missing).select(pl.col(column).cast(kind) for column, kind in schema.items())


def _write_shard(folder: Path, frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    last = max((int(file.stem) for file in folder.glob(_SHARD) if file.stem.isdigit()), default=-1)
    _replace(folder / f"{last + 1:06d}.parquet", _as(frame, schema).sort("problem", "index"))


def _replace(file: Path, frame: pl.DataFrame) -> None:
    """Write beside the name, then rename: a reader sees the whole file or none of it."""
    temporary = file.with_name(file.name + ".writing")
    try:
        frame.write_parquet(temporary, compression="zstd", statistics=True)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OffleashError(
            f"{file} could not be written ({_first_line(error)}); what was written before is good."
        ) from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time; the lock goes with the process, also when it is killed."""
    import fcntl

    with (path / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OffleashError(
                f"Another process is writing to {path}; wait for it or choose another folder."
            ) from None
        yield


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
