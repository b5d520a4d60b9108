"""Which verdicts a run folder gives: the verifier that is named, in its newest version, or none without a choice."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import create_run, open_run
from offleash.data.verifier_choice import verdicts_name
from offleash.errors import OffleashError

ROWS = pl.DataFrame({"problem": ["a"], "index": [0], "verdict": ["correct"]})


def judged(path: Path, *verifiers: str) -> Path:
    with create_run(path, "base", pl.DataFrame({"problem": ["a"]}), {}) as run:
        run.write_samples(ROWS.select("problem", "index"))
        for verifier in verifiers:
            run.write_verdicts(verifier, ROWS)
    return path


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (["math@9", "math@10"], "math@10"),
        (["math@1+0.9.0", "math@1+0.10.0"], "math@1+0.10.0"),
        (["math@2+0.8.0", "math@1+0.9.0"], "math@2+0.8.0"),
        (["math@1", "math@1+0.9.0"], "math@1+0.9.0"),
        (["math@1+0.9.0rc1", "math@1+0.9.0"], "math@1+0.9.0"),
        (["math@1+0.9.0", "math@1+0.9.0.1"], "math@1+0.9.0.1"),
        (["math@1+0.9.0", "math@1+0.9.0.post1"], "math@1+0.9.0.post1"),
    ],
)
def test_a_name_without_a_version_stands_for_the_newest(tmp_path: Path, versions: list[str], newest: str) -> None:
    path = judged(tmp_path / "run", *versions)
    assert open_run(path, verifier="math").verifier == newest
    assert open_run(path).verifier == newest, "several versions of one verifier need no choice"
    assert [open_run(path, verifier=name).verifier for name in versions] == versions


def test_a_folder_of_exactly_that_name_wins(tmp_path: Path) -> None:
    path = judged(tmp_path / "run", "math", "math@1+0.9.0")
    assert open_run(path, verifier="math").verifier == "math"
    with pytest.raises(OffleashError, match="--verdicts"):
        open_run(path)


def test_two_verifiers_must_be_chosen_from_in_any_version(tmp_path: Path) -> None:
    path = judged(tmp_path / "run", "math@1", "math@2", "string@1")
    with pytest.raises(OffleashError, match=r"math@1, math@2, string@1\. Choose one with --verdicts"):
        open_run(path)
    assert open_run(path, verifier="math").verifier == "math@2"


def test_the_beginning_of_a_name_is_not_the_name(tmp_path: Path) -> None:
    path = judged(tmp_path / "run", "math_strict@1", "string@1")
    with pytest.raises(OffleashError, match="no verifier"):
        open_run(path, verifier="math")


def test_an_unknown_verifier_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    path = judged(tmp_path / "run", "math@1+0.9.0", "string@1")
    with pytest.raises(OffleashError, match=r"Did you mean 'math'\?.*math@1\+0\.9\.0"):
        open_run(path, verifier="maths")
    with pytest.raises(OffleashError, match=r"math@1\+0\.9\.0"):
        open_run(path, verifier="math@7")


def judged_by(path: Path, *records: Sequence[str]) -> Path:
    """A run with a folder of verdicts per record, which lists the identities of several verifiers."""
    judged(path, *(verdicts_name(identities) for identities in records))
    for identities in records:
        about = path / "verdicts" / verdicts_name(identities) / "about.json"
        about.write_text(json.dumps({identity: {} for identity in identities}))
    return path


def undecided(path: Path, verifier: str | None = None) -> str:
    with pytest.raises(OffleashError, match=r"Choose one with --verdicts NAME\.$") as refusal:
        open_run(path, verifier=verifier)
    return str(refusal.value)


OLD, NEW = ("choice@1", "math@1+0.9.0"), ("choice@1", "math@1+0.10.0")


@pytest.mark.parametrize("patch", range(20))
def test_of_several_mixed_verdicts_the_record_decides_and_not_the_hash(tmp_path: Path, patch: int) -> None:
    newer = ("choice@1", f"math@1+0.10.{patch}")
    path = judged_by(tmp_path / "run", OLD, newer)
    for wanted in (None, "mixed"):
        run = open_run(path, verifier=wanted)
        assert run.verifier == verdicts_name(newer)
        (note,) = run.notes
        assert (note.warning, note.code) == (True, "verdicts_chosen")
        assert verdicts_name(OLD) in note.text
        assert verdicts_name(newer) in note.text
    assert open_run(path, verifier=verdicts_name(OLD)).notes == (), "what is named in full was not chosen for the user"


@pytest.mark.parametrize(
    "records",
    [
        [OLD, ("choice@1", "string@1")],  # other verifiers
        [("choice@2", "math@1+0.9.0"), ("choice@1", "math@1+0.10.0")],  # each newer in part
        [("choice@1", "math@1+main"), OLD],  # not the version of a release
        [OLD, NEW, ("choice@1", "program@1")],  # the newest of two, and a third
    ],
)
def test_records_that_do_not_decide_are_refused_with_the_names(tmp_path: Path, records: list[Sequence[str]]) -> None:
    path = judged_by(tmp_path / "run", *records)
    for wanted in (None, "mixed"):
        said = undecided(path, wanted)
        assert all(verdicts_name(identities) in said for identities in records)
    for identities in records:
        assert open_run(path, verifier=verdicts_name(identities)).verifier == verdicts_name(identities)


@pytest.mark.parametrize("record", [None, "copied", "{", "[]", '"a"', '{"\\ud800": 1}', "[" * 100_000])
def test_a_folder_without_a_record_of_its_own_is_never_the_newest(tmp_path: Path, record: str | None) -> None:
    path = judged_by(tmp_path / "run", OLD, NEW)
    with_record = path / "verdicts" / verdicts_name(NEW) / "about.json"
    planted = judged(tmp_path / "other", "mixed@ffff9999") / "verdicts" / "mixed@ffff9999"
    if record is not None:
        (planted / "about.json").write_text(with_record.read_text() if record == "copied" else record)
    planted.rename(path / "verdicts" / planted.name)
    assert "mixed@ffff9999" in undecided(path)


def test_a_copied_folder_of_one_verifier_is_not_a_newer_version(tmp_path: Path) -> None:
    path = judged_by(tmp_path / "run", ("math@1",), ("math@2",))
    assert open_run(path).verifier == "math@2"
    (path / "verdicts" / "math@2").rename(path / "verdicts" / "math@99")
    assert "math@1, math@99" in undecided(path)


@pytest.mark.parametrize(
    "names",
    [
        ["math@1+unknown", "math@1+0.9.0"],
        ["referee@1+gpt-5+0b1c2d3e", "referee@1+gpt-5+9b1c2d3e"],  # hashes of the prompt
        ["referee@1+gpt-4+0b1c2d3e", "referee@1+gpt-5+9b1c2d3e"],  # other models
        ["mine@0b1c2d3e", "mine@9b1c2d3e"],
    ],
)
def test_what_is_not_a_newer_version_is_not_taken_for_one(tmp_path: Path, names: list[str]) -> None:
    said = undecided(judged(tmp_path / "run", *names))
    assert all(name in said for name in names)
