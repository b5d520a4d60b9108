"""The statements that `offleash theory` checks, in the order of the paper."""

from offleash.analyses.theory.statements.drift import DRIFT
from offleash.analyses.theory.statements.missing import MISSING
from offleash.analyses.theory.statements.narrowing import NARROWING
from offleash.analyses.theory.statements.reweighting import BEST, LIMIT, NEVER_SHRINKS
from offleash.analyses.theory.statements.statement import Statement
from offleash.analyses.theory.statements.support import CEILING_STATEMENT, SUPPORT

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
