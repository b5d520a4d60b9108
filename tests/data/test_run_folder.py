"""The run folder: append-only, crash-safe, and refused when it is not what this version writes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run import Budget, Origin, read_facts, read_origin
from offleash.data.run_folder import append_to_run, claim_run, create_run, is_run, open_run, read_problems, verifiers
from offleash.data.shards import checksum, shard_checksums
from offleash.data.tables import as_problems
from offleash.errors import OffleashError

PROBLEMS = pl.DataFrame({"problem": ["a", "b"]})
ROWS = pl.DataFrame({"problem": ["a", "a", "b"], "index": [0, 1, 0], "verdict": ["correct", "wrong", "unread"]})


def made(path: Path) -> Path:
    with create_run(path, "base", PROBLEMS, {"model": "tiny"}, Budget(2)) as run:
        run.write_samples(ROWS.select("problem", "index"))
        run.write_verdicts("tool@1", ROWS)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    run = open_run(made(tmp_path / "run"))
    assert run.name == "base"
    assert run.verdicts is not None
    assert run.verdicts.collect()["verdict"].to_list() == ["correct", "wrong", "unread"]
    assert run.budget == Budget(2, 0)
    assert run.facts == {"model": "tiny"}


def test_appending_adds_shards_and_edits_none(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    first = {file: file.read_bytes() for file in path.rglob("*.parquet")}
    with append_to_run(path) as run:
        run.write_verdicts("tool@1", pl.DataFrame({"problem": ["b"], "index": [1], "verdict": ["correct"]}))
    verdicts = open_run(path).verdicts
    assert verdicts is not None
    assert verdicts.collect().height == 4
    assert all(file.read_bytes() == content for file, content in first.items())


def test_a_run_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    document = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(document | {"schema": 7}))
    with pytest.raises(OffleashError, match="schema version 7"):
        open_run(path)


@pytest.mark.parametrize("content", ["{", "[]", "", "\x00\xff"])
def test_a_damaged_run_file_is_refused(tmp_path: Path, content: str) -> None:
    path = made(tmp_path / "run")
    (path / "run.json").write_text(content)
    with pytest.raises(OffleashError, match=r"run\.json is damaged"):
        read_facts(path)


def test_a_cut_off_shard_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    shard = next((path / "verdicts" / "tool@1").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(OffleashError, match=shard.name):
        open_run(path)


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    with pytest.raises(OffleashError, match="exists"), create_run(path, "again", PROBLEMS, {}):
        pass
    assert open_run(path).name == "base"


def test_several_verifiers_must_be_chosen_from(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    with append_to_run(path) as run:
        run.write_verdicts("other, strict", ROWS)
    assert verifiers(path) == ["other-strict", "tool@1"]
    with pytest.raises(OffleashError, match="--verdicts"):
        open_run(path)
    assert open_run(path, verifier="other, strict").verifier == "other-strict"
    with pytest.raises(OffleashError, match="tool@1"):
        open_run(path, verifier="tool@2")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    with append_to_run(path), pytest.raises(OffleashError, match="Another process"), append_to_run(path):
        pass


WRITER = """
import sys
from pathlib import Path
import polars as pl
from offleash.data.run_folder import append_to_run
with append_to_run(Path(sys.argv[1])) as run:
    for index in range(2, 100000):
        run.write_verdicts("tool@1", pl.DataFrame({"problem": ["a"], "index": [index], "verdict": ["correct"]}))
        print(index, flush=True)
