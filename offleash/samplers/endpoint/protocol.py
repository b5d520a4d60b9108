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
from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions
from offleash.samplers.endpoint.http import ServerRefusedError
from offleash.samplers.sampler import FINISHED, TRUNCATED, Request, SamplingParams

# Replies: the text, finish reason, tokens and log-probability of every choice.


BROKEN_FINISH_REASONS = {"abort", "error"}  # finish reasons of a server that stopped in the middle of a sample
CONTENT_FILTER = (
    "content_filter"  # the provider's filter held the text back: without it there is no sample, only a failure
)
MIN_LOGPROB = -9000.0  # vLLM writes -9999 where the log-probability is minus infinity
MAX_LOGPROB = 1e-3  # a log-probability may be above 0 by rounding, not by more


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion out of a reply."""

    text: str
    finish: str
    tokens: int | None = None
    logprob: float | None = None  # summed over the tokens as the server gives them, the end included


@dataclass(frozen=True)
class ChatReply:
    """The choices of a reply, and what it shows about the server."""

    choices: tuple[Choice, ...]
    logprobs: bool  # whether they came with log-probabilities
    covers_all_tokens: bool  # whether these cover every token of every choice
    ids: bool  # whether every choice came with the ids of its tokens
    server_names: Mapping[str, str] = field(default_factory=dict)  # "model", "system_fingerprint"


def read_reply(body: bytes) -> ChatReply:
    """Parse a chat completion or a completion; a ValueError where the bytes hold neither."""
    try:
        document = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    entries = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("no choices")
    steps = [_token_logprobs(entry) for entry in entries]
    total = _completion_tokens(document.get("usage"))
    # Where the server's own count differs, some tokens have no log-probability (hidden reasoning, an end token that is
    # left out): lengths and sums would both be too small.
    covers_all_tokens = all(step is not None for step in steps) and total in (
        None,
        sum(len(step or ()) for step in steps),
    )
    completion_total = total if len(entries) == 1 else None  # usage sums over the choices
    choices = [
        _choice(entry, step if covers_all_tokens else None, completion_total)
        for entry, step in zip(entries, steps, strict=True)
    ]
    names = {name: document.get(name) for name in ("model", "system_fingerprint")}
    return ChatReply(
        tuple(choices),
        any(step is not None for step in steps),
        covers_all_tokens,
        all(isinstance(entry.get("token_ids"), list) for entry in entries),
        {name: value for name, value in names.items() if isinstance(value, str) and value},
    )


def _choice(entry: dict[str, object], steps: list[tuple[str, float]] | None, total: int | None) -> Choice:
    finish = entry.get("finish_reason")
    finish = finish if isinstance(finish, str) else ""
    if finish in BROKEN_FINISH_REASONS:
        raise ValueError(f"finish_reason {finish!r}")
    text, last_part = _text(entry, finish)
    if finish == CONTENT_FILTER and not text:
        raise ValueError(f"finish_reason {finish!r} and no text: the server's content filter withheld it")
    tokens = len(steps) if steps is not None else total
    if tokens is None and isinstance(ids := entry.get("token_ids"), list):
        tokens = len(ids)
    return Choice(valid_utf8(text), finish, tokens, _logprob_sum(steps, last_part, finish) if steps else None)


def _text(entry: dict[str, object], finish: str) -> tuple[str, str]:
    """The full text of a choice, reasoning included, and the part of it that the model wrote last."""
    if isinstance(text := entry.get("text"), str):  # of /completions
        return text, text
    message = entry.get("message")
    if not isinstance(message, dict):
        raise ValueError("a choice without a message")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if content is not None and not isinstance(content, str):
        raise ValueError("a message whose content is not text")
    # vLLM and SGLang with a reasoning parser; OpenRouter. Kept in the text, as models write it without a parser.
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(reasoning, str):
        return content or "", content or ""
    if not content and finish == TRUNCATED:
        # cut off inside the reasoning: were it closed, a passing thought in it would be read as the answer
        return f"<think>\n{reasoning}", reasoning
    return f"<think>\n{reasoning}\n</think>\n{content or ''}", content or reasoning


def _token_logprobs(entry: dict[str, object]) -> list[tuple[str, float]] | None:
    """Tokens and their log-probabilities, in the form of chats or in that of completions.

    A missing value becomes NaN, so that its token still counts; None where the tokens themselves cannot be counted.
    """
    logprobs = entry.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    try:
        if isinstance(content := logprobs.get("content"), list):
            pairs = [(str(token["token"]), token.get("logprob")) for token in content]
        elif isinstance(values := logprobs.get("token_logprobs"), list) and isinstance(logprobs.get("tokens"), list):
            pairs = [(str(token), value) for token, value in zip(logprobs["tokens"], values, strict=True)]
        else:
            return None
        steps = [(token, float(value) if isinstance(value, int | float) else math.nan) for token, value in pairs]
    except (TypeError, ValueError, LookupError, AttributeError):  # no tokens, or lists of different length
        return None
    # an empty list is a count of zero only where the text is empty too; beside a text it means nothing
    return None if not steps and _text(entry, "")[0] else steps


def _logprob_sum(steps: list[tuple[str, float]], last_part: str, finish: str) -> float | None:
    """The log-probability of a sample, or None where its end is not among the tokens or a value is missing."""
    last = steps[-1][0]
    if finish == FINISHED and last and last_part.endswith(last):
        return None  # the last token belongs to the text: this server leaves the end token out
    values = [value for _, value in steps]
    return math.fsum(values) if all(MIN_LOGPROB < value <= MAX_LOGPROB for value in values) else None


def _completion_tokens(usage: object) -> int | None:
    total = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total > 0 else None


# Requests: the fields and the number of samples that a server accepts, and whether it returns copies.


# Equal choices are tested for being copies this many times, and then once in so many samples: a model may have but one
# answer to some prompt, and every test costs two requests.
PROBES, SAMPLES_PER_PROBE = 3, 64
LONG_TEXT = 20  # characters of a text that two samples hardly share by chance
# options of a decoding, and the values that change nothing: only with these may they be left out
OPTIONS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": None, "stop": None}
FIELDS = {*OPTIONS, "repetition_penalty", "return_token_ids", "seed", "logprobs", "n"}
ALIASES = {"top_logprobs": "logprobs", "best_of": "n", "max_completion_tokens": "max_tokens"}
# 'stop' counts only in quotes, since messages use the word itself; 'n' only in lower case, because of 'N/A'
_FIELD_PATTERN = "|".join(sorted((FIELDS | ALIASES.keys()) - {"n", "stop"}))
_FIELD_NAME = re.compile(rf"(?<![\w\\])(?:(?i:{_FIELD_PATTERN})|n(?!'\w)|(?<=['\"`])stop(?=['\"`]))(?!\w)")
_SINGLE_CHOICE = re.compile("one completion choice", re.IGNORECASE)  # llama.cpp, some versions with status 500
_CONTEXT = re.compile(
    r"context[ _]?(?:length|size|window)|maximum context|max_model_len|max_tokens must be at least 1|"
    r"prompt is too long|input is too long|too many (?:input )?tokens",
    re.IGNORECASE,
)
# vLLM: max_tokens alone exceeds the context, so no prompt would fit and the draw should end
_NO_PROMPT_FITS = re.compile("cannot be greater than max_model_len")


class ServerProfile:
    """What one server accepts, learned from its first replies and used for the rest; threads share it.

    Flags only ever go from the first assumption to what was seen, so a thread that reads an old value costs one refused
    request and never a wrong sample.
    """

    def __init__(self, n: int, logprobs: bool) -> None:
        self._n = self.largest = n  # samples per request
        self._omitted_fields: set[str] = (
            set() if logprobs else {"logprobs"}
        )  # fields that the server refuses or ignores
        self._completion_limit = False  # max_tokens is called max_completion_tokens
        self.copies = False  # the server returns n copies of one sample
        self._usage = True  # a single choice comes with its number of tokens
        self._logprobs_count = self._ids_count = False  # log-probabilities, or ids, were seen to count each choice
        self._distinct = False  # several choices of one reply were seen to differ
        self._equal_choices = self._probes = 0
        self._lock = Lock()

    def body(
        self,
        model: str,
        raw: bool,
        request: Request,
        decoding: SamplingParams,
        n: int,
        seed: int,
        chat: ChatOptions = NO_OPTIONS,
    ) -> dict[str, object]:
        """The body of a request for n samples.

        Values that change nothing are sent as well: without them a server uses those of the model's generation_config
        (vLLM, SGLang) or its own (llama.cpp: top_k 40, min_p 0.05).
        """
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
        # The usage of a reply sums over its choices. The length of each is the number of its token ids (vLLM) or of its
        # log-probabilities; both are requested until one of them has come.
        needs_logprobs = n > 1 or not self._usage
        if decoding.is_plain or (needs_logprobs and not self._ids_count):
            fields["logprobs"] = 1 if raw else True
        if needs_logprobs and not (self._logprobs_count and "logprobs" in fields):
            fields["return_token_ids"] = True
        limit = "max_completion_tokens" if self._completion_limit else "max_tokens"
        prompt = {"prompt": valid_utf8(request.prompt)} if raw else _chat_fields(request, chat)
        stop = {"stop": list(decoding.stop)} if decoding.stop else {}
        accepted_fields = {name: value for name, value in fields.items() if name not in self._omitted_fields}
        return {"model": model, **prompt, **accepted_fields, limit: decoding.max_tokens, **stop}

    def learn_from_refusal(self, error: ServerRefusedError, body: Mapping[str, object]) -> bool:
        """Adapt to a refusal. True: the next body will be accepted as far as this refusal goes; False: it was about
        something else; an OffleashError where the decoding needs the refused field."""
        field = _refused_field(error, body)
        if field == "n" or (_SINGLE_CHOICE.search(error.message) and "n" in body):
            self.limit(_requested_samples(body) // 2)
            return True
        if field == "max_tokens" and field in body and "max_completion_tokens" in error.message:
            self._completion_limit = True
            return True
        if not field or (error.code == 403 and field != "logprobs"):  # OpenAI refuses log-probabilities with 403
            return False
        value = body.get(field, body.get("max_completion_tokens"))
        if field in OPTIONS and value != OPTIONS[field]:
            raise OffleashError(
                f"The server refuses {field} {value!r}: {error.summary}. Choose another decoding, or a server "
                "that accepts it."
            )
        self.drop(field)
        return True

    def observe_reply(self, reply: ChatReply, body: Mapping[str, object]) -> None:
        """Learn from a reply which fields of its request the server ignored."""
        if "logprobs" in body and not reply.logprobs:
            self.drop("logprobs")
        if "return_token_ids" in body and not reply.ids:
            self.drop("return_token_ids")
        n = _requested_samples(body)
        if len(reply.choices) < n:
            self.limit(len(reply.choices))
        if any(choice.tokens is None for choice in reply.choices) and n == 1:
            self._usage = False
        self._ids_count = self._ids_count or ("return_token_ids" in body and reply.ids)
        if "logprobs" in body:
            self._logprobs_count = reply.covers_all_tokens

    def limit(self, n: int) -> None:
        """Request at most n samples at a time from now on."""
        with self._lock:
            self.largest = max(1, min(self.largest, n))

    def drop(self, field: str) -> None:
        """Send a field no more."""
        with self._lock:
            self._omitted_fields.add(field)

    def may_be_copies(self, choices: Sequence[Choice], decoding: SamplingParams) -> bool:
        """Whether several choices may be copies of one sample, which is to be tested before they are kept."""
        if self._distinct or decoding.temperature == 0:
            return False
        if not all_equal(choices):
            self._distinct = True  # a server that has once given different samples makes no copies
            return False
        with self._lock:
            self._equal_choices += len(choices)
        return len(choices[0].text) > LONG_TEXT

    def probe(self) -> bool:
        """Whether to test now for copies; counts the test."""
        with self._lock:
            if self._distinct or self.copies or self._probes >= max(PROBES, self._equal_choices // SAMPLES_PER_PROBE):
                return False
            self._probes += 1
            return True

    def record_copies(self) -> None:
        """The server was seen to return copies: request samples one by one."""
        self.limit(1)
        self.copies = True

    def notes(self) -> dict[str, str]:
        """What was learned, as run.json records it."""
        notes = {"left_out": ", ".join(sorted(self._omitted_fields))} if self._omitted_fields else {}
        if self.largest < self._n:
            notes["n"] = f"{self.largest}{', since more are copies of one sample' if self.copies else ''}"
        return notes


def all_equal(choices: Sequence[Choice]) -> bool:
    return all(choice.text == choices[0].text for choice in choices)


def too_long(error: ServerRefusedError) -> bool:
    """Whether a prompt, with the tokens to draw, does not fit into the model's context."""
    if error.code not in (400, 413, 422) or _NO_PROMPT_FITS.search(error.message):
        return False
    return bool(_CONTEXT.search(error.message))


