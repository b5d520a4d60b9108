"""Crossings and equivalent budgets of hand-made curves whose answer is written down."""

import numpy as np
import pytest

from offleash.data.tally import tally_of_counts
from offleash.stats.curves import crossing, dense_budgets, equivalent_budget
from offleash.stats.support_classes import CellSums, thinned_cells

K = np.array([1, 2, 4, 8, 16, 32])


def curves(before: np.ndarray, after: np.ndarray, spread: float, k: np.ndarray = K) -> CellSums:
    """Sums whose pass@k before and after are given, and whose replicates shift the run before by up to `spread`."""
    shift = np.linspace(-spread, spread, 2001)[:, None]
    zero, first = np.zeros(len(k)), np.ones(len(k))
    estimate = np.array([zero, after, before, first])
    replicate = (np.zeros((2001, len(k))), np.tile(after, (2001, 1)), before + shift, np.ones((2001, len(k))))
    return CellSums(k, estimate, replicate, np.zeros((2001, 4)), True)


def ahead(values: list[float] | np.ndarray, spread: float = 0.0) -> CellSums:
    return curves(0.5 + np.asarray(values, dtype=np.float64), np.full(len(K), 0.5), spread)


def test_a_crossing_between_budgets_is_placed_on_the_scale_of_log_k() -> None:
    result = crossing(ahead(0.1 * (np.log(K) - np.log(5))))
    assert result.k == pytest.approx(5)
    assert (result.low, result.high) == (4, 8)
    assert result.is_resolved
    assert result.sign_changes == 1
    assert result.text() == "k = 5 [4, 8]"


def test_the_ends_are_where_the_whole_interval_leaves_zero() -> None:
    # ahead is .1 log2(k/5), the interval reaches .95 * .15: below 0 for k < 5 / 2^1.425, above for k > 5 * 2^1.425
    result = crossing(ahead(0.1 * np.log2(K / 5), 0.15))
    assert (result.low, result.high) == (1, 16)
    wide = crossing(ahead(0.1 * np.log2(K / 5), 0.26))
    assert (wide.low, wide.high) == (0, 32)
    wider = crossing(ahead(0.1 * np.log2(K / 5), 0.3))
    assert (wider.low, wider.high) == (0, np.inf)
    assert not wider.is_resolved
    assert wider.text() == "k = 5 [< 1, > 32], not resolved"


def test_a_run_that_is_always_ahead_or_never_has_no_crossing() -> None:
    always, never = crossing(ahead([0.1] * 6)), crossing(ahead([-0.1] * 6))
    assert always.k is never.k is None
    assert "before is ahead at every k" in always.text()
    assert "never ahead up to k = 32" in never.text()
    assert always.sign_changes == never.sign_changes == 0
    assert never.low == 32
    assert never.high == np.inf
    assert never.ends() == ("32", "> 32")


def test_ties_are_no_crossing() -> None:
    assert crossing(ahead([0] * 6)).text() == "the curves are equal at every k"
    touch = crossing(ahead([0.1, 0, 0, 0.1, 0.1, 0.1]))
    assert (touch.k, touch.sign_changes) == (None, 0)
    settle = crossing(ahead([-0.1, -0.1, 0, 0, 0, 0]))
    assert (settle.k, settle.sign_changes) == (None, 0)


def test_a_tie_on_the_way_up_lies_inside_the_crossing() -> None:
    result = crossing(ahead([-0.1, -0.1, 0, 0, 0.1, 0.1]))
    assert result.k is not None
    assert 2 < result.k < 16
    assert result.sign_changes == 1


def test_of_several_crossings_the_last_upward_one_is_told_and_all_are_counted() -> None:
    result = crossing(ahead([-0.1, 0.1, -0.1, -0.1, 0.1, 0.1]))
    assert result.sign_changes == 3
    assert result.k == pytest.approx(np.sqrt(8 * 16))


def test_an_end_needs_every_later_interval_above_zero() -> None:
    result = crossing(ahead([-0.2, -0.2, 0.2, 0.01, 0.2, 0.2], 0.1))
    assert (result.low, result.high) == (2, 16)


