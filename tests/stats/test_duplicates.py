"""Repeats: bounds against exact sums, ratios against enumeration of all orders, false alarms in honest worlds."""

from itertools import permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from offleash.stats.duplicates import (
    BET_SIZES,
    CopyingEvidence,
    across_requests,
    at_most,
    log_chance_of_repeats,
    log_copying,
    log_expected_repeats,
    log_repeating,
    within_requests,
)
from tests.effort import examples

LAWS = {
    "one answer": np.array([1.0]),
    "two answers": np.array([0.5, 0.5]),
    "a mode of 30%": np.r_[0.3, np.full(700, 0.001)],
    "short answers": np.r_[0.5, 0.25, 0.125, np.full(125, 0.001)],
    "hardly ever twice": np.full(20_000, 1 / 20_000),
}


def labels(text: str) -> np.ndarray:
    return np.array([ord(letter) for letter in text], dtype=np.uint64)


# By probability


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.integers(2, 12), st.integers(2, 5), st.floats(0.05, 1))
@settings(deadline=None, max_examples=examples(200))
def test_no_more_outcomes_are_expected_than_the_bound_says(weights: list[float], n: int, c: int, most: float) -> None:
    if c > n:
        return
    law = np.array(weights) / sum(weights)
    rare = law[law <= most]
    expected = float(np.sum(stats.binom.sf(c - 1, n, rare)))
    assert expected <= np.exp(log_expected_repeats(n, c, np.log(most))) * (1 + 1e-9)


def test_the_bound_is_the_printed_one() -> None:
    assert np.exp(log_expected_repeats(10, 3, np.log(0.01))) == pytest.approx(comb(10, 3) * 0.01**2)


def test_the_shares_of_the_error_sum_to_one_over_all_looks_counts_and_problems() -> None:
    n, c, i = np.arange(1, 4001), np.arange(2, 4001), np.arange(1, 4001)
    for share in (1 / (n * (n + 1)), 1 / (c * (c - 1)), 1 / (i * (i + 1))):
        assert 0.99 < share.sum() <= 1
    plain = log_expected_repeats(8, 3, -5.0)
    assert log_chance_of_repeats(8, 3, -5.0, 4) - plain == pytest.approx(np.log(8 * 9) + np.log(3 * 2) + np.log(4 * 5))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_independent_samples_are_rarely_called_impossible_however_often_one_looks(law: np.ndarray) -> None:
    rng, runs, error = np.random.default_rng(1), 100, 0.2
    alarms = 0
    for _ in range(runs):
        sample = rng.choice(len(law), 256, p=law)
        least = np.inf
        for n in range(2, 257, 6):
            outcome, count = np.unique(sample[:n], return_counts=True)
            twice = count >= 2
            log = log_chance_of_repeats(n, count[twice], np.log(law[outcome[twice]]), 1)
            least = min(least, log.min(initial=np.inf))
        alarms += least <= np.log(error)
    assert alarms / runs <= error  # a bound: far fewer


def test_a_text_that_is_too_rare_to_come_twice_is_impossible_and_a_likely_one_is_not() -> None:
    assert log_chance_of_repeats(16_384, 2, -200.0, 3404) < np.log(1e-9)
    assert log_chance_of_repeats(16_384, 2, -30.0, 3404) > np.log(1e-9)
    assert log_chance_of_repeats(64, 64, np.log(0.3), 1) < np.log(1e-9)
    assert log_chance_of_repeats(64, 25, np.log(0.3), 1) > 0
    assert log_chance_of_repeats(16_384, 16_384, 0.0, 1) > 0


# By probability, in order


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=4), st.integers(2, 4))
@settings(deadline=None, max_examples=60)
def test_a_bet_on_repeats_wins_nothing_on_average_over_all_independent_draws(weights: list[float], n: int) -> None:
    law = np.array(weights) / sum(weights)
    mean = np.zeros(len(BET_SIZES))
    for drawn in product(range(len(law)), repeat=n):
        chosen = np.array(drawn)
        mean += law[chosen].prod() * np.exp(log_repeating(chosen.astype(np.uint64), np.log(law[chosen])))
    assert (mean <= 1 + 1e-9).all()


def test_a_bet_on_repeats_pays_by_the_probability_with_its_margin() -> None:
    log_p = np.log(0.5)
    assert at_most(log_p) == pytest.approx(log_p + 0.05 - 0.02 * log_p)
    ratio = log_repeating(labels("aaa"), np.full(3, log_p))
    assert ratio == pytest.approx(2 * np.log(1 - BET_SIZES + BET_SIZES * np.exp(-at_most(log_p))))
    assert log_repeating(labels("ab"), np.full(2, log_p)) == pytest.approx(np.log(1 - BET_SIZES))
    other_tokens = np.array([log_p, log_p - 0.01])
    assert log_repeating(labels("aa"), other_tokens) == pytest.approx(np.log(1 - BET_SIZES))
    assert (log_repeating(labels("aa"), np.full(2, -500.0)) < 6.01).all()


@pytest.mark.parametrize("log_p", [0.0, -0.04, 1e-6, np.nan], ids=str)
def test_no_bet_is_made_where_a_text_is_all_but_certain_or_its_probability_not_known(log_p: float) -> None:
    assert (log_repeating(labels("aaab"), np.full(4, log_p)) == 0).all()


