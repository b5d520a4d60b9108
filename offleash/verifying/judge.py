"""The judge: decides each distinct answer once, by the fastest reliable means: exact match, cache, workers, model.

The order of the means is the order of their cost: an exact comparison takes microseconds, the cache a query, a worker
milliseconds to seconds, a judge model a request. A judge model sits behind a server. It gets several requests at a
time, and after ten failures in a row the remaining cases fail unsent.

Cases to which a busy machine gave no processor time are tried once more at the end, one at a time, for at most five
minutes in all. What is left stays `failed` and is counted; it is never cached, so the next call tries it again.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib import import_module

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.verifiers.model_judge import decide
from offleash.verifiers.own.decide import FORMS, OTHER_FORM
from offleash.verifiers.readability import MODULE_KEY, readability_check
from offleash.verifiers.sandbox.clock import RETRY_WALL_FACTOR
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation, Judgement, OwnFunction, Verifier
from offleash.verifying.cache import Cache, key_of, problem_hash

Ask = Callable[[str], str]  # a prompt in, the judge model's reply out
ANY_ANSWER = "0"  # a quick decision about it exists only where the gold answer itself is plain, hence readable
MAX_REMEMBERED_BYTES = 64 << 20  # of answers and judgements, a quarter of a million short ones; the cache has the rest
ENTRY_BYTES = 200  # of a judgement and its place in a table, beside the texts
RETRY_SECONDS = 300.0  # seconds on the clock that a judge spends on second tries, in all
STORE_SECONDS = 2.0  # seconds between two writes to the cache: how much work a kill can lose
CaseKey = tuple[str, bytes, str]  # verifier identity, hash of the problem, raw answer


@dataclass(frozen=True)
class ProblemCase:
    """What one problem gives its verifier."""

    id: str
    gold: str | None
    question: str
    details: dict[str, object]
    key: bytes  # hash of gold, question and details: problems that ask the same share their verdicts, whatever their id

    def case(self, answer: str) -> Case:
        """The problem with an answer to judge."""
        return Case(answer, self.gold, self.question, self.details)


@dataclass
class Judge:
    """Decides cases: by exact comparison, from the cache, in the pool, or by a judge model."""

    pool: Pool
    cache: Cache | None = None
    ask_model: Ask | None = None
    model_identity: str = ""  # of the judge model: part of the name that its verdicts are stored under
    progress: Progress = silent
    decided_by: Counter[str] = field(default_factory=Counter)  # exact, cached, decided or failed -> distinct answers
    starved: int = 0  # distinct answers that stay failed because the machine was too busy
    retry_seconds: float = RETRY_SECONDS  # left for second tries
    _known: dict[tuple[str, bytes], dict[str, Judgement]] = field(default_factory=dict)
    _remembered_bytes: int = 0

    def identity(self, verifier: Verifier) -> str:
        """The name that verdicts of this verifier are stored under here."""
        return self.model_identity if verifier.isolation is Isolation.REMOTE else verifier.identity

    def forget(self) -> None:
        """Free the memory of earlier decisions beyond MAX_REMEMBERED_BYTES: the cache on disk remembers them.

        Called between batches only: inside a batch, callers hold the tables that `known` returned.
        """
        if self._remembered_bytes > MAX_REMEMBERED_BYTES:
            self._known.clear()
            self._remembered_bytes = 0

    def known(self, verifier: Verifier, problem: ProblemCase) -> dict[str, Judgement]:
        """The judgements so far on a problem, by answer: the judge's own table, which grows with `decide`."""
        return self._known.setdefault((self.identity(verifier), problem.key), {})

    def decide(self, verifier: Verifier, pairs: Sequence[tuple[ProblemCase, str]]) -> None:
        """Decide (problem, answer) pairs that are not known yet; equal pairs are decided once. See `known`."""
        identity = self.identity(verifier)
        new = {
            (identity, problem.key, answer): problem.case(answer)
            for problem, answer in pairs
            if answer not in self.known(verifier, problem)
        }
        for (_, key, answer), judgement in self._decide_new(verifier, new):
            self._known.setdefault((identity, key), {})[answer] = judgement
            texts = (answer, judgement.reason, judgement.solution or "")
            self._remembered_bytes += sum(map(sys.getsizeof, texts)) + ENTRY_BYTES

    def unreadable(self, verifier: Verifier, problems: Sequence[ProblemCase]) -> list[tuple[ProblemCase, str]]:
        """Problems whose gold answer the verifier cannot read, with the reason."""
        if verifier.own is not None:
            return []  # a user's function says nothing about gold answers before it judges a sample
        if verifier.isolation is Isolation.REMOTE:
            self._model()  # complain about a missing server before reading thousands of gold answers
        if verifier.isolation in (Isolation.REMOTE, Isolation.FRESH_SANDBOX, Isolation.SANDBOX):
            # Their `readable` looks at the shape of the details only and evaluates nothing, so it may run in here.
            module = import_module(verifier.module)
            reasons = ((problem, str(module.readable(problem.case("")))) for problem in problems)
            return [(problem, reason) for problem, reason in reasons if reason]
        # The others parse the gold answer, which can hang like any parsing: in workers, unless it is plainly readable.
        unchecked = [
            problem
            for problem in problems
            if verifier.decide_inline is None or verifier.decide_inline(problem.case(ANY_ANSWER)) is None
        ]
        check = readability_check(verifier)
        before, starved = Counter(self.decided_by), self.starved
        self.decide(
            check,
            [(replace(problem, details={**problem.details, MODULE_KEY: verifier.module}), "") for problem in unchecked],
        )
        self.decided_by, self.starved = before, starved  # checks of gold answers are no decisions about samples
        judgements = [self.known(check, problem)[""] for problem in unchecked]
        return [
            (problem, judgement.reason)
            for problem, judgement in zip(unchecked, judgements, strict=True)
            if judgement.verdict is not Verdict.CORRECT
        ]

    def _decide_new(self, verifier: Verifier, new: dict[CaseKey, Case]) -> Iterator[tuple[CaseKey, Judgement]]:
        """Judgements of all the cases, in any order, cheapest first."""
        slow_cases: dict[CaseKey, Case] = {}
        for case_key, case in new.items():
            judgement = verifier.decide_inline(case) if verifier.decide_inline else None
            if judgement is None:
                slow_cases[case_key] = case
            else:
                self.decided_by["exact"] += 1
                yield case_key, judgement
        keys = {case_key: key_of(case_key[0], case_key[1], case) for case_key, case in slow_cases.items()}
        cached = self.cache.lookup(list(keys.values())) if self.cache else {}
        for case_key, key in keys.items():
            if key in cached:
                self.decided_by["cached"] += 1
                yield case_key, cached[key]
        left = [case_key for case_key in slow_cases if keys[case_key] not in cached]
        unsaved: dict[bytes, Judgement] = {}
        saved_at = time.monotonic()
        decisions = self._run_twice(verifier, [slow_cases[case_key] for case_key in left])
        try:
            for decided_count, (number, judgement) in enumerate(decisions, 1):
                if verifier.own is not None and decided_count == 1:
                    refuse_wrong_form(verifier.own, judgement)
                self.decided_by["failed" if judgement.verdict is Verdict.FAILED else "decided"] += 1
                unsaved[keys[left[number]]] = judgement
                self.progress(f"{verifier.name}: {decided_count:,} of {len(left):,} distinct answers decided")
                if time.monotonic() - saved_at > STORE_SECONDS:
                    self._save(unsaved)
                    saved_at = time.monotonic()
                yield left[number], judgement
        finally:
            decisions.close()  # ends what still runs
            self._save(unsaved)  # also on Ctrl-C, or when the caller stops reading

    def _run_twice(self, verifier: Verifier, cases: Sequence[Case]) -> Generator[tuple[int, Judgement], None, None]:
        """Judgements of all the cases; those that a busy machine starved come last, after a second try."""
        starved: list[tuple[int, Judgement]] = []
        for number, judgement in self._run(verifier, cases):
            if judgement.retry:
                starved.append((number, judgement))
            else:
                yield number, judgement
        for number, first in starved:
            judgement, started = first, time.monotonic()
            wall_factor = min(RETRY_WALL_FACTOR, self.retry_seconds / verifier.seconds)
            if wall_factor >= 1:
                self.progress(f"{verifier.name}: retrying {len(starved):,} that timed out on a busy machine")
                ((_, judgement),) = self.pool.judge(verifier, [cases[number]], retry_wall_factor=wall_factor)
                self.retry_seconds -= time.monotonic() - started
            self.starved += judgement.retry
            yield number, judgement

    def _save(self, unsaved: dict[bytes, Judgement]) -> None:
        if self.cache:
            self.cache.store(unsaved)
        unsaved.clear()

    def _run(self, verifier: Verifier, cases: Sequence[Case]) -> Iterator[tuple[int, Judgement]]:
        if not cases:
            return  # no worker is started, and no server is needed
        if verifier.isolation is Isolation.REMOTE:
            yield from judge_by_model(cases, self._model())
        else:
            yield from self.pool.judge(verifier, cases)

    def _model(self) -> Ask:
        if self.ask_model is None:
            raise OffleashError(
                "The verifier 'model_judge' needs a model on an OpenAI-compatible server, but none is named. "
                "Judge with: offleash verify RUN --verifier model_judge --judge URL --judge-model NAME."
            )
        return self.ask_model