def test_a_crossing_that_is_undone_is_told_as_such() -> None:
    """Ahead only at k = 4, and surely behind again at 32: no budget lies beyond which the run before is ahead."""
    result = crossing(ahead([-0.2, -0.2, 0.2, -0.2, -0.2, -0.2]))
    assert result.sign_changes == 2
    assert result.k is None
    assert "behind again at k = 32" in result.text()
    assert (result.low, result.high) == (32, np.inf)


def test_swapping_runs_whose_curves_cross_once_leaves_no_upward_crossing() -> None:
    values = 0.1 * np.log2(K / 5)
    assert crossing(ahead(values)).k is not None
    assert crossing(ahead(-values)).k is None


def test_equal_replicates_of_a_real_tally_do_not_cross() -> None:
    correct = np.random.default_rng(0).binomial(32, 0.2, (30, 1)).repeat(2, axis=1)
    sums = thinned_cells(tally_of_counts(np.full((30, 2), 32), correct), dense_budgets(32)).sums(500)
    result = crossing(sums)
    assert result.k is None
    assert (result.low, result.high) == (0, np.inf)
    assert result.sign_changes == 0


def test_the_equivalent_budget_of_the_same_run_is_its_own() -> None:
    correct = np.random.default_rng(1).binomial(64, np.linspace(0, 0.2, 30)[:, None], (30, 1)).repeat(2, axis=1)
    sums = thinned_cells(tally_of_counts(np.full((30, 2), 64), correct), dense_budgets(64)).sums(500)
    for of in (1, 2, 3, 8, 32, 64):
        result = equivalent_budget(sums, of)
        assert result.k == pytest.approx(of)
        assert result.kappa == pytest.approx(1)
        assert result.low <= of * (1 + 1e-9)
        assert result.high >= of * (1 - 1e-9)
        assert result.high > result.low


def test_sharpening_alone_gives_a_flat_ratio_of_budgets() -> None:
    p = np.array([0.0, 0.01, 0.02, 0.04])[:, None]
    k = dense_budgets(4096)
    before, after = (1 - (1 - p) ** k).mean(axis=0), (1 - (1 - p) ** (5 * k)).mean(axis=0)
    sums = curves(before, after, 0.0, k)
    for of in (1, 4, 16, 64):
        assert equivalent_budget(sums, of).kappa == pytest.approx(5, rel=0.01)


def test_the_interval_of_an_equivalent_budget_inverts_the_shifted_curves() -> None:
    before = 0.1 * np.log2(K) + 0.1
    result = equivalent_budget(curves(before, np.full(len(K), 0.3), 0.1), 1)
    assert result.k == pytest.approx(4)
    assert (result.low, result.high) == pytest.approx((4 * 2**-0.95, 4 * 2**0.95), rel=0.01)


def test_an_equivalent_budget_below_one_or_beyond_the_samples_is_said_in_words() -> None:
    before = np.linspace(0.4, 0.6, len(K))
    low = equivalent_budget(curves(before, np.full(len(K), 0.3), 0.0), 1)
    assert low.k is low.kappa is None
    assert low.low == 0
    assert low.text().startswith("less than one sample")
    high = equivalent_budget(curves(before, np.full(len(K), 0.7), 0.0), 1)
    assert high.k is None
    assert high.high == np.inf
    assert high.text().startswith("more than 32 samples")


def test_a_budget_surely_beyond_the_samples_does_not_reach_down_below_one() -> None:
    result = equivalent_budget(curves(np.linspace(0.1, 0.2, 6), np.full(6, 0.9), 0.05), 1)
    assert "< 1" not in result.text()  # every replicate says more than 32


def test_a_budget_surely_below_one_does_not_reach_up_beyond_the_samples() -> None:
    result = equivalent_budget(curves(np.linspace(0.7, 0.9, 6), np.full(6, 0.1), 0.05), 1)
    assert "> 32" not in result.text()  # every replicate says less than one
