"""Cross-support, divergences and weights of traces against worlds that can be enumerated."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.stats.intervals import ratios
from offleash.stats.likelihood import (
    Reach,
    chance_within,
    distinct_mass,
    equal_weights,
    importance_mass,
    log_sums,
    mass_of_both,
    matched_weights,
    problem_means,
    reach,
    trusted_bound,
)
from offleash.stats.support_classes import epsilon

# five completions, of which the last three are right; the finder can never draw the last one
FINDER = np.array([0.5, 0.2, 0.2, 0.1, 0.0])
OTHER = np.array([0.9, 0.0605, 0.0005, 0.03, 0.009])
RIGHT = np.array([False, False, True, True, True])
SEEN_BY_FINDER = float(OTHER[RIGHT & (FINDER > 0)].sum())


def one_problem(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right samples of one draw: the other's and the finder's log-probability, and their problem."""
    right = drawn[RIGHT[drawn]]
    with np.errstate(divide="ignore"):
        return np.log(OTHER[right]), np.log(FINDER[right]), np.zeros(len(right), int)


def test_the_estimate_is_unbiased_for_the_mass_that_the_finder_can_show() -> None:
    expected = 0.0
    for drawn in product(range(len(FINDER)), repeat=3):  # every outcome of three draws
        chance = float(np.prod(FINDER[list(drawn)]))
        if chance:
            expected += chance * importance_mass(*one_problem(np.array(drawn)), [3]).estimate_P[0]
    assert expected == pytest.approx(SEEN_BY_FINDER, rel=1e-12)
    assert expected < OTHER[RIGHT].sum()  # what the finder never draws cannot be weighed


def test_over_many_redraws_the_mean_is_near_the_mass_and_the_bound_holds() -> None:
    rng = np.random.default_rng(0)
    draws, n = 4_000, 64
    sample_DN = rng.choice(len(FINDER), (draws, n), p=FINDER)
    place_S, which = np.nonzero(RIGHT[sample_DN])
    chosen = sample_DN[place_S, which]
    result = importance_mass(np.log(OTHER[chosen]), np.log(FINDER[chosen]), place_S, np.full(draws, n))
    error = result.estimate_P.std() / np.sqrt(draws)
    assert result.estimate_P.mean() == pytest.approx(SEEN_BY_FINDER, abs=4 * error)
    assert (result.low_P <= SEEN_BY_FINDER).mean() >= 0.95


def test_a_record_that_stopped_at_its_mth_success_is_unbiased_without_that_success() -> None:
    rng = np.random.default_rng(1)
    m, total = 3, []
    for _ in range(4_000):
        drawn = rng.choice(len(FINDER), 200, p=FINDER)
        stop = int(np.flatnonzero(RIGHT[drawn])[m - 1])
        total.append(importance_mass(*one_problem(drawn[:stop]), [stop]).estimate_P[0])
    assert np.mean(total) == pytest.approx(SEEN_BY_FINDER, abs=4 * np.std(total) / np.sqrt(len(total)))


def test_both_runs_together_are_unbiased_for_all_of_the_mass() -> None:
    for q, pi in ((OTHER, FINDER), (FINDER, OTHER)):
        expected = 0.0
        for first, second in product(range(5), repeat=2):  # one sample of each run
            some = np.array([place for place in (first, second) if RIGHT[place]], dtype=int)
            with np.errstate(divide="ignore"):
                mass = mass_of_both(np.log(q[some]), np.log(pi[some]), np.zeros(len(some), int), [1], [1])[0]
            expected += q[first] * pi[second] * mass
        assert expected == pytest.approx(q[RIGHT].sum(), rel=1e-12)


def test_a_sample_that_a_law_excludes_weighs_nothing_and_nothing_overflows() -> None:
    log_other, log_finder = [-np.inf, -2_000.0, 5.0], [-1.0, -5_000.0, -np.inf]
    result = importance_mass(log_other, log_finder, [0, 1, 2], [10, 10, 10])
    assert result.estimate_P[[0, 2]].tolist() == [0, 0]
    assert result.estimate_P[1] == np.inf  # a weight of e^3000: said, not hidden
    assert (result.effective_P == [0, 1, 0]).all()
    assert (result.low_P <= 1).all()
    assert np.isnan(importance_mass([], [], [], [0]).estimate_P[0])


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20), st.floats(-20, 20))
def test_the_effective_size_is_between_one_and_all_and_blind_to_a_common_factor(
    logs: list[float], shift: float
) -> None:
    zeros = np.zeros(len(logs))
    item = importance_mass(logs, zeros, zeros, [100]).effective_P[0]
    assert 1 - 1e-9 <= item <= len(logs) + 1e-9
    assert importance_mass(np.add(logs, shift), zeros, zeros, [100]).effective_P[0] == pytest.approx(item)
    assert importance_mass(zeros, zeros, zeros, [100]).effective_P[0] == pytest.approx(len(logs))


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-700, 700)), max_size=30))
def test_log_sums_agree_with_a_loop(rows: list[tuple[int, float]]) -> None:
    result = log_sums([value for _, value in rows], [place for place, _ in rows], 4)
    for place in range(4):
        some = [value for at, value in rows if at == place]
        assert result[place] == pytest.approx(np.logaddexp.reduce(some) if some else -np.inf)


