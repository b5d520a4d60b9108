"""The cache of verdicts, in SQLite: an answer is decided once for all runs, checkpoints and processes.

A verdict depends on the problem (gold answer, question, details), the raw answer, and the verifier with its version.
The key is a hash of these and nothing else; a verdict `failed` says nothing about them and is never stored. Where the
cache cannot be opened, or breaks while in use, verdicts are decided as without it, and a note says so. Whoever can
write the file decides verdicts, so a folder that others own or can write is not used.
"""

import contextlib
import os
import sqlite3
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from shlex import quote

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement

LAYOUT_VERSION = (
    1  # in the file's name: raised when the table changes, so that versions of offleash do not share a file
)
KEYS_PER_QUERY = 500  # keys per query; SQLite's smallest limit of variables in one statement is 999
LOCK_TIMEOUT = 30.0  # seconds for another process that holds the file
# what the file itself is to blame for; locked, full, read-only and forbidden are passing states of the machine
MALFORMED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
CACHEABLE = {verdict.value for verdict in Verdict} - {Verdict.FAILED.value}
_TABLE = (
    "CREATE TABLE IF NOT EXISTS verdicts "
    "(key BLOB PRIMARY KEY, verdict TEXT, reason TEXT, score REAL, solution TEXT) WITHOUT ROWID"
)


def cache_folder() -> Path:
    """The folder of the cache: OFFLEASH_CACHE, else the user's cache folder."""
    if configured := os.environ.get("OFFLEASH_CACHE"):
        return Path(configured)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "offleash"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offleash"


def problem_hash(gold: str | None, question: str, details: str) -> bytes:
    """Hash of what a problem gives its verifier; no gold answer and an empty one are different problems."""
    parts = [gold or "", "" if gold is not None else "no gold", question, details]
    return _hash(part.encode("utf-8", "surrogatepass") for part in parts)


def key_of(identity: str, problem: bytes, case: Case) -> bytes:
    """The key of one case under one verifier and version."""
    return _hash([identity.encode(), problem, case.answer.encode("utf-8", "surrogatepass")])


class Cache:
    """Verdicts on disk, in SQLite: safe against kills, shared by processes.

    `error` says why the cache is not in use, if it is not: lookups then find nothing, and nothing is stored. It also
    says where a malformed file was moved to, if one was.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.error = ""
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._file = (folder or cache_folder()) / f"verdicts-{LAYOUT_VERSION}.sqlite"
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if refusal := _not_private(self._file.parent):
                self.error = f"{NOT_CACHED}: {refusal}"
                return
            self._inode = _inode(self._file)
            try:
                self._connection = _open(self._file)
            except sqlite3.DatabaseError as error:
                if not _is_malformed(error):
                    raise
                self._set_aside(error)
                self._connection = _open(self._file)
                self._inode = _inode(self._file)
        except (OSError, sqlite3.Error) as error:
            self.error = f"{NOT_CACHED}: {self._file} cannot be used ({error})"

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Judgement]:
        """The judgements that are in the cache, by key."""
        judgements: dict[bytes, Judgement] = {}
        if self._connection is None:
            return judgements
        for start in range(0, len(keys), KEYS_PER_QUERY):
            batch = keys[start : start + KEYS_PER_QUERY]
            placeholders = ",".join("?" * len(batch))
            query = f"SELECT key, verdict, reason, score, solution FROM verdicts WHERE key IN ({placeholders})"
            try:
                rows = self._connection.execute(query, batch).fetchall()
            except sqlite3.Error as error:
                self._give_up(error)
                return judgements
            judgements |= {
                bytes(key): Judgement(Verdict(verdict), reason or "", score, solution)
                for key, verdict, reason, score, solution in rows
                if _is_valid_row(verdict, reason, score, solution)
            }
        return judgements

    def store(self, judgements: Mapping[bytes, Judgement]) -> None:
        """Store judgements, in one transaction; those that failed are left out, so that they are tried again."""
        rows = [
            (key, judgement.verdict.value, _storable(judgement.reason), judgement.score, _storable(judgement.solution))
            for key, judgement in judgements.items()
            if judgement.verdict is not Verdict.FAILED
        ]
        if self._connection is None or not rows:
            return
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: sqlite3.Error) -> None:
        """Go on without the cache; one that turns out to be malformed only now is set aside for the next process."""
        self.close()
        if _is_malformed(error):
            with contextlib.suppress(OSError):
                self._set_aside(error)
                return
        self.error = f"{NOT_CACHED}: {self._file} cannot be used ({error})"

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Rename a malformed file, with its log of changes, which must not be applied to the next file of that name."""
        self.error = f"the verdict cache was malformed ({error}) and was moved aside"
        if _inode(self._file) != self._inode:
            return  # by another process, and this is its new one
        damaged_copy = self._file.with_suffix(".damaged")
        number = 2
        while damaged_copy.exists() or damaged_copy.is_symlink():
            damaged_copy = self._file.with_suffix(f".damaged.{number}")
            number += 1
        self._file.rename(damaged_copy)
        for ending in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._file.with_name(self._file.name + ending).rename(
                    damaged_copy.with_name(damaged_copy.name + ending)
                )
        self.error = f"the verdict cache was malformed ({error}) and was moved aside as {damaged_copy}"


NOT_CACHED = "verdicts are not cached for other runs"


def _open(file: Path) -> sqlite3.Connection:
    # the judge's generators may be resumed by another thread than the one that opened the file
    connection = sqlite3.connect(file, timeout=LOCK_TIMEOUT, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")  # readers and one writer at a time, in any number of processes
        connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may lose the last verdicts, never the file
        connection.execute(_TABLE)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return None


def _is_malformed(error: sqlite3.Error) -> bool:
    """Whether the file is no database or a broken one; the lower byte of SQLite's codes is the kind of error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in MALFORMED


def _not_private(folder: Path) -> str:
    """Why a folder is not used: others could put verdicts into it. Empty where it is the user's own."""
    state = folder.stat()
    if state.st_uid != os.geteuid():
        return f"{folder} belongs to another user. Set OFFLEASH_CACHE to a folder that you own"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write to {folder}. Run: chmod 700 {quote(str(folder))}"
    return ""


def _is_valid_row(verdict: object, reason: object, score: object, solution: object) -> bool:
    """Whether a row is one that `store` writes; any other is decided again."""
    texts = isinstance(reason, str | None) and isinstance(solution, str | None)
    return isinstance(verdict, str) and verdict in CACHEABLE and texts and isinstance(score, float | int | None)


def _storable(text: str | None) -> str | None:
    """Texts without lone surrogates, which SQLite cannot hold."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def _hash(parts: Iterable[bytes]) -> bytes:
    """Hash of several texts; each is preceded by its length, so that ("ab", "c") and ("a", "bc") differ."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
