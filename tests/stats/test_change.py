"""Support change of two runs: tables, metrics, intervals and rules."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.tally import Tally, tally_of_counts
from offleash.errors import OffleashError
from offleash.stats.change import METRICS, change_of_table, common_budget, support_change
from offleash.stats.pass_at_k import cover_at
from offleash.stats.support_classes import Rule

cells = st.integers(0, 40)


def world(seed: int, problems: int = 50, n: int = 16) -> Tally:
    rng = np.random.default_rng(seed)
    rate = rng.beta(0.4, 0.8, (problems, 1)) * np.array([1.0, 0.6])
    return tally_of_counts(np.full((problems, 2), n), rng.binomial(n, rate))


def tally_of_cells(P: int, E: int, S: int, O: int) -> Tally:  # noqa: E741
    rows = [(1, 1)] * P + [(0, 1)] * E + [(1, 0)] * S + [(0, 0)] * O
    return tally_of_counts(np.ones((len(rows), 2), int), rows)


@given(cells, cells, cells, cells)
@settings(deadline=None, max_examples=60)
def test_a_tally_and_its_bare_table_have_the_same_metrics(P: int, E: int, S: int, O: int) -> None:  # noqa: E741
    if P + E + S + O == 0:
        return
    counted = support_change(tally_of_cells(P, E, S, O), "before", "after", replicates=50)
    bare = change_of_table(P, E, S, O)
    assert pytest.approx((P, E, S, O)) == (counted.P, counted.E, counted.S, counted.O)
    assert [counted.value[name] for name in METRICS] == pytest.approx(
        [bare.value[name] for name in METRICS], nan_ok=True
    )


@given(cells, cells, cells, cells)
@settings(deadline=None, max_examples=60)
def test_metrics_are_those_of_the_paper(P: int, E: int, S: int, O: int) -> None:  # noqa: E741
    change = change_of_table(P, E, S, O)
    value = change.value
    assert value["SRR"] == pytest.approx(P / (P + S) if P + S else np.nan, nan_ok=True)
    assert value["NDR"] == pytest.approx(E / (P + E) if P + E else np.nan, nan_ok=True)
    assert value["NSCR"] == pytest.approx((E - S) / (P + E + S) if P + E + S else np.nan, nan_ok=True)
    if P and E:
        assert value["SDS"] == pytest.approx(2 / (1 / value["SRR"] + 1 / value["NDR"]))
    if P:
        assert (value["SDS"] == 0) == (E == 0)
        jaccard = P / (P + E + S)
        assert jaccard == pytest.approx(1 / (1 / value["SRR"] + 1 / (1 - value["NDR"]) - 1))
    for name in METRICS:
        assert (change.reason(name) is None) == (not np.isnan(value[name]))


def test_the_jaccard_index_of_the_reached_sets_is_what_neither_run_lacks() -> None:
    tally = world(1)
    before, after = (set(np.flatnonzero(tally.correct_PR[:, r])) for r in (0, 1))
    change = support_change(tally, "before", "after", replicates=50)
    assert len(before & after) / len(before | after) == pytest.approx(change.P / (change.P + change.E + change.S))


@given(st.integers(0, 10**6), st.integers(1, 16))
@settings(deadline=None, max_examples=30)
def test_swapping_the_runs_swaps_the_cells_and_turns_the_net_change(seed: int, k: int) -> None:
    first = support_change(world(seed), "before", "after", k=k, replicates=50)
    two = support_change(world(seed), "after", "before", k=k, replicates=50)
    assert pytest.approx((first.P, first.S, first.E, first.O)) == (two.P, two.E, two.S, two.O)
    assert two.value["NSCR"] == pytest.approx(-first.value["NSCR"], nan_ok=True)
    assert two.value["SRR"] == pytest.approx(1 - first.value["NDR"], nan_ok=True)


def test_problems_may_come_in_any_order() -> None:
    tally = world(2)
    turned = tally.take(np.random.default_rng(0).permutation(len(tally)))
    first, two = (support_change(t, "before", "after", k=5, replicates=4000) for t in (tally, turned))
    for name in METRICS:
        assert two.value[name] == pytest.approx(first.value[name])
        assert two.interval[name].low == pytest.approx(first.interval[name].low, abs=0.02)
        assert two.interval[name].high == pytest.approx(first.interval[name].high, abs=0.02)


def test_the_same_seed_gives_the_same_interval_and_another_seed_nearly_so() -> None:
    a, b, c = (support_change(world(3), "before", "after", seed=seed).interval["SRR"] for seed in (0, 0, 1))
    assert a == b
    assert a != c
    assert (a.low, a.high) == pytest.approx((c.low, c.high), abs=0.01)


@pytest.mark.parametrize(
    ("P", "E", "S", "O"), [(30, 0, 0, 0), (30, 0, 3, 0), (27, 3, 0, 0), (0, 0, 0, 30), (1, 0, 0, 0), (0, 5, 5, 20)]
)
def test_every_interval_holds_its_estimate_and_none_has_zero_width(P: int, E: int, S: int, O: int) -> None:  # noqa: E741
    for change in (support_change(tally_of_cells(P, E, S, O), "before", "after"), change_of_table(P, E, S, O)):
        for name in METRICS:
            value, interval = change.value[name], change.interval[name]
            if np.isnan(value):
                assert interval.to_json() == [None, None]
            else:
                assert interval.low <= value <= interval.high
                assert interval.high - interval.low > 0.01


def test_no_loss_puts_the_upper_end_of_retention_at_one_and_no_gain_the_lower_end_of_discovery_at_zero() -> None:
    change = support_change(tally_of_cells(28, 0, 0, 2), "before", "after")
    assert change.interval["SRR"].high == 1
    assert change.interval["NDR"].low == change.interval["SDS"].low == 0
    assert 0.8 < change.interval["SRR"].low < 0.97  # 28 of 28 does not say 1
    assert 0.03 < change.interval["NDR"].high < 0.2


def test_a_bare_table_has_wilson_intervals() -> None:
    change = change_of_table(25, 0, 3, 2)
    assert (change.interval["SRR"].low, change.interval["SRR"].high) == pytest.approx((0.7280, 0.9629), abs=1e-4)


def test_different_budgets_are_cut_to_the_smaller() -> None:
    tally = tally_of_counts([[10, 1000]] * 3, [[1, 5], [0, 100], [4, 0]])
    assert common_budget(tally) == 10
    change = support_change(tally, "before", "after")
    assert change.k == 10
    assert change.E < 1  # 100 of 1000 is reached by 10 samples two times in three


@pytest.mark.parametrize("rule", ["above"])
def test_different_budgets_are_never_compared_raw_under_a_rule(rule: str) -> None:
    tally = tally_of_counts([[10, 1000]] * 200, [[0, 1]] * 200)  # the same rate, and a budget a hundred times as large
    try:
        change = support_change(tally, "before", "after", rule=rule, tau=0.0, replicates=50)
    except OffleashError:
        return
    assert change.E < 10  # at an equal budget a hundredth of them would be seen


def test_a_larger_budget_than_was_drawn_is_refused() -> None:
    with pytest.raises(OffleashError, match="k=17"):
        support_change(world(4), "before", "after", k=17)


def test_a_problem_without_samples_is_refused() -> None:
    with pytest.raises(OffleashError, match="no samples"):
        support_change(tally_of_counts([[4, 4], [0, 4]], [[1, 1], [0, 0]]), "before", "after")


def test_the_confident_rule_has_a_fifth_class() -> None:
    n = 1000
    tally = tally_of_counts(np.full((4, 2), n), [[20, 20], [0, 20], [20, 3], [0, 0]])
    change = support_change(tally, "before", "after", rule="confident")
    assert (change.P, change.E, change.S, change.O, change.undetermined) == (1, 1, 0, 1, 1)
    assert change.problems == 4


def test_the_rule_above_a_rate_counts_what_cover_at_that_rate_counts() -> None:
    tally = tally_of_counts(np.full((4, 2), 10), [[3, 4], [2, 3], [4, 2], [0, 2]])
    change = support_change(tally, "before", "after", rule=Rule.ABOVE, tau=0.3)
    assert (change.P, change.E, change.S, change.O) == (1, 1, 1, 1)
    for tau in (0.1, 0.2, 0.3, 0.4):
        change = support_change(tally, "before", "after", rule=Rule.ABOVE, tau=tau, replicates=2)
        assert cover_at(10, tally.correct_PR[:, 0], tau) == (change.P + change.S) / 4
        assert cover_at(10, tally.correct_PR[:, 1], tau) == (change.P + change.E) / 4


def test_the_rule_above_a_rate_of_zero_is_the_rule_seen() -> None:
    tally = tally_of_counts(np.full((3, 2), 10), [[3, 0], [0, 1], [0, 0]])
    change = support_change(tally, "before", "after", rule=Rule.ABOVE, tau=0.0)
    assert (change.P, change.E, change.S, change.O) == (0, 1, 1, 1)


def test_above_a_rate_of_zero_is_seen() -> None:
    tally = world(5)
    seen, above = (support_change(tally, "before", "after", rule=rule, replicates=50) for rule in ("seen", "above"))
    assert pytest.approx((above.P, above.E, above.S, above.O)) == (seen.P, seen.E, seen.S, seen.O)


@pytest.mark.parametrize("rule", [Rule.ABOVE, Rule.CONFIDENT, Rule.POSTERIOR])
def test_a_run_that_stopped_early_serves_only_the_rule_seen(rule: Rule) -> None:
    tally = replace(world(6), until_R=np.array([5, 0]))
    with pytest.raises(OffleashError, match="Use rule 'seen'"):
        support_change(tally, "before", "after", rule=rule, replicates=10)


def test_certificates_are_not_made_of_samples() -> None:
    with pytest.raises(OffleashError, match="certificates"):
        support_change(world(7), "before", "after", rule="certified")


def test_a_support_change_prints_its_table_and_its_rule() -> None:
    text = str(support_change(tally_of_cells(3, 1, 2, 4), "before", "after"))
    assert "P 3  E 1  S 2  O 4" in text
    assert "rule seen" in text
