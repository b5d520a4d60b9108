"""Checksums of verdicts: fsck finds what was deleted, rewritten or copied, and a kill at any moment is no fault."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

from offleash.data import shards as module
from offleash.data.run_folder import append_to_run, create_run, open_run, verifiers
from offleash.drawing.fsck import FsckReport, fsck, fsck_text
from offleash.errors import OffleashError
from offleash.verifying.verify import VerifyOptions, verify
from tests.drawing.drawn_world import RATES, drawn, script
from tests.verifying.samples import run_of_texts

QUIET = VerifyOptions("string", jobs=1, cache=False)
TEXTS = {"a": ["\\boxed{1}", "\\boxed{2}", "\\boxed{1}", "no"], "b": ["\\boxed{2}", "\\boxed{2}", "\\boxed{3}", "7"]}
CHECKSUMS = "checksums.jsonl"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three shards, judged."""
    folder = run_of_texts(tmp_path / "run", {"a": "1", "b": "2"}, TEXTS, shards=3)
    verify(folder, QUIET)
    assert fsck(folder).findings == ()
    return folder


def judged(run: Path) -> Path:
    (verifier,) = verifiers(run)
    return run / "verdicts" / verifier


def wrong(report: FsckReport) -> list[str]:
    return [f"{finding.what} | {finding.next_step}" for finding in report.findings if finding.wrong]


def as_wrong(shard: Path) -> None:
    """Rewrite a shard so that every verdict in it is wrong: a good Parquet file all the same."""
    frame = pl.read_parquet(shard)
    frame.with_columns(verdict=pl.lit("wrong").cast(frame["verdict"].dtype)).write_parquet(shard)


def rewritten(folder: Path) -> None:
    as_wrong(folder / "000001.parquet")


def deleted(folder: Path) -> None:
    (folder / "000001.parquet").unlink()


def copied_over(folder: Path) -> None:
    shutil.copy(folder / "000000.parquet", folder / "000001.parquet")


def emptied(folder: Path) -> None:
    for shard in folder.glob("*.parquet"):
        shard.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rewritten, "000001.parquet was changed: its checksum is"),
        (deleted, "000001.parquet is missing: 3 verdicts were written to it"),
        (copied_over, "000001.parquet was changed: its checksum is"),
        (emptied, "000002.parquet is missing"),
    ],
)
def test_a_changed_folder_is_noticed_and_verify_restores_it(
    run: Path, change: Callable[[Path], None], said: str
) -> None:
    folder, before = judged(run), open_run(run).verdicts
    assert before is not None
    expected = before.collect()
    change(folder)
    findings = wrong(fsck(run))
    assert any(said in finding and "offleash verify" in finding for finding in findings), findings
    (folder / "000001.parquet").unlink(missing_ok=True)  # the next step that it names
    verify(run, QUIET)
    assert fsck(run).findings == ()
    after = open_run(run).verdicts
    assert after is not None
    assert after.collect().equals(expected)


def test_a_shard_that_was_put_in_is_noticed(run: Path) -> None:
    other = pl.read_parquet(judged(run) / "000001.parquet").with_columns(index=pl.lit(77, pl.UInt32)).head(1)
    other.write_parquet(judged(run) / "000004.parquet")
    assert any("000004.parquet was not written by offleash" in finding for finding in wrong(fsck(run)))


def test_a_folder_under_another_name_is_noticed(run: Path) -> None:
    shutil.copytree(judged(run), judged(run).with_name("mixed@ffff9999"))
    (said,) = wrong(fsck(run))
    assert "does not name the verifiers of mixed@ffff9999" in said


def test_verify_does_not_build_on_verdicts_that_were_changed(run: Path) -> None:
    as_wrong(judged(run) / "000001.parquet")
    with pytest.raises(OffleashError, match=r"000001\.parquet was changed: its checksum does not match.* rm "):
        verify(run, QUIET)


def test_a_folder_of_an_older_version_opens_and_has_no_checksums(run: Path) -> None:
    (judged(run) / CHECKSUMS).unlink()
    result = fsck(run)
    assert result.good
    assert "has no checksums" in fsck_text(result)
    assert open_run(run).verifier == judged(run).name
    with append_to_run(run) as opened:  # an older version judged only what there was
        opened.write_samples(pl.DataFrame({"problem": ["a"], "index": [4], "text": ["\\boxed{1}"]}))
    assert verify(run, QUIET).judged == 1
    assert fsck(run).findings == ()
    as_wrong(judged(run) / "000000.parquet")
    assert len(wrong(fsck(run))) == 1