def _chat_fields(request: Request, chat: ChatOptions) -> dict[str, object]:
    """Messages, and variables of the chat template as vLLM, SGLang and llama.cpp take them.

    The latter is never left out: a server that refuses it would draw other samples than were recorded.
    """
    system = [] if chat.system is None else [{"role": "system", "content": valid_utf8(chat.system)}]
    variables = {"chat_template_kwargs": dict(chat.kwargs)} if chat.kwargs else {}
    return {"messages": [*system, _message(request)], **variables}


def _message(request: Request) -> dict[str, object]:
    """One message of the user: its text, or its images in order and then its text."""
    text = valid_utf8(request.prompt)
    if not request.images:
        return {"role": "user", "content": text}
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": image}} for image in request.images]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def _refused_field(error: ServerRefusedError, body: Mapping[str, object]) -> str:
    """The first field of the body that a refusal names, or ""; later names may be an echo of the request."""
    if error.code not in (400, 403, 422, 501):
        return ""
    for name in (error.field, *(match.group().lower() for match in _FIELD_NAME.finditer(error.message))):
        field = ALIASES.get(name, name)
        if field in FIELDS and (name in body or field in body):
            return field
    return ""


def _requested_samples(body: Mapping[str, object]) -> int:
    n = body.get("n", 1)
    return n if isinstance(n, int) else 1
