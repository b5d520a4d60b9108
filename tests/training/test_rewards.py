"""Rewards: 1 for what the verifier calls correct and 0 for all else, and equal solutions written alike."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from offleash.data.tables import as_problems
from offleash.errors import OffleashError
from offleash.training.rollouts import Rewards, rewards_for
from offleash.verifiers.own.bind import CallOptions
from offleash.verifying.cases import ExtractionOptions

PROBLEMS = as_problems(
    pl.DataFrame(
        [
            {
                "problem": "c",
                "question": "c",
                "verifier": "countdown",
                "details": '{"numbers": [3, 5, 2], "target": 16}',
            },
            {"problem": "n", "question": "n", "verifier": "number", "gold": "12"},
        ]
    )
)


@pytest.fixture(scope="module")
def rewards() -> Iterator[Rewards]:
    with rewards_for(PROBLEMS, "here") as made:
        yield made


def test_rewards_are_one_for_correct_samples_alone(rewards: Rewards) -> None:
    asked = [("c", "3 + 5 = 8 , 8 * 2 = 16"), ("c", "3 + 5 = 9 , 9 * 2 = 16"), ("n", "12"), ("n", "13"), ("n", "well")]
    judged = rewards.of([name for name, _ in asked], [text for _, text in asked], [False] * 5)
    assert judged.rewards == (1.0, 0.0, 1.0, 0.0, 0.0)
    assert judged.verdicts == {"correct": 2, "wrong": 2, "unread": 1}


def test_one_solution_is_one_answer_however_it_is_written(rewards: Rewards) -> None:
    ways = ["3+5=8,8*2=16", "5 + 3 = 8 , 2 * 8 = 16", "(3+5)*2", "3*2=6, 5*2=10, 6+10=16", "3 + 5 = 8"]
    judged = rewards.of(["c"] * 5, ways, [False] * 5)
    assert len(set(judged.answers[:3])) == 1
    assert judged.rewards == (1.0, 1.0, 1.0, 0.0, 0.0)
    assert judged.answers[3:] == tuple(ways[3:])


def test_a_sample_without_an_answer_answers_nothing(rewards: Rewards) -> None:
    judged = rewards.of(["n", "c"], ["well", ""], [False, True])
    assert judged.answers == ("", "")
    assert judged.verdicts == {"unread": 2}


def test_no_samples_have_no_rewards(rewards: Rewards) -> None:
    assert rewards.of([], [], []).rewards == ()


def test_problems_that_cannot_be_judged_are_refused_before_the_first_sample() -> None:
    bad = PROBLEMS.with_columns(details=pl.lit('{"numbers": [3, 5]}'))
    with pytest.raises(OffleashError, match="1 of the 2 problems of here cannot be judged"), rewards_for(bad, "here"):
        pass
    none = PROBLEMS.with_columns(verifier=pl.lit(None, pl.String))
    with pytest.raises(OffleashError, match="do not name a verifier"), rewards_for(none, "here"):
        pass


def test_a_function_of_the_users_own_rewards_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def reward(completions, **kwargs):\n    return [len(text) / 10 for text in completions]\n")
    extraction = ExtractionOptions(call=CallOptions(threshold=0.5))
    with rewards_for(PROBLEMS, "here", extraction, f"{file}:reward") as made:
        assert made.of(["c", "n"], ["123456", "12"], [False, False]).rewards == (1.0, 0.0)
