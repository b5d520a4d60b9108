"""The `scripted:` sampler: a written-down distribution of texts for every problem, for tests and teaching; no model.

    {"problems": {"sum": {"It is 2.": 0.75, "It is 3.": 0.25}, "*": {"no idea": 1}}, "tokens": {"no idea": 2}}

A sample is one choice among whole texts, by the same seeds as in huggingface/: it depends only on its run, problem and
index. "*" covers all other problems; a text without a token count has one token per word. Where prompts matter,
"prompts" has other distributions for prompts that hold a text: {"prompts": {"step by step": {"sum": {...}}}}.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError, unknown
from offleash.samplers.registry import Model
from offleash.samplers.sampler import FINISHED, TRUNCATED, About, Request, Sample, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds, seed_of, uniform

ANY_PROBLEM = "*"
KEYS = ("problems", "tokens", "template", "prompts")
SETTINGS = ("delay", "copies", "fail", "width", "appetite")
TOLERANCE = 1e-6  # by which probabilities may miss 1


@dataclass(frozen=True)
class ScriptedAnswers:
    """Texts and their probabilities."""

    texts: tuple[str, ...]
    chance_T: NDArray[np.float64]


@dataclass(frozen=True)
class Behaviour:
    """How the sampler behaves, for tests of the code around it; --set width and appetite are the last two."""

    delay: float = 0.0  # seconds per request
    copies: bool = False  # a bad server: every sample of a request is the first one
    fail: float = 0.0  # share of requests that fail
    concurrency: int = 1
    batch_size: int = 1024


@dataclass(frozen=True)
class Script:
    """The content of a file, checked."""

    problems: Mapping[str, ScriptedAnswers]
    tokens: Mapping[str, int]
    template: str  # what a prompt becomes; {prompt} is the prompt
    fingerprint: str
    prompts: Mapping[str, Mapping[str, ScriptedAnswers]]  # by a text in the prompt: the problems that it changes


class Scripted:
    """A sampler that draws from a script."""

    def __init__(self, model: Model, script: Script, behaviour: Behaviour) -> None:
        self._script, self._behaviour = script, behaviour
        # a delay or a failed request changes no sample, so a run may be resumed without them
        settings = {"copies": "yes"} if behaviour.copies else {}
        self._chat = model.chat
        self._about = About(
            "scripted",
            model.name,
            fingerprint=script.fingerprint,
            raw=model.raw,
            settings=settings,
            system=model.chat.system,
            chat_kwargs=model.chat.kwargs or None,
        )
        self._forwarded = 0
        self._lock = threading.Lock()

    @property
    def about(self) -> About:
        return self._about

    @property
    def concurrency(self) -> int:
        return self._behaviour.concurrency

    @property
    def batch_size(self) -> int:
        return self._behaviour.batch_size

    @property
    def forwarded(self) -> int | None:
        return self._forwarded

    def rendered_prompt(self, prompt: str) -> str | None:
        """The system message and the prompt in the script's template."""
        full_prompt = prompt if self._chat.system is None else f"{self._chat.system}\n\n{prompt}"
        return self._script.template.replace("{prompt}", full_prompt)

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        """Every request in order; which of them fail follows from the seed, so a second attempt fails again."""
        for request in requests:
            if self._behaviour.delay:
                time.sleep(self._behaviour.delay)
            if seed_of(request.seed, "fail", request.first) < self._behaviour.fail * 2**64:
                yield SampleChunk(request, error=f"the script says that {self._behaviour.fail:g} of all requests fail")
                continue
            samples = tuple(self._samples(request, decoding))
            with self._lock:
                self._forwarded += sum(sample.tokens or 0 for sample in samples)
            yield SampleChunk(request, samples)

    def forget(self, problem: str) -> None:
        """Nothing is remembered of a problem."""

    def close(self) -> None:
        """There is nothing to free."""

    def _samples(self, request: Request, decoding: SamplingParams) -> Iterator[Sample]:
        problems, rendered = self._script.problems, self.rendered_prompt(request.prompt) or ""
        answers = problems.get(request.problem) or problems.get(ANY_PROBLEM)
        for text, problem_texts in self._script.prompts.items():
            if text in rendered:
                answers = problem_texts.get(request.problem) or problem_texts.get(ANY_PROBLEM) or answers
        if answers is None:
            raise OffleashError(
                f"{self._about.model} has no entry for problem {request.problem!r}. Add it, or '*' for all others."
            )
        sampled_T = truncate(answers.chance_T, decoding)
        seed_N = sample_seeds(request.seed, request.first, request.size)
        # the whole text is one token: inversion of its cumulative distribution, as in huggingface/prefix_sampling.py
        cumulative_T = np.cumsum(sampled_T)
        choice_N = np.searchsorted(cumulative_T / cumulative_T[-1], uniform(seed_N, 0), side="right")
        if self._behaviour.copies:
            choice_N[:] = choice_N[0]
        entropies = entropy(answers.chance_T), entropy(sampled_T)
        for index, (choice, seed) in enumerate(zip(choice_N.tolist(), seed_N.tolist(), strict=True)):
            text, tokens, finish = self._truncate(answers.texts[choice], decoding)
            raw, drawn = float(np.log(answers.chance_T[choice])), float(np.log(sampled_T[choice]))
            yield Sample(request.first + index, text, tokens, finish, seed, raw, drawn, *entropies)

    def _truncate(self, text: str, decoding: SamplingParams) -> tuple[str, int, str]:
        """A text up to a stop text or the token limit, its tokens, and why it ended."""
        tokens = self._script.tokens.get(text) or max(1, len(text.split()))
        if tokens > decoding.max_tokens:
            return text[: len(text) * decoding.max_tokens // tokens], decoding.max_tokens, TRUNCATED
        ends = [text.find(stop) for stop in decoding.stop if stop in text]
        return text[: min(ends)] if ends else text, tokens, FINISHED


def open_sampler(model: Model) -> Scripted:
    """The sampler of scripted:FILE.json."""
    return Scripted(model, read_script(Path(model.name)), _behaviour(model.settings))


def truncate(chance_T: NDArray[np.float64], decoding: SamplingParams) -> NDArray[np.float64]:
    """The probabilities that are drawn from: temperature, then top-k, top-p and min-p, each on what is left.

    >>> truncate(np.array([0.5, 0.3, 0.2]), SamplingParams(top_p=0.7)).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    with np.errstate(divide="ignore"):
        log_T = np.log(chance_T)
    if decoding.temperature == 0:
        return np.where(np.arange(chance_T.size) == chance_T.argmax(), 1.0, 0.0)
    scaled_T: NDArray[np.float64] = np.exp((log_T - log_T.max()) / decoding.temperature)
    if decoding.top_k:
        scaled_T[np.argsort(-scaled_T, kind="stable")[decoding.top_k :]] = 0.0
    scaled_T /= scaled_T.sum()
    if decoding.top_p < 1:
        order_T = np.argsort(-scaled_T, kind="stable")
        before_T = np.cumsum(scaled_T[order_T]) - scaled_T[order_T]  # the token that crosses top_p is still kept
        scaled_T[order_T[before_T >= decoding.top_p]] = 0.0
        scaled_T /= scaled_T.sum()
    scaled_T[scaled_T < decoding.min_p * scaled_T.max()] = 0.0
    scaled_T /= scaled_T.sum()
    return scaled_T


def entropy(chance_T: NDArray[np.float64]) -> float:
    """Entropy in nats."""
    positive = chance_T[chance_T > 0]
    return float(-(positive * np.log(positive)).sum()) + 0.0  # + 0.0: never the -0.0 of a certain text


def read_script(file: Path) -> Script:
    """A script, checked."""
    try:
        content = file.read_bytes()
        document = json.loads(content, object_pairs_hook=_refuse_repeated_keys)
    except OSError as error:
        raise OffleashError(f"{file} cannot be read ({error.strerror}). Write scripted:FILE.json.") from None
    except RecursionError:
        raise OffleashError(f"{file} is nested too deeply to be a script. Write scripted:FILE.json.") from None
    except ValueError as error:
        raise OffleashError(f"{file} is not JSON ({error}).") from None
    if not isinstance(document, dict) or not isinstance(document.get("problems"), dict) or not document["problems"]:
        raise OffleashError(f'{file} is not a script {{"problems": {{"<id or *>": {{"<text>": probability}}}}}}.')
    for name in document:
        if name not in KEYS:
            raise unknown("script key", name, KEYS, f" in {file}")
    tokens, template = document.get("tokens") or {}, document.get("template", "{prompt}")
    if not isinstance(tokens, dict) or not all(type(count) is int and count > 0 for count in tokens.values()):
        raise OffleashError(f"{file}: tokens must be integers, 1 or more, by text; found {json.dumps(tokens)[:80]}.")
    if not isinstance(template, str) or "{prompt}" not in template:
        raise OffleashError(f"{file}: a template must be a string with {{prompt}} in it; found {template!r}.")
    problems = {name: _distribution(file, name, row) for name, row in document["problems"].items()}
    prompts = document.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(rows, dict) for rows in prompts.values()):
        raise OffleashError(f'{file}: prompts must be {{"<text in the prompt>": {{"<id or *>": {{...}}}}}}.')
    by_prompt = {
        text: {name: _distribution(file, name, row) for name, row in rows.items()} for text, rows in prompts.items()
    }
    return Script(problems, tokens, template, blake2b(content, digest_size=8).hexdigest(), by_prompt)


def _distribution(file: Path, problem: str, row: object) -> ScriptedAnswers:
    if not isinstance(row, dict) or not row:
        raise OffleashError(f"{file}: problem {problem!r} has no texts with probabilities; found {row!r}.")
    for text, chance in row.items():
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1:
            raise OffleashError(f"{file}: problem {problem!r}, text {text!r}: {chance!r} is not a probability.")
    chance_T = np.array(list(row.values()), dtype=np.float64)
    if abs(chance_T.sum() - 1) > TOLERANCE:
        raise OffleashError(f"{file}: the probabilities of problem {problem!r} sum to {chance_T.sum():.6g}, not to 1.")
    return ScriptedAnswers(tuple(row), chance_T / chance_T.sum())


def _behaviour(settings: Mapping[str, str]) -> Behaviour:
    for name in settings:
        if name not in SETTINGS:
            raise unknown("setting for scripted:", name, SETTINGS)
    copies = settings.get("copies", "no")
    if copies not in ("yes", "no"):
        raise OffleashError(f"copies must be yes or no; found --set copies={copies}.")
    return Behaviour(
        delay=_number(settings, "delay", 0.0, 0, 3600),
        copies=copies == "yes",
        fail=_number(settings, "fail", 0.0, 0, 1),
        concurrency=int(_number(settings, "width", 1, 1, 1024)),
        batch_size=int(_number(settings, "appetite", 1024, 1, 1 << 20)),
    )


def _number(settings: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    text = settings.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise OffleashError(f"{name} must be a number from {low:g} to {high:g}; found --set {name}={text}.")
    return value


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; a repeated key is an error, since json would silently drop one of its values."""
    entries: dict[str, object] = {}
    for key, value in pairs:
        if key in entries:
            raise OffleashError(f"The script has the key {key!r} twice in one object. Remove one of them.")
        entries[key] = value
    return entries
