"""Windows of steps: their rates, and what chance says about problems that were solved before and not since."""

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offleash.logs.format import Options
from offleash.training.watch.report import watched_training
from offleash.training.watch.rollouts import RolloutFolder, RolloutSample
from offleash.training.watch.windows import Watch, group_counts, window_stats, window_width


def write_steps(folder: Path, correct_SPG: np.ndarray, first: int = 1, **more: Any) -> None:
    """A verl dump of every step: S steps, P problems, G samples each."""
    folder.mkdir(exist_ok=True)
    for step, correct_PG in enumerate(correct_SPG, first):
        rows = [
            {"input": f"problem {p}", "output": f"text {g}", "gts": "1", "score": float(c), "step": step, **more}
            for p, correct_G in enumerate(correct_PG)
            for g, c in enumerate(correct_G)
        ]
        (folder / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def watched(folder: Path, width: int | None = None) -> Watch:
    watch = Watch(RolloutFolder(folder, Options()), width)
    watch.refresh()
    return watch


def sample(
    problem: int, verdict: str | None, text: int = 0, answer: int | None = 0, group: int | None = None
) -> RolloutSample:
    return RolloutSample(problem, group, verdict, text, answer, None)


def test_a_window_has_the_rates_of_its_groups() -> None:
    groups = group_counts(
        [
            *(
                sample(0, verdict, text, answer)
                for verdict, text, answer in (("correct", 1, 1), ("wrong", 2, 2), ("wrong", 2, 2), ("unread", 3, None))
            ),
            *(sample(1, "correct", text, 1) for text in range(4)),
            *(sample(2, "wrong", 7, answer) for answer in (1, 2, 3, 4)),
            *(sample(3, verdict, text, 1) for text, verdict in enumerate(("correct", None, "wrong", "failed"))),
        ]
    )
    window = window_stats(groups, [11, 12], 20)
    assert (window.first, window.last, window.complete, window.samples, window.group_size) == (11, 12, False, 16, 4)
    assert window.pass_1 == pytest.approx((1 / 4 + 1 + 0 + 1 / 2) / 4)  # samples without a verdict are in no rate
    assert window.pass_G == pytest.approx(2 / 3)  # of the groups with four verdicts
    assert (window.all_wrong, window.all_right, window.unverified) == (0.25, 0.25, 2)
    assert window.unread == pytest.approx(1 / 16)
    assert window.repeated == pytest.approx((1 + 3) / 16)
    entropy_0 = -(1 / 3 * math.log(1 / 3) + 2 / 3 * math.log(2 / 3))
    assert window.answer_entropy == pytest.approx((entropy_0 + 0 + math.log(4) + 0) / 4)
    assert window.truncated is None


def test_an_id_of_every_sample_is_no_group_and_an_id_of_several_is() -> None:
    each = group_counts([sample(0, "correct", group=1), sample(0, "wrong", group=2), sample(0, "wrong", group=3)])
    assert [(group.judged, group.correct) for group in each] == [(3, 1)]
    two = group_counts([sample(0, "correct", group=1), sample(0, "wrong", group=1), sample(0, "wrong", group=2)])
    assert [(group.judged, group.correct) for group in two] == [(2, 1), (1, 0)]


@pytest.mark.parametrize("last", [1, 19, 20, 21, 40, 41, 999, 12_345])
def test_there_are_at_most_twenty_windows_and_no_fewer_than_needed(last: int) -> None:
    widths = [factor * 10**power for power in range(5) for factor in (1, 2, 5)]
    width = window_width(1, last)
    assert math.ceil(last / width) <= 20
    assert all(math.ceil(last / smaller) > 20 for smaller in widths if smaller < width)


def test_the_chance_of_a_problem_is_that_of_all_orders_of_its_samples(tmp_path: Path) -> None:
    # 3 successes among 8 samples: 4 in window 1, 2 in window 2, 2 in window 3, the last two without a success
    write_steps(tmp_path, np.array([[[1, 0, 1, 0]]]))
    write_steps(tmp_path, np.array([[[1, 0]], [[0, 0]]]), first=2)
    losses = watched(tmp_path, width=1).losses
    orders = list(combinations(range(8), 3))
    missed = sum(all(place < 6 for place in order) for order in orders) / len(orders)
    (loss,) = losses.problems
    assert (loss.solved, loss.samples, loss.last_solved, loss.since) == (3, 6, 2, 2)
    assert loss.chance == pytest.approx(missed)
    assert losses.expected == pytest.approx(missed)


def test_what_is_expected_by_chance_is_what_an_unchanged_model_shows(tmp_path: Path) -> None:
    """And the alarm, which is looked at after every window, is raised in few of many trainings."""
    rng = np.random.default_rng(1)
    rate_P = rng.beta(0.3, 1.5, size=60)
    shown, expected, alarms = [], [], 0
    for seed in range(24):
        folder = tmp_path / str(seed)
        correct = rng.random((6, 60, 4)) < rate_P[:, None]
        watch = Watch(RolloutFolder(make(folder), Options()), 1)
        raised = False
        for step in range(1, 7):
            write_steps(folder, correct[step - 1 : step], first=step)
            watch.refresh()
            raised |= watch.losses.significant
        shown.append(len(watch.losses.problems))
        expected.append(watch.losses.expected)
        alarms += raised
    error = np.std(np.array(shown) - np.array(expected)) / math.sqrt(len(shown))
    assert abs(np.mean(shown) - np.mean(expected)) < 4 * error
    assert alarms <= 4  # at 5%, more than 4 of 24 are seen in 1 of 1,000 such tests


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_training_that_loses_problems_raises_the_alarm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rate_SP = np.full((12, 64), 0.5)
    rate_SP[6:, :20] = 0.0
    write_steps(tmp_path, rng.random((12, 64, 8)) < rate_SP[:, :, None])
    watch = watched(tmp_path, width=2)
    assert watch.losses.significant
    assert {loss.problem for loss in watch.losses.problems} >= set(range(20))
    assert [warning.code for warning in watched_training(watch).warnings][-1] == "lost"


def test_a_window_that_is_still_growing_raises_no_alarm(tmp_path: Path) -> None:
    correct = np.ones((3, 40, 4), dtype=bool)
    correct[2] = False
    write_steps(tmp_path, correct)
    assert watched(tmp_path, width=1).losses.significant
    watch = watched(tmp_path, width=2)  # steps 1-2, and 3 of 3-4
    assert len(watch.losses.problems) == 40
    assert not watch.losses.significant


def test_looks_one_by_one_end_where_one_look_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    correct = rng.random((45, 10, 4)) < 0.2
    followed = Watch(RolloutFolder(make(tmp_path / "a"), Options()))
    for step in range(1, 46):
        write_steps(tmp_path / "a", correct[step - 1 : step], first=step)
        followed.refresh()
    write_steps(tmp_path / "a", correct[:1] | True, first=3)  # step 3 again
    followed.refresh()
    at_once = watched(tmp_path / "a")
    assert followed.ordered == at_once.ordered
    assert followed.losses == at_once.losses
    assert [(window.first, window.last) for window in at_once.ordered][:2] == [(1, 5), (6, 10)]


def test_evaluations_are_shown_where_there_is_nothing_else(tmp_path: Path) -> None:
    write_steps(make(tmp_path / "validation"), np.ones((2, 3, 4), dtype=bool), reward=1.0)
    watch = watched(tmp_path)
    assert watch.only_evaluations
    assert [window.samples for window in watch.ordered] == [12, 12]
    write_steps(make(tmp_path / "rollouts"), np.zeros((1, 3, 4), dtype=bool))
    watch.refresh()
    assert not watch.only_evaluations
    look = watched_training(watch)
    assert look.samples == 12
    assert "24 samples from evaluations are left out" in next(w.text for w in look.warnings if w.code == "evaluations")
