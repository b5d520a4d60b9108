"""Whether a gold answer can be judged against, checked where its verifier runs: parsing a gold answer can hang too.

The check is wrapped as a verifier, so that the pool runs it under the same limits.
"""

from dataclasses import replace
from importlib import import_module

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement, Verifier

MODULE_KEY = "readable by module"  # key in a case's details: the module whose `readable` is called

FIRST_SECONDS = 30.0  # limit per check: the first one also loads the verifier's libraries, such as SymPy


def readability_check(verifier: Verifier) -> Verifier:
    """A verifier of gold answers instead of answers, in the same isolation; its name keeps its cache entries apart."""
    return replace(
        verifier, name=f"{verifier.name}.readable", module=__name__, decide_inline=None, seconds=FIRST_SECONDS
    )


def decide(case: Case) -> Judgement:
    """Correct when the gold answer can be read; wrong, with the reason, when it cannot."""
    details = dict(case.details)
    module = import_module(str(details.pop(MODULE_KEY)))
    why: str = module.readable(replace(case, details=details))
    return Judgement(Verdict.WRONG if why else Verdict.CORRECT, why)
