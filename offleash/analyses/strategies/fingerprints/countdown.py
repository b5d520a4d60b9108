"""The fingerprint `countdown`: the one expression that an answer amounts to, its steps put into each other."""

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.arithmetic import NotArithmeticError, canonical, parsed
from offleash.verifiers.countdown import decide, decide_steps, readable
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.verifier import Case


def way(asked: SolvedProblem, text: str) -> str | None:
    """The expression in one writing; None where the text holds none, or breaks the rules of its problem."""
    answer = extract(text, VERIFIERS["countdown"].ladder).answer
    if answer is None:
        return None
    case = Case(answer, details=asked.details)
    if readable(case):  # no numbers and target are known: an expression on one line is still a way
        try:
            return short(canonical(parsed(answer.partition("=")[0])))
        except NotArithmeticError:
            return None
    judged = decide_steps(case) or decide(case)
    return None if judged.solution is None else short(judged.solution)
