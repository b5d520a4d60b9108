"""STATEMENTS: what `offleash theory` checks, in the order of the paper."""

from offleash.analyses.theory.statements.reweighting import BEST, LIMIT, MISSING, NARROWING, NEVER_SHRINKS
from offleash.analyses.theory.statements.statement import Statement
from offleash.analyses.theory.statements.support import CEILING_STATEMENT, DRIFT, SUPPORT

STATEMENTS: dict[str, Statement] = {
    "C.1": SUPPORT,
    "C.2": CEILING_STATEMENT,
    "C.3": DRIFT,
    "C.4": BEST,
    "C.5": LIMIT,
    "no shrinkage": NEVER_SHRINKS,
    "C.6": NARROWING,
    "tail-miss": MISSING,
}
