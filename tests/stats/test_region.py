"""The chance region: brute force over all pairs of counts agrees with it."""

import numpy as np
import pytest
from scipy import stats

from offleash.stats.chance import chance_region


def two_sided(drawn: tuple[int, int], before: int, after: int) -> float:
    """Fisher's exact test of one pair of counts, twice the smaller tail."""
    table = np.array([[after, drawn[1] - after], [before, drawn[0] - before]])
    tails = (stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater"))
    return float(min(1.0, 2 * min(tails)))


@pytest.mark.parametrize("drawn", [(1, 1), (6, 6), (5, 11), (12, 4)])
def test_a_pair_lies_in_the_region_exactly_when_the_test_calls_it_chance(drawn: tuple[int, int]) -> None:
    low, high = chance_region(drawn, np.arange(drawn[0] + 1))
    for before in range(drawn[0] + 1):
        inside = [after for after in range(drawn[1] + 1) if two_sided(drawn, before, after) > 0.05]
        assert inside == list(range(low[before], high[before] + 1)), before


def test_swapping_the_runs_mirrors_the_region() -> None:
    low, high = chance_region((20, 20), np.arange(21))
    inside = np.array([[low[b] <= a <= high[b] for a in range(21)] for b in range(21)])
    assert (inside == inside.T).all()
    assert inside.diagonal().all()


def test_more_samples_and_a_larger_level_make_the_region_narrower() -> None:
    rates = []
    for drawn in (64, 1024, 8192):
        low, high = chance_region((drawn, drawn), [drawn // 4])
        rates.append((high[0] - low[0]) / drawn)
    assert rates[0] > rates[1] > rates[2] > 0
    wide, narrow = (chance_region((64, 64), [0], level)[1][0] for level in (0.001, 0.1))
    assert wide > narrow
