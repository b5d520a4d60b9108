"""Early warning: alarms on planted series, false alarms at the stated rate, thresholds from null trajectories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from research.early_warning.rule import (
    NEVER,
    SHIPPED,
    Rule,
    alarms,
    choose_drop,
    delays,
    first,
    rank_correlation,
    relative_change,
)


def noise(trajectories: int, looks: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, (trajectories, looks))


def test_a_step_change_is_announced_at_the_look_at_which_it_comes() -> None:
    value_T = np.r_[np.zeros(5), np.full(7, -0.3)]
    assert int(first(alarms(value_T, np.full(12, 0.02), Rule("answer", drop=0.1, looks=12)))) == 5


def test_a_change_smaller_than_the_drop_is_not_announced_however_sure_it_is() -> None:
    rule = Rule("answer", drop=0.1, looks=4)
    assert not alarms(np.full(4, -0.09), np.full(4, 1e-6), rule).any()
    assert alarms(np.full(4, -0.11), np.full(4, 1e-6), rule).all()


def test_a_large_change_that_noise_explains_is_not_announced() -> None:
    rule = Rule("answer", drop=0.1, looks=4)
    assert not alarms(np.full(4, -0.3), np.full(4, 0.3 / rule.errors() * 1.01), rule).any()


def test_a_fall_that_is_announced_is_a_rise_for_a_rule_that_rises() -> None:
    value_T, spread_T = noise(1, 50)[0], np.full(50, 0.005)
    falls, rises = Rule("x", drop=0.01, looks=50), Rule("x", drop=0.01, looks=50, rises=True)
    assert alarms(value_T, spread_T, falls).tolist() == alarms(-value_T, spread_T, rises).tolist()
    assert not (alarms(value_T, spread_T, falls) & alarms(value_T, spread_T, rises)).any()


def test_what_is_not_known_is_never_announced() -> None:
    rule = Rule("answer", looks=2)
    assert not alarms([np.nan, -0.5], [0.01, np.nan], rule).any()


def test_an_unchanged_model_is_announced_at_the_stated_rate_over_all_looks() -> None:
    """Bonferroni over 12 independent looks: 1 - (1 - .05/12)^12 = .0489 in 20,000 trajectories."""
    value_NT = noise(20_000, 12)
    rate = alarms(value_NT, np.full(12, 0.02), Rule("answer", looks=12)).any(axis=1).mean()
    assert rate == pytest.approx(0.0489, abs=0.006)
    careless = alarms(value_NT, np.full(12, 0.02), Rule("answer", looks=1)).any(axis=1).mean()
    assert careless > 0.4


def test_a_chosen_drop_is_passed_by_new_null_trajectories_at_the_stated_rate() -> None:
    rates = []
    for seed in range(40):
        drop = choose_drop(noise(199, 12, seed), 0.05)
        rates.append(alarms(noise(2_000, 12, 1_000 + seed), 0.0, Rule("answer", drop)).any(axis=1).mean())
    assert np.mean(rates) == pytest.approx(0.05, abs=0.01)


def test_of_19_trajectories_the_largest_change_is_the_drop_and_none_of_them_passes_it() -> None:
    value_NT = noise(19, 5)
    drop = choose_drop(value_NT, 0.05)
    assert drop == pytest.approx(-value_NT.min())
    assert not alarms(value_NT, 0.0, Rule("answer", drop)).any()
    assert choose_drop(value_NT[:4], 0.05) == pytest.approx(-value_NT[:4].min())


def test_trajectories_that_only_rise_ask_for_no_fall() -> None:
    assert choose_drop(np.abs(noise(30, 4))) < 1e-300


@given(st.permutations(range(12)), st.integers(0, 50))
def test_the_order_of_trajectories_and_the_sign_do_not_matter_to_the_drop(order: list[int], seed: int) -> None:
    value_NT = noise(12, 6, seed)
    assert choose_drop(value_NT, 0.2) == choose_drop(value_NT[order], 0.2) == choose_drop(-value_NT, 0.2, rises=True)


def test_delays_are_signed_and_misses_and_false_alarms_are_counted() -> None:
    def at(place: int) -> list[bool]:
        return [look >= place >= 0 for look in range(6)]

    alarm, lost = (2, 5, NEVER, 1, NEVER), (4, 3, 2, NEVER, NEVER)
    found = delays([at(one) for one in alarm], [at(one) for one in lost])
    assert found.alarm_N.tolist() == list(alarm)
    assert found.loss_N.tolist() == list(lost)
    assert found.delay_N[:2].tolist() == [-2, 2]
    assert np.isnan(found.delay_N[2:]).all()
    assert (found.misses, found.false_alarms, found.mean) == (1, 1, 0.0)


def test_the_change_is_that_of_the_means_over_problems_that_both_know() -> None:
    base = [2.0, 4.0] * 4
    change = relative_change([[1.0, 3.0] * 4 + [np.nan, 5.0], [*base, 6.0, np.nan]], [*base, 6.0, np.nan])
    assert change.value_T == pytest.approx([4 / 6 - 1, 0.0])
    assert change.spread_T[1] == 0
    assert change.problems_T.tolist() == [8, 9]
    few = relative_change([[1.0] * 7 + [np.nan]], [2.0] * 8)  # too few to tell how sure it is
    assert few.value_T.tolist() == [-0.5]
    assert not alarms(few.value_T, few.spread_T, Rule("answer"), few.problems_T).any()
    assert np.isnan(relative_change([[1.0, np.nan]], [2.0, 2.0]).value_T).all()
    assert np.isnan(relative_change([[0.0] * 8], [0.0] * 8).value_T).all()


def test_few_problems_raise_no_more_false_alarms_than_many() -> None:
    rng, rule = np.random.default_rng(6), Rule("answer", looks=12)
    for problems in (8, 12, 64):
        rates = []
        for _ in range(300):
            base_P = rng.uniform(1, 3, problems)
            change = relative_change(base_P + rng.normal(0, 0.3, (12, problems)), base_P)
            rates.append(alarms(change.value_T, change.spread_T, rule, change.problems_T).any())
        assert np.mean(rates) < 0.09, problems  # 5% is wanted; 8 problems by the normal law: 15%


def test_the_standard_error_of_a_change_is_the_spread_of_changes_over_worlds() -> None:
    rng = np.random.default_rng(5)
    base_P = rng.uniform(1, 3, 64)
    value_NP = 0.9 * base_P + rng.normal(0, 0.3, (4_000, 64))
    change = relative_change(value_NP, base_P)
    assert change.value_T.mean() == pytest.approx(-0.1, abs=1e-3)
    assert change.spread_T.mean() == pytest.approx(change.value_T.std(), rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=12))
def test_the_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    left, right = zip(*pairs, strict=True)
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert np.isnan(rank_correlation(left, right))
    else:
        assert rank_correlation(left, right) == pytest.approx(stats.spearmanr(left, right).statistic)


def test_a_rule_without_looks_or_chance_is_refused() -> None:
    for wrong in ({"looks": 0}, {"false_alarm": 0.0}, {"false_alarm": 1.0}, {"drop": -0.1}):
        with pytest.raises(ValueError, match="a rule has"):
            Rule("answer", **wrong)


def test_the_shipped_rule_announces_a_collapse_and_not_the_noise_of_a_look() -> None:
    toward = 1 if SHIPPED.rises else -1
    assert alarms([toward * 0.9], [0.01], SHIPPED).all()
    assert not alarms([toward * 0.01], [0.02], SHIPPED).any()
