"""Render a prompt with the model's chat template, and detect whether the result ends inside an open <think> block.

`ChatOptions` is what a user adds to a chat: a system message, and variables of the template. Both are refused where
they would have no effect, since the run would be recorded as drawn with them.
"""

import json
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from offleash.errors import OffleashError

TEMPLATE_FILES = ("<template>", "<unknown>")  # what Jinja calls a template that was no file


class Tokenizer(Protocol):
    """What is needed of a model's tokenizer: the part of Hugging Face's that renders chats."""

    @property
    def chat_template(self) -> object: ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool, **kwargs: object
    ) -> object: ...


@dataclass(frozen=True)
class ChatOptions:
    """What is added to the chat that a model reads."""

    system: str | None = None  # the system message
    kwargs: Mapping[str, object] = field(default_factory=dict)  # variables of the chat template

    def __bool__(self) -> bool:
        return self.system is not None or bool(self.kwargs)

    @property
    def to_document(self) -> dict[str, object]:
        """As a run stores it: nothing where nothing was given, so that runs of older versions compare equal."""
        return {"system": self.system, "chat_kwargs": dict(self.kwargs) or None} if self else {}

    def messages(self, text: str) -> list[dict[str, str]]:
        """The chat of one prompt."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, {"role": "user", "content": text}]

    @property
    def flags(self) -> str:
        """The options as they are typed, for messages."""
        flags_given = ["--system"] if self.system is not None else []
        return " and ".join([*flags_given, *(["--chat-kwargs"] if self.kwargs else [])])


NO_OPTIONS = ChatOptions()


def chat_options(system: str | None, kwargs: Mapping[str, str], raw: bool = False) -> ChatOptions:
    """The options of the command line, checked; values of variables are read as JSON where they are JSON.

    >>> chat_options(None, {"enable_thinking": "false", "style": "brief"}).kwargs
    {'enable_thinking': False, 'style': 'brief'}
    """
    options = ChatOptions(system, {name: _json_value(text) for name, text in kwargs.items()})
    if options and raw:
        raise OffleashError(
            f"{options.flags} change how the chat template formats a prompt, but --raw does not use a template. Drop "
            "one of them, or put the text into --prompt FILE."
        )
    if system is not None and not system.strip():
        raise OffleashError(f"--system takes a text; found {system!r}. Leave it out for no system message.")
    return options


def stored_chat_options(about: Mapping[str, object]) -> ChatOptions:
    """The options that a run was drawn with, from what it stores about its sampler."""
    system, kwargs = about.get("system"), about.get("chat_kwargs")
    return ChatOptions(system if isinstance(system, str) else None, kwargs if isinstance(kwargs, Mapping) else {})


def _json_value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


@dataclass(frozen=True)
class RenderedPrompt:
    """The text a model is given."""

    text: str
    has_template: bool  # whether the model has a chat template
    thinking: bool  # whether the text ends inside a reasoning block, so that a sample begins within it


def chat(text: str, tokenizer: Tokenizer, options: ChatOptions = NO_OPTIONS) -> RenderedPrompt:
    """The prompt within the model's chat template; unchanged where the model has none, as many base models."""
    if options:
        check_chat_options(tokenizer, options)
    if not tokenizer.chat_template:
        return RenderedPrompt(text, has_template=False, thinking=False)
    try:
        rendered = str(
            tokenizer.apply_chat_template(
                options.messages(text), tokenize=False, add_generation_prompt=True, **options.kwargs
            )
        )
    except Exception as error:  # a template is a program of the model's makers, and may fail in any way
        raise template_error(tokenizer, error, options) from None
    if options.system is not None and options.system.strip() not in rendered:
        raise OffleashError(
            f"The chat template of {_name(tokenizer)} ignores the system message. Put its text into --prompt FILE "
            "instead."
        )
    return RenderedPrompt(rendered, has_template=True, thinking=opens_reasoning(rendered))


def check_chat_options(tokenizer: Tokenizer, options: ChatOptions) -> None:
    """Refuse options that the model's chat template would silently ignore."""
    template = tokenizer.chat_template
    if not template:
        raise OffleashError(
            f"{_name(tokenizer)} has no chat template, so {options.flags} would have no effect. Put the text into "
            "--prompt FILE instead."
        )
    text = json.dumps(template) if isinstance(template, Mapping) else str(template)
    for name in options.kwargs:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            raise OffleashError(
                f"The chat template of {_name(tokenizer)} has no variable {name!r}, so --chat-kwargs {name}= would "
                "have no effect. Check its spelling, or leave it out."
            )


def _name(tokenizer: object) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "this model")


def template_error(tokenizer: object, error: Exception, options: ChatOptions = NO_OPTIONS) -> OffleashError:
    """The error for a chat template that cannot render a prompt: the model, the line, and the reason."""
    # Jinja gives the lines of a template frames of their own; a syntax error carries its line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in TEMPLATE_FILES]
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    line_text = f" (line {line})" if line else ""
    reason = " ".join(str(error).split())[:300] or "no message"
    step = (
        f"Leave out {options.flags}, or put the text into --prompt FILE."
        if options
        else "Correct it (the model's chat_template.jinja or tokenizer_config.json), or draw with --raw, without it."
    )
    return OffleashError(
        f"The chat template of {_name(tokenizer)} cannot render a prompt{line_text}: {type(error).__name__}: {reason}. "
        f"{step}"
    )


def opens_reasoning(text: str) -> bool:
    """Whether a text ends inside a reasoning block: `<think>` was opened and not closed after it."""
    return text.rstrip().endswith("<think>")
