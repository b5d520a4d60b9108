"""The judge: decides each distinct answer once, by the fastest sure way: exact match, cache, workers, referee.

A referee is another model behind a server. It gets several questions at a time, and after ten failures in a row the
remaining ones fail unsent.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib import import_module

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.verifiers.model_judge import decide
from offleash.verifiers.readability import MODULE, asking
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier
from offleash.verifying.cache import Cache, key_of, problem_hash

Ask = Callable[[str], str]
ANY = "0"  # an answer that a quick decision can be made about only where the gold answer reads plainly
HELD = 1_000_000  # distinct answers remembered at a time; the cache on disk holds the rest
STORE = 2.0  # seconds between two writes to the cache: what a kill can lose


@dataclass(frozen=True)
class ProblemCase:
    """What one problem gives its verifier."""

    id: str
    gold: str | None
    question: str
    details: dict[str, object]
    key: bytes

    def case(self, answer: str) -> Case:
        return Case(answer, self.gold, self.question, self.details)


@dataclass
class Judge:
    """Decides cases: by exact comparison, from the cache, in the pool, or by asking a referee."""

    pool: Pool
    cache: Cache | None = None
    ask_model: Ask | None = None
    model_identity: str = ""  # of the judge model, which is part of its verdicts
    progress: Progress = silent
    decided_by: Counter[str] = field(default_factory=Counter)  # exact, cached, decided or failed -> distinct answers
    _known: dict[tuple[str, bytes], dict[str, Judgement]] = field(default_factory=dict)
    _held: int = 0

    def identity(self, verifier: Verifier) -> str:
        return self.model_identity if verifier.isolation is Isolation.REMOTE else verifier.identity

    def forget(self) -> None:
        """Free the memory of what was decided, once it is large: the cache on disk remembers."""
        if self._held > HELD:
            self._known.clear()
            self._held = 0

    def known(self, verifier: Verifier, problem: ProblemCase) -> dict[str, Judgement]:
        """What has been decided on the answers to a problem, by answer; grows with `decide`."""
        return self._known.setdefault((self.identity(verifier), problem.key), {})

    def decide(self, verifier: Verifier, pairs: Sequence[tuple[ProblemCase, str]]) -> None:
        """Decide (problem, answer) pairs that are not known yet; equal pairs are decided once."""
        name = self.identity(verifier)
        new = {
            (name, problem.key, answer): (problem, answer)
            for problem, answer in pairs
            if answer not in self.known(verifier, problem)
        }
        for (_, key, answer), judged in self._decide_new(verifier, name, new):
            self._known.setdefault((name, key), {})[answer] = judged
            self._held += 1

    def unreadable(self, verifier: Verifier, problems: Sequence[ProblemCase]) -> list[tuple[ProblemCase, str]]:
        """Problems whose gold answer the verifier cannot read, with the reason."""
        if verifier.isolation is Isolation.REMOTE:
            self._referee()
        if verifier.isolation in (Isolation.REMOTE, Isolation.ALONE, Isolation.SANDBOX):
            module = import_module(verifier.module)
            found = ((problem, str(module.readable(problem.case("")))) for problem in problems)
            return [(problem, why) for problem, why in found if why]
        doubtful = [
            problem for problem in problems if verifier.quick is None or verifier.quick(problem.case(ANY)) is None
        ]
        questions = [(about(verifier, problem), "") for problem in doubtful]
        counted = Counter(self.decided_by)
        self.decide(asking(verifier), questions)
        self.decided_by = counted  # questions about gold answers are no decisions about samples
        judged = [self.known(asking(verifier), problem)[""] for problem in doubtful]
        return [
            (problem, one.reason)
            for problem, one in zip(doubtful, judged, strict=True)
            if one.verdict is not Verdict.CORRECT
        ]

    def _decide_new(
        self, verifier: Verifier, name: str, new: dict[tuple[str, bytes, str], tuple[ProblemCase, str]]
    ) -> Iterator[tuple[tuple[str, bytes, str], Judgement]]:
        hard: dict[tuple[str, bytes, str], Case] = {}
        for place, (problem, answer) in new.items():
            case = problem.case(answer)
            judged = verifier.quick(case) if verifier.quick else None
            if judged is None:
                hard[place] = case
            else:
                self.decided_by["exact"] += 1
                yield place, judged
        keys = {place: key_of(name, place[1], case) for place, case in hard.items()}
        cached = self.cache.lookup(list(keys.values())) if self.cache else {}
        for place, key in keys.items():
            if key in cached:
                self.decided_by["cached"] += 1
                yield place, cached[key]
        left = [place for place in hard if keys[place] not in cached]
        fresh: dict[bytes, Judgement] = {}
        answers = self._run(verifier, [hard[place] for place in left])
        kept = time.monotonic()
        try:
            for done, (number, judged) in enumerate(answers, 1):
                self.decided_by["failed" if judged.verdict is Verdict.FAILED else "decided"] += 1
                fresh[keys[left[number]]] = judged
                self.progress(f"{verifier.name}: {done:,} of {len(left):,} distinct answers decided")
                if time.monotonic() - kept > STORE:
                    self._keep(fresh)
                    kept = time.monotonic()
                yield left[number], judged
        finally:
            self._keep(fresh)  # also when it is interrupted

    def _keep(self, fresh: dict[bytes, Judgement]) -> None:
        if self.cache:
            self.cache.store(fresh)
        fresh.clear()

    def _run(self, verifier: Verifier, cases: Sequence[Case]) -> Iterator[tuple[int, Judgement]]:
        if not cases:
            return
        if verifier.isolation is not Isolation.REMOTE:
            yield from self.pool.judge(verifier, cases)
            return

        yield from judge_by_model(cases, self._referee())

    def _referee(self) -> Ask:
        if self.ask_model is None:
            raise OffleashError(
                "The verifier 'referee' asks a model of an OpenAI-compatible server, and none is named. Judge with: "
                "offleash verify RUN --verifier model_judge --judge URL --judge-model NAME."
            )
        return self.ask_model


def about(verifier: Verifier, problem: ProblemCase) -> ProblemCase:
    """A problem whose gold answer is asked about, with the module that can tell."""
    return replace(problem, details={**problem.details, MODULE: verifier.module})


def problem_case(name: str, gold: str | None, question: str | None, details: str | None) -> ProblemCase:
    """A problem as its verifier sees it; details that are no JSON object are refused."""
    try:
        read = json.loads(details) if details else {}
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise OffleashError(f"Problem {name!r} has details that are no JSON object: {str(details)[:80]!r}.")
    return ProblemCase(name, gold, question or "", read, problem_hash(gold, question or "", details or ""))


AT_ONCE = 8
PATIENCE = 10  # questions in a row that failed before the others are not asked


def judge_by_model(cases: Sequence[Case], ask: Ask) -> Iterator[tuple[int, Judgement]]:
    """The judgements of a referee, as they come; after ten failures in a row the rest fail unasked."""
    lock, failed = threading.Lock(), 0

    def one(case: Case) -> Judgement:
        nonlocal failed
        if failed >= PATIENCE:
            return Judgement(Verdict.FAILED, f"not asked: the referee had failed {PATIENCE} times in a row")
        judged = decide(case, ask)
        with lock:
            failed = failed + 1 if judged.verdict is Verdict.FAILED else 0
        return judged

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="offleash-referee") as threads:
        places = {threads.submit(one, case): place for place, case in enumerate(cases)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        finally:
            failed = PATIENCE  # who stops listening stops the questions too
