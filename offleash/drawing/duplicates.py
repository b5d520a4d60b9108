"""The duplicate detector: stops a draw whose samples repeat more than the model's own probabilities allow.

Four things are watched (statistics in stats/duplicates.py): texts that occur more often than their log-probability
allows; choices that repeat the previous one more often than it allows, over all problems together; choices of one
request that are copies of each other; and requests that repeat an earlier one choice by choice. The last two need no
probabilities but two requests per problem, since they test whether texts agree more often where a fault would make
them agree. With one request per problem and no log-probabilities, a server that returns copies is indistinguishable
from a model with one answer per problem, and the run goes on: pooling the problems would not help, since each of them
may have such an answer. The same holds for a server that gives one text to every request. `doubt` says so.

Only hashes of texts are kept, for a bounded number of samples: beyond that, the problem that has been quiet longest is
forgotten, and starts from scratch if more of it comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError
from offleash.samplers.sampler import Request, Sample, SamplingParams
from offleash.stats.binomials import Float
from offleash.stats.duplicates import (
    FALSE_ALARM,
    TESTS,
    TIE_TOLERANCE,
    CopyingEvidence,
    Labels,
    across_requests,
    at_most,
    log_chance_of_repeats,
    log_repeating,
    within_requests,
)

MAX_REMEMBERED_TEXTS = 4_000_000  # texts in all, about 120 MB
MAX_WAITING = 4  # requests of a problem that wait for an earlier one: blocks are formed in index order, not of arrival
LIMIT = float(np.log(FALSE_ALARM / TESTS))

# One text can come from several token sequences, each with its own log-probability, and long sums carry rounding and
# batch noise. So a text is tested only while all its samples have the same log-probability: exactly, or, when there
# are many, but for noise; and then the square root of the probability stands for the probability.
NOISE, MANY = 2e-3, 16
LENGTH_SLACK = 0.5
DOUBT_AFTER = 3  # requests, all of one text each, before `doubt` says so: fewer happen with easy problems
MAX_IMPOSSIBLE_COPIES = (
    3  # impossible copies in a run before it is stopped: one may be an accident of how tokens become text
)

_ADVICE = (
    "Likely causes: the server returns copies of one choice, ignores or reuses the seed, or sorts its choices. "
    "Request one choice at a time (--set n=1 for endpoint:) or use another server, and draw into a new folder: "
    "what was drawn stays in this one, and may be copies."
)
_LOGPROBS_WRONG = (
    "If the samples are fine, their log-probabilities are not those of the distribution they were drawn from."
)


class Duplicates:
    """Watches the samples of a run as they arrive. Greedy decoding repeats by design and is not checked."""

    def __init__(self, decoding: SamplingParams, name: str) -> None:
        self._name = name
        self._is_greedy = decoding.temperature == 0 or decoding.top_k == 1
        self._plain = decoding.is_plain
        self._problems: dict[str, _Problem] = {}  # the one that has been quiet longest comes first
        self._texts = 0
        self._started = 0
        self._copies = 0
        self._requests = self._identical_requests = 0  # of two or more samples without log-probabilities; one text only
        self._repeat_evidence, self._within_evidence, self._across_evidence = (
            CopyingEvidence(),
            CopyingEvidence(),
            CopyingEvidence(),
        )

    @property
    def remembered_bytes(self) -> int:
        """Texts whose hashes are kept."""
        return self._texts

    @property
    def doubt(self) -> str | None:
        """A possible fault that looks the same as a model with one answer per problem; None without a suspicion."""
        if self._requests < DOUBT_AFTER or self._identical_requests < self._requests:
            return None
        return (
            f"{self._name}: in each of {self._requests} requests without log-probabilities, all samples have the same "
            "text, at a temperature above 0. Either the model has only one answer, or a server returns copies: "
            "if you draw from a server, try --set n=1 on a few problems."
        )

    def add(self, request: Request, samples: Sequence[Sample]) -> None:
        """Add the samples of a request; OffleashError when they repeat more than independent samples can."""
        if self._is_greedy or not samples:
            return
        sorted_samples = sorted(samples, key=lambda sample: sample.index)
        label_N = np.array([_hash(sample.text) for sample in sorted_samples], dtype=np.uint64)
        logprob_N = np.array([_log_probability(sample, self._plain) for sample in sorted_samples])
        unknown = len(label_N) > 1 and bool(np.isnan(logprob_N).all())
        self._requests += unknown
        self._identical_requests += unknown and bool((label_N == label_N[0]).all())
        problem = self._problems.pop(request.problem, None)
        if problem is None:
            self._started += 1
            problem = _Problem(self._started)
        self._problems[request.problem] = problem
        before, copies = problem.size, problem.copies
        problem.count(label_N, logprob_N)
        blocks = problem.blocks(request.first, label_N)
        self._texts += problem.size - before
        self._copies += problem.copies - copies
        self._forget()
        if self._copies >= MAX_IMPOSSIBLE_COPIES and problem.copies:
            raise self._repeated_error(request, problem)
        self._repeats(request, label_N, logprob_N)
        for first, second in blocks:
            self._compare(request, first, second)

    def _repeats(self, request: Request, label_N: Labels, logprob_N: Float) -> None:
        """Whether choices repeat the one before; over requests they would not be in order, but as they arrive."""
        if len(label_N) < 2 or np.isnan(logprob_N).all():
            return
        self._repeat_evidence = self._repeat_evidence.after(log_repeating(label_N, logprob_N))
        if self._repeat_evidence.log >= -LIMIT and bool((label_N[1:] == label_N[:-1]).any()):
            finding = f"{_most_frequent_count(label_N)} of the {len(label_N)} samples of one request have the same text"
            raise self._dependence_error(request, finding, self._repeat_evidence.log, f" {_LOGPROBS_WRONG}")

    def _compare(self, request: Request, first: Labels, second: Labels) -> None:
        if len(np.unique(np.concatenate([first, second]))) == len(first) + len(second):
            return  # all texts differ: neither test can gain evidence
        self._within_evidence = self._within_evidence.after(within_requests(first, second))
        self._across_evidence = self._across_evidence.after(across_requests(first, second))
        if self._within_evidence.log >= -LIMIT:
            most, size = max((_most_frequent_count(labels), len(labels)) for labels in (first, second))
            finding = (
                f"{most} of the {size} samples of one request have the same text, but those of another request do not"
            )
            raise self._dependence_error(request, finding, self._within_evidence.log)
        if self._across_evidence.log >= -LIMIT:
            both = min(len(first), len(second))
            equal_count = int((first[:both] == second[:both]).sum())
            finding = (
                f"{equal_count} of {both} samples of one request have the same text as the choice "
                "with the same number in another request"
            )
            raise self._dependence_error(request, finding, self._across_evidence.log)

    def _repeated_error(self, request: Request, problem: "_Problem") -> OffleashError:
        count, log_p, log_chance = problem.worst
        return OffleashError(
            f"{self._name}: problem {request.problem!r} has {count} identical samples of {problem.drawn}, each of "
            f"probability {_power(log_p)}: for independent samples, the chance of that is below {_power(log_chance)}. "
            f"{_ADVICE} {_LOGPROBS_WRONG}"
        )

    def _dependence_error(
        self, request: Request, finding: str, evidence: float, alternative: str = ""
    ) -> OffleashError:
        return OffleashError(
            f"{self._name}: samples of a request are not independent. In problem {request.problem!r}, {finding}; over "
            f"the run so far, the chance of that is below {_power(-evidence)} for independent samples. {_ADVICE}"
            f"{alternative}"
        )

    def _forget(self) -> None:
        """Keep memory bounded: drop the problem that has been quiet longest, which is most likely settled."""
        while self._texts > MAX_REMEMBERED_TEXTS and len(self._problems) > 1:
            oldest = next(iter(self._problems))
            self._texts -= self._problems.pop(oldest).size


@dataclass
class _Problem:
    """The texts of one problem, as hashes: how often each came, and between which log-probabilities."""

    number: int
    drawn: int = 0
    copies: int = 0  # beyond the first of each text that cannot have come so often
    worst: tuple[int, float, float] = (0, 0.0, 0.0)  # count, log-probability, log chance of the least possible text
    label_U: Labels = field(default_factory=lambda: np.empty(0, np.uint64))
    count_U: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    low_U: Float = field(default_factory=lambda: np.empty(0))
    high_U: Float = field(default_factory=lambda: np.empty(0))
    expected: int = 0  # first index of the request that comes next in index order
    waiting: dict[int, Labels] = field(default_factory=dict)
    single: Labels | None = None  # a request without another to compare it with

    @property
    def size(self) -> int:
        waiting_count = sum(len(labels) for labels in self.waiting.values()) + (
            0 if self.single is None else len(self.single)
        )
        return len(self.label_U) + waiting_count

    def count(self, label_N: Labels, log_probability_N: Float) -> None:
        """Add samples, and find the texts that came more often than their probability allows."""
        self.drawn += len(label_N)
        if np.isnan(log_probability_N).all() and not len(self.label_U):
            return  # nothing to be had from counts without probabilities
        label = np.concatenate([self.label_U, label_N])
        order = np.argsort(label, kind="stable")
        label = label[order]
        start = np.flatnonzero(np.r_[True, label[1:] != label[:-1]])
        self.label_U = label[start]
        self.count_U = np.add.reduceat(np.concatenate([self.count_U, np.ones(len(label_N), np.int64)])[order], start)
        self.low_U = np.minimum.reduceat(np.concatenate([self.low_U, log_probability_N])[order], start)
        self.high_U = np.maximum.reduceat(np.concatenate([self.high_U, log_probability_N])[order], start)
        self._test()

    def _test(self) -> None:
        spread_U = self.high_U - self.low_U  # NaN, and so not tested, where a log-probability is not known
        noise_U = NOISE * (1 - self.high_U)
        testable_U = (spread_U <= TIE_TOLERANCE) | ((spread_U <= noise_U) & (self.count_U >= MANY))
        rows = np.flatnonzero(testable_U & (self.count_U >= 2))
        high = self.high_U[rows]
        log_p = np.where(spread_U[rows] <= TIE_TOLERANCE, at_most(high), LENGTH_SLACK * high)
        log_chance = log_chance_of_repeats(self.drawn, self.count_U[rows], log_p, self.number)
        self.copies = int((self.count_U[rows] - 1)[log_chance <= LIMIT].sum())
        if self.copies:
            worst_index = int(log_chance.argmin())
            row = rows[worst_index]
            self.worst = (int(self.count_U[row]), float(self.high_U[row]), float(log_chance[worst_index]))

    def blocks(self, first: int, label_N: Labels) -> list[tuple[Labels, Labels]]:
        """Take a request; pairs of requests, neighbours in index order, that are complete now and were not before.

        In order of arrival requests of short answers would meet each other, and not be exchangeable any more.
        """
        self.waiting[first] = label_N
        pairs = []
        while self.waiting and (self.expected in self.waiting or len(self.waiting) > MAX_WAITING):
            start = self.expected if self.expected in self.waiting else min(self.waiting)
            labels = self.waiting.pop(start)
            self.expected = start + len(labels)
            if self.single is None:
                self.single = labels
            else:
                pairs.append((self.single, labels))
                self.single = None
        return pairs


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _log_probability(sample: Sample, is_plain: bool) -> float:
    """Of the whole sample under the law it was drawn from; NaN where that is not known."""
    known = sample.logprob_raw if sample.logprob_sampled is None and is_plain else sample.logprob_sampled
    return known if known is not None and isfinite(known) else float("nan")


def _most_frequent_count(label_N: Labels) -> int:
    """How often the most frequent text occurs."""
    return int(np.unique(label_N, return_counts=True)[1].max())


def _power(log_chance: float) -> str:
    """A small chance in words that no float is too short for: 1e-300 and below."""
    digits = log_chance / np.log(10)
    return f"{np.exp(log_chance):.2g}" if digits > -5 else f"1e{int(np.ceil(digits))}"
