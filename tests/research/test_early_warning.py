"""The study of early warning: thresholds that never see their seed, the published table, and a tiny journey."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from offleash.errors import OffleashError
from offleash.lab.countdown import COUNTDOWN
from offleash.stats.diversity import entropy_plugin
from research.early_warning.assess import code_entropy
from research.early_warning.follow import file_of, read_look
from research.early_warning.plan import SIGNALS, Job, Plan, jobs_of, recipe_for, write_plan
from research.early_warning.published import COUNTS, STEPS, published
from research.early_warning.report import Trajectory, WarningStudy, finding, show_warning, warning_document
from research.early_warning.thresholds import choose_rule, drop_of, evaluate_signals, signal_correlations
from research.early_warning.warning import study_part, study_warning
from tests.places import ROOT

TABLE_4 = Path(__file__).parent.parent / "stats" / "data" / "table4_training_dynamics_dapo_deepseek15b_pass256.csv"
TINY = Plan(
    seeds=2,
    steps=2,
    every=1,
    watched=4,
    k=8,
    base_k=16,
    null_k=16,
    nulls=10,
    tested=4,
    truth_k=8,
    groups=4,
    pool=32,
    recipes=("grpo",),
)
LOOKS = 6


def training(recipe: str, seed: int, falls_at: int | None, lost_at: int | None, size: float = 0.5) -> Trajectory:
    """A training whose signals all change by `size` at one look, and which loses support at another."""
    there = [falls_at is not None and look >= falls_at for look in range(LOOKS)]
    lost = [lost_at is not None and look >= lost_at for look in range(LOOKS)]
    steps = tuple(range(10, 10 * LOOKS + 1, 10))
    change = {name: tuple((size if name == "reward" else -size) * flag for flag in there) for name in SIGNALS}
    loss = tuple(0.3 * flag for flag in lost)
    return Trajectory(
        recipe, seed, steps, change, dict.fromkeys(SIGNALS, (0.01,) * LOOKS), tuple(map(int, lost)), loss, loss,
        loss, None if lost_at is None else steps[lost_at],
    )  # fmt: skip


def null_world(seeds: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.02, (seeds, 200, LOOKS)) for name in SIGNALS}


def test_an_alarm_two_looks_before_the_loss_is_twenty_steps_early_and_the_rule_says_it() -> None:
    trainings = [training("grpo", seed, 1, 3) for seed in range(3)] + [
        training("held", seed, 0, None, 0.1) for seed in range(3)
    ]
    null = null_world(3)
    found = evaluate_signals(trainings, null)
    for one in found:
        assert (one.misses, one.losses, one.quiet, one.delay) == (0, 3, 3, -20)
        assert one.false_alarms == (3 if one.kind == "noise" else 0)
        assert [alarm.step for alarm in one.alarms[:3]] == [20, 20, 20]
    rule = choose_rule(trainings, null, found)
    assert rule is not None
    assert (rule.signal, rule.looks) == ("answer", LOOKS)
    assert rule.drop == pytest.approx(0.1)


def test_a_threshold_does_not_see_the_seed_that_it_is_for() -> None:
    trainings = [training("grpo", seed, 1, 3) for seed in range(3)] + [
        training("held", seed, 0, None, 0.1) for seed in range(3)
    ]
    null = null_world(3)
    other = {name: value.copy() for name, value in null.items()}
    for value in other.values():
        value[1] = -0.9
    wilder = [
        replace(one, change_T=training("held", 1, 0, None, 0.8).change_T) if one.seed == 1 else one for one in trainings
    ]
    for kind in ("noise", "loss"):
        same = drop_of(kind, "token", trainings, null["token"], 1)
        assert drop_of(kind, "token", wilder, other["token"], 1) == same
        assert drop_of(kind, "token", wilder, other["token"], 0) > 0.5 > same


def test_a_training_that_loses_is_no_guide_to_what_is_harmless() -> None:
    trainings = [training("grpo", seed, 1, 3) for seed in range(3)]
    null = null_world(3)
    assert drop_of("loss", "token", trainings, null["token"], 0) == drop_of(
        "noise", "token", trainings, null["token"], 0
    )


def test_a_signal_that_comes_with_the_loss_follows_it_perfectly_whatever_its_direction() -> None:
    found = signal_correlations([training("grpo", 0, 3, 3), training("grpo", 1, 2, 2)])
    assert {one.signal: one.within_S for one in found} == {name: pytest.approx((1, 1)) for name in SIGNALS}


def test_where_nothing_is_lost_there_is_no_rule() -> None:
    trainings = [training("grpo", seed, None, None) for seed in range(2)]
    null = null_world(2)
    assert choose_rule(trainings, null, evaluate_signals(trainings, null)) is None


def test_the_entropy_of_codes_is_that_of_their_counts_without_the_unread() -> None:
    code_GK = np.array([[3, 3, 7, 7], [1, 2, 3, 4], [5, 5, 5, 5], [-1, -1, 2, 9]], np.int32)
    found = code_entropy(code_GK, 4)
    assert found[:3] == pytest.approx(np.log([2, 4, 1]))
    assert np.isnan(found[3])
    assert code_entropy(code_GK[3:], 2) == pytest.approx(entropy_plugin([1, 1], [0, 0], 1))


def test_the_counts_of_table_4_are_the_published_ones() -> None:
    with TABLE_4.open() as file:
        file.readline()
        rows = [row for row in csv.DictReader(file) if row["P"]]
    for name, cells in COUNTS.items():
        theirs = [tuple(int(row[cell]) for cell in "PESO") for row in rows if row["dataset"] == name]
        assert list(cells) == theirs
        assert [int(row["step"]) for row in rows if row["dataset"] == name] == list(STEPS)


def test_a_monitor_of_counts_would_have_spoken_at_step_180_of_table_4() -> None:
    by_name = {one.name: one for one in published()}
    assert (by_name["all six"].seen, by_name["all six"].resolved, by_name["all six"].stays) == (30, 180, True)
    assert by_name["Olympiad"].resolved == 180
    assert [name for name, one in by_name.items() if one.resolved is None] == [
        "AIME24", "AIME25", "AMC23", "MATH500", "Minerva",
    ]  # fmt: skip


def test_the_controls_differ_from_the_demo_in_one_thing() -> None:
    plain, held = (recipe_for(COUNTDOWN, Plan(), Job(name, 0), Path("x")) for name in ("grpo", "held"))
    assert replace(held, options=plain.options) == plain
    assert held.options == {"kl": 0.2}


def test_what_cannot_be_started_or_resumed_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "begun").mkdir()
    write_plan(TINY, tmp_path / "begun")
    code = "import sys; from research.early_warning.__main__ import run\n"
    code += "try: run()\nfinally: assert 'torch' not in sys.modules"
    for words, told in (
        (("file",), "file is a file, and a study needs a folder. Choose another with -o"),
        (("file/new",), "Choose another folder with -o"),
        (("none", "--only", "grpo-9"), "none has no study of early warning"),
        (("begun", "--only", "grpo-9"), "Did you mean 'grpo-1'"),
        (("begun", "--quick"), "another size"),
    ):
        asked = [sys.executable, "-c", code, "-o", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        found = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert found.returncode == 2, found.stderr
        assert told in found.stderr
        assert "Errno" not in found.stderr
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WarningStudy]:
    folder = tmp_path_factory.mktemp("warning") / "study"
    return folder, study_warning(TINY, folder)


@pytest.mark.slow
def test_every_training_is_looked_at_and_each_leg_moves_the_model(done: tuple[Path, WarningStudy]) -> None:
    folder, found = done
    assert len(found.trainings) == len([job for job in jobs_of(TINY) if job.recipe != "base"])
    assert all(one.steps_T == (1, 2) for one in found.trainings)
    first, second = (read_look(file_of(folder, Job("grpo", 0), f"step-00000{step}")) for step in (1, 2))
    assert first.watched.answer_PK.shape == (TINY.watched, TINY.k)
    assert first.counts.drawn_P.tolist() == [TINY.truth_k] * TINY.tested
    assert not np.array_equal(first.watched.entropy_PK, second.watched.entropy_PK)


@pytest.mark.slow
def test_the_study_is_reported_as_json_and_in_words(done: tuple[Path, WarningStudy]) -> None:
    _, found = done
    document = json.loads(json.dumps(warning_document(found), allow_nan=False))
    assert document["schema"] == 1
    assert {one["signal"] for one in document["signals"]} == set(SIGNALS)
    assert len(document["signals"]) == 2 * len(SIGNALS)
    console = Console(markup=False, emoji=False, highlight=False, record=True, width=100)
    show_warning(console, found)
    assert " ".join(finding(found).split()) in " ".join(console.export_text().split())


@pytest.mark.slow
def test_a_study_that_is_done_is_not_done_again_and_another_size_is_refused(done: tuple[Path, WarningStudy]) -> None:
    folder, found = done
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")}
    again = study_warning(TINY, folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")} == before
    assert warning_document(again)["signals"] == warning_document(found)["signals"]
    write_plan(replace(TINY, seeds=3, steps=4), folder)  # more of the same may be asked for
    write_plan(TINY, folder)
    with pytest.raises(OffleashError, match="another size"):
        write_plan(replace(TINY, watched=5), folder)


@pytest.mark.slow
def test_a_training_that_the_study_does_not_have_is_named(done: tuple[Path, WarningStudy], tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="Did you mean 'grpo-1'"):
        study_part(done[0], "grpo-9")
    with pytest.raises(OffleashError, match="without --only first"):
        study_part(tmp_path, "grpo-0")
