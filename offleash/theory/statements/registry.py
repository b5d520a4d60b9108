"""The statements that `offleash theory` checks, in the order of the paper."""

from offleash.theory.statements.drift import DRIFT
from offleash.theory.statements.missing import MISSING
from offleash.theory.statements.narrowing import NARROWING
from offleash.theory.statements.preserving import CEILING_STATEMENT, SUPPORT
from offleash.theory.statements.reweighting import BEST, LIMIT, NEVER_SHRINKS
from offleash.theory.statements.statement import Statement

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
