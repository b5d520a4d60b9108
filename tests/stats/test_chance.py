"""What chance alone would give, against enumeration of every assignment of the successes."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.data.tally import tally_of_counts
from offleash.errors import OffleashError
from offleash.stats.chance import exchange_null, lost_by_exchange, mcnemar, retest
from offleash.stats.pass_at_k import pass_at_k
from tests.effort import examples

Case = tuple[np.ndarray, np.ndarray]


@st.composite
def tiny(draw: st.DrawFn) -> Case:
    problems = draw(st.integers(1, 3))
    drawn = np.array([[draw(st.integers(1, 4)) for _ in range(2)] for _ in range(problems)])
    correct = np.array([[draw(st.integers(0, int(n))) for n in row] for row in drawn])
    return drawn, correct


def hits_before(drawn_2: np.ndarray, total: int) -> list[int]:
    """Successes of the run before over every way of dealing them to the samples of both."""
    return [sum(place < drawn_2[0] for place in places) for places in combinations(range(int(drawn_2.sum())), total)]


def dealt(drawn: np.ndarray, correct: np.ndarray, least: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """S and E over all assignments, every one of them equally probable."""
    each = []
    for drawn_2, correct_2 in zip(drawn, correct, strict=True):
        total = int(correct_2.sum())
        x = np.array(hits_before(drawn_2, total))
        lost, gained = (x >= least) & (total - x <= most), (x <= most) & (total - x >= least)
        each.append([(int(a), int(b)) for a, b in zip(lost, gained, strict=True)])
    sums = np.array([np.sum(outcome, axis=0) for outcome in product(*each)])
    return sums[:, 0], sums[:, 1]


@given(tiny(), st.sampled_from([(1, 0), (2, 0), (2, 1), (3, 1)]))
@settings(deadline=None, max_examples=examples(100))
def test_the_exchange_null_equals_enumeration_of_all_assignments(case: Case, threshold: tuple[int, int]) -> None:
    drawn, correct = case
    least, most = threshold
    if np.prod([len(hits_before(n, int(c.sum()))) for n, c in zip(drawn, correct, strict=True)]) > 30_000:
        return
    S, E = dealt(drawn, correct, least, most)
    null = exchange_null(drawn, correct, least, most)
    seen_S = int(((correct[:, 0] >= least) & (correct[:, 1] <= most)).sum())
    seen_E = int(((correct[:, 1] >= least) & (correct[:, 0] <= most)).sum())
    assert (null.expected_S, null.expected_E) == pytest.approx((S.mean(), E.mean()), abs=1e-12)
    assert (null.p_S, null.p_E) == pytest.approx((np.mean(seen_S <= S), np.mean(seen_E <= E)), abs=1e-12)
    assert null.mid_p_S == pytest.approx(np.mean(seen_S < S) + np.mean(seen_S == S) / 2, abs=1e-12)
    assert null.mid_p_E == pytest.approx(np.mean(seen_E < E) + np.mean(seen_E == E) / 2, abs=1e-12)


@given(tiny())
@settings(deadline=None, max_examples=20)
def test_over_all_assignments_the_p_of_losses_is_never_small_too_often(case: Case) -> None:
    drawn, correct = case
    total = correct.sum(axis=1)
    ways = [hits_before(n, int(t)) for n, t in zip(drawn, total, strict=True)]
    if np.prod([len(w) for w in ways]) > 3_000:
        return
    p = {}
    for x in {tuple(outcome) for outcome in product(*ways)}:
        p[x] = exchange_null(drawn, np.stack([np.array(x), total - np.array(x)], axis=1)).p_S
    every = np.array([p[tuple(outcome)] for outcome in product(*ways)])
    for value in set(p.values()):
        assert np.mean(every <= value + 1e-12) <= value + 1e-9


def test_all_successes_on_one_side_have_the_chance_of_the_reference() -> None:
    c, K = np.arange(1, 6), 256
    drawn, correct = np.full((5, 2), K), np.stack([c, np.zeros(5, int)], axis=1)
    assert lost_by_exchange(drawn, correct) == pytest.approx([0.5000, 0.2495, 0.1243, 0.0618, 0.0306], abs=5e-5)


def test_a_problem_that_neither_run_reached_can_be_neither_lost_nor_found() -> None:
    null = exchange_null(np.full((7, 2), 9), np.zeros((7, 2), int))
    assert (null.expected_S, null.expected_E) == (0, 0)
    assert (null.p_S, null.p_E) == (1, 1)


@given(tiny())
@settings(deadline=None)
def test_swapping_the_runs_swaps_both_tails(case: Case) -> None:
    first, two = exchange_null(*case), exchange_null(case[0][:, ::-1], case[1][:, ::-1])
    assert (first.p_S, first.mid_p_S, first.expected_S) == pytest.approx((two.p_E, two.mid_p_E, two.expected_E))


def test_the_special_case_of_seen_is_the_general_one() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(1, 50, (300, 2))
    correct = rng.binomial(drawn, 0.05)
    total = correct.sum(axis=1)
    chance = stats.hypergeom.pmf(total, drawn.sum(axis=1), total, drawn[:, 0]) * (total > 0)
    assert lost_by_exchange(drawn, correct) == pytest.approx(chance, abs=1e-12)


@given(st.integers(0, 30), st.integers(0, 30))
@settings(deadline=None)
def test_mcnemar_is_the_two_sided_binomial_test(E: int, S: int) -> None:
    m = E + S
    law = stats.binom.pmf(np.arange(m + 1), m, 0.5)
    expected = min(1.0, law[np.abs(np.arange(m + 1) - m / 2) >= abs(E - m / 2) - 1e-9].sum())
    assert mcnemar(E, S) == pytest.approx(expected)
    assert mcnemar(E, S) == pytest.approx(mcnemar(S, E))


def test_mcnemar_sees_only_the_net_change() -> None:
    assert mcnemar(100, 100) == pytest.approx(1)
    assert mcnemar(0, 0) == 1


@given(st.floats(0.01, 0.99), st.integers(1, 4), st.integers(0, 4))
@settings(deadline=None, max_examples=30)
def test_a_redraw_of_the_same_model_retains_all_and_gains_nothing_in_exact_expectation(
    p: float, k: int, spare: int
) -> None:
    n = 2 * k + spare
    c = np.arange(n + 1)
    chance = stats.binom.pmf(c, n, p)
    a, twice = pass_at_k(n, c, k), pass_at_k(n, c, 2 * k)
    kept, kept_twice = (chance @ a) ** 2, chance @ (2 * a - twice)
    assert kept == pytest.approx(kept_twice, abs=1e-12)
    joint = np.stack(np.meshgrid(c, c, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.multiply.outer(chance, chance).ravel()
    result = np.array([retest(tally_of_counts([[n, n]], [pair]), k, 2).gain for pair in joint])
    assert weight @ result == pytest.approx(0, abs=1e-10)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_retest_is_the_printed_formula(correct: list[tuple[int, int]], k: int) -> None:
    tally = tally_of_counts(np.full((len(correct), 2), 8), correct)
    c = np.array(correct)
    a, b, twice = pass_at_k(8, c[:, 0], k), pass_at_k(8, c[:, 1], k), pass_at_k(8, c[:, 0], 2 * k)
    result = retest(tally, k, 50)
    bottom = (2 * a - twice).sum()
    assert pytest.approx((a * b).sum() / bottom if bottom > 1e-9 else np.nan, nan_ok=True) == result.net_ratio
    assert result.gain == pytest.approx(((1 - a) * b).sum() - (twice - a).sum(), abs=1e-12)
    assert result.redraw == pytest.approx((twice - a).sum(), abs=1e-12)
    if a.sum() > 0:
        assert result.observed_SRR == pytest.approx((a * b).sum() / a.sum(), abs=1e-12)
        assert result.redraw_SRR == pytest.approx(bottom / a.sum(), abs=1e-12)
    assert not result.extrapolated
    assert result.gain_interval.low <= result.gain <= result.gain_interval.high


def test_two_runs_of_the_same_model_lose_and_find_what_the_redraw_says() -> None:
    p, n, k = np.array([0.01, 0.2, 0.9]), 8, 4
    c = np.arange(n + 1)
    expected = 0.0
    for rate in p:
        chance = stats.binom.pmf(c, n, rate)
        expected += chance @ [retest(tally_of_counts([[n, n]], np.array([[x, 0]])), k, 2).redraw for x in c]
    a = 1 - (1 - p) ** k
    assert expected == pytest.approx((a * (1 - a)).sum(), abs=1e-12)


def test_at_the_whole_budget_the_redraw_is_the_smoothed_good_toulmin_sum() -> None:
    before = [0] * 10 + [1] * 7 + [2] * 5 + [3] * 4 + [9] * 3
    tally = tally_of_counts(np.full((29, 2), 64), np.stack([before, before], axis=1))
    weight = {j: -((-1) ** j) * stats.binom.sf(j - 1, 8, 0.5) for j in range(1, 9)}
    result = retest(tally, 64, 50)
    assert result.extrapolated
    assert result.redraw == pytest.approx(7 * weight[1] + 5 * weight[2] + 4 * weight[3])


def test_between_half_and_the_whole_budget_a_redraw_is_refused() -> None:
    """With n = 10 and k = 6, pass@12 is wanted; Good-Toulmin on all ten would give pass@20 - pass@10 instead."""
    with pytest.raises(OffleashError, match="k=5"):
        retest(tally_of_counts([[10, 10]], [[3, 3]]), 6, 2)
