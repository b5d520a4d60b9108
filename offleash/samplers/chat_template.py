"""Render a prompt with the model's chat template, and detect whether the result ends inside an open <think> block."""

from dataclasses import dataclass
from typing import Protocol


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
    rendered = str(tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))
    return RenderedPrompt(rendered, templated=True, thinking=opens_reasoning(rendered))


def opens_reasoning(text: str) -> bool:
    """Whether a text ends inside a reasoning block: `<think>` was opened and not closed after it."""
    return text.rstrip().endswith("<think>")
