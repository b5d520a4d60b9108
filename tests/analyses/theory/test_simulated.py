"""Simulated runs: compare applies to them, and what it measures is what is exactly true in the world."""

import json
import runpy

import numpy as np
import pytest

from offleash.analyses.theory.dynamics import Dynamics, train
from offleash.analyses.theory.exact import expected_support, pass_at_k, success_rates
from offleash.analyses.theory.policy import shared
from offleash.analyses.theory.world import TheoryWorld, method_world, random_world, simulate, simulated_run
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.comparing.tally import tally
from offleash.data.tables import VERDICTS
from offleash.data.tally import Per
from offleash.reporting.comparison import document
from tests.places import EXAMPLES

SAMPLES = 64
WORLD = method_world(np.random.default_rng(31), problems=60, answers=12, correct=3, spread=2.0, popularity=1.0)


@pytest.fixture(scope="module")
def trained() -> TheoryWorld:
    """The world as it is after training shared parameters: its base is the trained policy."""
    rng = np.random.default_rng(0)
    start = shared(WORLD, 3, rng, similarity=0.7)
    final = train(start, WORLD, Dynamics("reinforce", group=8, rate=0.1, steps=150), rng).final
    return TheoryWorld(final.probability_XY, WORLD.correct_XY)


@pytest.fixture(scope="module")
def found(trained: TheoryWorld) -> Comparison:
    before = simulated_run("base", WORLD, WORLD.base_XY, SAMPLES, seed=0)
    return compare(before, simulated_run("rl", WORLD, trained.base_XY, SAMPLES, seed=1), Question(replicates=200))


def test_compare_measures_the_exact_pass_at_k_and_the_expected_table(found: Comparison, trained: TheoryWorld) -> None:
    rates = [success_rates(p_XY, WORLD.correct_XY) for p_XY in (WORLD.base_XY, trained.base_XY)]
    exact = expected_support(rates[0], rates[1], SAMPLES)
    a, b = (1 - (1 - rate_X) ** SAMPLES for rate_X in rates)
    chances = {"P": a * b, "E": (1 - a) * b, "S": a * (1 - b), "O": (1 - a) * (1 - b)}
    for cell, chance_X in chances.items():
        spread = np.sqrt((chance_X * (1 - chance_X)).sum())
        assert abs(getattr(found.change, cell) - getattr(exact, cell)) < 4 * spread + 0.5
    for side, rate_X in zip(("before", "after"), rates, strict=True):
        curve = found.curves[side]
        for k, value in zip(curve.k_K, curve.value_K, strict=True):
            p_X = 1 - (1 - rate_X) ** k
            most = np.sqrt((p_X * (1 - p_X)).sum()) / len(p_X)  # the estimator varies less than one draw of k
            assert abs(value - pass_at_k(rate_X, int(k))[0]) < 4 * most + 1e-9


def test_to_compare_the_trained_world_looks_like_the_paper(found: Comparison) -> None:
    difference = found.curves["difference"]
    assert difference.value_K[0] > 0.2
    assert difference.value_K[-1] < 0
    assert found.change.S > found.change.E


def test_answers_are_on_record_so_that_diversity_and_support_per_answer_apply(found: Comparison) -> None:
    assert found.diversity is not None
    assert found.diversity.after.entropy < found.diversity.before.entropy
    run = found.before
    assert run.verdicts is not None
    assert dict(run.verdicts.collect_schema()) == VERDICTS
    assert run.problems["gold"][0].startswith("y")
    per_answer = compare(found.before, found.after, Question(per=Per.ANSWER, replicates=200))
    assert per_answer.change.P + per_answer.change.S > found.change.P + found.change.S
    json.dumps(document([found]), allow_nan=False)


def test_a_run_and_a_simulated_tally_of_the_same_policy_count_alike() -> None:
    world = random_world(np.random.default_rng(5), 12, 5)
    run = simulated_run("base", world, world.base_XY, 40, seed=9)
    of_run, direct = tally([run]).tally, simulate(world, {"base": world.base_XY}, 40, seed=9).tally
    for name in ("problem_P", "drawn_PR", "correct_PR", "first_PR", "head_PR", "budget_R", "ordered_R"):
        assert (getattr(of_run, name) == getattr(direct, name)).all(), name


def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "theory_world.py"), run_name="__main__")
    assert "kept" in capsys.readouterr().out
