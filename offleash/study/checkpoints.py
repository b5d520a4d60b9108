"""Checkpoints: several runs after the first, each against it, and the union of what they reach."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offleash.study.tally import tally
from offleash.support.cells import reach_PRK
from offleash.tables.run import Run


@dataclass(frozen=True)
class Union:
    """The first run at k against all others together: at k each, and at the same total budget."""

    k: int
    checkpoints: int
    problems: int
    each_k: tuple[float, float, float, float]  # P, E, S, O with k samples of every checkpoint: more samples than before
    equal_k: tuple[float, float, float, float] | None  # with k split over the checkpoints; None when k < checkpoints


def union(runs: Sequence[Run], at: int | None = None) -> Union:
    """What the runs after the first reach together, on the problems that all of them have."""
    counted = tally(runs, at).tally
    k, others = counted.head, len(runs) - 1
    before_P = reach_PRK(counted, np.array([k]))[:, 0, 0]

    def cells(each: int) -> tuple[float, float, float, float]:
        miss_P = np.prod(1 - reach_PRK(counted, np.array([each]))[:, 1:, 0], axis=1)
        a, b = before_P, 1 - miss_P
        both = float(a @ b)
        found, lost = float(b.sum()) - both, float(a.sum()) - both
        return both, found, lost, len(counted) - both - found - lost

    return Union(k, others, len(counted), cells(k), cells(k // others) if k >= others else None)
