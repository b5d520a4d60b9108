"""A frontier drawn from scripted models: it is resumed to the same result, and run folders are points as they are."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import offleash as ol
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of
from tests.analyses.frontier.drawn import COUNT, MODELS, K, write_world
from tests.places import ROOT

QUIET = ol.Judging(jobs=1, cache=False)
SCRIPTS = tuple(f"scripted:{name}.json" for name in MODELS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frontier")
    write_world(folder)
    return folder


@pytest.fixture
def place(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the world in it: samples depend on the names of models, so these are relative."""
    shutil.copytree(world, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    return tmp_path / "world"


def measured(*models: str, **options: Any) -> "ol.FrontierResult":
    return ol.frontier("problems.jsonl", *models, k=K, out="runs", judging=QUIET, **options)


def lasting(document: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on when something was drawn."""
    return {name: value for name, value in document.items() if name not in ("new", "seconds")}


def in_own_process(folder: Path, kill_at: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.analyses.frontier.drawn", kill_at],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if kill_at == "never" else -9), done.stderr
    return int(done.stdout or 0)


def test_a_frontier_that_was_killed_resumes_to_the_same_result(place: Path) -> None:
    in_own_process(place, "4 of 5: rl at T 1.2")
    resumed = measured(*SCRIPTS).to_dict()
    shutil.rmtree("runs")
    whole = measured(*SCRIPTS).to_dict()
    assert resumed["new"] < whole["new"]
    assert lasting(resumed) == lasting(whole)
    assert measured(*SCRIPTS).to_dict()["new"] == 0


@pytest.mark.slow
def test_killed_at_random_moments_it_resumes_to_the_same_result(place: Path) -> None:
    lines = in_own_process(place, "never")
    whole = lasting(measured(*SCRIPTS).to_dict())
    rng = np.random.default_rng(0)
    for _ in range(4):
        shutil.rmtree("runs")
        for moment in rng.integers(1, lines // 3, 2).tolist():  # a resumed one has fewer lines
            in_own_process(place, str(moment))
        assert lasting(measured(*SCRIPTS).to_dict()) == whole


def test_run_folders_are_points_as_they_are_and_mix_with_models(place: Path) -> None:
    for name, k in (("base", 2 * K), ("step", K)):
        ol.draw("problems.jsonl", f"scripted:{name}.json", k=k, out=f"given/{name}", judging=QUIET)
    result = measured("given/base", SCRIPTS[1], "given/step", floor=0.5)
    assert [point.label for point in result.frontier.search.points[:3]] == ["base", "step", "rl"]  # type: ignore[union-attr]
    assert not Path("runs/choosing/base").exists()
    assert not Path("runs/choosing/step").exists()
    assert Path("runs/choosing/rl/t1-p1/run.json").is_file()
    confirmation = result.confirmation
    assert confirmation is not None
    assert confirmation.problems == COUNT // 2
    rows = result.to_frame()
    assert rows["point"].to_list()[:3] == ["base", "step", "rl"]
    assert result.summary().endswith(result.headline) or result.headline.split(".")[0] in result.summary()


def test_the_base_against_itself_is_not_recommended(place: Path) -> None:
    result = measured(SCRIPTS[0], SCRIPTS[0])
    assert (result.recommended, result.confirmation) == (None, None)
    assert result.headline.startswith("Nothing is recommended: pass@1 is not significantly above that of base")
    base, again = (json.loads(Path(f"runs/choosing/{name}/t1-p1/run.json").read_text()) for name in ("base", "rl"))
    assert base["draw"]["seed"] != again["draw"]["seed"]  # equal seeds would draw equal samples


@pytest.mark.parametrize(
    ("name", "k", "options", "words"),
    [
        ("base", K, {}, r"has 16 judged samples .* -k 16 needs 32 \(twice k.*Use -k 8"),
        ("base", 2 * K, {"temperature": 0.5}, r"different settings:\n  decoding.temperature: stored 0.5, requested 1"),
        ("base", 2 * K, {"until": 2}, r"drawn with --until 2.*needs every sample"),
        (
            "base",
            2 * K,
            {"size": 5},
            r"lacks 19 problems of 24, first 'p.*same problems",
        ),
    ],
)
def test_a_run_folder_that_does_not_fit_is_refused(
    name: str, k: int, options: dict[str, Any], words: str, place: Path
) -> None:
    ol.draw("problems.jsonl", f"scripted:{name}.json", k=k, out="given", judging=QUIET, **options)
    with pytest.raises(OffleashError, match=words):
        measured("given", SCRIPTS[1])


def test_models_that_cannot_be_blended_are_refused_before_anything_is_drawn(place: Path) -> None:
    with pytest.raises(OffleashError, match=r"embed_tokens|vocab|shape|Only"):
        measured(f"hf:{base_of('countdown')}", f"hf:{base_of('chain_sum')}")
    assert not Path("runs/choosing").exists()


def test_blends_of_what_has_no_weights_and_another_problem_set_are_refused(place: Path) -> None:
    with pytest.raises(OffleashError, match=r"--weights needs two model folders.*found scripted:base.json"):
        measured(*SCRIPTS, weights=[0.5])
    with pytest.raises(OffleashError, match=r"Of 3 problems, 2 would be held out"):
        measured(*SCRIPTS, size=3)
    measured(*SCRIPTS[:2])
    with pytest.raises(OffleashError, match=r"holds a frontier made with different settings:\n  problem set"):
        measured(*SCRIPTS[:2], size=12)
    with pytest.raises(OffleashError, match=r"held_out: stored 0.5, requested 0.4"):
        measured(*SCRIPTS[:2], held_out=0.4)
