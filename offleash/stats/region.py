"""The chance region: which pairs of counts a test of equal rates does not tell apart."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from offleash.stats.binomials import Float, Integer

LEVEL = 0.05


def chance_region(drawn: tuple[int, int], correct_C: ArrayLike, level: float = LEVEL) -> tuple[Integer, Integer]:
    """For each number of successes before, the fewest and the most successes after that could be chance.

    Fisher's exact test, twice the smaller tail, at the given level; `drawn` samples before and after.
    """
    before, after = drawn
    correct_C = np.asarray(correct_C, dtype=np.int64)

    def few(guess_C: Integer) -> Float:
        law = (before + after, correct_C + guess_C, after)
        return np.asarray(stats.hypergeom.cdf(guess_C, *law))

    def many(guess_C: Integer) -> Float:
        law = (before + after, correct_C + guess_C, after)
        return np.asarray(stats.hypergeom.sf(guess_C - 1, *law))

    low_C = _first(lambda guess_C: few(guess_C) > level / 2, correct_C, after)
    high_C = _first(lambda guess_C: many(guess_C) <= level / 2, correct_C, after) - 1
    return low_C, high_C


def _first(holds: Callable[[Integer], NDArray[np.bool_]], correct_C: Integer, most: int) -> Integer:
    """The least number from 0 to `most` from which on a condition holds, most + 1 where none does; by halving.

    Both tails move one way as the successes after grow, whatever their total then is.
    """
    low_C, high_C = np.zeros_like(correct_C), np.full_like(correct_C, most + 1)
    while (low_C < high_C).any():
        middle_C = np.minimum((low_C + high_C) // 2, most)
        found_C = holds(middle_C)
        open_C = low_C < high_C
        high_C = np.where(open_C & found_C, middle_C, high_C)
        low_C = np.where(open_C & ~found_C, middle_C + 1, low_C)
    return low_C
