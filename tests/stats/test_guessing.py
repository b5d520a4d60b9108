"""Guess floors against a plain loop, and worlds of pure guessers and real solvers."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.stats.guessing import GuessFloor, guess_floor, guess_support, guess_test
from tests.effort import examples

CORRECT, WRONG, UNREAD = 0, 1, 2
Row = tuple[int, int, int, int]  # problem, answer, count, verdict


def floor_of(rows: list[Row], problems: int, accepted: list[tuple[int, int]], gold: list[int] | None) -> GuessFloor:
    problem, answer, count, verdict = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    pairs = np.array(accepted, dtype=np.int64).reshape(-1, 2)
    return guess_floor(
        problem, answer, count, verdict == CORRECT, verdict == WRONG, problems, pairs[:, 0], pairs[:, 1], gold
    )


def looped(rows: list[Row], problems: int, accepted: list[tuple[int, int]], gold: list[int] | None) -> GuessFloor:
    takes = [{a for p, a in accepted if p == i and a >= 0} for i in range(problems)]
    for i, code in enumerate(gold or []):
        takes[i] |= {code} - {-1}
    floor, rank, eligible = np.full(problems, np.nan), np.full(problems, np.nan), np.zeros(problems, int)
    for i in range(problems):
        shares = []
        for j in range(problems):
            wrong = [(a, c) for p, a, c, v in rows if p == j and v == WRONG]
            total = sum(c for _, c in wrong)
            if i != j and takes[i] and not takes[i] & takes[j] and total:
                shares.append(sum(c for a, c in wrong if a in takes[i]) / total)
        drawn = sum(c for p, _, c, _ in rows if p == i)
        hits = sum(c for p, _, c, v in rows if p == i and v == CORRECT)
        eligible[i] = len(shares)
        if shares:
            floor[i] = np.mean(shares)
            if drawn:
                rank[i] = (1 + sum(s >= hits / drawn - 1e-12 for s in shares)) / (len(shares) + 1)
    return GuessFloor(floor, rank, eligible)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Row], int, list[tuple[int, int]], list[int] | None]:
    problems = draw(st.integers(1, 5))
    cells = draw(st.sets(st.tuples(st.integers(0, problems - 1), st.integers(0, 5)), max_size=15))
    rows = [(p, a, draw(st.integers(1, 4)), draw(st.integers(0, 2))) for p, a in sorted(cells)]
    accepted = [(p, a) for p, a, _, v in rows if v == CORRECT]
    accepted += draw(st.lists(st.tuples(st.integers(0, problems - 1), st.integers(0, 7)), max_size=3))
    gold = draw(st.none() | st.lists(st.integers(-1, 6), min_size=problems, max_size=problems))
    return rows, problems, accepted, gold


@given(worlds())
@settings(deadline=None, max_examples=examples(150))
def test_floors_equal_a_plain_loop_over_pairs_of_problems(
    world: tuple[list[Row], int, list[tuple[int, int]], list[int] | None],
) -> None:
    actual, listed = floor_of(*world), looped(*world)
    assert actual.floor_P == pytest.approx(listed.floor_P, nan_ok=True)
    assert actual.rank_p_P == pytest.approx(listed.rank_p_P, nan_ok=True)
    assert actual.eligible_P.tolist() == listed.eligible_P.tolist()


def test_a_floor_by_hand() -> None:
    # problem 0 accepts 7; problem 1 erred 4 times, once with 7; problem 2 erred twice, never with 7
    rows = [(0, 7, 1, CORRECT), (0, 8, 9, WRONG), (1, 7, 1, WRONG), (1, 5, 3, WRONG), (2, 5, 2, WRONG)]
    told = floor_of(rows, 3, [(0, 7), (1, 3), (2, 4)], None)
    assert told.floor_P[0] == pytest.approx((1 / 4 + 0) / 2)
    assert told.rank_p_P[0] == pytest.approx((1 + 1) / 3)
    assert told.floor_P[1:].tolist() == [0, 0]
    assert told.rank_p_P[1:].tolist() == [1, 1]


def test_unread_samples_are_drawn_but_never_borrowed() -> None:
    rows = [(0, 7, 1, CORRECT), (0, -1, 3, UNREAD), (1, 7, 1, WRONG), (1, 2, 3, WRONG), (1, -1, 50, UNREAD)]
    told = floor_of(rows, 2, [(0, 7), (1, 3)], None)
    assert told.floor_P[0] == pytest.approx(1 / 4)
    assert told.rank_p_P[0] == pytest.approx(1)  # 1 of 4 here, 1 of 4 there


def test_problems_with_the_same_gold_are_not_compared() -> None:
    rows = [(0, 7, 1, CORRECT), (1, 7, 5, CORRECT), (1, 1, 5, WRONG), (2, 7, 1, WRONG), (2, 1, 1, WRONG)]
    told = floor_of(rows, 3, [(0, 7), (1, 7)], [7, 7, 4])
    assert told.eligible_P.tolist() == [1, 1, 1]
    assert told.floor_P[0] == pytest.approx(1 / 2)


@given(st.integers(1, 30), st.floats(0.01, 0.99), st.data())
@settings(deadline=None, max_examples=50)
def test_the_guess_test_is_the_binomial_tail(n: int, floor: float, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    assert guess_test([n], [c], [floor])[0] == pytest.approx(
        stats.binomtest(c, n, floor, alternative="greater").pvalue, rel=1e-9
    )


def test_without_a_floor_or_samples_there_is_no_test() -> None:
    p = guess_test([10, 10, 0, 10], [1, 1, 0, 0], [0.0, np.nan, 0.1, 0.1])
    assert np.isnan(p[:3]).all()
    assert p[3] == 1
    assert guess_support(p, [True, True, True, False]).tolist() == [False] * 4
    assert guess_support([0.5, 0.01], [True, True]).tolist() == [True, False]


def answers_of(sampled_PN: np.ndarray, gold_P: np.ndarray) -> tuple[GuessFloor, np.ndarray, np.ndarray]:
    problems, n = sampled_PN.shape
    code, count = np.unique(np.arange(problems)[:, None] * 1000 + sampled_PN, return_counts=True)
    problem, answer = code // 1000, code % 1000
    correct = answer == gold_P[problem]
    hits = np.bincount(problem[correct], weights=count[correct], minlength=problems).astype(int)
    told = guess_floor(
        problem, answer, count, correct, ~correct, problems, problem[correct], answer[correct], gold_P=gold_P
    )
    return told, np.full(problems, n), hits


def test_a_pure_guesser_is_guess_support_and_a_solver_is_not() -> None:
    rng, problems, n = np.random.default_rng(0), 60, 4000
    gold = rng.choice(1000, problems, replace=False)
    habit = rng.dirichlet(np.full(1000, 0.5))  # a guesser has favourites, the same for every problem
    guesses = rng.choice(1000, size=(problems, n), p=habit)
    told, drawn, hits = answers_of(guesses, gold)
    flagged = guess_support(guess_test(drawn, hits, told.floor_P), hits > 0)
    assert (hits > 0).sum() > 30
    assert flagged[hits > 0].mean() >= 0.9
    assert (told.rank_p_P[hits > 0] > 0.05).mean() >= 0.85

    knows = rng.random((problems, n)) < 0.05
    told, drawn, hits = answers_of(np.where(knows, gold[:, None], guesses), gold)
    assert not guess_support(guess_test(drawn, hits, told.floor_P), hits > 0).any()
    assert (told.rank_p_P < 0.05).all()


def test_guessed_problems_stay_guess_support_among_problems_that_are_solved() -> None:
    rng, problems, n = np.random.default_rng(3), 80, 4000
    gold = rng.choice(1000, problems, replace=False)
    guesses = rng.choice(1000, size=(problems, n), p=rng.dirichlet(np.full(1000, 0.5)))
    solved = np.arange(problems) % 2 == 0
    knows = (rng.random((problems, n)) < 0.8) & solved[:, None]  # all answers of these would dilute the floor fivefold
    told, drawn, hits = answers_of(np.where(knows, gold[:, None], guesses), gold)
    flagged = guess_support(guess_test(drawn, hits, told.floor_P), hits > 0)
    assert flagged[~solved & (hits > 0)].mean() >= 0.9
    assert not flagged[solved].any()


def test_with_four_options_the_borrowed_floor_is_a_third() -> None:
    rng = np.random.default_rng(4)
    told, _, _ = answers_of(rng.integers(0, 4, (200, 500)), rng.integers(0, 4, 200))
    assert told.floor_P == pytest.approx(np.full(200, 1 / 3), abs=0.01)


def test_a_uniform_guesser_meets_the_floor_given_with_the_problem() -> None:
    rng = np.random.default_rng(1)
    hits = rng.binomial(8192, 1 / 1000, 500)
    flagged = guess_support(guess_test(8192, hits, 1 / 1000), hits > 0)
    assert (hits > 0).mean() > 0.99
    assert flagged[hits > 0].mean() >= 0.93


def test_thousands_of_problems_take_less_than_two_seconds() -> None:
    rng, problems = np.random.default_rng(2), 3404
    problem, answer = np.repeat(np.arange(problems), 50), rng.integers(0, 1000, problems * 50)
    gold = rng.integers(0, 1000, problems)
    correct = answer == gold[problem]
    start = time.process_time()
    told = guess_floor(
        problem, answer, np.ones(answer.size), correct, ~correct, problems, problem[correct], answer[correct], gold
    )
    assert time.process_time() - start < 2
    assert np.isfinite(told.floor_P).all()
