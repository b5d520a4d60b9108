"""Chat templates: what a model reads."""

from offleash.samplers.chat_template import chat


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


def test_the_chat_template_is_used_where_there_is_one() -> None:
    asked = chat("1+1?", Tokenizer("a template"))
    assert (asked.text, asked.templated, asked.thinking) == ("<|user|>1+1?<|assistant|>", True, False)
    bare = chat("1+1?", Tokenizer(None))
    assert (bare.text, bare.templated, bare.thinking) == ("1+1?", False, False)


def test_a_template_that_opens_a_reasoning_block_is_noticed() -> None:
    assert chat("1+1?", Tokenizer("t", "<|assistant|><think>\n")).thinking
    assert not chat("1+1?", Tokenizer("t", "<|assistant|><think>\n\n</think>\n\n")).thinking
    assert not chat("What is <think>", Tokenizer("t", "")).text.endswith("\n")
