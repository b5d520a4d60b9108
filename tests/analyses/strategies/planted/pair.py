"""A planted pair: two texts of which it is known whether they solve a problem in the same way."""

from dataclasses import dataclass

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem


@dataclass(frozen=True)
class Pair:
    """Two texts that solve one problem; `same`: a fingerprint must merge them, else it must not."""

    by: str  # the fingerprint they are for
    same: bool
    asked: SolvedProblem
    first: str
    second: str
    how: str  # what was changed between them
