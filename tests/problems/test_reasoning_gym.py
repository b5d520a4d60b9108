"""Reasoning Gym problems: all tasks, both levels, the same everywhere, and sets that share nothing."""

import json
import os
import random
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.data.reasoning_gym import TASKS
from offleash.data.tables import PROBLEMS
from offleash.errors import OffleashError
from offleash.problems.reasoning_gym import (
    HARD_SETTINGS,
    HASHED,
    NO_HARD_LEVEL,
    SEED_STRIDE,
    TASKS_WITHOUT_GOLD,
    TRIES_PER_PROBLEM,
    generate,
    library_seed,
)
from tests.places import ROOT

factory = pytest.importorskip("reasoning_gym.factory")
SLOW_HARD = {"sokoban", "zebra_puzzles", "futoshiki", "jugs", "knight_swap"}  # seconds a problem


def test_the_tasks_are_those_of_the_library_without_the_mixture() -> None:
    assert set(TASKS) == set(factory.DATASETS) - {"composite"}
    assert len(TASKS) == len(set(TASKS)) == 105


def test_every_task_has_harder_settings_or_is_listed_as_having_none() -> None:
    assert set(HARD_SETTINGS) | NO_HARD_LEVEL == set(TASKS)
    assert not set(HARD_SETTINGS) & NO_HARD_LEVEL


@pytest.mark.parametrize("task", sorted(HARD_SETTINGS))
def test_harder_settings_are_settings_of_the_task_and_change_it(task: str) -> None:
    config = factory.DATASETS[task][1]
    assert set(HARD_SETTINGS[task]) <= {field.name for field in fields(config)}
    assert any(getattr(config(), name) != value for name, value in HARD_SETTINGS[task].items())
    getattr(config(**HARD_SETTINGS[task]), "validate", lambda: None)()  # two configurations have nothing to check


def test_a_set_has_the_columns_of_problems_and_ids_that_say_where_it_is_from() -> None:
    problems = generate("leg_counting", 3, seed=2, level="hard")
    assert dict(problems.schema) == PROBLEMS
    assert problems["problem"].to_list() == [f"leg_counting-hard-2-{index}" for index in range(3)]
    assert set(problems["benchmark"]) == {"reasoning_gym:leg_counting"}
    assert set(problems["verifier"]) == {"reasoning_gym"}
    assert problems["prompt"].null_count() == 3
    details = json.loads(problems["details"][0])
    assert details["task"] == "leg_counting"
    assert details["config"]["min_animals"] == HARD_SETTINGS["leg_counting"]["min_animals"]
    assert details["entry"]["question"] == problems["question"][0]


def test_a_set_is_what_the_library_draws_with_our_seed() -> None:
    dataset_class, config_class = factory.DATASETS["chain_sum"]
    dataset = dataset_class(config_class(seed=library_seed(3, 0), size=4))
    assert generate("chain_sum", 4, seed=3)["question"].to_list() == [dataset[index]["question"] for index in range(4)]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, SEED_STRIDE - 1), st.integers(0, SEED_STRIDE - 1))
def test_two_sets_never_share_a_seed_of_the_library(seed: int, other: int, index: int, place: int) -> None:
    assert (library_seed(seed, index) == library_seed(other, place)) == ((seed, index) == (other, place))