def refuse_wrong_form(own_function: OwnFunction, first: Judgement) -> None:
    """Stop at the first sample where a function raises on its completions, and would not if they had the other form."""
    other = FORMS[not own_function.messages]
    if first.verdict is Verdict.FAILED and first.reason.endswith(OTHER_FORM.format(other=other)):
        raise OffleashError(f"{own_function.reference} failed on the first sample: {first.reason}.")


def problem_case(name: str, gold: str | None, question: str | None, details: str | None) -> ProblemCase:
    """A problem as its verifier sees it; `details` is the JSON text of the table, and must be an object."""
    try:
        parsed_details = json.loads(details) if details else {}
    except ValueError:
        parsed_details = None
    if not isinstance(parsed_details, dict):
        raise OffleashError(
            f"Problem {name!r} has details that are not a JSON object: {str(details)[:80]!r}. "
            'Give an object such as {"unit": "m"}, or none.'
        )
    # The hash is of the text as stored, not of the parsed object: the cache's keys outlive versions of this parser.
    return ProblemCase(name, gold, question or "", parsed_details, problem_hash(gold, question or "", details or ""))


MAX_REQUESTS = 8  # requests in flight
MAX_FAILURES = 10  # failures in a row after which a server counts as down


def judge_by_model(cases: Sequence[Case], ask: Ask) -> Iterator[tuple[int, Judgement]]:
    """The index and judgement of every case, as a judge model gives them; in any order.

    After MAX_FAILURES failures in a row the remaining cases fail unsent: each would wait for its timeouts, for hours.
    """
    lock, failed = threading.Lock(), 0

    def judge(case: Case) -> Judgement:
        nonlocal failed
        if failed >= MAX_FAILURES:
            return Judgement(Verdict.FAILED, f"not sent: the judge model had failed {MAX_FAILURES} times in a row")
        judgement = decide(case, ask)
        with lock:
            failed = failed + 1 if judgement.verdict is Verdict.FAILED else 0
        return judgement

    with ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="offleash-referee") as threads:
        indices = {threads.submit(judge, case): index for index, case in enumerate(cases)}
        try:
            for future in as_completed(indices):
                yield indices[future], future.result()
        finally:
            failed = (
                MAX_FAILURES  # a caller that stops reading stops the requests: leaving the pool waits for the queue
            )
