"""What a study could have shown: successes that a list accepts, and how many gains may have stayed unseen."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.stats.power import (
    detectable_rate,
    gain_power,
    max_candidates_with_rate,
    smallest_significant_count,
    successes_needed,
)
from offleash.stats.significance import discoveries, list_level, lists, loss_p


@given(st.lists(st.integers(0, 12), min_size=2, max_size=40), st.integers(8, 24))
@settings(deadline=None, max_examples=60)
def test_a_loss_is_listed_exactly_from_the_stated_number_of_successes_on(before: list[int], n: int) -> None:
    correct = np.stack([np.minimum(before, n), np.zeros(len(before), dtype=int)], axis=1)
    drawn = np.full_like(correct, n)
    least = smallest_significant_count(n, n, list_level(loss_p(drawn, correct)))
    listed = set(lists(drawn, correct).lost.tolist())
    expected = {row for row, (c, _) in enumerate(correct) if least is not None and c >= least}
    assert listed == expected


def test_the_list_accepts_fewer_successes_than_are_needed_a_priori() -> None:
    """The case that gave the two their names: 12 were said to be needed beside a list that held 9, 9 and 11."""
    correct = np.array([[14, 0]] * 20 + [[9, 0], [9, 0], [11, 0]] + [[30, 30]] * 177)
    drawn = np.full_like(correct, 1024)
    listed = smallest_significant_count(1024, 1024, list_level(loss_p(drawn, correct)))
    assert successes_needed(1024, 1024, 200) == 12
    assert listed == 8
    assert listed <= min(correct[row, 0] for row in lists(drawn, correct).lost)
    assert {20, 21, 22} <= set(lists(drawn, correct).lost.tolist())


def test_the_level_of_an_empty_list_is_that_of_its_first_problem() -> None:
    p = np.array([0.2, 0.6, 1.0, 1.0])
    assert discoveries(p).size == 0
    assert list_level(p) == pytest.approx(0.05 / 4)


@pytest.mark.parametrize(("n", "other"), [(16, 16), (40, 8), (8, 40)])
def test_successes_needed_is_the_smallest_count_below_the_level(n: int, other: int) -> None:
    chance = [comb(n, c) / comb(n + other, c) for c in range(1, n + 1)]
    expected = next((c for c, p in enumerate(chance, 1) if p <= 0.05 / 7), None)
    assert successes_needed(n, other, 7) == expected


def test_the_detectable_rate_has_a_power_of_eighty_percent() -> None:
    rate = detectable_rate(64, 9)
    tail = sum(comb(64, j) * rate**j * (1 - rate) ** (64 - j) for j in range(9, 65))
    assert tail == pytest.approx(0.8)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 3), st.sampled_from([0.05, 0.2, 0.5, 0.7]))
@settings(deadline=None, max_examples=40)
def test_the_bound_on_gains_is_the_largest_number_that_could_have_shown_so_few(
    drawn: list[int], gained: int, rate: float
) -> None:
    """By enumeration of which candidates show a success, over every choice of m of them."""
    most = 0
    for m in range(1, len(drawn) + 1):
        chances = [1 - (1 - rate) ** n for n in sorted(drawn)[:m]]
        few = 0.0
        for shown in product((0, 1), repeat=m):
            if sum(shown) <= gained:
                few += float(np.prod([q if s else 1 - q for s, q in zip(shown, chances, strict=True)]))
        if few > 0.05 * (1 + 1e-9):
            most = m
    assert max_candidates_with_rate(drawn, gained, rate) == most


def test_the_bound_on_gains_covers_the_number_of_problems_with_that_rate() -> None:
    """A known world: 40 candidates, some with a rate above r, some just below it; unequal numbers of samples."""
    rng, rate, inside, studies = np.random.default_rng(3), 0.02, 0, 400
    drawn = rng.integers(40, 120, 40)
    for _ in range(studies):
        true = np.where(rng.random(40) < 0.3, rate, rng.choice([0.0, 0.4 * rate], 40))
        gained = int((rng.binomial(drawn, true) > 0).sum())
        inside += int((true >= rate).sum()) <= max_candidates_with_rate(drawn, gained, rate)
    assert inside / studies >= 0.95


def test_without_a_candidate_nothing_is_bounded() -> None:
    power = gain_power(np.full((5, 2), 32), np.ones((5, 2)), tests=5)
    assert (power.candidates, power.gained, power.at, power.at_epsilon) == (0, 0, (), None)


def test_no_gain_among_many_samples_rules_out_rates_above_epsilon_only() -> None:
    reached = np.array([[1, 1]] * 60 + [[0, 0]] * 40)
    power = gain_power(np.full((100, 2), 256), reached, tests=100)
    assert power.at_epsilon is not None
    assert power.at_epsilon.at_most == 0
    assert power.at[0].at_most > 0  # a quarter of epsilon is missed every other time
    assert power.at[-1].chance_significant == pytest.approx(1, abs=1e-6)