def test_the_largest_set_of_seed_0_ends_before_seed_1_begins() -> None:
    assert library_seed(0, (SEED_STRIDE // TRIES_PER_PROBLEM) * TRIES_PER_PROBLEM - 1) < library_seed(1, 0)
    zero, first = (set(generate("leg_counting", 50, seed)["question"]) for seed in (0, 1))
    assert not zero & first


def test_a_longer_set_begins_with_the_shorter_one() -> None:
    assert (
        generate("coin_flip", 30, seed=5)["problem"].to_list()[:8]
        == generate("coin_flip", 8, seed=5)["problem"].to_list()
    )


def test_a_set_asks_no_question_twice() -> None:
    problems = generate("tower_of_hanoi", 50, seed=7)
    assert problems["question"].n_unique() == 50
    assert int(problems["problem"][-1].rsplit("-")[-1]) >= 50  # the library did repeat itself


def test_a_task_with_too_few_questions_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offleash.problems.reasoning_gym.TRIES_PER_PROBLEM", 5)
    with pytest.raises(OffleashError, match=r"different questions in 2000 draws.*--size \d+ or fewer"):
        generate("coin_flip", 400, seed=0)


def drawn(tasks: list[str], size: int, hash_seed: str) -> dict[str, object]:
    """Sets as a fresh process draws them whose hashes of text start from `hash_seed`."""
    program = (
        "import json\nfrom offleash.problems.reasoning_gym import generate\n"
        f"kept = ['question', 'gold', 'details']\n"
        f"print(json.dumps({{t: generate(t, {size}, 3).select(kept).rows() for t in {tasks!r}}}))"
    )
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_a_set_is_the_same_in_every_process() -> None:
    tasks = ["ransom_note", "list_functions", "chain_sum"]
    assert drawn(tasks, 5, "1") == drawn(tasks, 5, "2")


@pytest.mark.slow
def test_every_set_is_the_same_in_every_process() -> None:
    first, other = (drawn(list(TASKS), 6, hash_seed) for hash_seed in "34")
    assert [task for task in TASKS if first[task] != other[task]] == []


def test_the_tasks_drawn_in_their_own_process_are_tasks() -> None:
    assert set(TASKS) >= HASHED


def test_global_randomness_is_left_as_it_was() -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the one the library uses
    expected = random.random(), np.random.random()  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    generate("list_functions", 2, seed=1)
    generate("pool_matrix", 2, seed=1)
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_what_a_task_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    generate("codeio", 20, seed=0)
    assert capfd.readouterr().out == ""


def test_gold_is_null_for_the_five_tasks_with_many_answers() -> None:
    for task in sorted(TASKS_WITHOUT_GOLD):
        assert generate(task, 2, seed=0)["gold"].null_count() == 2


def test_an_integral_left_standing_is_worked_out() -> None:
    dataset_class, config_class = factory.DATASETS["intermediate_integration"]
    dataset = dataset_class(config_class(seed=library_seed(0, 0), size=12))
    assert any("Integral" in dataset[index]["answer"] for index in range(12))
    golds = generate("intermediate_integration", 12, seed=0)["gold"].to_list()
    assert not any("Integral" in gold for gold in golds)


def test_todays_date_is_not_in_a_problem() -> None:
    for details in generate("time_intervals", 20, seed=0)["details"]:
        assert not {"start_time", "end_time"} & set(json.loads(details)["entry"]["metadata"])


@pytest.mark.parametrize(
    ("task", "size", "seed", "level", "words"),
    [
        ("leg_countin", 1, 0, "easy", "Did you mean 'leg_counting'"),
        ("composite", 1, 0, "easy", "no Reasoning Gym task 'composite'"),
        ("leg_counting", 1, 0, "hardest", "Did you mean 'hard'"),
        ("leg_counting", 0, 0, "easy", "1 to 20000 problems; found --size 0"),
        ("leg_counting", 10**7, 0, "easy", "1 to 20000 problems"),
        ("leg_counting", 1, -1, "easy", "0 or more; found -1"),
        ("pool_matrix", 1, 5000, "easy", "pool_matrix takes seeds up to 4294"),
    ],
)
def test_what_cannot_be_drawn_is_refused(task: str, size: int, seed: int, level: str, words: str) -> None:
    with pytest.raises(OffleashError, match=words):
        generate(task, size, seed, level)


def test_without_the_library_the_tasks_are_known_and_drawing_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['reasoning_gym'] = None\n"
        "from offleash.problems.reasoning_gym import TASKS, generate\n"
        "from offleash.errors import OffleashError\n"
        "assert len(TASKS) == 105\n"
        "try: generate('ab', 1, 0)\n"
        "except OffleashError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pip install 'offleash[gym]'" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("level", ["easy", "hard"])
@pytest.mark.parametrize("task", TASKS)
def test_fifty_problems_can_be_drawn_of_every_task(task: str, level: str) -> None:
    assert generate(task, 5 if task in SLOW_HARD else 50, seed=1, level=level)["question"].null_count() == 0
