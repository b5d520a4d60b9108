"""Several runs after the first are checkpoints of one training: what they reach together, against the first.

A problem that one checkpoint loses another may still reach. Their union says whether training lost a problem for good,
or only moved it around; it is fair only at an equal total budget, so both are given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.stats.binomials import Integer
from offleash.stats.support_classes import reach_PRK


@dataclass(frozen=True)
class Union:
    """The first run at k against all others together: at k each, and at the same total budget."""

    k: int  # samples per problem of the first run
    checkpoints: int  # runs after the first
    problems: int
    each_k: tuple[float, float, float, float]  # P, E, S, O with k samples of every checkpoint: more samples than before
    equal_k: tuple[float, float, float, float] | None  # with k split over the checkpoints; None when k < checkpoints


def union(runs: Sequence[Run], at: int | None = None) -> Union:
    """What the runs after the first reach together, on the problems that all of them have.

    Args:
        runs: the base, then its checkpoints; at least two of these.
        at: k; None: as many samples as every problem has in every run.
    """
    pair_tally = tally(runs, at).tally
    k, others = pair_tally.head, len(runs) - 1
    before_P = reach_PRK(pair_tally, np.array([k]))[:, 0, 0]

    def cells(share_KR: Integer) -> tuple[float, float, float, float]:
        """P, E, S, O with these numbers of samples of each checkpoint, mean over the rows of numbers."""
        miss_PK = np.ones((len(pair_tally), len(share_KR)))
        for r in range(others):
            # checkpoints are sampled independently, so the chances of missing a problem multiply
            miss_PK *= 1 - reach_PRK(pair_tally, share_KR[:, r])[:, 1 + r]
        after_P = 1 - miss_PK.mean(axis=1)
        both = float(before_P @ after_P)
        gained, lost = float(after_P.sum()) - both, float(before_P.sum()) - both
        # rounding may push an exact 0 just below it
        return both, gained, lost, max(len(pair_tally) - both - gained - lost, 0.0)

    each, equal = np.full((1, others), k), _shares(k, others)
    return Union(k, others, len(pair_tally), cells(each), cells(equal) if k >= others else None)


def _shares(k: int, others: int) -> Integer:
    """k samples split evenly; each row gives the remainder of the division to another of the checkpoints."""
    turn = (np.arange(others)[None] - np.arange(others)[:, None]) % others
    return np.asarray(k // others + (turn < k % others), dtype=np.int64)
