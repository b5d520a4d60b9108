"""maj@k against enumeration of every subset, symmetries and known elections."""

import time
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.stats.pass_at_k import majority_at_k
from tests.effort import examples

answers = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), min_size=1, max_size=5).filter(
    lambda rows: sum(count for count, _, _ in rows) <= 11
)


def credit(subset: tuple[int, ...], correct: list[bool], votes: list[bool]) -> float:
    tally = Counter(a for a in subset if votes[a])
    if not tally:
        return 0.0
    tied = [a for a, c in tally.items() if c == max(tally.values())]
    return sum(correct[a] for a in tied) / len(tied)


@given(answers, st.data())
@settings(deadline=None, max_examples=examples(150))
def test_majority_equals_enumeration_of_all_subsets(rows: list[tuple[int, bool, bool]], data: st.DataObject) -> None:
    count, correct, votes = ([row[i] for row in rows] for i in range(3))
    samples = [a for a, c in enumerate(count) for _ in range(c)]
    k = data.draw(st.integers(1, len(samples)))
    listed = np.mean([credit(s, correct, votes) for s in combinations(samples, k)])  # type: ignore[arg-type]
    result = majority_at_k(count, correct, [0] * len(rows), 1, k, votes_A=votes)
    assert result.value_P[0] == pytest.approx(listed, abs=1e-12)
    assert result.exact_P.all()
    assert result.error_P.tolist() == [0]


@pytest.mark.parametrize(("n", "c", "k"), [(300, 160, 64), (2000, 1010, 501), (16384, 8200, 1024)])
def test_two_answers_give_the_hypergeometric_tail(n: int, c: int, k: int) -> None:
    halves = 2 * comb(c, k // 2) * comb(n - c, k // 2) if k % 2 == 0 else 0
    wins = sum(2 * comb(c, x) * comb(n - c, k - x) for x in range(k // 2 + 1, k + 1)) + halves // 2
    # a large effort: these are to be compared exactly, however long they take
    result = majority_at_k([c, n - c], [True, False], [0, 0], 1, k, effort=1e12)
    assert result.value_P[0] == pytest.approx(float(Fraction(wins, 2 * comb(n, k))), abs=1e-10)


@given(answers, st.integers(2, 6), st.integers(0, 5))
@settings(deadline=None, max_examples=25)
def test_the_simulation_agrees_with_the_exact_value(rows: list[tuple[int, bool, bool]], k: int, seed: int) -> None:
    count, correct, votes = ([row[i] for row in rows] for i in range(3))
    problem = [0] * len(rows)
    exact = majority_at_k(count, correct, problem, 1, k, votes_A=votes)
    drawn = majority_at_k(count, correct, problem, 1, k, votes_A=votes, effort=-1, seed=seed)
    if np.isfinite(exact.value_P[0]):
        assert abs(exact.value_P[0] - drawn.value_P[0]) <= 5 * drawn.error_P[0] + 1e-12
    assert np.isnan(exact.value_P[0]) == np.isnan(drawn.value_P[0])


@given(answers, st.integers(1, 11))
@settings(deadline=None, max_examples=50)
def test_right_wrong_and_no_election_add_to_one(rows: list[tuple[int, bool, bool]], k: int) -> None:
    count, correct, votes = (np.array([row[i] for row in rows]) for i in range(3))
    problem, n, void = np.zeros(len(rows), int), int(count.sum()), int(count[~votes].sum())
    right = majority_at_k(count, correct, problem, 1, k, votes_A=votes).value_P[0]
    wrong = majority_at_k(count, ~correct, problem, 1, k, votes_A=votes).value_P[0]
    if k <= n:
        assert right + wrong + comb(void, k) / comb(n, k) == pytest.approx(1)


def test_problems_and_rows_may_come_in_any_order() -> None:
    rng = np.random.default_rng(1)
    count, correct, problem = rng.integers(1, 20, 60), rng.random(60) < 0.3, rng.integers(0, 7, 60)
    turn = rng.permutation(60)
    once = majority_at_k(count, correct, problem, 8, 9)
    again = majority_at_k(count[turn], correct[turn], problem[turn], 8, 9)
    assert again.value_P == pytest.approx(once.value_P, nan_ok=True)
    assert np.isnan(once.value_P[7])
    assert not once.exact_P[7]


def test_more_votes_help_the_favourite_and_bury_the_rest() -> None:
    votes = [majority_at_k([60, 40, 20], [True, False, False], [0, 0, 0], 1, k).value_P[0] for k in (1, 9, 33, 99, 120)]
    assert votes == sorted(votes)
    assert votes[0] == pytest.approx(0.5)
    assert votes[-1] == 1
    buried = [
        majority_at_k([60, 40, 20], [False, True, False], [0, 0, 0], 1, k).value_P[0] for k in (1, 9, 33, 99, 120)
    ]
    assert buried == sorted(buried, reverse=True)


def test_too_few_samples_give_no_estimate() -> None:
    result = majority_at_k([3, 5], [True, True], [0, 1], 3, 4)
    assert np.isnan(result.value_P[[0, 2]]).all()
    assert result.value_P[1] == pytest.approx(1)
    assert result.mean == result.value_P[1]
    assert np.isnan(majority_at_k([1], [True], [0], 1, 2).mean)
    with pytest.raises(ValueError, match="k=0"):
        majority_at_k([1], [True], [0], 1, 0)


def test_a_seed_gives_the_same_simulation_again() -> None:
    count = np.arange(1, 40)
    first, two, other = (
        majority_at_k(count, count % 3 == 0, np.zeros(39), 1, 64, effort=0, seed=s).value_P[0] for s in (5, 5, 6)
    )
    assert first == two != other


def test_two_hundred_problems_take_seconds() -> None:
    rng = np.random.default_rng(0)
    count = rng.multinomial(256, rng.dirichlet(np.full(50, 0.1), size=200)).ravel()
    start = time.process_time()
    result = majority_at_k(count, rng.random(count.size) < 0.05, np.repeat(np.arange(200), 50), 200, 64)
    assert time.process_time() - start < 10
    assert np.isfinite(result.value_P).all()
