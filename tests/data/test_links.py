"""Symbolic links in a run folder from someone else: nothing outside is created, changed, truncated or removed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run import Budget
from offleash.data.run_folder import append_to_run, claim_run, is_run, open_run
from offleash.errors import OffleashError
from offleash.verifying.verify import VerifyOptions, verify
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import RATES, drawn, script
from tests.verifying.samples import run_of_texts

QUIET = VerifyOptions("string", jobs=1, cache=False)
SECRET = "root:x:0:0\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a link leads to: a folder with a file."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of_texts(tmp_path / "run", {"a": "1"}, {"a": ["\\boxed{1}", "\\boxed{2}"]})


def untouched(outside: Path) -> bool:
    return [file.name for file in outside.iterdir()] == ["passwd"] and (outside / "passwd").read_text() == SECRET


@pytest.mark.parametrize("target", ["passwd", "new"])
def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_not_truncated(
    run: Path, outside: Path, target: str
) -> None:
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(outside / target)
    with pytest.raises(OffleashError, match=r"\.lock is a symbolic link to .*cp -rL"):
        verify(run, QUIET)
    assert untouched(outside)


def test_a_lock_is_never_truncated(run: Path) -> None:
    (run / ".lock").write_text("a note")
    verify(run, QUIET)
    assert (run / ".lock").read_text() == "a note"


def moved(run: Path, outside: Path, name: str) -> Path:
    """Put a link where a part of the run was, which is now outside."""
    if (run / name).exists():
        shutil.move(run / name, outside / "moved")
    else:
        (outside / "moved").mkdir()
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).symlink_to(outside / "moved", target_is_directory=True)
    return outside / "moved"


@pytest.mark.parametrize("name", ["samples", "verdicts", "verdicts/string@1", "scores", "strategies/x"])
def test_folders_that_are_links_are_read_but_not_written_to(run: Path, outside: Path, name: str) -> None:
    target = moved(run, outside, name)
    before = sorted(target.rglob("*"))
    with pytest.raises(OffleashError, match=rf"{name} is a symbolic link"):
        verify(run, QUIET)
    assert sorted(target.rglob("*")) == before
    assert open_run(run).samples is not None
    refused(offleash("verify", run, "--no-cache"), f"{run / name} is a symbolic link to {target}", "cp -rL")


def test_a_copy_without_links_can_be_written_to(run: Path, outside: Path) -> None:
    moved(run, outside, "samples")
    copy = shutil.copytree(run, run.with_name("copy"), symlinks=False)  # as cp -rL does
    assert verify(Path(copy), QUIET).judged == 2


@pytest.mark.parametrize(
    "name", ["failures.jsonl", "samples/checksums.jsonl", "verdicts/string@1/checksums.jsonl", "traces/m.jsonl"]
)
@pytest.mark.parametrize("target", ["passwd", "new"])
def test_files_that_are_appended_to_must_not_be_links(run: Path, outside: Path, name: str, target: str) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside / target)
    with pytest.raises(OffleashError, match="is a symbolic link"):
        verify(run, QUIET)
    assert untouched(outside)


@pytest.mark.parametrize("name", ["run.json", "problems.parquet", "verdicts/string@1/about.json"])
def test_files_that_are_replaced_replace_the_link(run: Path, tmp_path: Path, name: str) -> None:
    verify(run, QUIET)
    target = tmp_path / "elsewhere"
    shutil.move(run / name, target)
    (run / name).symlink_to(target)
    content = target.read_bytes()
    with append_to_run(run) as opened:
        opened.write_problems(pl.read_parquet(run / "problems.parquet").with_columns(benchmark=pl.lit("new")))
        opened.raise_budget(Budget(7))
        opened.write_verifier_metadata("string@1", "{}")
    assert target.read_bytes() == content
    assert not (run / name).is_symlink()


def test_a_shard_of_verdicts_that_is_a_link_is_replaced(run: Path, outside: Path) -> None:
    (run / "verdicts" / "string@1").mkdir(parents=True)
    (run / "verdicts" / "string@1" / "000000.parquet").symlink_to(outside / "passwd")
    with append_to_run(run) as opened:
        rows = pl.DataFrame({"problem": ["a"], "index": [0], "verdict": ["wrong"]})
        opened.write_verdicts("string@1", rows, shard="000000.parquet")
    assert untouched(outside)


@pytest.mark.parametrize(
    "name",
    ["run.json", "problems.parquet", "samples/000001.parquet", "verdicts/string@1/000000.parquet", "x/about.json"],
)
@pytest.mark.parametrize("target", ["passwd", "new"])
def test_half_written_files_that_are_links_are_removed(run: Path, outside: Path, name: str, target: str) -> None:
    link = run / f"{name}.writing"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / target)
    with append_to_run(run) as opened:
        opened.write_samples(pl.DataFrame({"problem": ["a"], "index": [2], "text": ["\\boxed{1}"]}))
        opened.raise_budget(Budget(9))
    verify(run, QUIET)
    assert untouched(outside)
    assert not link.is_symlink()


@pytest.mark.parametrize("planted", ["samples", "verdicts", ".lock", "failures.jsonl"])
def test_a_draw_does_not_write_through_links(tmp_path: Path, outside: Path, planted: str) -> None:
    file, run = script(tmp_path / "base.json", RATES), tmp_path / "run"
    drawn(run, file, 20)
    if planted in (".lock", "failures.jsonl"):
        (run / planted).unlink(missing_ok=True)
        (run / planted).symlink_to(outside / "passwd")
    else:
        shutil.rmtree(run / planted, ignore_errors=True)
        (run / planted).symlink_to(outside, target_is_directory=True)
    with pytest.raises(OffleashError, match="is a symbolic link"):
        drawn(run, file, 40, settings={"fail": "0.5"})
    assert untouched(outside)


def test_the_run_folder_itself_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run, target_is_directory=True)
    assert verify(tmp_path / "link", QUIET).judged == 2


def a_folder(lock: Path) -> None:
    lock.mkdir()


def a_pipe(lock: Path) -> None:
    import os

    os.mkfifo(lock)


@pytest.mark.parametrize(("made", "refusal"), [(a_folder, True), (a_pipe, False)])
def test_a_lock_of_another_kind_does_not_hang_or_crash(
    tmp_path: Path, made: Callable[[Path], None], refusal: bool
) -> None:
    (tmp_path / "run").mkdir()
    made(tmp_path / "run" / ".lock")
    if refusal:
        with pytest.raises(OffleashError, match=r"\.lock cannot be opened"), claim_run(tmp_path / "run"):
            pass
    else:
        with claim_run(tmp_path / "run"):
            pass


@pytest.mark.parametrize("name", ["problems.parquet", "samples/000000.parquet", "samples/link.parquet", ".lock"])
def test_a_pipe_or_a_device_in_a_run_folder_is_refused_before_anything_waits_for_it(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    if "link" in name:
        (run / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(run / name)
    with pytest.raises(OffleashError, match="a pipe, a socket or a device"):
        is_run(run)
