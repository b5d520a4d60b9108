"""The four cells against enumeration of all subsets of both runs, and their symmetries."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.tally import Per, Tally, tally_of_counts
from offleash.errors import OffleashError
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.support_classes import IN, OUT, UNDETERMINED, CellSums, ratio, reach_PRK, rule_cells, thinned_cells

METRICS = ("SRR", "NDR", "SDS", "NSCR")


@st.composite
def small_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    problems = draw(st.integers(1, 4))
    drawn = np.array([[draw(st.integers(2, 6)) for _ in range(2)] for _ in range(problems)])
    correct = np.array([[draw(st.integers(0, int(n))) for n in row] for row in drawn])
    return drawn, correct, draw(st.integers(1, int(drawn.min())))


def reached(n: int, c: int, k: int) -> list[bool]:
    return [any(subset) for subset in combinations([True] * c + [False] * (n - c), k)]


def table(drawn: np.ndarray, correct: np.ndarray, k: int) -> np.ndarray:
    """P, E, S and O."""
    sums = thinned_cells(tally_of_counts(drawn, correct), np.array([k])).sums(2)
    return np.append(sums.estimate_4K[:3, 0], sums.out_K[0])


@given(small_pairs())
@settings(deadline=None)
def test_thinned_cells_equal_enumeration_of_the_subsets_of_both_runs(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    drawn, correct, k = case
    expected = np.zeros(4)
    for n, c in zip(drawn, correct, strict=True):
        pairs = list(product(reached(n[0], c[0], k), reached(n[1], c[1], k)))
        cells = [(True, True), (False, True), (True, False), (False, False)]
        expected += [sum(pair == cell for pair in pairs) / len(pairs) for cell in cells]
    assert table(drawn, correct, k) == pytest.approx(expected, abs=1e-12)


@given(small_pairs())
@settings(deadline=None)
def test_swapping_the_runs_swaps_lost_and_found(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    drawn, correct, k = case
    P, E, S, O = table(drawn, correct, k)  # noqa: E741
    assert table(drawn[:, ::-1], correct[:, ::-1], k) == pytest.approx([P, S, E, O], abs=1e-12)


@given(small_pairs(), st.integers(0, 1000))
@settings(deadline=None)
def test_problems_may_come_in_any_order(case: tuple[np.ndarray, np.ndarray, int], seed: int) -> None:
    drawn, correct, k = case
    turn = np.random.default_rng(seed).permutation(len(drawn))
    assert table(drawn[turn], correct[turn], k) == pytest.approx(table(drawn, correct, k), abs=1e-12)


@given(small_pairs())
@settings(deadline=None)
def test_every_problem_twice_doubles_the_table_and_keeps_the_ratios(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    drawn, correct, k = case
    once, twice = table(drawn, correct, k), table(np.tile(drawn, (2, 1)), np.tile(correct, (2, 1)), k)
    assert twice == pytest.approx(2 * once, abs=1e-12)
    for name in METRICS:
        a, b = (ratio(name, cells[0], cells[1], cells[2], cells.sum()) for cells in (once, twice))
        assert a == pytest.approx(b, nan_ok=True)


@given(small_pairs())
@settings(deadline=None)
def test_the_identities_of_the_paper_hold(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    drawn, correct, k = case
    P, E, S, O = table(drawn, correct, k)  # noqa: E741
    N = len(drawn)
    before, after = pass_at_k(drawn, correct, k).mean(axis=0)
    value = {name: float(ratio(name, P, E, S, N)) for name in (*METRICS, "before", "after", "difference")}
    assert pytest.approx(N) == P + E + S + O
    assert (value["before"], value["after"]) == pytest.approx((before, after), abs=1e-12)
    assert value["difference"] == pytest.approx(after - before, abs=1e-12)
    if P + E + S > 1e-9:
        assert value["NSCR"] == pytest.approx((after - before) / (1 - O / N), abs=1e-9)
    if before > 1e-9:
        assert value["SRR"] == pytest.approx(P / (N * before), abs=1e-9)
    if after > 1e-9:
        assert value["NDR"] == pytest.approx(E / (N * after), abs=1e-9)
    if value["SRR"] > 0 and value["NDR"] > 0:
        harmonic = 2 * value["SRR"] * value["NDR"] / (value["SRR"] + value["NDR"])
        assert value["SDS"] == pytest.approx(harmonic)


def test_at_the_whole_budget_the_table_is_the_one_of_whole_numbers() -> None:
    correct = np.array([[1, 0], [0, 5], [0, 0], [8, 8], [2, 0], [0, 1], [3, 1]])
    assert table(np.full((7, 2), 8), correct, 8).tolist() == [2, 2, 2, 1]


def test_ratios_of_nothing_are_undefined_and_the_score_of_no_discovery_is_zero() -> None:
    assert np.isnan(ratio("SRR", 0, 3, 0, 5))
    assert np.isnan(ratio("NDR", 0, 0, 3, 5))
    assert np.isnan(ratio("NSCR", 0, 0, 0, 5))
    assert np.isnan(ratio("SDS", 0, 0, 3, 5))
    assert np.isnan(ratio("SDS", 0, 3, 0, 5))
    assert ratio("SDS", 4, 0, 1, 5) == 0
    assert ratio("SDS", 0, 2, 2, 5) == 0


def test_a_rule_sorts_problems_into_cells_and_leaves_the_undetermined_out() -> None:
    states = list(product([IN, OUT, UNDETERMINED], repeat=2))
    tally = tally_of_counts(np.full((9, 2), 4), np.zeros((9, 2), int))
    sums = rule_cells(tally, np.array(states, dtype=np.int8), 4).sums(2)
    assert sums.estimate_4K[:, 0].tolist() == [1, 1, 1, 4]
    assert sums.out_K[0] == 1


def stopped_pair(until: int, budget: int, draws: np.ndarray) -> Tally:
    """The tally of records (problems, runs, budget) that end at their until-th success."""
    total = draws.cumsum(axis=2)
    stopped = total[:, :, -1] >= until
    n = np.where(stopped, (total >= until).argmax(axis=2) + 1, budget)
    c = np.where(stopped, until, total[:, :, -1])
    plain = tally_of_counts(n, c)
    return replace(plain, stopped_PR=stopped, budget_R=np.array([budget] * 2), until_R=np.array([until] * 2))


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_runs_that_stop_early_give_the_same_table_as_the_full_draw(until: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws = (rng.random((20, 2, 16)) < rng.beta(0.3, 1, (20, 2, 1))).astype(int)
    full = thinned_cells(tally_of_counts(np.full((20, 2), 16), draws.sum(axis=2)), np.array([16]))
    early = thinned_cells(stopped_pair(until, 16, draws), np.array([16]))
    for name in ("P_PK", "E_PK", "S_PK"):
        assert getattr(early, name).tolist() == getattr(full, name).tolist()


def test_a_run_that_stops_early_estimates_every_smaller_budget_too() -> None:
    tally = stopped_pair(2, 8, np.array([[[1, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]]]))
    reach = reach_PRK(tally, np.array([1, 2, 3, 8]))[0]
    assert reach[0] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert reach[1] == pytest.approx([1 / 8, 2 / 8, 3 / 8, 1])


def test_a_budget_beyond_the_samples_of_a_problem_is_refused() -> None:
    tally = tally_of_counts([[8, 8], [8, 5]], [[1, 1], [0, 0]], problem_P=["easy", "short"])
    with pytest.raises(OffleashError, match=r"k=6 .* 5 samples of problem 'short' in 'after'"):
        thinned_cells(tally, np.array([6]))


def test_a_budget_beyond_that_of_a_stopped_run_is_refused_and_not_nan() -> None:
    tally = stopped_pair(1, 8, np.ones((3, 2, 8), int))
    tally = replace(tally, drawn_PR=np.full((3, 2), 7), stopped_PR=np.ones((3, 2), bool))
    with pytest.raises(OffleashError, match="k=10"):  # 7 drawn + budget 8 is not less than 10
        thinned_cells(tally, np.array([10]))


def test_answers_are_summed_into_their_problems_and_out_of_support_is_unknown() -> None:
    flat = tally_of_counts(np.full((5, 2), 4), [[4, 0], [4, 4], [0, 4], [4, 4], [0, 4]], problem_P=list("aabbb"))
    cells = thinned_cells(replace(flat, per=Per.ANSWER), np.array([4]))
    assert cells.P_PK[:, 0].tolist() == [1, 1]
    assert cells.E_PK[:, 0].tolist() == [0, 2]
    assert cells.S_PK[:, 0].tolist() == [1, 0]
    assert np.isnan(cells.sums(2).out_K).all()


def test_replicates_are_paired_between_the_budgets_and_the_runs() -> None:
    rng = np.random.default_rng(3)
    correct = rng.binomial(16, 0.3, (40, 1)).repeat(2, axis=1)
    sums: CellSums = thinned_cells(tally_of_counts(np.full((40, 2), 16), correct), np.array([1, 16])).sums(4000)
    before, after = (sums.ratio(name)[1] for name in ("before", "after"))
    spread = np.std(after - before, axis=0)  # the same counts: only the pseudo-problems E and S move the difference
    assert (spread < 0.03).all()
    assert np.std(before[:, 0]) > spread[0] * 0.7
