"""The fingerprint `countdown`: the one expression that an answer amounts to, its steps substituted into each other."""

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.arithmetic import NotArithmeticError, canonical, parse_expression
from offleash.verifiers.countdown import decide, decide_steps, readable
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.verifier import Case


def strategy(problem: SolvedProblem, text: str) -> str | None:
    """The expression in canonical form; None where the text has none, or breaks the rules of its problem.

    It is the solution that the verifier `countdown` reports, so that support per strategy and support per solution
    (`compare --per solution`) agree on what is the same.
    """
    answer = extract(text, VERIFIERS["countdown"].steps).answer
    if answer is None:
        return None
    case = Case(answer, details=problem.details)
    if readable(case):  # the problem's numbers and target are not known: an expression on one line is still a strategy
        try:
            return short(canonical(parse_expression(answer.partition("=")[0])))
        except NotArithmeticError:
            return None
    judged = decide_steps(case) or decide(case)
    return None if judged.solution is None else short(judged.solution)
