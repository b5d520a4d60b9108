"""The cache of verdicts, in SQLite: an answer is decided once for all runs, checkpoints and processes.

A verdict depends on the problem (gold answer, question, details), the raw answer, and the verifier with its version.
The key is a hash of these and nothing else; a verdict `failed` says nothing about them and is never stored. Where the
cache cannot be opened, or breaks while in use, verdicts are decided as without it, and a note says so.
"""

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement

LAYOUT_VERSION = (
    1  # in the file's name: raised when the table changes, so that versions of offleash do not share a file
)
BATCH = 500  # keys per query; SQLite's smallest limit of variables in one statement is 999
_TABLE = (
    "CREATE TABLE IF NOT EXISTS verdicts "
    "(key BLOB PRIMARY KEY, verdict TEXT, reason TEXT, score REAL, solution TEXT) WITHOUT ROWID"
)


def cache_folder() -> Path:
    """The folder of the cache: OFFLEASH_CACHE, else the user's cache folder."""
    if named := os.environ.get("OFFLEASH_CACHE"):
        return Path(named)
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

    `error` says why the cache is not in use, if it is not: lookups then find nothing, and nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.error = ""
        self._connection: sqlite3.Connection | None = None
        file = (folder or cache_folder()) / f"verdicts-{LAYOUT_VERSION}.sqlite"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _open(file)
        except (OSError, sqlite3.Error) as error:
            self.error = f"verdicts are not cached for other runs: {file} cannot be used ({error})"

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Judgement]:
        """The judgements that are in the cache, by key."""
        judgements: dict[bytes, Judgement] = {}
        if self._connection is None:
            return judgements
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, verdict, reason, score, solution FROM verdicts WHERE key IN ({marks})"
            try:
                rows = self._connection.execute(query, batch).fetchall()
            except sqlite3.Error as error:
                self._give_up(error)
                return judgements
            for key, verdict, reason, score, solution in rows:
                judgements[bytes(key)] = Judgement(Verdict(verdict), reason or "", score, solution)
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
        self.error = f"verdicts are not cached for other runs: the cache cannot be used ({error})"
        self.close()


def _open(file: Path) -> sqlite3.Connection:
    # the judge's generators may be resumed by another thread than the one that opened the file
    connection = sqlite3.connect(file, timeout=30, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")  # readers and one writer at a time, in any number of processes
        connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may lose the last verdicts, never the file
        connection.execute(_TABLE)
    except sqlite3.DatabaseError:
        connection.close()
        with contextlib.suppress(OSError):  # a damaged cache holds nothing that cannot be decided again
            file.replace(file.with_suffix(".damaged"))
        connection = sqlite3.connect(file, timeout=30, check_same_thread=False)
        connection.execute(_TABLE)
    return connection


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
