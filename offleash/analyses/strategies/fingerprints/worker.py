"""What a worker does for fingerprints: many texts in one case, as many as fit into a second, each error on its own.

Strategies are read by the pool of worker processes that judges answers (`verifiers/sandbox/pool.py`), which kills
workers that hang and replaces those that die. A case carries rows of (problem, text); the judgement's `solution` is a
JSON list with a strategy, or an error, for the first of them. Rows that are not in the list are sent again, so one slow
text delays no others.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint, SolvedProblem
from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement, Verifier

SLICE = 1.0  # seconds after which a case is handed back: a request costs little beside that, and progress stays visible
MODULE = "offleash.analyses.strategies.fingerprints.worker"
Row = tuple[SolvedProblem, str]
StrategyOrError = tuple[str | None, str]  # the strategy, None where it cannot be read; and the error, "" without one
ReadStrategy = Callable[[SolvedProblem, str], str | None]


def server(by: Fingerprint) -> Verifier:
    """A fingerprint as the pool of workers runs it; a case may take one slice and one slow text."""
    seconds = by.seconds + SLICE
    return Verifier(by.name, by.revision, steps=(), module=MODULE, isolation=by.isolation, seconds=seconds)


def request(by: Fingerprint, rows: Sequence[Row]) -> Case:
    """Texts as one case; a problem that several of them solve is sent once."""
    numbers: dict[str, int] = {}
    problems: list[dict[str, object]] = []
    texts: list[tuple[int, str]] = []
    for problem, text in rows:
        number = numbers.setdefault(problem.key, len(problems))
        if number == len(problems):
            problems.append(problem.plain())
        texts.append((number, text))
    return Case("", details={"module": by.module, "function": by.function, "problems": problems, "rows": texts})


def probe(by: Fingerprint) -> Case:
    """A case that only loads the function; the judgement's solution is the hash of its source."""
    return Case("", details={"module": by.module, "function": by.function, "problems": [], "rows": None})


def decide(case: Case) -> Judgement:
    """Serve a case of `request` or `probe`; the name is the one that the pool calls in a verifier's module."""
    module, function, problems, rows = (case.details[name] for name in ("module", "function", "problems", "rows"))
    if not isinstance(rows, list) or not isinstance(problems, list):
        return _probe_source(str(function))
    read = _load(str(module), str(function))
    started, results = time.monotonic(), list[StrategyOrError]()
    solved = [_solved_problem(problem) for problem in problems]
    for number, text in rows:
        results.append(_read_text(read, solved[number], str(text)))
        if time.monotonic() - started > SLICE:
            break
    return Judgement(Verdict.CORRECT, solution=json.dumps(results))


def results_of(judgement: Judgement) -> list[StrategyOrError] | None:
    """The results in a judgement on `request`, perhaps fewer than rows; None where the worker hung or died."""
    if judgement.verdict is not Verdict.CORRECT or judgement.solution is None:
        return None
    return [(strategy, str(error)) for strategy, error in json.loads(judgement.solution)]


@cache
def _load(module: str, function: str) -> ReadStrategy:
    """The function of a fingerprint; loaded once per worker, whatever it costs to import."""
    if function:
        from offleash.plugins import call_strategy

        return lambda problem, text: call_strategy(function, problem.plain(), text)
    read: ReadStrategy = import_module(module).strategy
    return read


def _read_text(read: ReadStrategy, problem: SolvedProblem, text: str) -> StrategyOrError:
    try:
        return read(problem, text), ""
    except MemoryError:
        raise  # the worker is at its limit: let it die and be replaced
    except RecursionError:
        return None, "nested too deeply"
    except Exception as error:  # a crash says something about the fingerprint, not about the sample
        return None, _error_line(error)


def _probe_source(function: str) -> Judgement:
    from offleash.plugins import source_hash

    try:
        return Judgement(Verdict.CORRECT, solution=source_hash(function))
    except MemoryError:
        raise
    except Exception as error:  # whatever the user's module raises while it is imported
        return Judgement(Verdict.FAILED, _error_line(error))


def _error_line(error: Exception) -> str:
    """An exception as one line of at most 300 characters; our own messages need no name of a class before them."""
    from offleash.plugins import PluginError

    try:
        message = " ".join(str(error).split())
    except Exception:  # the __str__ of a user's exception may raise, too
        message = ""
    named = message if isinstance(error, PluginError) else f"{type(error).__name__}: {message}"
    return named[:300].strip(": ")


def _solved_problem(problem: Mapping[str, object]) -> SolvedProblem:
    details = problem["details"]
    gold = problem["gold"]
    return SolvedProblem(
        str(problem["id"]),
        str(problem["question"]),
        None if gold is None else str(gold),
        details if isinstance(details, dict) else {},
    )
