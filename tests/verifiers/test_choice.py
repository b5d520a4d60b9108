"""The verifier `choice`: letters, texts of choices, and sets of letters."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.verifiers.choice import decide, readable
from offleash.verifiers.verifier import Case, Judgement

CHOICES = ["Rome", "a dog", "Paris", "12"]


def judged(answer: str, gold: str = "C", choices: list[str] | None = CHOICES) -> Judgement:
    return decide(Case(answer, gold, details={} if choices is None else {"choices": choices}))


@pytest.mark.parametrize(
    "answer",
    [
        "C", "c", "(C)", "(c)", "c)", "C.", "C:", "[C]", " C\n", "{C}", "**C**", "$C$", r"\text{C}", r"\boxed{C}",
        r"\mathrm{(C)}", "C) Paris", "C. Paris", "(C) paris.", "C Paris", "C: Paris", r"$\textbf{(C)}\ Paris$",
        "C. The capital of France", "C - Paris", "option C", "Option (C)", "choice C", "Answer: C",
        "The answer is C.", "The correct answer is **C**", "C is correct", "Paris", "paris.", '"Paris"',
        r"\text{Paris}", "The answer is Paris", "C and C",
    ],
)  # fmt: skip
def test_the_gold_choice_is_recognised(answer: str) -> None:
    assert judged(answer) == Judgement(Verdict.CORRECT, solution="C")
    assert judged(answer, "Paris") == Judgement(Verdict.CORRECT, solution="C")
    assert judged(answer, "(c)").verdict == Verdict.CORRECT
    assert judged(answer, "D").verdict == Verdict.WRONG


@pytest.mark.parametrize(
    "answer",
    [
        "A", "B", "(d)", "Rome", "a dog", "A dog", "12", "A or C", "C or D", "A, C", "A, and C", "C/D", "CD",
        "(C) (D)", "B) Paris", "C) Rome", "(C) Paris (D) 12", "C. See (B)", "E", "(Z)", "option E", "both A and C",
    ],
)  # fmt: skip
def test_other_choices_several_choices_and_contradictions_are_wrong_with_a_reason(answer: str) -> None:
    result = judged(answer)
    assert result.verdict == Verdict.WRONG
    assert result.reason


@pytest.mark.parametrize(
    "answer", ["", " ", "none", "London", "C because D is wrong", "(C) is wrong", "not C", "???", "Cat", "3"]
)
def test_an_answer_that_names_no_choice_is_unread(answer: str) -> None:
    assert judged(answer).verdict == Verdict.UNREAD


def test_a_letter_beyond_the_choices_is_named_in_the_reason() -> None:
    assert "E does not exist" in judged("E").reason
    assert judged("E", "E", None).verdict == Verdict.CORRECT


@pytest.mark.parametrize(
    "answer", ["A,C", "AC", "A and C", "C, A", "(A), (C)", "A, and C", "{A, C}", "(A)(C)", r"\text{A, C}"]
)
def test_a_set_of_letters_is_compared_as_a_set(answer: str) -> None:
    for gold in ("A,C", "C, A", "AC", "A and C"):
        assert judged(answer, gold) == Judgement(Verdict.CORRECT, solution="A,C")


@pytest.mark.parametrize("answer", ["A", "C", "A,B,C", "A or C", "A/C", "B,C", "Paris"])
def test_part_of_a_set_more_than_a_set_and_one_of_a_set_are_wrong(answer: str) -> None:
    assert judged(answer, "A,C").verdict == Verdict.WRONG


def test_a_letter_that_is_also_the_text_of_another_choice_decides_nothing() -> None:
    mixed = ["A", "C", "B"]
    assert "text of choice" in readable(Case("", "B", details={"choices": mixed}))
    assert judged("C", "A", mixed).verdict == Verdict.WRONG
    assert judged("A", "A", mixed).verdict == Verdict.CORRECT


def test_two_choices_with_one_text_differ_only_by_letter() -> None:
    twins = ["yes", "Yes", "no"]
    assert judged("yes", "A", twins).verdict == Verdict.UNREAD
    assert judged("A", "A", twins).verdict == Verdict.CORRECT


@pytest.mark.parametrize(
    ("gold", "choices", "word"),
    [
        (None, CHOICES, "no gold"),
        ("E", CHOICES, "'E' is none of the 4"),
        ("London", CHOICES, "London"),
        ("A,E", CHOICES, "A,E"),
        ("2", CHOICES, "'2'"),
        ("Paris", None, "no letter"),
        ("A", "Paris", "'Paris'"),
        ("A", ["one"], "1 choices"),
        ("A", [1, 2], "list of strings"),
        ("A", ["x"] * 27, "27"),
    ],
)
def test_a_gold_or_choices_that_cannot_be_used_are_reported(gold: str | None, choices: object, word: str) -> None:
    case = Case("A", gold, details={} if choices is None else {"choices": choices})
    assert word in readable(case)
    assert decide(case).verdict == Verdict.FAILED


PIECES = [*"ABCabcEZ()[]., :/&{}$*\n", " or ", " and ", "the answer is ", r"\text{", "Paris", "a dog"]
TEXTS = st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=5))
def test_any_text_gets_a_judgement(answer: str, gold: str, choices: list[str]) -> None:
    case = Case(answer, gold, details={"choices": choices})
    assert isinstance(readable(case), str)
    assert isinstance(decide(case), Judgement)
    assert isinstance(judged(answer), Judgement)


@given(TEXTS)
def test_white_space_and_dollars_around_an_answer_never_change_a_verdict(answer: str) -> None:
    expected = judged(answer).verdict
    assert judged(f" \n{answer}\t").verdict == expected


@given(st.sampled_from("ABCDE"), st.sampled_from("ABCD"))
def test_every_letter_is_right_for_itself_and_wrong_for_the_others(answer: str, gold: str) -> None:
    for text in (
        answer,
        f"({answer.lower()})",
        f"${answer}$",
        f"**{answer}**",
        f"The answer is {answer}.",
        f"{answer}. well",
    ):
        assert judged(text, gold).verdict == (Verdict.CORRECT if answer == gold else Verdict.WRONG)


@pytest.mark.parametrize(
    "bomb",
    [
        "C" * 10_000_000, "C or " * 1_000_000, "(" * 10_000_000, "the " * 390, "C," * 990, "\u0301\u0316" * 900,
        "**" * 990, r"\text{" * 1_000_000, "is " * 600, "C. " + "(B" * 900,
    ],
)  # fmt: skip
def test_hostile_text_is_judged_at_once(bomb: str) -> None:
    started = time.process_time()
    assert judged(bomb).verdict in (Verdict.WRONG, Verdict.UNREAD, Verdict.CORRECT)
    assert judged(bomb[:1900], "D").verdict in (Verdict.WRONG, Verdict.UNREAD)
    assert time.process_time() - started < 5