"""


def test_a_kill_at_any_moment_loses_at_most_the_shard_in_flight(tmp_path: Path) -> None:
    for round_ in range(3):
        folder = made(tmp_path / f"run{round_}")
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.05 * (1 + round_))
        writer.send_signal(signal.SIGKILL)
        said = [2, *(int(line) for line in writer.stdout.read().split())]
        writer.wait()
        writer.stdout.close()
        verdicts = open_run(folder).verdicts
        assert verdicts is not None
        kept = sorted(verdicts.filter(pl.col("problem") == "a").collect()["index"].to_list())
        assert kept[: max(said) + 1] == list(range(max(said) + 1)), "every shard that was reported is there"
        assert len(kept) - (max(said) + 1) <= 1
        with append_to_run(folder) as run:
            run.write_verdicts("tool@1", pl.DataFrame({"problem": ["a"], "index": [len(kept)], "verdict": ["wrong"]}))
        assert not list(folder.rglob("*.writing"))


def test_a_run_that_was_never_finished_is_not_read_as_logs(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    (path / "run.json").unlink()
    with pytest.raises(OffleashError, match="did not finish"):
        is_run(path)


def test_problems_other_than_those_of_the_run_are_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    pl.read_parquet(path / "problems.parquet").head(1).write_parquet(path / "problems.parquet")
    with pytest.raises(OffleashError, match="2 problems"):
        open_run(path)


def test_a_shard_of_other_types_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    shard = next((path / "verdicts" / "tool@1").glob("*.parquet"))
    pl.read_parquet(shard).with_columns(verdict=pl.lit("great")).write_parquet(shard)
    with pytest.raises(OffleashError, match="'verdict'"):
        open_run(path)


ORIGIN = Origin("scripted:x", {"sampler": "scripted"}, {"temperature": 1.0}, 0, "00", {"first": 5}, False, "aa", None)


def test_a_drawn_run_has_its_facts_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with claim_run(path) as run:
        assert not is_run(path)
        run.begin("base", as_problems(PROBLEMS), {}, Budget(8, 2), ORIGIN)
        assert is_run(path)
    assert read_origin(path) == ORIGIN
    assert read_problems(path).height == 2
    with claim_run(path) as run:
        run.raise_budget(Budget(16, 2))
    assert open_run_budget(path) == {"k": 16, "until": 2}
    assert read_origin(path) == ORIGIN
    assert read_origin(made(tmp_path / "imported")) is None


def open_run_budget(path: Path) -> object:
    return read_facts(path)["budget"]


def test_what_a_kill_leaves_before_the_first_file_is_whole_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "run.json.writing").write_text("{")
    (path / ".lock").write_text("")
    with claim_run(path) as run:
        run.begin("base", as_problems(PROBLEMS), {}, Budget(8), ORIGIN)
    assert is_run(path)
    assert not list(path.rglob("*.writing"))


def test_every_shard_of_samples_is_sealed_and_no_name_is_used_twice(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    folder = path / "samples"
    more = pl.DataFrame({"problem": ["b"], "index": [1]})
    with append_to_run(path) as run:
        assert run.write_samples(more) == "000001.parquet"
        (folder / "000001.parquet").unlink()
        assert run.write_samples(more) == "000002.parquet"
    assert {name: seal.blake2b for name, seal in shard_checksums(folder).items() if name != "000001.parquet"} == {
        file.name: checksum(file) for file in folder.glob("*.parquet")
    }
    assert shard_checksums(folder)["000000.parquet"].rows == 3


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("budget.k", "x", r"run\.json: budget\.k should be an integer or null; found 'x'\. Restore it"),
        ("budget.until", 1.5, r"budget\.until should be an integer or null; found 1\.5"),
        ("budget", [1], r"budget should be an object; found \[1\]"),
        ("draw.decoding.temperature", "hot", r"draw\.decoding\.temperature should be a number; found 'hot'"),
        ("draw.seed", None, r"draw\.seed should be an integer; found None"),
        ("draw.chunks.first", True, r"draw\.chunks\.first should be a number; found True"),
    ],
)
def test_a_wrong_value_in_the_run_file_is_named_with_its_place(
    tmp_path: Path, place: str, value: object, said: str
) -> None:
    path = tmp_path / "run"
    with claim_run(path) as run:
        run.begin("base", as_problems(PROBLEMS), {}, Budget(8, 2), ORIGIN)
    document = json.loads((path / "run.json").read_text())
    *above, last = place.split(".")
    section = document
    for name in above:
        section = section[name]
    section[last] = value
    (path / "run.json").write_text(json.dumps(document))
    with pytest.raises(OffleashError, match=said):
        open_run(path)
