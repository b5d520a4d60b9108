"""Chat templates: what a model reads."""

import jinja2
import jinja2.sandbox
import pytest

from offleash.errors import OffleashError
from offleash.samplers.chat_template import chat


class Tokenizer:
    """A model's tokenizer, as far as a prompt needs it."""

    def __init__(self, chat_template: str | None, end: str = "<|assistant|>") -> None:
        self.chat_template = chat_template
        self.end = end

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool, **kwargs: object
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"<|{turn['role']}|>{turn['content']}" for turn in conversation) + self.end


def test_the_chat_template_is_used_where_there_is_one() -> None:
    asked = chat("1+1?", Tokenizer("a template"))
    assert (asked.text, asked.has_template, asked.thinking) == ("<|user|>1+1?<|assistant|>", True, False)
    bare = chat("1+1?", Tokenizer(None))
    assert (bare.text, bare.has_template, bare.thinking) == ("1+1?", False, False)


def test_a_template_that_opens_a_reasoning_block_is_noticed() -> None:
    assert chat("1+1?", Tokenizer("t", "<|assistant|><think>\n")).thinking
    assert not chat("1+1?", Tokenizer("t", "<|assistant|><think>\n\n</think>\n\n")).thinking
    assert not chat("What is <think>", Tokenizer("t", "")).text.endswith("\n")


class Jinja:
    """A tokenizer that renders as Hugging Face's does."""

    name_or_path = "models/mine"

    def __init__(self, chat_template: str) -> None:
        self.chat_template = chat_template

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool, **kwargs: object
    ) -> str:
        def raise_exception(message: str) -> None:
            raise jinja2.TemplateError(message)

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment()
        environment.globals["raise_exception"] = raise_exception
        return environment.from_string(self.chat_template).render(messages=conversation)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("\n\n{% if x %}", "line 3): TemplateSyntaxError"),
        ("\n{{ messages[0].tools.name }}", "line 2): UndefinedError"),
        (
            "\n{{ raise_exception('A system message is needed.') }}",
            "line 2): TemplateError: A system message is needed.",
        ),
        ("{{ ''.__class__.__mro__ }}", "line 1): SecurityError"),
        ("\n\n{{ messages.append(1) }}", "line 3): SecurityError"),
        ("{{ 1 + 'a' }}", "line 1): TypeError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ],
)
def test_a_template_that_fails_is_named_with_its_line(template: str, reason: str) -> None:
    with pytest.raises(OffleashError) as error:
        chat("1+1?", Jinja(template))
    assert "The chat template of models/mine cannot render a prompt" in str(error.value)
    assert reason in str(error.value)
    assert "--raw" in str(error.value)
