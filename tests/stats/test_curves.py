"""Curves over the budget: which budgets, which values, and bands around them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.tally import tally_of_counts
from offleash.stats.change import support_change
from offleash.stats.curves import budgets, curve, dense_budgets
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.support_classes import CellSums, thinned_cells

NAMES = ("before", "after", "difference", "SRR", "NDR", "SDS", "NSCR")


def sums(seed: int = 0, problems: int = 40, n: int = 64, k: np.ndarray | None = None) -> tuple[CellSums, np.ndarray]:
    rng = np.random.default_rng(seed)
    correct = rng.binomial(n, rng.beta(0.3, 1, (problems, 2)))
    tally = tally_of_counts(np.full((problems, 2), n), correct)
    return thinned_cells(tally, budgets(n) if k is None else k).sums(2000), correct


def test_budgets_are_powers_of_two_and_the_last() -> None:
    assert budgets(1).tolist() == [1]
    assert budgets(8).tolist() == [1, 2, 4, 8]
    assert budgets(100).tolist() == [1, 2, 4, 8, 16, 32, 64, 100]


@given(st.integers(1, 100_000))
@settings(deadline=None)
def test_dense_budgets_hold_the_plain_ones_and_leave_no_wide_gap(most: int) -> None:
    dense = dense_budgets(most)
    assert set(budgets(most)) <= set(dense.tolist())
    assert dense[0] == 1
    assert dense[-1] == most
    assert (np.diff(dense) > 0).all()
    assert (dense[1:] <= np.maximum(dense[:-1] + 1, dense[:-1] * 1.1)).all()


def test_a_curve_is_the_statistic_at_every_budget() -> None:
    cells, correct = sums()
    assert curve(cells, "before").value_K == pytest.approx(
        [pass_at_k(64, correct[:, 0], k).mean() for k in budgets(64)]
    )
    assert curve(cells, "after").value_K == pytest.approx([pass_at_k(64, correct[:, 1], k).mean() for k in budgets(64)])
    tally = tally_of_counts(np.full((40, 2), 64), correct)
    for k, value in zip(budgets(64), curve(cells, "SDS").value_K, strict=True):
        assert value == pytest.approx(support_change(tally, "before", "after", k=int(k), replicates=2).value["SDS"])


@pytest.mark.parametrize("name", NAMES)
def test_bands_hold_the_curve_and_lie_outside_most_of_the_pointwise_intervals(name: str) -> None:
    result = curve(sums()[0], name)
    assert (result.band_low_K <= result.value_K).all()
    assert (result.value_K <= result.band_high_K).all()
    assert (result.low_K <= result.value_K).all()
    assert (result.value_K <= result.high_K).all()
    lowest = -1 if name in ("NSCR", "difference") else 0
    assert (result.band_low_K >= lowest).all()
    assert (result.band_high_K <= 1).all()
    assert (result.band_high_K - result.band_low_K >= 0.95 * (result.high_K - result.low_K)).all()


def test_a_curve_at_some_budgets_is_the_same_there() -> None:
    cells, _ = sums()
    some, whole = curve(cells, "SRR", np.array([4, 16])), curve(cells, "SRR")
    assert some.value_K == pytest.approx(whole.value_K[[2, 4]])
    assert some.low_K == pytest.approx(whole.low_K[[2, 4]])


def test_a_curve_that_is_undefined_everywhere_has_no_band() -> None:
    tally = tally_of_counts(np.full((5, 2), 8), np.zeros((5, 2), int))
    result = curve(thinned_cells(tally, budgets(8)).sums(100), "SRR")
    assert np.isnan(result.value_K).all()
    assert np.isnan(result.band_low_K).all()
    assert np.isnan(result.low_K).all()
