"""fsck: what was cut, edited, copied, deleted or mixed up is found, and a good run is not blamed."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from offleash.data.shards import CHECKSUMS
from offleash.drawing.fsck import FsckReport, fsck
from offleash.errors import OffleashError
from tests.drawing.drawn_world import RATES, drawn, samples, script
from tests.verifying.samples import run_of_texts


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of several shards with verdicts."""
    folder = tmp_path_factory.mktemp("runs")
    file = script(folder / "base.json", RATES)
    for k in (40, 150, 300):
        drawn(folder / "run", file, k, until=3)
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def shard(run: Path, number: int = 1) -> Path:
    return run / "samples" / f"{number:06d}.parquet"


def wrong(report: FsckReport) -> str:
    assert not report.good
    return "\n".join(f"{finding.what} | {finding.next_step}" for finding in report.findings if finding.wrong)


def test_a_good_run_is_good(run: Path) -> None:
    result = fsck(run)
    assert result.good
    assert result.findings == ()
    assert (result.samples, result.unsealed) == (samples(run).height, 0)
    assert result.shards >= 3


def test_a_shard_that_was_cut_is_found(run: Path) -> None:
    content = shard(run).read_bytes()
    for kept in (len(content) // 2, len(content) - 1, 0):
        shard(run).write_bytes(content[:kept])
        assert f"rm {shard(run)}" in wrong(fsck(run))


@pytest.mark.parametrize("sealed", [True, False])
def test_a_byte_that_is_changed_is_found_or_does_no_harm(run: Path, sealed: bool) -> None:
    content = shard(run).read_bytes()
    if not sealed:
        (run / "samples" / CHECKSUMS).unlink()
    actual = 0
    for place in range(0, len(content), max(1, len(content) // 60)):
        changed = bytearray(content)
        changed[place] ^= 0x10
        shard(run).write_bytes(changed)
        if sealed:
            assert shard(run).name in wrong(fsck(run)), place
        else:
            actual += not fsck(run).good
    assert sealed or actual > 10, "without a checksum most damage is found by reading"


def test_an_edited_text_is_found(run: Path) -> None:
    frame = pl.read_parquet(shard(run))
    frame.with_columns(text=pl.lit("\\boxed{1}")).write_parquet(shard(run))
    assert "was changed: its checksum" in wrong(fsck(run))


def test_a_shard_without_a_checksum_is_read_in_full_and_good(run: Path) -> None:
    notes = run / "samples" / CHECKSUMS
    lines = notes.read_text().splitlines(keepends=True)
    notes.write_text("".join(lines[:-1]) + lines[-1][:20])  # as a kill would leave it
    result = fsck(run)
    assert result.good
    assert result.unsealed == 1
    notes.unlink()
    assert fsck(run).unsealed == result.shards


def test_a_line_that_a_kill_cut_off_does_not_spoil_the_next(run: Path, original: Path) -> None:
    notes = run / "samples" / CHECKSUMS
    with notes.open("a") as opened:
        opened.write('{"shard": "0000')
    drawn(run, original.parent / "base.json", 400, until=3)
    result = fsck(run)
    assert result.good
    assert result.unsealed == 0


def test_a_copied_shard_is_found(run: Path) -> None:
    shutil.copy(shard(run), shard(run, 77))
    result = fsck(run)
    assert "is in both 000001.parquet and 000077.parquet, as are samples of" in wrong(result)
    assert sum("is in both 000001" in finding.what for finding in result.findings) == 1


@pytest.mark.parametrize("until", [0, 3])
def test_the_last_shard_is_missed_when_it_is_deleted(tmp_path: Path, until: int) -> None:
    file, run = script(tmp_path / "base.json", RATES), tmp_path / "run"
    for k in (40, 150):
        drawn(run, file, k, until=until)
    assert fsck(run).findings == ()
    last = max((run / "samples").glob("*.parquet"))
    content = last.read_bytes()
    last.unlink()
    shutil.rmtree(run / "verdicts", ignore_errors=True)
    assert f"{last} is missing" in wrong(fsck(run))
    drawn(run, file, 150, until=until)
    assert fsck(run).findings == ()
    last.write_bytes(content)
    assert f"and {max((run / 'samples').glob('*.parquet')).name}" in wrong(fsck(run))


def test_a_run_that_is_not_finished_is_told_and_is_no_fault(tmp_path: Path) -> None:
    file = script(tmp_path / "base.json", RATES)
    drawn(tmp_path / "run", file, 20, settings={"fail": "0.5"})
    result = fsck(tmp_path / "run")
    assert result.good
    (finding,) = result.findings
    assert finding.what == f"not finished: {140 - result.samples} of the 140 budgeted samples are missing"


def test_a_deleted_shard_leaves_gaps_and_verdicts_without_samples(run: Path, original: Path) -> None:
    shard(run, 0).unlink()
    said = wrong(fsck(run))
    assert "lacks" in said
    assert "verdicts without a sample" in said
    drawn(run, original.parent / "base.json", 300, until=3)
    assert fsck(run).good
    assert samples(run).equals(samples(original))


def test_a_seed_that_is_not_the_runs_is_found(run: Path) -> None:
    (run / "samples" / CHECKSUMS).unlink()
    frame = pl.read_parquet(shard(run)).with_columns(
        seed=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit(5, pl.UInt64)).otherwise("seed")
    )
    frame.write_parquet(shard(run))
    assert "a seed that this run did not give it" in wrong(fsck(run))


def test_facts_and_problems_that_do_not_fit_are_found(run: Path) -> None:
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(document | {"problem_set": "0"}))
    assert "does not hold the 7 problems" in wrong(fsck(run))
    (run / "run.json").write_text("{")
    assert "damaged" in wrong(fsck(run))
    (run / "run.json").write_text(json.dumps(document | {"draw": {"model": "x"}}))
    assert "section 'draw'" in wrong(fsck(run))


def test_samples_of_a_strange_problem_and_wrong_columns_are_found(run: Path) -> None:
    (run / "samples" / CHECKSUMS).unlink()
    frame = pl.read_parquet(shard(run))
    frame.with_columns(problem=pl.lit("stranger") + pl.col("problem")).write_parquet(shard(run))
    assert "which is not a problem of this run" in wrong(fsck(run))
    frame.with_columns(index=pl.lit(None, pl.UInt32)).write_parquet(shard(run))
    assert "without a problem or an index" in wrong(fsck(run))
    frame.drop("text").write_parquet(shard(run))
    assert "lacks the columns ['text']" in wrong(fsck(run))


def test_verdicts_that_are_damaged_or_there_twice_are_found(run: Path) -> None:
    (verifier,) = (run / "verdicts").iterdir()
    verdicts = verifier / shard(run).name
    content = verdicts.read_bytes()
    verdicts.write_bytes(content[:-30])
    assert "offleash verify" in wrong(fsck(run))
    verdicts.write_bytes(content)
    (verifier / "000099.parquet").write_bytes(content)
    assert "has two verdicts on sample" in wrong(fsck(run))


def test_leftovers_of_a_kill_are_told_and_are_no_fault(run: Path) -> None:
    (run / "samples" / "000009.parquet.writing").write_bytes(b"PAR1")
    result = fsck(run)
    assert result.good
    assert "the next write removes it" in result.findings[0].what


def test_an_imported_run_can_be_checked_too(tmp_path: Path) -> None:
    folder = run_of_texts(tmp_path / "run", {"a": "1"}, {"a": ["x", "y", "z"]}, shards=2)
    assert fsck(folder).good
    (folder / "samples" / "000000.parquet").write_bytes(b"")
    assert "import the logs again" in wrong(fsck(folder))
    with pytest.raises(OffleashError, match="not a run folder"):
        fsck(tmp_path)
