"""Request bodies and replies of OpenAI-compatible servers; what a server accepts is learned from its first replies.

Servers refuse or silently ignore some fields, and some return n copies of one sample. `ServerProfile` remembers what
was found and leaves out of later requests only what does not change the distribution; a draw that needs a refused field
fails.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from offleash.errors import OffleashError
from offleash.render.escape import valid_utf8
from offleash.samplers.endpoint.http import ServerRefusedError
from offleash.samplers.sampler import FINISHED, TRUNCATED, Request, SamplingParams

# Replies: the text, finish reason, tokens and log-probability of every choice.


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
class ChatReply:
    """The choices of a reply, and what the server says of itself."""

    choices: tuple[Choice, ...]
    logprobs: bool  # whether they came with log-probabilities
    stepped: bool  # whether every choice's tokens are counted by these
    ids: bool  # whether every choice came with the ids of its tokens
    words: Mapping[str, str] = field(default_factory=dict)


def read_reply(body: bytes) -> ChatReply:
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
    return ChatReply(
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


# Requests: the fields and the number of samples that a server accepts, and whether it returns copies.


PROBES, RARELY = 3, 64  # identical choices are looked into so many times, then once for so many samples
LONG = 20  # characters of a text that two samples hardly share by chance
# options of a decoding, and the values that change nothing: these alone may be left out
OPTIONS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": None, "stop": None}
FIELDS = {*OPTIONS, "repetition_penalty", "return_token_ids", "seed", "logprobs", "n"}
ALIASES = {"top_logprobs": "logprobs", "best_of": "n", "max_completion_tokens": "max_tokens"}
# 'stop' is named in quotes only, since it is a word; so is 'N' of 'N/A'
_WORDS = "|".join(sorted((FIELDS | ALIASES.keys()) - {"n", "stop"}))
_NAMED = re.compile(rf"(?<![\w\\])(?:(?i:{_WORDS})|n(?!'\w)|(?<=['\"`])stop(?=['\"`]))(?!\w)")
_ONE_CHOICE = re.compile("one completion choice", re.IGNORECASE)  # llama.cpp, some versions with status 500
_CONTEXT = re.compile(
    r"context[ _]?(?:length|size|window)|maximum context|max_model_len|max_tokens must be at least 1|"
    r"prompt is too long|input is too long|too many (?:input )?tokens",
    re.IGNORECASE,
)
_NO_PROMPT = re.compile("cannot be greater than max_model_len")  # vLLM: max_tokens alone is too large for any prompt


class ServerProfile:
    """One server's ways, learned on the first requests and kept for the rest; threads share it."""

    def __init__(self, n: int, logprobs: bool) -> None:
        self._n = self.largest = n  # samples that a request may ask for
        self._without: set[str] = set() if logprobs else {"logprobs"}
        self._otherwise = False  # max_tokens is called max_completion_tokens
        self.copies = False  # the server returns n copies of one sample
        self._usage = True  # a choice that is alone comes with its number of tokens
        self._stepped = self._ids = False  # log-probabilities, or ids, were found to count the tokens of each choice
        self._several = False
        self._alike = self._probes = 0
        self._lock = Lock()

    def body(
        self, model: str, raw: bool, request: Request, decoding: SamplingParams, n: int, seed: int
    ) -> dict[str, object]:
        """A request for n samples. Values that change nothing are sent as well: without them a server takes those of
        the model's generation_config (vLLM, SGLang) or its own (llama.cpp: top_k 40, min_p 0.05)."""
        fields: dict[str, object] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": decoding.top_k or -1,
            "min_p": decoding.min_p,
            "repetition_penalty": 1.0,
            "seed": seed,
        }
        if n > 1:
            fields["n"] = n
        # the usage of a reply is that of all its choices: how many tokens each has is told by its ids (vLLM) or by the
        # number of its log-probabilities; both are asked for until one has come
        uncounted = n > 1 or not self._usage
        if decoding.plain or (uncounted and not self._ids):
            fields["logprobs"] = 1 if raw else True
        if uncounted and not (self._stepped and "logprobs" in fields):
            fields["return_token_ids"] = True
        limit = "max_completion_tokens" if self._otherwise else "max_tokens"
        asked = {"prompt": valid_utf8(request.prompt)} if raw else {"messages": [_message(request)]}
        stop = {"stop": list(decoding.stop)} if decoding.stop else {}
        kept = {name: value for name, value in fields.items() if name not in self._without}
        return {"model": model, **asked, **kept, limit: decoding.max_tokens, **stop}

    def learn(self, refused: ServerRefusedError, body: Mapping[str, object]) -> bool:
        """Whether the next body will do without what was refused; an OffleashError where the draw needs it."""
        field = _named(refused, body)
        if field == "n" or (_ONE_CHOICE.search(refused.words) and "n" in body):
            self.limit(_samples(body) // 2)
            return True
        if field == "max_tokens" and field in body and "max_completion_tokens" in refused.words:
            self._otherwise = True
            return True
        if not field or (refused.code == 403 and field != "logprobs"):  # OpenAI refuses log-probabilities with 403
            return False
        value = body.get(field, body.get("max_completion_tokens"))
        if field in OPTIONS and value != OPTIONS[field]:
            raise OffleashError(
                f"The server refuses {field} {value!r}: {refused.said}. Choose another decoding, or a server "
                "that takes it."
            )
        self.drop(field)
        return True

    def heed(self, reply: ChatReply, body: Mapping[str, object]) -> None:
        """Remember what of a body a reply has answered."""
        if "logprobs" in body and not reply.logprobs:
            self.drop("logprobs")
        if "return_token_ids" in body and not reply.ids:
            self.drop("return_token_ids")
        asked = _samples(body)
        if len(reply.choices) < asked:
            self.limit(len(reply.choices))
        if any(one.tokens is None for one in reply.choices) and asked == 1:
            self._usage = False
        self._ids = self._ids or ("return_token_ids" in body and reply.ids)
        if "logprobs" in body:
            self._stepped = reply.stepped

    def limit(self, n: int) -> None:
        with self._lock:
            self.largest = max(1, min(self.largest, n))

    def drop(self, field: str) -> None:
        with self._lock:
            self._without.add(field)

    def may_be_copies(self, choices: Sequence[Choice], decoding: SamplingParams) -> bool:
        """Whether several choices may be copies of one sample, which is to be looked into before they are kept."""
        if self._several or decoding.temperature == 0:
            return False
        if not alike(choices):
            self._several = True  # a server that has given several samples once does not make copies
            return False
        with self._lock:
            self._alike += len(choices)
        return len(choices[0].text) > LONG

    def probe(self) -> bool:
        """Whether to look into it: a few times, then for few of the samples, since a model may have but one answer."""
        with self._lock:
            if self._several or self.copies or self._probes >= max(PROBES, self._alike // RARELY):
                return False
            self._probes += 1
            return True

    def found_copies(self) -> None:
        self.limit(1)
        self.copies = True

    def notes(self) -> dict[str, str]:
        """What was learned, for the run's own record."""
        notes = {"left_out": ", ".join(sorted(self._without))} if self._without else {}
        if self.largest < self._n:
            notes["n"] = f"{self.largest}{', since more are copies of one sample' if self.copies else ''}"
        return notes


def alike(choices: Sequence[Choice]) -> bool:
    return all(one.text == choices[0].text for one in choices)


def too_long(refused: ServerRefusedError) -> bool:
    """Whether a prompt, with the tokens asked for, does not fit into the model's context."""
    if refused.code not in (400, 413, 422) or _NO_PROMPT.search(refused.words):
        return False
    return bool(_CONTEXT.search(refused.words))


def _message(request: Request) -> dict[str, object]:
    """One message of the user: its text, or its images in order and then its text."""
    text = valid_utf8(request.prompt)
    if not request.images:
        return {"role": "user", "content": text}
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": one}} for one in request.images]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def _named(refused: ServerRefusedError, body: Mapping[str, object]) -> str:
    """The first field of the body that a refusal names: the rest may be an echo of the request."""
    if refused.code not in (400, 403, 422, 501):
        return ""
    for name in (refused.field, *(found.group().lower() for found in _NAMED.finditer(refused.words))):
        field = ALIASES.get(name, name)
        if field in FIELDS and (name in body or field in body):
            return field
    return ""


def _samples(body: Mapping[str, object]) -> int:
    n = body.get("n", 1)
    return n if isinstance(n, int) else 1
