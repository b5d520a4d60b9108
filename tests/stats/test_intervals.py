"""Intervals over problems: the law of the weights, percentiles, bands and Wilson."""

import numpy as np
import pytest
from scipy import stats

from offleash.stats.intervals import percentile_intervals, replicate_sums, simultaneous_band, strata, wilson

NONE = np.zeros((4, 1))


@pytest.mark.parametrize("problems", [5, 25, 300])
def test_replicates_have_the_mean_and_the_unbiased_variance_of_a_mean(problems: int) -> None:
    x = np.random.default_rng(0).normal(2, 3, problems)
    sums = replicate_sums(x[:, None], NONE, np.zeros(problems, int), 40_000)[:, 0] / problems
    assert sums.mean() == pytest.approx(x.mean(), abs=0.03)
    assert sums.var() == pytest.approx(x.var(ddof=1) / problems, rel=0.04)


def test_weights_are_those_of_a_dirichlet_law() -> None:
    weight = replicate_sums(np.eye(10), np.zeros((4, 10)), np.zeros(10, int), 20_000) / 10
    assert weight.sum(axis=1) == pytest.approx(1)
    assert stats.kstest(weight[:, 3], stats.beta(0.8, 7.2).cdf).pvalue > 1e-3


def test_every_stratum_keeps_its_size_and_small_ones_keep_it_together() -> None:
    stratum = np.array([0] * 5 + [1] * 20 + [2] * 2 + [3] * 4)
    member = (stratum[:, None] == np.arange(4)).astype(float)
    sums = replicate_sums(member, np.zeros((4, 4)), stratum, 300)
    assert sums[:, :2] == pytest.approx(np.tile([5, 20], (300, 1)))
    assert sums[:, 2:].sum(axis=1) == pytest.approx(np.full(300, 6))
    assert sums[:, 2].std() > 0.1


def test_a_lone_small_stratum_joins_the_smallest_other() -> None:
    stratum = np.array([0] * 5 + [1] * 20 + [2] * 2)
    member = (stratum[:, None] == np.arange(3)).astype(float)
    sums = replicate_sums(member, np.zeros((4, 3)), stratum, 300)
    assert sums[:, 1] == pytest.approx(np.full(300, 20))
    assert sums[:, [0, 2]].sum(axis=1) == pytest.approx(np.full(300, 7))


def test_strata_take_the_variance_between_benchmarks_away() -> None:
    value, stratum = np.repeat([0.0, 1.0], 50)[:, None], np.repeat([0, 1], 50)
    whole, split = (replicate_sums(value, NONE, s, 2000)[:, 0].std() for s in (np.zeros(100, int), stratum))
    assert whole > 4
    assert split < 1e-9


def test_a_pseudo_problem_weighs_half_a_problem_and_each_varies_alone() -> None:
    sums = replicate_sums(np.zeros((30, 4)), np.eye(4), np.zeros(30, int), 40_000)
    assert sums.mean(axis=0) == pytest.approx([0.5] * 4, abs=0.02)
    assert stats.kstest(sums[:, 2], stats.gamma(0.5).cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(sums.T) - np.eye(4)).max() < 0.03


def test_the_same_seed_gives_the_same_weights_whatever_is_summed() -> None:
    x = np.random.default_rng(1).normal(size=(50, 3))
    both = replicate_sums(x, np.zeros((4, 3)), np.zeros(50, int), 100, seed=5)
    alone = replicate_sums(x[:, :1], NONE, np.zeros(50, int), 100, seed=5)
    assert both[:, :1] == pytest.approx(alone)
    assert replicate_sums(x[:, :1], NONE, np.zeros(50, int), 100, seed=6) != pytest.approx(alone)


def test_blocks_do_not_change_the_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    x, stratum = np.random.default_rng(2).normal(size=(40, 2)), np.arange(40) % 3
    once = replicate_sums(x, np.ones((4, 2)), stratum, 101)
    monkeypatch.setattr("offleash.stats.intervals._BLOCK_BYTES", 8 * 40 * 7)
    assert replicate_sums(x, np.ones((4, 2)), stratum, 101) == pytest.approx(once)


def test_percentiles_are_widened_to_hold_the_estimate() -> None:
    replicate = np.linspace(0, 1, 1001)[:, None]
    assert percentile_intervals(replicate, np.array([0.5]))[0].to_json() == pytest.approx([0.025, 0.975])
    assert percentile_intervals(replicate, np.array([0.0]))[0].low == 0
    assert percentile_intervals(replicate, np.array([1.0]))[0].high == 1
    assert percentile_intervals(replicate, np.array([0.5]), 0.5)[0].low == pytest.approx(0.25)


def test_undefined_replicates_are_left_out_and_an_undefined_estimate_has_no_interval() -> None:
    replicate = np.stack([np.where(np.arange(1001) < 500, np.nan, 0.5), np.linspace(0, 1, 1001)], axis=1)
    ragged, unknown = percentile_intervals(replicate, np.array([0.5, np.nan]))
    assert (ragged.low, ragged.high) == (0.5, 0.5)
    assert unknown.to_json() == [None, None]


def test_a_band_holds_whole_replicates_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    replicate = rng.normal(size=(20_000, 6)) * [1, 2, 3, 1, 1, 9]
    low, high = simultaneous_band(replicate, np.zeros(6), (-100, 100))
    assert np.mean(((replicate >= low) & (replicate <= high)).all(axis=1)) == pytest.approx(0.95, abs=0.005)
    assert high / [1, 2, 3, 1, 1, 9] == pytest.approx([stats.norm.ppf((1 + 0.95 ** (1 / 6)) / 2)] * 6, rel=0.05)


def test_a_band_is_clipped_to_its_range_and_a_fixed_curve_has_none() -> None:
    replicate = np.random.default_rng(4).normal(0.9, 0.2, (1000, 3))
    assert (simultaneous_band(replicate, np.full(3, 0.9), (0, 1))[1] == 1).all()
    low, high = simultaneous_band(np.ones((10, 2)), np.ones(2), (0, 1))
    assert low.tolist() == high.tolist() == [1, 1]


def test_strata_are_codes_of_the_labels() -> None:
    assert strata(["b", "a", "b", "c"]).tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(("successes", "total"), [(0, 10), (3, 10), (10, 10), (25, 28), (1355, 1411)])
def test_wilson_is_the_inverted_score_test(successes: int, total: int) -> None:
    expected = stats.binomtest(successes, total).proportion_ci(method="wilson")
    result = wilson(successes, total)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_unknown() -> None:
    assert wilson(0, 0).to_json() == [None, None]
