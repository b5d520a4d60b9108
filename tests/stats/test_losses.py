"""Real losses and gains against direct loops over their definitions."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.stats.significance import (
    Strength,
    discoveries,
    fall_p,
    gains_at_least,
    holm_rejections,
    lists,
    loss_p,
    loss_p_stopped,
    losses_at_least,
    strength,
)

Case = tuple[np.ndarray, np.ndarray]


@st.composite
def pairs(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 40))
    count = st.one_of(st.just(0), st.integers(0, n))
    correct = draw(st.lists(st.tuples(count, count), min_size=1, max_size=12))
    return np.full((len(correct), 2), n), np.array(correct)


def chance_of_loss(n: np.ndarray, c: np.ndarray) -> Fraction:
    total = int(c.sum())
    return Fraction(comb(int(n[0]), total), comb(int(n.sum()), total)) if total else Fraction(0)


def fisher(n: np.ndarray, c: np.ndarray) -> float:
    return float(stats.fisher_exact(np.stack([c, n - c]), "greater").pvalue)


def tail(chances: list[Fraction], observed: int) -> Fraction:
    law = [Fraction(1)]
    for p in chances:
        law = [
            (law[j] if j < len(law) else Fraction(0)) * (1 - p) + (law[j - 1] * p if j else Fraction(0))
            for j in range(len(law) + 1)
        ]
    return sum(law[observed:], Fraction(0))


def bound_by_count(drawn: np.ndarray, correct: np.ndarray, alpha: Fraction) -> int:
    chances = [chance_of_loss(n, c) for n, c in zip(drawn, correct, strict=True)]
    lost = sorted((i for i, c in enumerate(correct) if c[0] >= 1 and c[1] == 0), key=lambda i: chances[i])
    for m in range(len(lost) + 1):
        rest = [p for i, p in enumerate(chances) if i not in lost[:m]]
        if tail(rest, len(lost) - m) > alpha:
            return m
    raise AssertionError("an empty tail is 1")


def bound_by_problem(p: list[float], alpha: float) -> int:
    for step, value in enumerate(sorted(p)):
        if value > alpha / (len(p) - step):
            return step
    return len(p)


@given(pairs())
@settings(deadline=None, max_examples=80)
def test_losses_at_least_is_the_larger_of_its_two_definitions(case: Case) -> None:
    drawn, correct = case
    p = [fisher(n, c) if c[1] == 0 else 1.0 for n, c in zip(drawn, correct, strict=True)]
    expected = max(bound_by_count(drawn, correct, Fraction(1, 40)), bound_by_problem(p, 0.025))
    assert losses_at_least(drawn, correct) == expected


@given(pairs())
@settings(deadline=None)
def test_the_p_of_a_loss_is_the_one_sided_fisher_test(case: Case) -> None:
    drawn, correct = case
    for n, c, p in zip(drawn, correct, loss_p(drawn, correct), strict=True):
        if c[1] > 0 or c[0] == 0:
            assert p == 1
        else:
            assert p == pytest.approx(fisher(n, c), abs=1e-12)


@given(pairs())
@settings(deadline=None)
def test_the_p_of_a_fall_is_the_one_sided_fisher_test_where_the_problem_stays_reached(case: Case) -> None:
    drawn, correct = case
    for n, c, p in zip(drawn, correct, fall_p(drawn, correct), strict=True):
        assert p == pytest.approx(fisher(n, c) if c[1] >= 1 else 1.0, abs=1e-9)


@given(pairs())
@settings(deadline=None)
def test_swapping_the_runs_swaps_losses_and_gains(case: Case) -> None:
    drawn, correct = case
    swapped = drawn[:, ::-1], correct[:, ::-1]
    assert losses_at_least(*swapped) == gains_at_least(*case)
    first, two = lists(*case), lists(*swapped)
    assert (first.lost.tolist(), first.fallen.tolist()) == (two.gained.tolist(), two.risen.tolist())
    assert strength(correct)["S"] == strength(correct[:, ::-1])["E"]


@given(pairs())
@settings(deadline=None)
def test_no_more_losses_are_bounded_from_below_than_were_seen(case: Case) -> None:
    drawn, correct = case
    assert losses_at_least(drawn, correct) <= ((correct[:, 0] >= 1) & (correct[:, 1] == 0)).sum()


def test_a_count_below_chance_can_still_hold_a_certain_gain() -> None:
    correct = np.array([[0, 60], *[[1, 1]] * 60])
    assert gains_at_least(np.full((61, 2), 64), correct) == 1


def test_many_weak_losses_are_significant_together_though_none_is_alone() -> None:
    drawn, correct = np.full((40, 2), 64), np.array([[2, 0]] * 40)
    assert holm_rejections(loss_p(drawn, correct)) == 0
    assert losses_at_least(drawn, correct) == bound_by_count(drawn, correct, Fraction(1, 40)) > 15


def test_even_losses_and_gains_of_single_successes_prove_nothing() -> None:
    correct = np.array([[1, 0]] * 20 + [[0, 1]] * 20)
    assert losses_at_least(np.full((40, 2), 64), correct) == gains_at_least(np.full((40, 2), 64), correct) == 0


def test_lists_hold_the_surest_first_and_count_all_problems_as_tests() -> None:
    correct = np.array([[9, 0], [14, 0], [0, 14], [20, 20], [60, 20], *[[30, 30]] * 95])
    found_ = lists(np.full((100, 2), 64), correct)
    assert found_.lost.tolist() == [1]  # 9 against 0 has p = .0015: enough among 5 problems, not among 100
    assert found_.gained.tolist() == [2]
    assert found_.fallen.tolist() == [4]
    assert found_.risen.tolist() == []
    assert lists(np.full((5, 2), 64), correct[:5]).lost.tolist() == [1, 0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 0.3))
@settings(deadline=None)
def test_the_lists_follow_benjamini_and_hochberg(p: list[float], rate: float) -> None:
    order = sorted(range(len(p)), key=lambda i: p[i])
    last = max((r + 1 for r, i in enumerate(order) if p[i] <= rate * (r + 1) / len(p) * (1 - 1e-12)), default=0)
    assert set(order[:last]) <= set(discoveries(np.array(p), rate).tolist())
    assert all(p[i] <= rate * (1 + 1e-9) for i in discoveries(np.array(p), rate))  # TIE of losses


def test_strength_sorts_by_the_successes_of_the_side_that_has_them() -> None:
    correct = np.array([[1, 0], [2, 0], [4, 0], [5, 0], [50, 0], [0, 1], [0, 0], [3, 3], [0, 7]])
    assert strength(correct) == {"E": Strength(1, 0, 1), "S": Strength(1, 2, 2)}


@pytest.mark.parametrize("until", [1, 2, 3])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.3, 0.6])
def test_the_p_of_a_loss_after_an_early_stop_is_valid(until: int, p: float) -> None:
    """Under equal rates, P(p <= a) <= a for every a it can take, summed over all ways both runs can end."""
    budget = 8
    before = [(n, until, True, comb(n - 1, until - 1) * p**until * (1 - p) ** (n - until)) for n in range(until, 9)]
    before += [(budget, c, False, stats.binom.pmf(c, budget, p)) for c in range(until)]
    reached_after = [(0, (1 - p) ** budget), (1, 1 - (1 - p) ** budget)]
    value, chance = [], []
    for (n, c, stopped, weight), (after, other) in product(before, reached_after):
        first = loss_p_stopped(np.array([n]), until, budget, np.array([[c, after]]), np.array([stopped]))
        value.append(float(first[0]))
        chance.append(weight * other)
    assert sum(chance) == pytest.approx(1)
    for a in set(value):
        assert sum(w for v, w in zip(value, chance, strict=True) if v <= a + 1e-12) <= a + 1e-12


def test_the_p_of_a_loss_after_an_early_stop_is_the_printed_bound() -> None:
    found_ = loss_p_stopped(
        np.array([7, 20, 7]), 5, 20, np.array([[5, 0], [2, 0], [5, 1]]), np.array([True, False, True])
    )
    expected = [comb(7, 5) / comb(27, 5), comb(20, 2) / comb(40, 2), 1]
    assert found_ == pytest.approx(expected)
