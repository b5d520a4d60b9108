"""STATEMENTS: what `offleash theory` checks, in the order of the paper."""

from offleash.analyses.theory.statements.reweighting import (
    LIMIT_STATEMENT,
    NARROWING_STATEMENT,
    NEVER_SHRINKS_STATEMENT,
    OPTIMUM_STATEMENT,
    TAIL_MISS_STATEMENT,
)
from offleash.analyses.theory.statements.statement import Statement
from offleash.analyses.theory.statements.support import CEILING_STATEMENT, DRIFT_STATEMENT, SUPPORT_STATEMENT

STATEMENTS: dict[str, Statement] = {
    "C.1": SUPPORT_STATEMENT,
    "C.2": CEILING_STATEMENT,
    "C.3": DRIFT_STATEMENT,
    "C.4": OPTIMUM_STATEMENT,
    "C.5": LIMIT_STATEMENT,
    "no shrinkage": NEVER_SHRINKS_STATEMENT,
    "C.6": NARROWING_STATEMENT,
    "tail-miss": TAIL_MISS_STATEMENT,
}
