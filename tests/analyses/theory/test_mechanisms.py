"""Mechanisms: what each of them does on few seeds, the intervals over seeds, and the world where pass@k falls."""

import numpy as np
import pytest
from scipy import stats

from offleash.analyses.theory.exact import pass_at_k, success_rates
from offleash.analyses.theory.mechanisms import BUDGETS, CELLS, REPORTED_K, Mechanism, effects, leash, mean, mechanism

MOST = f"pass@{BUDGETS[-1]}"


@pytest.fixture(scope="module")
def cells() -> list[Mechanism]:
    return [mechanism("reinforce", name, seed=3, seeds=5) for name in CELLS]


def test_tables_keep_every_problem_and_shared_parameters_lose_some(cells: list[Mechanism]) -> None:
    by_name = {cell.name: cell for cell in cells}
    for name in ("neither", "finite groups"):
        assert by_name[name].fell == 0
        assert by_name[name].after["problems kept"].value == 1
    for name in ("shared parameters", "both"):
        assert by_name[name].fell >= 1
        assert by_name[name].matched_change.value < 0
    for cell in cells:
        assert cell.change["pass@1"].low > 0
        assert cell.after["answers kept"].high < 1  # answers are lost in all of them
        assert cell.tilt[MOST].value >= cell.before[MOST].value


def test_effects_are_contrasts_of_the_cells(cells: list[Mechanism]) -> None:
    by_name = {cell.name: cell.after[MOST].value for cell in cells}
    found = {one.name: one.on[MOST].value for one in effects(cells)}
    both, neither = by_name["both"], by_name["neither"]
    finite, shared = by_name["finite groups"], by_name["shared parameters"]
    assert found["finite groups"] == pytest.approx((finite + both - neither - shared) / 2)
    assert found["shared parameters"] == pytest.approx((shared + both - neither - finite) / 2)
    assert found["interaction"] == pytest.approx(both - finite - shared + neither)


@pytest.mark.parametrize("seeds", [5, 12, 20])
def test_intervals_over_seeds_are_those_of_students_t(seeds: int) -> None:
    value_N = np.random.default_rng(0).standard_normal(seeds)
    low, high = stats.t.interval(0.95, seeds - 1, value_N.mean(), stats.sem(value_N))
    one = mean(value_N)
    assert (one.high - one.low) == pytest.approx(high - low, rel=0.01)
    assert np.isnan(mean(np.array([])).value)


def test_a_cell_is_the_same_for_the_same_seed() -> None:
    one, same = (mechanism("grpo", "both", seed=1, seeds=2) for _ in range(2))
    assert (one.training_curves[MOST] == same.training_curves[MOST]).all()


def test_in_the_world_of_the_leash_pass_at_1_rises_pass_at_k_falls_and_no_tilt_does_that() -> None:
    one = leash(0)
    place = one.k_K.index(REPORTED_K)
    assert one.curves["trained"][0] > one.curves["base"][0] + 0.3
    assert one.curves["trained"][place] < one.curves["base"][place]
    assert one.curves["tilt"][0] == pytest.approx(one.curves["trained"][0])
    assert (one.curves["tilt"] >= one.curves["base"] - 1e-12).all()
    assert one.best_fall < 1e-12
    rate_X = success_rates(one.trained_XY, one.world.correct_XY)
    assert one.curves["trained"] == pytest.approx(pass_at_k(rate_X, one.k_K))
    assert one.smallest.smallest is not None
    assert one.smallest.smallest.base_XY.shape == (2, 2)
