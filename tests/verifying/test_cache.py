"""The cache of verdicts: set aside only when it is malformed, private to its user, and never trusted blindly."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Judgement
from offleash.verifying import cache as module
from offleash.verifying.cache import Cache
from offleash.verifying.verify import VerifyOptions, verify
from tests.places import ROOT
from tests.verifying.samples import run_of_texts

NAME = "verdicts-1.sqlite"
KEY = b"0123456789abcdef"
GARBAGE = b"this is no database, and it is long enough to be read as one" * 100


def folder_with_a_verdict(folder: Path) -> Path:
    cache = Cache(folder)
    assert cache.error == ""
    cache.store({KEY: Judgement(Verdict.CORRECT, solution="1")})
    cache.close()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(("-wal", "-shm")))


@contextmanager
def held_by_another(folder: Path) -> Iterator[None]:
    """The file as another process holds it that writes for long."""
    other = sqlite3.connect(folder / NAME, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.close()


def test_a_cache_that_is_locked_is_left_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.05, raising=False)
    folder = folder_with_a_verdict(tmp_path / "cache")
    # no write-ahead log, under which readers need not wait
    changed = sqlite3.connect(folder / NAME)
    changed.execute("PRAGMA journal_mode=DELETE")
    changed.close()
    with held_by_another(folder):
        cache = Cache(folder)
        assert "locked" in cache.error
        assert cache.lookup([KEY]) == {}
    assert names(folder) == [NAME]
    again = Cache(folder)
    assert (again.error, again.lookup([KEY])[KEY].verdict) == ("", Verdict.CORRECT)
    again.close()


FULL = """
import resource, signal, sys
from pathlib import Path
from offleash.verifying.cache import Cache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing more is an error then, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
cache = Cache(Path(sys.argv[1]))
print(cache.error)
"""


def test_a_full_disk_leaves_the_cache_where_it_is(tmp_path: Path) -> None:
    folder = folder_with_a_verdict(tmp_path / "cache")
    changed = sqlite3.connect(folder / NAME)
    changed.execute("DROP TABLE verdicts")  # so that opening it has something to write
    changed.close()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", FULL, folder], capture_output=True, text=True, env=environment)
    assert "cannot be used" in run.stdout, run.stderr
    assert names(folder) == [NAME]


def test_a_file_that_cannot_be_opened_is_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "cache" / NAME).mkdir(parents=True)
    assert "unable to open" in Cache(tmp_path / "cache").error
    assert names(tmp_path / "cache") == [NAME]


def test_a_second_malformed_file_does_not_replace_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / NAME).write_bytes(GARBAGE + bytes([number]))
        for ending in ("-wal", "-shm"):
            (folder / (NAME + ending)).unlink(missing_ok=True)
        cache = Cache(folder)
        assert "moved aside as" in cache.error
        cache.store({KEY: Judgement(Verdict.CORRECT)})
        assert KEY in cache.lookup([KEY]), "a new one is in use"
        cache.close()
    stem = NAME.removesuffix(".sqlite")
    aside = [folder / f"{stem}.damaged{ending}" for ending in ("", ".2", ".3")]
    assert [file.read_bytes()[-1] for file in aside] == [1, 2, 3]


def test_a_cache_that_turns_out_malformed_in_use_is_set_aside(tmp_path: Path) -> None:
    folder = folder_with_a_verdict(tmp_path / "cache")
    content = bytearray((folder / NAME).read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)  # the first page says what tables there are, the others hold them
    (folder / NAME).write_bytes(content)
    cache = Cache(folder)
    assert cache.lookup([KEY]) == {}
    assert "moved aside as" in cache.error
    assert Cache(folder).error == "", "the next process begins a new one"


@pytest.mark.parametrize(
    "row",
    [
        (KEY, "splendid", None, None, None),
        (KEY, None, None, None, None),
        (KEY, "failed", "", None, None),
        (KEY, "correct", b"\xff", None, None),
        (KEY, "correct", "", "much", None),
        (KEY, "correct", "", None, 7.5),
    ],
)
def test_a_row_that_was_not_stored_by_offleash_is_a_miss(tmp_path: Path, row: tuple[object, ...]) -> None:
    folder = folder_with_a_verdict(tmp_path / "cache")
    connection = sqlite3.connect(folder / NAME)
    with connection:
        # a table without types keeps what it is given, whatever the columns of ours would make of it
        connection.execute("DROP TABLE verdicts")
        connection.execute("CREATE TABLE verdicts (key PRIMARY KEY, verdict, reason, score, solution) WITHOUT ROWID")
        connection.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?)", row)
    connection.close()
    cache = Cache(folder)
    assert cache.lookup([KEY]) == {}
    assert cache.error == ""
    cache.close()


def test_the_folder_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        folder_with_a_verdict(tmp_path / "deep" / "cache")
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = folder_with_a_verdict(tmp_path / "cache")
    folder.chmod(mode)
    cache = Cache(folder)
    assert "chmod 700" in cache.error
    assert cache.lookup([KEY]) == {}


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with_a_verdict(tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    cache = Cache(folder)
    assert "belongs to another user" in cache.error
    assert cache.lookup([KEY]) == {}


def test_verdicts_are_given_without_it_and_the_result_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    run = run_of_texts(tmp_path / "run", {"a": "1"}, {"a": ["\\boxed{1}", "\\boxed{2}"]})
    result = verify(run, VerifyOptions("string", jobs=1, cache=folder))
    assert result.verdicts["correct"] == 1
    assert "other users can write to" in result.cache_error
    assert names(folder) == []
