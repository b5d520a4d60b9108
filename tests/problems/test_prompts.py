"""Prompts: what a model is asked, the same for every model, and its hash."""

from hypothesis import given
from hypothesis import strategies as st

from offleash.problems.prompts import PROMPTS, prompt, prompt_hash

DETAILS = {
    "choices": ["three", "four"],
    "unit": "$\\mathrm{~s}$",
    "tests": ["assert f()", "assert g()"],
    "starter": "class S:",
}


def test_the_wording_is_the_documented_one() -> None:
    assert prompt("boxed", "1+1?", {}) == (
        "1+1?\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    )
    assert "in the unit $\\mathrm{~s}$, without the unit" in prompt("number", "How long?", DETAILS)
    assert prompt("number", "How many?", {"unit": ""}).endswith("Give a decimal number.")
    assert "\n\nA. three\nB. four\n\n" in prompt("choice", "2+2?", DETAILS)
    assert "assert f()" in prompt("asserts", "Write f.", DETAILS)
    assert "assert g()" not in prompt("asserts", "Write f.", DETAILS)
    assert "```python\nclass S:\n```" in prompt("starter", "Write S.", DETAILS)


@given(name=st.sampled_from(list(PROMPTS)), question=st.text())
def test_a_question_stands_in_its_prompt_word_for_word(name: str, question: str) -> None:
    assert question in prompt(name, question, DETAILS)


def test_marks_in_a_question_are_not_filled_in() -> None:
    asked = prompt("choice", "What does {choices} or {unit} mean?", DETAILS)
    assert asked.startswith("What does {choices} or {unit} mean?\n\nA. three")


def test_the_hash_changes_with_any_character() -> None:
    assert prompt_hash("a") == prompt_hash("a")
    assert len({prompt_hash(text) for text in ("a", "a ", "A", "a\n", "")}) == 5
