"""Reading replies of OpenAI-compatible servers: the text, finish, tokens and log-probability of every choice."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from offleash.render.escape import valid_utf8
from offleash.samplers.sampler import FINISHED, TRUNCATED

BROKEN = {"abort", "error"}  # finish reasons of a server that went away under a sample
LOWEST = -9000.0  # vLLM writes -9999 where the log-probability is minus infinity


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion out of a reply."""

    text: str
    finish: str
    tokens: int | None = None
    logprob: float | None = None  # summed over the tokens as the server gives them, the end included


@dataclass(frozen=True)
class Reply:
    """The choices of a reply, and what the server says of itself."""

    choices: tuple[Choice, ...]
    logprobs: bool  # whether they came with log-probabilities
    stepped: bool  # whether every choice's tokens are counted by these
    ids: bool  # whether every choice came with the ids of its tokens
    words: Mapping[str, str] = field(default_factory=dict)


def read_reply(body: bytes) -> Reply:
    """A reply out of its bytes; a ValueError where they hold none."""
    try:
        document = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    found = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise ValueError("no choices")
    steps = [_steps(one) for one in found]
    total = _total(document.get("usage"))
    # hidden reasoning, or an end that is left out: then the steps are not all tokens, and sums over them mislead
    told = all(one is not None for one in steps) and total in (None, sum(len(one or ()) for one in steps))
    alone = total if len(found) == 1 else None
    choices = [_choice(one, step if told else None, alone) for one, step in zip(found, steps, strict=True)]
    words = {name: document.get(name) for name in ("model", "system_fingerprint")}
    return Reply(
        tuple(choices),
        any(one is not None for one in steps),
        told,
        all(isinstance(one.get("token_ids"), list) for one in found),
        {name: value for name, value in words.items() if isinstance(value, str) and value},
    )


def _choice(found: dict[str, object], steps: list[tuple[str, float]] | None, total: int | None) -> Choice:
    finish = found.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    if finish in BROKEN:
        raise ValueError(f"finish_reason {finish!r}")
    text, said = _text(found, finish)
    tokens = len(steps) if steps is not None else total
    if tokens is None and isinstance(ids := found.get("token_ids"), list):
        tokens = len(ids)
    return Choice(valid_utf8(text), finish, tokens, _sum(steps, said, finish) if steps else None)


def _text(found: dict[str, object], finish: str) -> tuple[str, str]:
    """The whole text of a choice, and the last part of it that the model wrote."""
    if isinstance(text := found.get("text"), str):  # of /completions
        return text, text
    message = found.get("message")
    if not isinstance(message, dict):
        raise ValueError("a choice without message")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if content is not None and not isinstance(content, str):
        raise ValueError("a message whose content is no text")
    thought = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(thought, str):
        return content or "", content or ""
    if not content and finish == TRUNCATED:
        # cut off inside the reasoning: closed, a passing thought in it would be read as its answer
        return f"<think>\n{thought}", thought
    return f"<think>\n{thought}\n</think>\n{content or ''}", content or thought


def _steps(found: dict[str, object]) -> list[tuple[str, float]] | None:
    """Tokens and their log-probabilities, in the form of chats or in that of completions. A value that is none is kept
    as such: the tokens are counted all the same."""
    told = found.get("logprobs")
    if not isinstance(told, dict):
        return None
    try:
        if isinstance(content := told.get("content"), list):
            return [(str(one["token"]), _value(one.get("logprob"))) for one in content] or _nothing(found)
        if isinstance(values := told.get("token_logprobs"), list) and isinstance(told.get("tokens"), list):
            pairs = zip(told["tokens"], values, strict=True)
            return [(str(token), _value(value)) for token, value in pairs] or _nothing(found)
    except (TypeError, ValueError, LookupError, AttributeError):  # no tokens, a list too short
        return None
    return None


def _value(told: object) -> float:
    return float(told) if isinstance(told, int | float) else math.nan


def _nothing(found: dict[str, object]) -> list[tuple[str, float]] | None:
    """No tokens, where there is no text either; an empty list beside a text tells nothing."""
    return None if _text(found, "")[0] else []


def _sum(steps: list[tuple[str, float]], said: str, finish: str) -> float | None:
    """The log-probability of a sample, or None where its end is not among the tokens or a number is none."""
    last = steps[-1][0]
    if finish == FINISHED and last and said.endswith(last):
        return None  # the last token is the text's own: this server does not tell of the end
    values = [value for _, value in steps]
    good = all(LOWEST < value <= 1e-3 for value in values)
    return math.fsum(values) if good else None


def _total(usage: object) -> int | None:
    total = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total > 0 else None
