"""Prompts: what a model is asked, the same for every model, and its hash."""

from hypothesis import given
from hypothesis import strategies as st

from offleash.problems.prompts import PROMPTS, chat, prompt, prompt_hash

DETAILS = {
    "choices": ["three", "four"],
    "unit": "$\\mathrm{~s}$",
    "tests": ["assert f()", "assert g()"],
    "starter": "class S:",
}


class Tokenizer:
    """A model's tokenizer, as far as a prompt needs it."""

    def __init__(self, chat_template: str | None, end: str = "<|assistant|>") -> None:
        self.chat_template = chat_template
        self.end = end

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"<|{turn['role']}|>{turn['content']}" for turn in conversation) + self.end


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


def test_the_chat_template_is_used_where_there_is_one() -> None:
    asked = chat("1+1?", Tokenizer("a template"))
    assert (asked.text, asked.templated, asked.thinking) == ("<|user|>1+1?<|assistant|>", True, False)
    bare = chat("1+1?", Tokenizer(None))
    assert (bare.text, bare.templated, bare.thinking) == ("1+1?", False, False)


def test_a_template_that_opens_a_reasoning_block_is_noticed() -> None:
    assert chat("1+1?", Tokenizer("t", "<|assistant|><think>\n")).thinking
    assert not chat("1+1?", Tokenizer("t", "<|assistant|><think>\n\n</think>\n\n")).thinking
    assert not chat("What is <think>", Tokenizer("t", "")).text.endswith("\n")
