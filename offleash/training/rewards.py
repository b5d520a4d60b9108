"""Verifiers as rewards: the judge behind the reward functions of TRL (trl.py) and verl (verl.py).

Trainers call rewards from anywhere: the main thread, an event loop, a pool of threads. One thread of ours owns the
judge and takes whatever has arrived since its last batch, so that every distinct answer is judged once, in workers
that can be killed. Nothing here uses signals: alarm-based time limits raise outside the main thread, and a trainer that
catches the error scores every sample 0 (verl#5635).
"""

import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.options import Judging
from offleash.problems.problem import Problem
from offleash.verifiers.registry import chosen_verifier
from offleash.verifiers.registry import verifier as named_verifier
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cases import ExtractionOptions, judge_texts, own_case
from offleash.verifying.judge import Judge, ProblemCase, problem_case
from offleash.verifying.verify import VerifyOptions, open_judge, verify_options

log = logging.getLogger("offleash")
Pair = tuple[ProblemCase, Verifier]
IN_TRAINING = Judging(cache=False)  # samples of a policy that changes are hardly ever seen again
MAX_PROBLEMS = 100_000  # remembered by a judge
MAX_REPORTED = 10  # problems whose failures are logged: an outage must not fill the trainer's log


@dataclass(frozen=True)
class RewardValues:
    """What a verdict is worth. None: the trainer leaves the sample out, where it can."""

    unread: float | None = 0.0
    failed: float | None = None

    def of(self, verdict: Verdict) -> float | None:
        """1 for correct, 0 for wrong, and as chosen for unread and failed."""
        if verdict is Verdict.UNREAD:
            return self.unread
        return self.failed if verdict is Verdict.FAILED else float(verdict is Verdict.CORRECT)


@dataclass(frozen=True)
class JudgedSample:
    """What a verifier says of one sample."""

    verdict: Verdict
    answer: str | None  # as extracted; None where the sample has none
    reason: str = ""


class RewardJudge:
    """Judges samples for a trainer, from any thread and after a fork.

    >>> judge = RewardJudge("math")
    >>> problem = Problem("1", "What is 1/2 + 1/4?", gold="3/4")
    >>> [sample.verdict.value for sample in judge.judge([problem] * 2, ["It is \\\\boxed{0.75}.", "I do not know."])]
    ['correct', 'unread']
    """

    def __init__(self, verifier: str | None, judging: Judging = IN_TRAINING, opened: bool = False) -> None:
        """As `reward` in trl.py; `opened`: samples begin inside a block of reasoning."""
        self.verifier = verifier
        self._options = verify_options(verifier, judging, ExtractionOptions(opened=opened))
        self._chat = False
        self._verifiers: dict[str, Verifier] = {}
        # by the id of the problem, which is kept beside it: hashing a problem per sample would cost more than the rest
        self._pairs: dict[int, tuple[Problem, Pair]] = {}
        self._lock = threading.Lock()
        self._thread: _JudgeThread | None = None

    def takes_messages(self) -> None:
        """Completions are lists of messages: a user's function in TRL's form gets them as such."""
        if not self._chat:
            call = replace(self._options.extraction.call, chat=True)
            self._options = replace(self._options, extraction=replace(self._options.extraction, call=call))
            self._chat, self._verifiers, self._pairs = True, {}, {}

    def judge(
        self, problems: Sequence[Problem], texts: Sequence[str], truncated: Sequence[bool] | None = None
    ) -> list[JudgedSample]:
        """Judge samples, each with the problem it answers; blocks until all are decided."""
        return self.submit(problems, texts, truncated).result()

    def submit(
        self, problems: Sequence[Problem], texts: Sequence[str], truncated: Sequence[bool] | None = None
    ) -> "Future[list[JudgedSample]]":
        """As `judge`, without waiting."""
        request = _Request(
            [self._pair(problem) for problem in problems], list(texts), list(truncated or [False] * len(texts))
        )
        with self._lock:
            # a process that was forked has the object but not its thread, and must not share its parent's workers
            if self._thread is None or self._thread.pid != os.getpid():
                self._thread = _JudgeThread(self._options)
        self._thread.requests.put(request)
        return request.future

    def _pair(self, problem: Problem) -> Pair:
        known = self._pairs.get(id(problem))
        if known is None:
            if len(self._pairs) >= MAX_PROBLEMS:
                self._pairs.clear()
            known = self._pairs[id(problem)] = (problem, self._bind(problem))
        return known[1]

    def _bind(self, problem: Problem) -> Pair:
        name = self.verifier or problem.verifier
        if name is None:
            raise OffleashError(
                f"Problem {problem.problem!r} does not name a verifier. Choose one for all: verifier='math'."
            )
        if name not in self._verifiers:
            chosen = chosen_verifier(name) if self.verifier else named_verifier(name)
            self._verifiers[name] = self._options.extraction.of(chosen)
        verifier = self._verifiers[name]
        details = json.dumps(problem.details, sort_keys=True, default=str) if problem.details else None
        case = problem_case(problem.problem, problem.gold, problem.question, details)
        if verifier.own is None:
            return case, verifier
        prompt = problem.prompt or problem.question
        return own_case(case, verifier, prompt, problem.benchmark, problem.columns), verifier