def test_the_mass_of_different_completions_is_their_sum_and_at_most_one() -> None:
    assert distinct_mass(np.log([0.2, 0.1, 0.5]), [0, 0, 1], 3).tolist() == pytest.approx([0.3, 0.5, 0])
    assert distinct_mass([1e-9], [0], 1)[0] == 1


def test_a_bound_is_read_against_the_budget() -> None:
    k = 1_000
    assert reach([2 * float(epsilon(k)), 0.9 * float(epsilon(k)), 0.0514 / k, 0.0512 / k, 0, np.nan], k) == [
        Reach.MISSED,
        Reach.WITHIN,
        Reach.WITHIN,
        Reach.OPEN,
        Reach.OPEN,
        Reach.OPEN,
    ]
    assert chance_within([0.5, 0, 1], 2).tolist() == [0.75, 0, 1]
    assert chance_within(1e-18, 10) == pytest.approx(1e-17)


@pytest.mark.parametrize(("pi", "q"), [(1e-5, 1.2e-5), (1e-5, 2e-5), (3e-5, 5e-5)])
def test_problems_that_were_chosen_by_a_lucky_success_are_not_called_within_reach(pi: float, q: float) -> None:
    n, rng = 512, np.random.default_rng(3)
    hit_P = rng.binomial(n, pi, 1_000_000)
    hit_E = hit_P[hit_P > 0]  # E: the finder was lucky there
    place_S = np.repeat(np.arange(len(hit_E)), hit_E)
    result = importance_mass(
        np.full(len(place_S), np.log(q)), np.full(len(place_S), np.log(pi)), place_S, hit_E * 0 + n
    )
    assert (result.low_P > q).mean() > 0.5  # the 95% is before problems are chosen
    trusted_E = trusted_bound(np.full(len(hit_E), q), result)
    assert (trusted_E <= q).all()
    assert set(reach(trusted_E, n)) == {Reach.OPEN}  # k more samples show it with a chance of 2.5% at most


def test_a_bound_by_several_samples_counts_and_one_by_few_does_not() -> None:
    logs, place = np.log(np.full(14, 0.9)), np.repeat([0, 1], [10, 4])
    mass = importance_mass(logs, logs, place, [10, 10])
    assert trusted_bound([1e-6, 1e-6], mass).tolist() == pytest.approx([0.05, 1e-6])
    assert trusted_bound([0.3, 0.3], mass).tolist() == [0.3, 0.3]


def test_the_mean_of_each_problem_gives_the_divergence_of_two_laws() -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
    counts = (p * 1_000).astype(int)
    gap = np.repeat(np.log(p / q), counts)  # samples in exact proportion
    assert problem_means(gap, np.zeros(len(gap), int), 2)[0] == pytest.approx((p * np.log(p / q)).sum())
    assert np.isnan(problem_means(gap, np.zeros(len(gap), int), 2)[1])


def test_a_ratio_has_an_interval_over_problems_and_none_where_one_problem_speaks() -> None:
    above = np.stack([np.arange(50.0), np.where(np.arange(50) == 3, 2.0, np.nan), np.full(50, np.nan)], axis=1)
    below = np.ones((50, 3))
    value, ends = ratios(above, below, np.zeros(50, int), replicates=2_000)
    assert value[:2].tolist() == [24.5, 2.0]
    assert np.isnan(value[2])
    assert ends[0].low < 24.5 < ends[0].high
    half = 1.96 * above[:, 0].std(ddof=1) / np.sqrt(50)
    assert (ends[0].high - ends[0].low) / 2 == pytest.approx(half, rel=0.15)
    assert np.isnan([ends[1].low, ends[2].high]).all()


def test_every_problem_weighs_the_same_within_its_group() -> None:
    weight = equal_weights([0, 0, 0, 1, 0], [0, 0, 1, 0, 1])
    assert weight.tolist() == [0.5, 0.5, 0.5, 1, 0.5]


def test_groups_that_differ_only_in_length_agree_once_lengths_are_matched() -> None:
    rng = np.random.default_rng(2)
    length = np.concatenate([rng.integers(10, 60, 400), rng.integers(40, 100, 400)])
    group = np.repeat([0, 1], 400)
    value = -0.01 * length  # long traces are likelier, whatever their class
    flat, matched = np.ones(800), matched_weights(length, group, np.ones(800))

    def gap(weight: np.ndarray) -> float:
        means = [np.average(value[group == item], weights=weight[group == item]) for item in (0, 1)]
        return float(abs(means[0] - means[1]))

    assert gap(flat) > 0.3
    assert gap(matched) < 0.1
    assert set(matched[group == 0][length[group == 0] < 30]) == {0.0}  # no trace of the other class is so short


def test_groups_that_share_no_length_cannot_be_matched() -> None:
    assert not matched_weights([1, 2, 3, 90, 91, 92], [0, 0, 0, 1, 1, 1], np.ones(6)).any()
    assert not matched_weights([1, 2, 3], [0, 0, 0], np.ones(3)).any()  # one class alone
    assert not matched_weights([1, 1, 1], [0, 0, 1], np.ones(3)).any()  # one trace of a class
