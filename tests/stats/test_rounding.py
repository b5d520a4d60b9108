"""Rounding: a value that is exactly at an edge is told as such, not one unit in the last place beside it."""

import numpy as np
import pytest

from offleash.data.tally import tally_of_counts
from offleash.stats.chance import retest
from offleash.stats.change import support_change
from offleash.stats.curves import curve
from offleash.stats.forecast import forecast
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.significance import holm_rejections, lists, loss_p, tipping_rate
from offleash.stats.support_classes import thinned_cells


@pytest.mark.parametrize("n", [7, 9, 10, 11, 98, 100, 5001, 16_383])
def test_a_redraw_of_problems_reached_once_keeps_nothing_and_the_retest_has_no_value(n: int) -> None:
    again = retest(tally_of_counts(n, [[1, 2]] * 3), n // 2, 200)
    assert np.isnan(again.net_ratio)
    assert again.redraw_SRR == 0


def test_nothing_is_out_of_support_when_every_problem_is_surely_reached_by_one_run() -> None:
    tally = tally_of_counts([[6, 4], [4, 3], [4, 5]], [[3, 2], [3, 2], [2, 1]])
    change = support_change(tally, "before", "after", k=3, replicates=100)
    assert change.O == 0
    assert np.isnan(tipping_rate(change.E, change.O, 3))


@pytest.mark.parametrize(
    ("n", "c", "ties", "problems"), [(3, 3, 1, 1), (3, 3, 5, 5), (4, 4, 2, 7), (9, 5, 5, 17), (8, 6, 10, 143)]
)
def test_a_p_value_at_its_threshold_is_found(n: int, c: int, ties: int, problems: int) -> None:
    correct = np.array([[c, 0]] * ties + [[n, n]] * (problems - ties))
    assert len(lists(np.full_like(correct, n), correct).lost) == ties


def test_holm_finds_a_p_value_at_its_threshold() -> None:
    drawn, correct = np.array([[3, 3]]), np.array([[3, 0]])
    assert holm_rejections(loss_p(drawn, correct), 0.05) == 1


def test_a_band_is_never_narrower_than_the_intervals_inside_it() -> None:
    correct = [[2, 2]] * 6 + [[0, 1]] + [[0, 0]] * 3
    sums = thinned_cells(tally_of_counts(2, correct), np.array([1, 2])).sums(2000)
    for name in ("SRR", "NDR", "SDS", "NSCR", "difference", "before", "after"):
        result = curve(sums, name)
        assert np.all(result.band_low_K <= result.low_K)
        assert np.all(result.band_high_K >= result.high_K)


def test_two_runs_of_four_million_samples_are_counted() -> None:
    tally = tally_of_counts(4_000_000, [[3, 0], [0, 2]])
    assert support_change(tally, "before", "after", replicates=100).S == 1
    assert pass_at_k(4_000_000, 4, 1_000_000) == pytest.approx(1 - 0.75**4, rel=1e-5)


def test_too_few_samples_give_no_range_but_good_toulmin() -> None:
    told = forecast(np.full(10, 1), np.array([1] * 5 + [0] * 5), [1, 2, 8])
    assert told.low_K[0] == told.high_K[0] == 0.5
    assert np.isnan(told.high_K[1:]).all()
    assert told.newly_at_2n > 0