class _Request:
    def __init__(self, pairs: list[Pair], texts: list[str], truncated: list[bool]) -> None:
        self.pairs, self.texts, self.truncated = pairs, texts, truncated
        self.future: Future[list[JudgedSample]] = Future()


class _JudgeThread:
    """The thread that owns a judge: a batch is whatever arrived while the one before it was judged."""

    def __init__(self, options: VerifyOptions) -> None:
        self.pid = os.getpid()
        self.requests: SimpleQueue[_Request] = SimpleQueue()
        self._reported_problems: set[bytes] = set()  # problems whose failures were logged
        # a daemon, so that a trainer can end; its workers end with the process
        threading.Thread(target=self._run, args=(options,), name="offleash-reward", daemon=True).start()

    def _run(self, options: VerifyOptions) -> None:
        with open_judge(options) as judge:
            while True:
                batch = [self.requests.get()]
                while True:
                    try:
                        batch.append(self.requests.get_nowait())
                    except Empty:
                        break
                self._answer(judge, batch, options.extraction.opened)

    def _answer(self, judge: Judge, batch: Sequence[_Request], opened: bool) -> None:
        """Judge several requests as one; where that raises, each alone, so that an error reaches only its caller."""
        try:
            judged = self._judge(judge, batch, opened)
        except BaseException as error:  # it belongs to the callers, and this thread has to live on
            if len(batch) > 1:
                for request in batch:
                    self._answer(judge, [request], opened)
            else:
                batch[0].future.set_exception(error)
            return
        start = 0
        for request in batch:
            request.future.set_result(judged[start : start + len(request.texts)])
            start += len(request.texts)

    def _judge(self, judge: Judge, batch: Sequence[_Request], opened: bool) -> list[JudgedSample]:
        pairs = [pair for request in batch for pair in request.pairs]
        texts = [text for request in batch for text in request.texts]
        truncated = [cut for request in batch for cut in request.truncated]
        judged = judge_texts(judge, pairs, texts, truncated, opened)
        samples = [JudgedSample(judgement.verdict, read.answer, judgement.reason) for read, judgement in judged]
        for (problem, _), sample in zip(pairs, samples, strict=True):
            if sample.verdict is Verdict.FAILED and len(self._reported_problems) < MAX_REPORTED:
                if problem.key not in self._reported_problems:
                    log.warning("A sample of problem %r could not be judged: %s.", problem.id, sample.reason)
                self._reported_problems.add(problem.key)
        return samples


def completion_text(completion: object) -> str:
    """The text of a completion: a string, or the last message of the assistant."""
    if isinstance(completion, str):
        return completion
    messages = completion if isinstance(completion, list) else []
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role", "assistant") == "assistant":
            return _content(message.get("content"))
    return ""


def _content(content: object) -> str:
    """The text of a message, whose content may be a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
