"""Render a prompt with the model's chat template, and detect whether the result ends inside an open <think> block."""

import traceback
from dataclasses import dataclass
from typing import Protocol

from offleash.errors import OffleashError

TEMPLATE_FILES = ("<template>", "<unknown>")  # what Jinja calls a template that was no file


class Tokenizer(Protocol):
    """What is needed of a model's tokenizer: the part of Hugging Face's that renders chats."""

    @property
    def chat_template(self) -> object: ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> object: ...


@dataclass(frozen=True)
class RenderedPrompt:
    """The text a model is given."""

    text: str
    templated: bool  # whether the model has a chat template
    thinking: bool  # whether the text ends inside a reasoning block, so that a sample begins within it


def chat(text: str, tokenizer: Tokenizer) -> RenderedPrompt:
    """The prompt within the model's chat template; unchanged where the model has none, as many base models."""
    if not tokenizer.chat_template:
        return RenderedPrompt(text, templated=False, thinking=False)
    message = [{"role": "user", "content": text}]
    try:
        rendered = str(tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template is a program of the model's makers, and may fail in any way
        raise failed_template(tokenizer, error) from None
    return RenderedPrompt(rendered, templated=True, thinking=opens_reasoning(rendered))


def failed_template(tokenizer: object, error: Exception) -> OffleashError:
    """The error for a chat template that cannot render a prompt: the model, the line, and the reason."""
    # Jinja gives the lines of a template frames of their own; a syntax error carries its line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in TEMPLATE_FILES]
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    where = f" (line {line})" if line else ""
    reason = " ".join(str(error).split())[:300] or "no message"
    model = getattr(tokenizer, "name_or_path", "") or "this model"
    return OffleashError(
        f"The chat template of {model} cannot render a prompt{where}: {type(error).__name__}: {reason}. Correct it "
        "(chat_template.jinja or tokenizer_config.json of the model), or give prompts without it: --raw."
    )


def opens_reasoning(text: str) -> bool:
    """Whether a text ends inside a reasoning block: `<think>` was opened and not closed after it."""
    return text.rstrip().endswith("<think>")
