"""What a worker does for fingerprints: many texts in one case, as many as a second allows, each trouble on its own.

A case carries rows of (problem, text); the judgement's `solution` is a JSON list with what was found of the first of
them: the way, None, or the trouble. What is not in the list is asked again, so one slow text holds up no others.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint, SolvedProblem
from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement, Verifier

SLICE = 1.0  # seconds after which a case is handed back
MODULE = "offleash.analyses.strategies.fingerprints.worker"
Row = tuple[SolvedProblem, str]
Found = tuple[str | None, str]  # the way, and the trouble where there was one
Way = Callable[[SolvedProblem, str], str | None]


def server(by: Fingerprint) -> Verifier:
    """A fingerprint as the pool of workers runs it."""
    seconds = by.seconds + SLICE
    return Verifier(by.name, by.revision, ladder=(), module=MODULE, room=by.room, seconds=seconds)


def request(by: Fingerprint, rows: Sequence[Row]) -> Case:
    """Texts as one case; a problem that several of them solve is sent once."""
    places: dict[str, int] = {}
    problems: list[dict[str, object]] = []
    told: list[tuple[int, str]] = []
    for asked, text in rows:
        place = places.setdefault(asked.key, len(problems))
        if place == len(problems):
            problems.append(asked.plain())
        told.append((place, text))
    return Case("", details={"module": by.module, "function": by.function, "problems": problems, "rows": told})


def probe(by: Fingerprint) -> Case:
    """A case that only loads the function; the judgement's solution is the hash of its source."""
    return Case("", details={"module": by.module, "function": by.function, "problems": [], "rows": None})


def decide(case: Case) -> Judgement:
    """Serve a case of `request` or `probe`."""
    module, function, problems, rows = (case.details[name] for name in ("module", "function", "problems", "rows"))
    if not isinstance(rows, list) or not isinstance(problems, list):
        return _probed(str(function))
    find = _way(str(module), str(function))
    started, found = time.monotonic(), list[Found]()
    asked = [_asked(problem) for problem in problems]
    for place, text in rows:
        found.append(_found(find, asked[place], str(text)))
        if time.monotonic() - started > SLICE:
            break
    return Judgement(Verdict.CORRECT, solution=json.dumps(found))


def answers(judgement: Judgement) -> list[Found] | None:
    """What a judgement on `request` holds; None where the case failed."""
    if judgement.verdict is not Verdict.CORRECT or judgement.solution is None:
        return None
    return [(way, str(trouble)) for way, trouble in json.loads(judgement.solution)]


@cache
def _way(module: str, function: str) -> Way:
    if function:
        from offleash.plugins import called

        return lambda asked, text: called(function, asked.plain(), text)
    way: Way = import_module(module).way
    return way


def _found(find: Way, asked: SolvedProblem, text: str) -> Found:
    try:
        return find(asked, text), ""
    except MemoryError:
        raise
    except RecursionError:
        return None, "nested too deeply"
    except Exception as trouble:  # a crash says something about the fingerprint, not about the sample
        return None, _told(trouble)


def _probed(function: str) -> Judgement:
    from offleash.plugins import source_hash

    try:
        return Judgement(Verdict.CORRECT, solution=source_hash(function))
    except MemoryError:
        raise
    except Exception as trouble:  # of the user's own module, as it is loaded
        return Judgement(Verdict.FAILED, _told(trouble))


def _told(trouble: Exception) -> str:
    """A trouble in one line; one that is told by its message needs no name."""
    from offleash.plugins import OwnTroubleError

    try:
        message = " ".join(str(trouble).split())
    except Exception:  # a class of the user's own
        message = ""
    return (message if isinstance(trouble, OwnTroubleError) else f"{type(trouble).__name__}: {message}")[:300].strip(
        ": "
    )


def _asked(problem: Mapping[str, object]) -> SolvedProblem:
    details = problem["details"]
    gold = problem["gold"]
    return SolvedProblem(
        str(problem["id"]),
        str(problem["question"]),
        None if gold is None else str(gold),
        details if isinstance(details, dict) else {},
    )
