"""The statements: what is known of each comes out, counterexamples are ones, and the search finds the smallest."""

import numpy as np
import pytest

from offleash.analyses.theory.exact import entropy, pass_at_k, success_rates
from offleash.analyses.theory.mechanisms import crossing_margin
from offleash.analyses.theory.policy import nucleus, tied, tilt
from offleash.analyses.theory.statements import reweighting, support
from offleash.analyses.theory.statements.registry import STATEMENTS
from offleash.analyses.theory.statements.statement import Ruling, StatementResult, search, shrink
from offleash.analyses.theory.world import TheoryWorld, random_world, world_of


@pytest.fixture(scope="module")
def found() -> dict[str, StatementResult]:
    return {name: statement.check(1) for name, statement in STATEMENTS.items()}


def test_the_verdicts_are_those_of_the_specification(found: dict[str, StatementResult]) -> None:
    assert {name: one.ruling.value for name, one in found.items()} == {
        "C.1": "holds only if",
        "C.2": "holds only if",
        "C.3": "holds only if",
        "C.4": "holds",
        "C.5": "holds",
        "no shrinkage": "holds",
        "C.6": "fails",
        "tail-miss": "holds",
    }
    assert all(bool(one.condition) == (one.ruling is Ruling.ONLY_IF) for one in found.values())
    assert all(name == statement.name for name, statement in STATEMENTS.items())


def test_ten_thousand_random_worlds_do_not_shrink_under_the_tilt(found: dict[str, StatementResult]) -> None:
    seen = found["no shrinkage"].evidence
    assert seen.worlds == 10_000
    assert seen.numbers["smallest_ratio"] > 1 - 1e-9
    assert seen.numbers["answers_lost"] == 0
    assert seen.numbers["largest_fall"] < 1e-9


def test_a_policy_that_shrinks_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def sharpened(world: TheoryWorld, beta: float) -> np.ndarray:
        p_XY = world.base_XY**2 * np.exp(min(beta, 5.0) * world.correct_XY)  # favours what is likely, as training does
        return np.asarray(p_XY / p_XY.sum(axis=1, keepdims=True))

    monkeypatch.setattr(reweighting, "tilt", sharpened)
    assert reweighting.check_never_shrinks(0).ruling is Ruling.FAILS
    assert reweighting.check_optimum(0).ruling is Ruling.FAILS
    assert reweighting.check_limit(0).ruling is Ruling.FAILS


def test_a_wrong_tail_miss_formula_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reweighting.enumerate_tail_miss(0.1, 0.5, 4) == pytest.approx(reweighting.tail_miss(0.1, 0.5, 4))
    monkeypatch.setattr(reweighting, "tail_miss", lambda tau, mu, group: (1 - tau) ** group - (1 - mu) ** group)
    assert reweighting.check_tail_miss(0).ruling is Ruling.FAILS


def test_the_tail_miss_formula_equals_simulation_within_its_error() -> None:
    rng, groups = np.random.default_rng(3), 100_000
    for tau, mu, group in ((0.01, 0.3, 8), (0.001, 0.6, 32), (0.05, 0.1, 4)):
        chance = reweighting.tail_miss(tau, mu, group)
        error = np.sqrt(chance * (1 - chance) / groups)
        assert abs(reweighting.simulate_tail_miss(tau, mu, group, groups, rng) - chance) < 4.5 * error


def test_the_smallest_counterexamples_to_c6_have_two_answers_and_three_in_the_limit(
    found: dict[str, StatementResult],
) -> None:
    some, limit = found["C.6"].evidence.counterexamples
    assert some.world.base_XY.shape == (1, 2)
    assert limit.world.base_XY.shape == (1, 3)
    risen = (
        max(entropy(tilt(some.world, beta))[0] for beta in reweighting.NARROWING_BETAS) - entropy(some.world.base_XY)[0]
    )
    assert risen == pytest.approx(some.value)
    assert found["C.6"].evidence.numbers["condition_exceptions"] == 0


def test_every_counterexample_refutes_when_it_is_tried_again(found: dict[str, StatementResult]) -> None:
    undrawn, cut = found["C.1"].evidence.counterexamples
    assert support.undrawn_rise(undrawn.world) == pytest.approx(undrawn.value)
    assert support.cut_answer_returns(cut.world) == pytest.approx(cut.value)
    (broken,) = found["C.2"].evidence.counterexamples
    assert support.ceiling_rise(broken.world) == pytest.approx(broken.value)
    assert broken.world.base_XY.shape == (2, 2)
    (left,) = found["C.3"].evidence.counterexamples
    assert support.leaves(left.world) == pytest.approx(left.value)
    assert left.world.base_XY.shape == (1, 2)


def test_exact_zeros_are_kept_and_the_ceiling_with_them(found: dict[str, StatementResult]) -> None:
    assert found["C.1"].evidence.worst == 0
    assert found["C.2"].evidence.numbers["largest_excess"] == 0


def test_the_bound_of_c3_is_kept_by_tables_and_vacuous_at_real_scales(found: dict[str, StatementResult]) -> None:
    numbers = found["C.3"].evidence.numbers
    assert numbers["excess"] < 0
    assert numbers["bound_log10"] == pytest.approx(2 * 1e-6 * 2_000 * 32_768 / np.log(10))
    assert support.log_bound(1e-6, 2_000, numbers["vacuous_from_K"]) == pytest.approx(-np.log(support.DRIFT_EPSILON))


def test_an_answer_cut_by_top_p_returns_in_a_world_small_enough_to_check_by_hand() -> None:
    world = world_of({"A": 0.06, "B": 0.04, "wrong": 0.90})
    assert nucleus(world.base_XY, 0.95)[0, 1] == 0
    assert support.cut_answer_returns(world) > 0.03


def test_two_problems_and_two_answers_suffice_for_pass_at_k_to_fall() -> None:
    world = world_of({"RIGHT": 0.2, "wrong": 0.8}, {"wrong": 0.99, "RIGHT": 0.01})
    assert crossing_margin(world) > 0.05
    rate_X = success_rates(tied(world).probability_XY, world.correct_XY)
    for beta in np.linspace(0, 20, 50):
        tilted = pass_at_k(success_rates(tilt(world, beta), world.correct_XY), [1, 64, 1024])
        assert (tilted >= pass_at_k(rate_X, [1, 64, 1024]) - 1e-12).all()


def test_the_search_shrinks_to_the_fewest_problems_and_answers_that_still_refute() -> None:
    def several_right(world: TheoryWorld) -> float:
        return float((world.correct_XY.sum(axis=1) >= 2).any()) - 0.5

    one = search(several_right, lambda rng: random_world(rng, 4, 6), seed=0, tries=20)
    assert one.smallest is not None
    assert one.smallest.base_XY.shape == (1, 2)
    assert one.seed is not None
    again = random_world(np.random.default_rng(one.seed), 4, 6)
    assert (shrink(again, several_right).base_XY == one.smallest.base_XY).all()
    assert search(lambda _: 0.0, lambda rng: random_world(rng), seed=0, tries=5).smallest is None


def test_the_same_seed_gives_the_same_finding() -> None:
    one, same = (reweighting.check_narrowing(4) for _ in range(2))
    assert one.evidence.words == same.evidence.words
