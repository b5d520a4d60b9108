"""Which verdicts a run folder gives: the verifier that is named, in its newest version."""

from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import create_run, open_run
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
        (["math@1+unknown", "math@1+0.9.0"], "math@1+0.9.0"),
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
