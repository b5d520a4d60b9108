"""What a server takes: the body of a request, without the fields that the server was found to refuse or to ignore."""

import re
from collections.abc import Mapping, Sequence
from threading import Lock

from offleash.errors import OffleashError
from offleash.render.escape import valid_utf8
from offleash.samplers.endpoint.choices import Choice, Reply
from offleash.samplers.endpoint.http import RefusedError
from offleash.samplers.sampler import Decoding, Request

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


class Habits:
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

    def body(self, model: str, raw: bool, request: Request, decoding: Decoding, n: int, seed: int) -> dict[str, object]:
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

    def learn(self, refused: RefusedError, body: Mapping[str, object]) -> bool:
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

    def heed(self, reply: Reply, body: Mapping[str, object]) -> None:
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

    def may_be_copies(self, choices: Sequence[Choice], decoding: Decoding) -> bool:
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


def too_long(refused: RefusedError) -> bool:
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


def _named(refused: RefusedError, body: Mapping[str, object]) -> str:
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