@pytest.mark.parametrize(
    "law", [*LAWS.values(), np.array([0.6, 0.3, 0.1]), np.array([0.97, 0.02, 0.01])], ids=[*LAWS, "three", "sure"]
)
def test_bets_on_repeats_never_win_in_a_long_honest_run_though_probabilities_are_off_by_some_percent(
    law: np.ndarray,
) -> None:
    rng, evidence, most = np.random.default_rng(6), CopyingEvidence(), -np.inf
    upto = np.cumsum(law)[:-1]
    for _ in range(40):
        drawn = np.searchsorted(upto, rng.random(16_384))
        evidence = evidence.after(log_repeating(drawn.astype(np.uint64), np.log(0.96 * law[drawn])))
        most = max(most, evidence.log)
    assert most < np.log(100)


# By place


@given(st.text("abc", min_size=2, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
@settings(deadline=None, max_examples=40)
def test_the_ratio_has_mean_one_over_all_orders_of_any_texts(text: str, follows: list[bool]) -> None:
    mark = np.array(follows[: len(text)])
    ratio = [np.exp(log_copying(labels("".join(order)), mark)) for order in permutations(text)]
    assert np.mean(ratio, axis=0) == pytest.approx(np.ones(len(BET_SIZES)))


def test_requests_of_copies_have_the_ratio_of_their_urn() -> None:
    """aaabbb: after the first a, copies leave an urn of 5, then of 4; the second request has nothing left to bet on."""
    expected = np.log((1 - BET_SIZES + BET_SIZES * 5 / 2) * (1 - BET_SIZES + BET_SIZES * 4 / 1))
    assert within_requests(labels("aaa"), labels("bbb")) == pytest.approx(expected)


def test_a_request_that_comes_again_has_the_ratio_of_its_urn() -> None:
    expected = np.log((1 - BET_SIZES + BET_SIZES * 5) * (1 - BET_SIZES + BET_SIZES * 3))
    assert across_requests(labels("abc"), labels("abc")) == pytest.approx(expected)
    assert across_requests(labels("abcd"), labels("ab")) == pytest.approx(
        np.log((1 - BET_SIZES + BET_SIZES * 5) * (1 - BET_SIZES + BET_SIZES * 3))
    )


def test_one_text_only_and_texts_that_never_repeat_say_nothing() -> None:
    for text in ("aaaaaa", "abcdef"):
        first, second = labels(text[:3]), labels(text[3:])
        for ratio in (within_requests(first, second), across_requests(first, second)):
            assert ratio == pytest.approx(np.zeros(len(BET_SIZES)), abs=1e-12)


def test_copies_of_several_choices_in_one_request_are_found() -> None:
    """A chunk that a client asks for in smaller requests: 16 texts of 16 copies each, one after the other."""
    rng = np.random.default_rng(5)
    first, second = (np.repeat(rng.integers(2**62, size=16), 16).astype(np.uint64) for _ in range(2))
    assert CopyingEvidence().after(within_requests(first, second)).log > np.log(1e9)


def largest(law: np.ndarray, sizes: tuple[int, int], blocks: int, rng: np.random.Generator) -> tuple[float, float]:
    """The largest evidence, within and across requests, at any time of an honest run."""
    within, across, most = CopyingEvidence(), CopyingEvidence(), np.full(2, -np.inf)
    upto = np.cumsum(law)[:-1]
    for _ in range(blocks):
        first, second = (np.searchsorted(upto, rng.random(size)).astype(np.uint64) for size in sizes)
        within = within.after(within_requests(first, second))
        across = across.after(across_requests(first, second))
        most = np.maximum(most, [within.log, across.log])
    return float(most[0]), float(most[1])


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("sizes", [(5, 2), (16, 16)], ids=str)
def test_honest_runs_reach_the_evidence_for_a_fault_no_more_often_than_it_says(
    law: np.ndarray, sizes: tuple[int, int]
) -> None:
    rng, runs, error = np.random.default_rng([2, *sizes]), 100, 0.1
    most = np.array([largest(law, sizes, 8, rng) for _ in range(runs)])
    for share in (most >= -np.log(error)).mean(axis=0):
        assert share <= error + 3.3 * np.sqrt(error * (1 - error) / runs)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("sizes", [(2, 2), (5, 2), (16, 16), (64, 80)], ids=str)
def test_honest_runs_reach_the_evidence_no_more_often_than_it_says_in_long_runs(
    law: np.ndarray, sizes: tuple[int, int]
) -> None:
    rng, runs = np.random.default_rng([3, *sizes]), 600
    most = np.array([largest(law, sizes, 50, rng) for _ in range(runs)])
    for error in (0.1, 0.01):
        for share in (most >= -np.log(error)).mean(axis=0):
            assert share <= error + 3.3 * np.sqrt(error * (1 - error) / runs)


def test_a_fault_that_begins_late_is_found_as_soon_as_one_that_begins_at_once() -> None:
    rng, law = np.random.default_rng(4), LAWS["short answers"]
    needed = []
    for honest in (0, 500):
        evidence = CopyingEvidence()
        for _ in range(honest):
            first, second = (rng.choice(len(law), 8, p=law).astype(np.uint64) for _ in range(2))
            evidence = evidence.after(within_requests(first, second))
        blocks = 0
        while evidence.log < np.log(1e9):
            blocks += 1
            first, second = (np.full(8, rng.choice(len(law), p=law), np.uint64) for _ in range(2))
            evidence = evidence.after(within_requests(first, second))
        needed.append(blocks)
    assert needed[0] <= 8
    assert needed[1] <= 16


def test_bets_cover_all_pairs_of_small_requests_without_a_ratio_below_nothing() -> None:
    for first, second in product(product("ab", repeat=2), repeat=2):
        for ratio in (
            within_requests(labels("".join(first)), labels("".join(second))),
            across_requests(labels("".join(first)), labels("".join(second))),
        ):
            assert np.isfinite(ratio).all()
