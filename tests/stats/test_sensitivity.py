"""How the table could mislead: halves, verifier errors, undecided samples and power."""

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.data.tally import tally_of_counts
from offleash.stats.change import support_change
from offleash.stats.power import chance_of_detection, successes_needed
from offleash.stats.significance import (
    confirmation,
    reached_by_error,
    tipping_rate,
    undecided_bounds,
)


def share_in_both_halves(n: int, c: int) -> float:
    """Over every split into two halves; of an odd number every sample is set aside in turn."""
    half, both, ways = n // 2, 0, 0
    for first in combinations(range(n), half):
        rest = [i for i in range(n) if i not in first]
        for second in combinations(rest, half):
            ways += 1
            both += min(first, default=n) < c and min(second, default=n) < c
    return both / ways


@given(st.integers(1, 7), st.data())
@settings(deadline=None, max_examples=60)
def test_confirmation_is_the_mean_over_every_split_into_halves(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(1, n))
    result = confirmation(np.array([[n, n]]), np.array([[c, 0]]))
    assert result["S"].confirmed == pytest.approx(share_in_both_halves(n, c), abs=1e-12)
    assert result["E"].confirmed == 0


def test_confirmation_is_the_printed_formula_for_an_even_number_of_samples() -> None:
    n, c = 16, np.array([1, 2, 3, 8, 5, 0])
    correct = np.stack([c, [0, 0, 0, 0, 2, 3]], axis=1)
    result = confirmation(np.full((6, 2), n), correct)
    both = [1 - 2 * comb(n - x, n // 2) / comb(n, n // 2) for x in (1, 2, 3, 8)]
    assert result["S"].confirmed == pytest.approx(sum(both))
    assert result["E"].confirmed == pytest.approx(both[2])


@given(st.integers(2, 4), st.data())
@settings(deadline=None, max_examples=20)
def test_the_redraw_value_of_confirmation_is_its_mean_over_all_assignments(n: int, data: st.DataObject) -> None:
    correct = np.array([[data.draw(st.integers(0, n)), data.draw(st.integers(0, n))]])
    total, values = int(correct.sum()), []
    for places in combinations(range(2 * n), total):
        x = sum(place < n for place in places)
        values.append(confirmation(np.array([[n, n]]), np.array([[x, total - x]]))["S"].confirmed)
    assert confirmation(np.array([[n, n]]), correct)["S"].redraw == pytest.approx(np.mean(values), abs=1e-12)


def test_one_success_can_never_be_confirmed() -> None:
    assert confirmation(np.array([[9, 9], [8, 8]]), np.array([[1, 0], [1, 0]]))["S"].confirmed == 0


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 10_000))
@settings(deadline=None)
def test_the_tipping_rate_explains_just_what_was_found(found: int, neither: int, k: int) -> None:
    rate = tipping_rate(found, neither, k)
    assert reached_by_error(rate, k) * (found + neither) == pytest.approx(found)


def test_a_tipping_rate_needs_something_to_explain_and_something_left() -> None:
    assert np.isnan(tipping_rate(0, 5, 8))
    assert np.isnan(tipping_rate(5, 0, 8))


def test_one_false_positive_in_ten_thousand_puts_half_the_impossible_into_support() -> None:
    assert reached_by_error(1e-4, 8192) == pytest.approx(0.56, abs=0.005)


@pytest.mark.parametrize(("problems", "least"), [(30, 10), (100, 11), (500, 14)])
@pytest.mark.parametrize("k", [2048, 8192])
def test_the_smallest_loss_a_study_could_have_seen(problems: int, least: int, k: int) -> None:
    assert successes_needed(k, k, problems) == least
    assert comb(k, least) / comb(2 * k, least) <= 0.05 / problems < comb(k, least - 1) / comb(2 * k, least - 1)


def test_with_few_samples_no_loss_could_have_been_seen() -> None:
    assert successes_needed(4, 4, 30) is None
    assert successes_needed(8, 8, 30) == 7  # C(8,7)/C(16,7) = .0007
    assert successes_needed(0, 0, 30) is None


def test_the_chance_of_detection_is_a_binomial_tail() -> None:
    rate = np.array([0.0, 0.01, 0.5])
    assert chance_of_detection(rate, 100, 3) == pytest.approx(1 - stats.binom.cdf(2, 100, rate))


def test_undecided_samples_are_all_wrong_and_then_all_right() -> None:
    plain = tally_of_counts(np.full((3, 2), 8), [[0, 2], [3, 0], [0, 0]])
    failed, open_ = np.array([[1, 0], [0, 2], [0, 0]]), np.array([[0, 1], [0, 0], [0, 0]])
    wrong, right = undecided_bounds(replace(plain, failed_PR=failed, unverified_PR=open_))
    assert wrong.drawn_PR.tolist() == right.drawn_PR.tolist() == [[8, 9], [8, 8], [8, 8]]
    assert wrong.correct_PR.tolist() == plain.correct_PR.tolist()
    assert right.correct_PR.tolist() == [[1, 3], [3, 2], [0, 0]]
    low, high = (support_change(t, "before", "after", k=8, replicates=50) for t in (wrong, right))
    assert pytest.approx((0, 1, 1, 1)) == (low.P, low.E, low.S, low.O)
    assert pytest.approx((2, 0, 0, 1)) == (high.P, high.E, high.S, high.O)
