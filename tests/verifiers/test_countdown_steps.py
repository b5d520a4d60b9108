"""Plain steps: what is found wrong in a glance is wrong for the countdown verifier, in the same words."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.lab.countdown import lines
from offleash.problems.countdown import generate
from offleash.verifiers.countdown import decide, decide_steps
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.verifier import Case
from offleash.verifying.cases import ExtractionOptions, judge_texts, problem_cases
from offleash.verifying.verify import VerifyOptions, open_judge
from tests.effort import examples

NUMBERS = st.one_of(st.integers(0, 12), st.sampled_from([0, 1, 2, 10, 99, 100, 999_999_999]))


@st.composite
def written_steps(draw: st.DrawFn) -> tuple[list[int], str]:
    """Steps that use given numbers and results, mostly once and mostly rightly, as people and models write them."""
    given_ = draw(st.lists(NUMBERS, min_size=1, max_size=6))
    pool, steps = list(given_), []
    for _ in range(draw(st.integers(1, 6))):
        left, right = (draw(st.one_of(st.sampled_from(pool or [3]), NUMBERS)) for _ in range(2))
        sign = draw(st.sampled_from("+-*/"))
        right = right if sign != "/" or right else 1
        value = {"+": left + right, "-": left - right, "*": left * right, "/": left // max(right, 1)}[sign]
        value += draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1, 10]))
        gap, zeros = draw(st.sampled_from(["", " "])), draw(st.sampled_from(["", "", "", "0", "00"]))
        steps.append(f"{zeros}{left}{gap}{sign}{gap}{right}{gap}={gap}{zeros}{value}")
        for number in (left, right):
            if number in pool and draw(st.integers(0, 3)):
                pool.remove(number)
        pool.append(max(value, 0))
    text = draw(st.sampled_from([",", " , ", ", ", "\n", "; ", " ,\n"])).join(steps)
    return given_, draw(st.sampled_from(["", "", " ", "."])) + text + draw(st.sampled_from(["", "", " ", ".", ","]))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[list[int], str]:
    """Written steps with a few characters changed, doubled or dropped."""
    given_, text = draw(written_steps())
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(["", "0", "9", "-", "=", ",", " ", "1", "/"])) + text[place + 1 :]
    return given_, text


def agreed(numbers: list[int], target: int, text: str, **rules: bool) -> bool:
    """Whether it was found wrong at a glance; then the verifier itself says the same, in every field."""
    case = Case(text, details={"numbers": numbers, "target": target, **rules})
    result = decide_steps(case)
    assert result is None or result == decide(case)
    return result is not None


@settings(max_examples=examples(250), deadline=None)
@given(st.one_of(written_steps(), mutated()), NUMBERS, st.booleans(), st.booleans())
@example(([2, 2, 3], "2 + 2 = 4 , 4 + 2 = 6"), 6, True, True)  # used more often than given
@example(([1, 2, 3, 5], "1 + 2 = 3 , 3 * 5 = 15 , 15 + 3 = 18"), 19, True, True)  # result and given number alike
@example(([2, 2, 3, 5], "2+2=4,3*5=15"), 15, True, True)  # a result that nothing uses
@example(([7, 2], "7 / 2 = 3"), 3, True, True)
@example(([7, 0], "7 / 0 = 0"), 0, False, False)
@example(([7, 2, 1], "7 / 2 = 3 , 3 + 1 = 4"), 4, True, False)
@example(([3, 5], "3 - 5 = 2"), 2, True, True)
@example(([3, 5, 1], "3 - 5 = 2 , 2 + 1 = 3"), 3, True, True)
@example(([3, 5], "03 + 005 = 08"), 8, True, True)
@example(([999_999_999] * 2, "999999999 * 999999999 = 999999999 , 1 + 1 = 2"), 1, True, True)
@example(([101, 100, 1], "100+1=101,101+101=202"), 303, True, True)
def test_what_is_decide_steps_is_wrong_in_the_verifiers_own_words(
    steps: tuple[list[int], str], target: int, all_: bool, integers: bool
) -> None:
    agreed(steps[0], target, steps[1], all=all_, integers=integers)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="0123456789+-*/=, \n", max_size=60), st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_any_row_of_marks_is_left_to_the_verifier_or_wrong_for_it_too(text: str, numbers: list[int]) -> None:
    agreed(numbers, 7, text)


def test_of_the_corpus_most_wrong_lines_are_found_and_no_correct_one() -> None:
    rng, actual, wrong = random.Random(1), 0, 0
    corpus = lines(rng)
    for _ in range(1000):
        prompt, text = next(corpus)
        words = prompt.split()
        details = {"numbers": [*map(int, words[:4])], "target": int(words[5]), "all": True, "integers": True}
        case = Case(text, details=details)
        is_wrong = decide(case).verdict is Verdict.WRONG
        wrong += is_wrong
        actual += agreed([*map(int, words[:4])], int(words[5]), text, all=True, integers=True)
    assert actual > 0.95 * wrong > 300


@pytest.mark.parametrize(
    "text", ["", "8", "3 + 5", "(3 + 5) * 2 = 16", "3+5=8, 8*2", "x", "3 + 5 = 9", "3  + 5 = 8", "3 + 5 = 8 ,"]
)
def test_what_is_not_plain_steps_is_left_to_the_verifier(text: str) -> None:
    assert not agreed([3, 5, 2], 17, text)


def test_long_answers_are_wrong_in_the_verifiers_own_words() -> None:
    agreed([1, 1], 3, " , ".join(["1 + 1 = 2"] * 600))


@pytest.mark.parametrize(
    "details",
    [
        {"numbers": [3, "5"], "target": 16},
        {"numbers": [3, 5], "target": True},
        {"numbers": [1] * 101, "target": 16},
        {"numbers": [3, 5], "target": 16, "all": "yes"},
        {"numbers": [], "target": 16},
    ],
)
def test_details_that_cannot_be_used_are_left_to_the_verifier(details: dict[str, object]) -> None:
    assert decide_steps(Case("3 + 5 = 8 , 8 + 1 = 9", details=details)) is None


def test_judged_with_the_quick_way_or_without_it_samples_have_the_same_judgements() -> None:
    problems, rng = generate("train", 40, 5), random.Random(2)
    corpus = lines(rng)
    texts = [next(corpus)[1] for _ in range(400)]
    cases = problem_cases(problems, None, ExtractionOptions(), "here")
    pairs = [cases[name] for name in problems["problem"] for _ in range(10)]
    slow = [decide(problem.case(text)) for (problem, _), text in zip(pairs, texts, strict=True)]
    with open_judge(VerifyOptions(cache=False)) as judge:
        actual = [judgement for _, judgement in judge_texts(judge, pairs, texts, [False] * 400)]
        assert judge.decided_by["exact"] > 300
    assert [(item.verdict, item.reason, item.solution, item.score) for item in actual] == [
        (item.verdict, item.reason, item.solution, item.score) for item in slow
    ]
    assert VERIFIERS["countdown"].decide_inline is decide_steps
