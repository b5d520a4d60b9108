"""Countdown problems: parts share no numbers, every problem can be solved, and a seed gives the same ones again."""

import json
import random

import pytest

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.problem_set import load_problems
from offleash.problems.countdown import (
    SPLITS,
    VALUE_LIMIT,
    generate,
    numbers_of,
    random_steps,
    split_of,
    steps_text,
    value_of,
)
from offleash.verifiers.countdown import decide
from offleash.verifiers.verifier import Case
from tests.cli.command import offleash, refused


def numbers(part: str, size: int, seed: int) -> list[tuple[int, ...]]:
    return [tuple(sorted(json.loads(text)["numbers"])) for text in generate(part, size, seed)["details"]]


def test_parts_share_no_numbers_whatever_the_seed_and_the_target() -> None:
    actual = {part: {number for seed in range(3) for number in numbers(part, 400, seed)} for part in SPLITS}
    assert not actual["train"] & actual["dev"]
    assert not actual["train"] & actual["test"]
    assert not actual["dev"] & actual["test"]
    assert all(split_of(item) == part for part, sets in actual.items() for item in sets)


def test_the_split_of_numbers_does_not_depend_on_their_order() -> None:
    rng = random.Random(4)
    for _ in range(200):
        item = [rng.randint(1, 20) for _ in range(4)]
        assert split_of(item) == split_of(rng.sample(item, 4))


def test_about_one_set_of_numbers_in_sixteen_is_for_each_part_that_is_held_out() -> None:
    sets = [(a, b, c, d) for a in range(1, 21) for b in range(a, 21) for c in range(b, 21) for d in range(c, 21)]
    for part in ("dev", "test"):
        assert 0.05 < sum(split_of(item) == part for item in sets) / len(sets) < 0.075


@pytest.mark.parametrize("part", SPLITS)
def test_a_longer_set_begins_with_the_shorter_one(part: str) -> None:
    longer = generate(part, 90, 7)
    assert generate(part, 30, 7).equals(longer.head(30))
    assert longer["problem"].n_unique() == 90


def test_another_seed_gives_other_problems() -> None:
    first, other = (set(generate("test", 100, seed)["problem"]) for seed in (0, 1))
    assert len(first & other) < 10


def test_no_problem_comes_twice_in_another_order_of_its_numbers() -> None:
    details = [json.loads(text) for text in generate("dev", 600, 3)["details"]]
    assert len({(*sorted(detail["numbers"]), detail["target"]) for detail in details}) == 600


def test_every_problem_is_asked_in_one_line_with_its_numbers_and_its_target() -> None:
    for row in generate("train", 50, 0).iter_rows(named=True):
        details = json.loads(row["details"])
        assert row["prompt"] == row["question"] == f"{' '.join(map(str, details['numbers']))} = {details['target']} :"
        assert 0 <= details["target"] < VALUE_LIMIT
        assert all(1 <= number <= 20 for number in details["numbers"])
        assert details["all"] is details["integers"] is True


def test_a_random_way_is_a_correct_answer_to_the_target_it_reaches() -> None:
    rng = random.Random(8)
    for _ in range(300):
        given = numbers_of("train", rng)
        steps = random_steps(given, rng)
        assert all(value_of(step.left, step.sign, step.right) == step.value for step in steps)
        details = {"numbers": given, "target": steps[-1].value, "all": True, "integers": True}
        assert decide(Case(steps_text(steps), details=details)).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("left", "sign", "right", "value"),
    [
        (7, "/", 2, None),
        (8, "/", 2, 4),
        (8, "/", 0, None),
        (0, "/", 5, 0),
        (3, "-", 5, None),
        (5, "-", 5, 0),
        (50, "+", 50, None),
        (99, "+", 0, 99),
        (10, "*", 10, None),
        (9, "*", 11, 99),
    ],
)
def test_a_step_stays_a_whole_number_below_the_limit(left: int, sign: str, right: int, value: int | None) -> None:
    assert value_of(left, sign, right) == value


def test_what_is_no_part_size_or_seed_is_refused_with_the_next_step() -> None:
    with pytest.raises(OffleashError, match=r"no countdown part 'tests'. Did you mean 'test'"):
        load_problems("countdown:tests")
    with pytest.raises(OffleashError, match="--size 0"):
        load_problems("countdown:dev", size=0)
    with pytest.raises(OffleashError, match="--problem-seed -1"):
        load_problems("countdown:dev", seed=-1)
    with pytest.raises(OffleashError, match="countdown is generated"):
        load_problems("countdown", source="copy.jsonl")


def test_the_part_is_test_where_none_is_named() -> None:
    assert load_problems("countdown", size=5).frame.equals(load_problems("countdown:test", size=5).frame)
    assert load_problems("countdown").frame.height == 200


def test_more_problems_than_there_are_is_refused_with_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offleash.problems.countdown.LARGEST", 2)  # few sets of numbers, so that they run out soon
    part = next(part for part in SPLITS if split_of([1, 1, 1, 2]) == part)
    with pytest.raises(OffleashError, match=rf"countdown:{part} has only (\d+) different problems. Use --size \1 or"):
        generate(part, 200, 0)


def test_the_command_prints_problems_of_a_part() -> None:
    run = offleash("problems", "countdown:train", "--size", "5")
    assert run.code == 0, run.err
    rows = [json.loads(line) for line in run.out.splitlines()]
    assert [row["problem"] for row in rows] == generate("train", 5, 0)["problem"].to_list()
    assert {row["verifier"] for row in rows} == {"countdown"}
    assert "5 problems" in run.err
    refused(offleash("problems", "countdown:trian"), "Did you mean 'train'")
    refused(offleash("problems", "countdwn"), "Did you mean 'countdown'")


def test_what_the_command_prints_is_read_again_and_judged_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("printed") / "p.jsonl"
    path.write_text(offleash("problems", "countdown:dev", "--size", "6").out)
    again = load_problems(path).frame
    made = load_problems("countdown:dev", size=6).frame
    assert again["prompt"].to_list() == made["prompt"].to_list()
    assert [json.loads(text) for text in again["details"]] == [json.loads(text) for text in made["details"]]
