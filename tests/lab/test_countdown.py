"""The Countdown world: a corpus that keeps evaluation problems out, an expert that knows every way, its tokenizer."""

import json
import random
from collections.abc import Sequence
from itertools import islice, permutations
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from offleash.data.verdict import Verdict
from offleash.lab.countdown import COUNTDOWN, END, lines, solutions, tokenizer, traces
from offleash.problems.countdown import generate, split_of, steps_text, value_of
from offleash.verifiers.countdown import decide
from offleash.verifiers.verifier import Case

Read = tuple[list[int], int, list[tuple[int, str, int, int]]]  # numbers, target, steps


def read(line: tuple[str, str]) -> Read:
    asked, said = line[0].split(), line[1].split(" , ")
    steps = [(int(item[0]), item[1], int(item[2]), int(item[4])) for item in (step.split() for step in said)]
    return [int(word) for word in asked[:4]], int(asked[5]), steps


@pytest.fixture(scope="module")
def corpus() -> list[Read]:
    return [read(line) for line in islice(lines(random.Random("a test")), 6000)]


def test_no_line_of_the_corpus_has_numbers_that_are_held_out(corpus: list[Read]) -> None:
    held = {tuple(sorted(json.loads(text)["numbers"])) for text in generate("test", 400, 0)["details"]}
    assert not held & {tuple(sorted(numbers)) for numbers, _, _ in corpus}
    assert {split_of(numbers) for numbers, _, _ in corpus} == {"train"}


def test_three_lines_in_five_reach_their_target_and_one_in_five_has_a_slip(corpus: list[Read]) -> None:
    slips = [any(value_of(*step[:3]) != step[3] for step in steps) for _, _, steps in corpus]
    reached = [value_of(*steps[-1][:3]) == target for _, target, steps in corpus]
    assert 0.17 < sum(slips) / len(corpus) < 0.21  # a slip at the edge of the numbers may be none
    assert 0.58 < sum(reached) / len(corpus) < 0.65  # some arrive by chance
    both = sum(a and b for a, b in zip(slips, reached, strict=True)) / len(corpus)
    assert both == pytest.approx(sum(slips) * sum(reached) / len(corpus) ** 2, abs=0.02)  # independent of each other


def test_a_line_is_correct_exactly_when_it_reaches_its_target_without_a_slip(corpus: list[Read]) -> None:
    for numbers, target, steps in corpus[:1500]:
        text = " , ".join(f"{a} {sign} {b} = {value}" for a, sign, b, value in steps)
        details = {"numbers": numbers, "target": target, "all": True, "integers": True}
        expected = all(value_of(*step[:3]) == step[3] for step in steps) and steps[-1][3] == target
        assert (decide(Case(text, details=details)).verdict is Verdict.CORRECT) == expected


def test_the_corpus_is_the_same_for_the_same_seed_and_fits_the_model() -> None:
    first, again, other = (list(islice(lines(random.Random(seed)), 200)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    words = tokenizer()
    for prompt, text in first:
        assert len(words.encode(text)) + 1 <= COUNTDOWN.longest
        assert len(words.encode(prompt)) + COUNTDOWN.longest <= COUNTDOWN.context


def brute(numbers: Sequence[int], target: int) -> set[str]:
    """Every way by trying all orders of the numbers, all signs and all shapes: ((ab)c)d, (a(bc))d, (ab)(cd), ..."""
    if len(numbers) == 1:
        return {""} if numbers[0] == target else set()
    collected = set()
    for order in set(permutations(numbers)):
        for sign in "+-*/":
            value = value_of(order[0], sign, order[1])
            if value is not None:
                first = f"{order[0]} {sign} {order[1]} = {value}"
                collected |= {f"{first} , {way}" if way else first for way in brute((value, *order[2:]), target)}
    return collected


@pytest.mark.parametrize(
    ("numbers", "target"), [([2, 3], 6), ([4, 4], 1), ([2, 2, 4], 8), ([1, 5, 7], 12), ([3, 3, 8], 24), ([9, 9], 3)]
)
def test_the_expert_knows_every_way_and_each_once(numbers: list[int], target: int) -> None:
    actual = [steps_text(way) for way in solutions(numbers, target)]
    assert len(actual) == len(set(actual))
    assert set(actual) == brute(numbers, target)


def test_the_expert_knows_every_way_of_four_numbers() -> None:
    assert {steps_text(way) for way in solutions([2, 3, 4, 4], 24)} == brute([2, 3, 4, 4], 24)


def test_every_problem_has_traces_and_the_verifier_accepts_each() -> None:
    problems, several = generate("train", 8, 3), 0
    for text, ways in zip(problems["details"], traces(problems), strict=True):
        assert len(ways) == len(set(ways)) > 0
        actual = {decide(Case(way, details=json.loads(text))) for way in ways}
        assert {item.verdict for item in actual} == {Verdict.CORRECT}
        several += len({item.solution for item in actual}) > 1
    assert several >= 3  # that is what makes support per solution worth counting


def test_the_tokenizer_reads_with_and_without_spaces_alike_and_after_being_saved(tmp_path: Path) -> None:
    made = tokenizer()
    made.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for prompt, text in islice(lines(random.Random(3)), 100):
        for item in (prompt, text):
            tokens = made.encode(item, add_special_tokens=False)
            assert made.unk_token_id not in tokens
            assert tokens == again.encode(item, add_special_tokens=False)
            assert made.decode(tokens) == again.decode(tokens) == item
        tight = text.replace(" ", "")
        assert made.encode(tight) == again.encode(tight) == made.encode(text)
    assert again.eos_token == END
    assert len(again) == len(made) == 110


@pytest.mark.parametrize("text", ["100", "1234", "x", "(3 + 4)", "3.5", "-3 ^ 2", "03"])
def test_what_the_world_has_no_word_for_is_unknown(text: str) -> None:
    assert tokenizer().unk_token_id in tokenizer().encode(text)