def test_verdicts_that_are_judged_again_have_their_new_checksum(run: Path) -> None:
    for _ in range(2):
        shard = judged(run) / "000001.parquet"
        frame = pl.read_parquet(shard)
        with append_to_run(run) as opened:  # as if the verifier had failed
            failed = frame.with_columns(verdict=pl.lit("failed").cast(frame["verdict"].dtype))
            opened.write_verdicts(judged(run).name, failed, shard=shard.name)
        assert fsck(run).findings == ()
        assert verify(run, QUIET).judged == frame.height
        assert fsck(run).findings == ()


def test_verdicts_of_a_log_are_sealed_too(tmp_path: Path) -> None:
    rows = pl.DataFrame({"problem": ["a", "a"], "index": [0, 1], "verdict": ["correct", "wrong"]})
    with create_run(tmp_path / "run", "base", pl.DataFrame({"problem": ["a"]}), {}) as opened:
        opened.write_samples(rows.select("problem", "index"))
        opened.write_verdicts("exact_match", rows)
    assert fsck(tmp_path / "run").findings == ()
    as_wrong(tmp_path / "run" / "verdicts" / "exact_match" / "000000.parquet")
    (said,) = wrong(fsck(tmp_path / "run"))
    assert said.endswith("import the logs again")


class Killed(BaseException):
    """The process ends here; nothing of ours catches it."""


@contextmanager
def killed_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End what happens within after so many steps that change the folder: a line of checksums, or a rename."""
    left = steps

    def counted(what: Callable[..., object]) -> Callable[..., object]:
        def stepped(*arguments: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return what(*arguments)

        return stepped

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(module, "_record_shard", counted(module._record_shard))
        patch.setattr(Path, "replace", counted(Path.replace))
        yield


def with_verdicts(run: Path, verdict: str) -> None:
    """Write all verdicts of a run again, as this."""
    name = judged(run).name
    with append_to_run(run) as opened:
        for shard in opened.sample_shards():
            old = opened.verdicts_of_shard(name, shard.name)
            assert old is not None
            changed = old.with_columns(verdict=pl.lit(verdict).cast(old["verdict"].dtype))
            opened.write_verdicts(name, changed, shard=shard.name)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", range(10))
def test_a_kill_at_any_moment_is_no_fault_and_loses_at_most_the_shard_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, again: bool
) -> None:
    folder = run_of_texts(tmp_path / "run", {"a": "1", "b": "2"}, TEXTS, shards=3)
    if again:  # shards are replaced instead of written for the first time
        verify(folder, QUIET)
        with_verdicts(folder, "failed")
    for steps in (step, step % 4, step % 3):
        with killed_after(steps, monkeypatch):
            verify(folder, QUIET)
        assert fsck(folder).good, wrong(fsck(folder))
    verify(folder, QUIET)
    assert fsck(folder).findings == ()
    table = open_run(folder).verdicts
    assert table is not None
    assert table.collect().height == 8
    assert table.filter(pl.col("verdict") == "correct").collect().height == 4


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(5))
def test_two_kills_while_a_shard_is_replaced_are_no_fault(
    run: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    for steps, verdict in ((first, "failed"), (second, "unread"), (first, "wrong")):
        with killed_after(steps, monkeypatch):
            with_verdicts(run, verdict)
        assert fsck(run).good, wrong(fsck(run))
    with_verdicts(run, "unread")
    assert fsck(run).findings == ()


def test_a_draw_that_resumes_keeps_the_checksums_right(tmp_path: Path) -> None:
    file, folder = script(tmp_path / "base.json", RATES), tmp_path / "run"
    for k in (40, 150):
        drawn(folder, file, k, until=3)
    assert fsck(folder).findings == ()
    (folder / "samples" / "000001.parquet").unlink()
    drawn(folder, file, 150, until=3)
    assert fsck(folder).findings == ()
    (judged(folder) / "000000.parquet").unlink()
    assert any("000000.parquet is missing" in finding for finding in wrong(fsck(folder)))
    drawn(folder, file, 150, until=3)
    assert fsck(folder).findings == ()


def test_a_line_that_a_kill_cut_off_is_no_note(run: Path) -> None:
    notes = judged(run) / CHECKSUMS
    with notes.open("a") as opened:
        opened.write('{"shard": "000001.parquet", "blake2b": "00')
    assert fsck(run).findings == ()
    rows = [json.loads(line) for line in notes.read_text().splitlines()[:-1]]
    assert {row["shard"] for row in rows} == {f"00000{number}.parquet" for number in range(3)}
