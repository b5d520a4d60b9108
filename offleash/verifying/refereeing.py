"""Refereeing: many questions to another model at a time, and an end to it when the model does not answer."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from offleash.data.verdict import Verdict
from offleash.verifiers.model_judge import decide
from offleash.verifiers.verifier import Case, Judgement

Ask = Callable[[str], str]
AT_ONCE = 8
PATIENCE = 10  # questions in a row that failed before the others are not asked


def refereed(cases: Sequence[Case], ask: Ask) -> Iterator[tuple[int, Judgement]]:
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
