"""Corruptions: truly other answers, whatever the gold answer looks like."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.verifying.check_problems import change_number, corruptions


@given(st.integers())
def test_a_changed_whole_number_is_another_number(number: int) -> None:
    made = [text for text in corruptions("math", str(number), {}) if not text.startswith("\\text")]
    assert made
    assert all(int(text) != number for text in made)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_a_changed_number_lies_outside_a_tolerance_of_five_percent(number: object) -> None:
    text = f"{number:f}"
    for wrong in corruptions("number", text, {"relative": 0.05})[:-1]:
        given, right = Fraction(wrong), Fraction(text)
        assert abs(given - right) > Fraction(5, 100) * max(abs(given), abs(right))


@pytest.mark.parametrize(
    ("gold", "wrong"),
    [
        (r"\frac{1}{2}", r"\frac{2}{2}"),
        ("x_1=3", "x_1=4"),
        (r"\log_{10} 5", r"\log_{10} 6"),
        ("0.05", "0.06"),
        ("0", "7"),
        ("10,000", "20,000"),
        ("$N=n$", "$N=n + 1$"),
        ("Ada", "Ada + 1"),
    ],
)
def test_the_value_is_changed_not_an_index(gold: str, wrong: str) -> None:
    assert change_number(gold) == wrong


def test_every_other_letter_is_a_corruption_of_a_choice() -> None:
    assert corruptions("choice", "B", {"choices": ["x", "y", "z"]}) == ["A", "C"]


@pytest.mark.parametrize("kind", ["check", "call", "stdin", "asserts"])
def test_a_corrupted_program_is_a_program(kind: str) -> None:
    (program,) = corruptions("program", None, {"kind": kind, "entry_point": "solve"})
    compile(program, "corruption", "exec")


@given(st.sampled_from(["string", "math", "number", "choice", "countdown", "reasoning_gym"]), st.text(max_size=20))
def test_a_corruption_is_never_the_gold_answer_itself(verifier: str, gold: str) -> None:
    assert gold.strip() not in [text.strip() for text in corruptions(verifier, gold, {})]
