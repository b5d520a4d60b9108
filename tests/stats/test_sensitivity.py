"""How the table could mislead: halves, verifier errors, undecided samples and power."""

from dataclasses import replace
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.data.tally import Tally, tally_of_counts
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.significance import (
    chance_of_detection,
    confirmation,
    reached_by_error,
    shared_tipping_rate,
    smallest_certain_loss,
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
    assert smallest_certain_loss(k, problems) == least
    assert comb(k, least) / comb(2 * k, least) <= 0.05 / problems < comb(k, least - 1) / comb(2 * k, least - 1)


def test_with_few_samples_no_loss_could_have_been_seen() -> None:
    assert smallest_certain_loss(4, 30) is None
    assert smallest_certain_loss(8, 30) == 7  # C(8,7)/C(16,7) = .0007
    assert smallest_certain_loss(0, 30) is None


def test_the_chance_of_detection_is_a_binomial_tail() -> None:
    rate = np.array([0.0, 0.01, 0.5])
    assert chance_of_detection(rate, 100, 3) == pytest.approx(1 - stats.binom.cdf(2, 100, rate))


def every_assignment(tally: Tally, k: int) -> dict[str, list[float]]:
    """The table and its rates under every assignment of the undecided samples of both runs, problem by problem."""
    drawn = tally.drawn_PR + tally.unverified_PR
    open_PR = tally.failed_PR + tally.unverified_PR
    values: dict[str, list[float]] = {}
    for right in product(*(range(int(count) + 1) for count in open_PR.reshape(-1))):
        correct = tally.correct_PR + np.array(right).reshape(open_PR.shape)
        a, b = (pass_at_k(drawn[:, r], correct[:, r], k) for r in (0, 1))
        P, E, S, neither = (float(cell.sum()) for cell in (a * b, (1 - a) * b, a * (1 - b), (1 - a) * (1 - b)))
        table = {"P": P, "E": E, "S": S, "O": neither}
        table |= {"SRR": P / (P + S) if P + S > 1e-12 else np.nan, "NDR": E / (P + E) if P + E > 1e-12 else np.nan}
        table["NSCR"] = (E - S) / (P + E + S) if P + E + S > 1e-12 else np.nan
        for name, value in table.items():
            values.setdefault(name, []).append(value)
    return values


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 2, *[st.integers(0, 1)] * 4), min_size=1, max_size=3),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=60)
def test_bounds_over_undecided_samples_are_those_of_all_assignments(rows: list[tuple[int, ...]], k: int) -> None:
    """Correct, failed and unverified samples of both runs; every way to decide them is tried."""
    row = np.array(rows)
    plain = tally_of_counts(np.full((len(rows), 2), 4), row[:, :2])
    tally = replace(plain, failed_PR=row[:, 2:4], unverified_PR=row[:, 4:])
    bounds = undecided_bounds(tally, k)
    for name, values in every_assignment(tally, k).items():
        if np.isnan(values).all():
            assert np.isnan(bounds[name].low)
        else:
            assert bounds[name].low == pytest.approx(np.nanmin(values), abs=1e-9)
            assert bounds[name].high == pytest.approx(np.nanmax(values), abs=1e-9)


def test_five_losses_are_possible_where_all_wrong_and_all_right_show_none() -> None:
    """Five problems whose only successes are undecided: wrong everywhere they are O, right everywhere P, crossed S."""
    plain = tally_of_counts(np.full((6, 2), 8), [[0, 0]] * 5 + [[4, 4]])
    failed = np.array([[2, 1]] * 5 + [[0, 0]])
    bounds = undecided_bounds(replace(plain, failed_PR=failed), 8)
    assert (bounds["S"].low, bounds["S"].high) == (0, 5)
    assert (bounds["E"].low, bounds["E"].high) == (0, 5)
    assert [bounds["SRR"].low, bounds["SRR"].high] == pytest.approx([1 / 6, 1])


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 200), st.integers(1, 500))
def test_a_shared_false_positive_rate_gives_as_many_gains_as_losses(E: int, S: int, neither: int, k: int) -> None:
    rate, total = shared_tipping_rate(E, S, neither, k), E + S + neither
    if total < 2 * (E + S):
        assert np.isnan(rate)
    else:
        reached = reached_by_error(rate, k)
        assert 2 * total * reached * (1 - reached) == pytest.approx(E + S, rel=1e-6)
