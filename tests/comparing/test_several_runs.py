"""Several runs after the first: what they are, and that every test is corrected over them."""

from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.comparing.checkpoints import several_runs
from offleash.comparing.compare import compare
from offleash.comparing.headline import headline
from offleash.comparing.question import Question, RunsAre
from offleash.errors import OffleashError
from offleash.reporting.comparison import document
from offleash.results.result import shown
from offleash.stats.reach import reach_change
from offleash.stats.significance import joint_confidence, joint_lists, losses_at_least, problem_tests

N = 64


def counts(folder: Path, name: str, correct: list[int], n: int = N) -> str:
    path = folder / f"{name}.csv"
    path.write_text("problem,n,c\n" + "".join(f"q{i},{n},{c}\n" for i, c in enumerate(correct)))
    return str(path)


def equal_trainings(studies: int, checkpoints: int, seed: int = 1) -> tuple[float, float, float]:
    """Trainings whose checkpoints equal the base: shares with a loss by each run's own level, corrected, and listed."""
    rng, alone, bounds, listed = np.random.default_rng(seed), 0, 0, 0
    drawn_P2 = np.full((40, 2), N)
    for _ in range(studies):
        rate_P = rng.beta(0.3, 1.2, 40)
        base_P = rng.binomial(N, rate_P)
        pairs = [np.stack([base_P, rng.binomial(N, rate_P)], axis=1) for _ in range(checkpoints)]
        alone += any(losses_at_least(drawn_P2, pair) for pair in pairs)
        bounds += any(losses_at_least(drawn_P2, pair, joint_confidence(2 * checkpoints)) for pair in pairs)
        listed += any(one.lost.size for one in joint_lists([problem_tests(drawn_P2, pair) for pair in pairs]))
    return alone / studies, bounds / studies, listed / studies


def test_twenty_checkpoints_equal_to_the_base_show_a_significant_loss_in_few_trainings() -> None:
    alone, bounds, listed = equal_trainings(30, 20)
    assert alone >= 0.1
    assert max(bounds, listed) <= 0.05


@pytest.mark.slow
def test_twenty_checkpoints_equal_to_the_base_at_length() -> None:
    alone, bounds, listed = equal_trainings(300, 20, seed=2)
    print(
        f"\na loss in {alone:.1%} of 300 trainings by each run's own level, {bounds:.1%} corrected, {listed:.1%} listed"
    )
    assert alone > 0.1
    assert max(bounds, listed) <= 0.05


@pytest.mark.slow
def test_losses_and_gains_hold_together_in_a_known_world() -> None:
    """A third of the rates fell to nothing, a tenth rose from nothing: both bounds at once stay below the truth."""
    rng, inside, studies = np.random.default_rng(4), 0, 1000
    drawn_P2 = np.full((60, 2), N)
    for _ in range(studies):
        before_P, after_P = rng.beta(0.4, 2, 60), rng.beta(0.4, 2, 60)
        kind_P = rng.choice(3, 60, p=[0.57, 0.33, 0.1])
        after_P = np.where(kind_P == 0, before_P, np.where(kind_P == 1, 0, after_P))
        before_P = np.where(kind_P == 2, 0, before_P)
        correct_P2 = rng.binomial(N, np.stack([before_P, after_P], axis=1))
        lost = losses_at_least(drawn_P2, correct_P2, joint_confidence(2))
        gained = losses_at_least(drawn_P2[:, ::-1], correct_P2[:, ::-1], joint_confidence(2))
        inside += lost <= (kind_P == 1).sum() and gained <= (kind_P == 2).sum()
    assert inside / studies >= 0.95


def test_both_bounds_hold_together_so_each_is_at_a_higher_confidence(tmp_path: Path) -> None:
    """6 of 64 against none has p = .0140: below .025, above the .0125 that each of two bounds may use."""
    base, rl = counts(tmp_path, "base", [6]), counts(tmp_path, "rl", [0])
    assert ol.compare(base, rl, replicates=100).evidence.losses_at_least == 0
    stronger = counts(tmp_path, "base", [8])
    assert ol.compare(stronger, rl, replicates=100).evidence.losses_at_least == 1


def test_a_loss_of_one_checkpoint_is_corrected_over_all_of_them(tmp_path: Path) -> None:
    base = counts(tmp_path, "base", [10, *[20] * 9])
    lost = counts(tmp_path, "step20", [0, *[20] * 9])
    same = [counts(tmp_path, f"step{step}", [10, *[20] * 9]) for step in range(21, 40)]
    alone = ol.compare(base, lost, replicates=100).evidence
    assert (alone.losses_at_least, alone.lost) == (1, ("q0",))
    among = ol.compare(base, lost, *same, replicates=100).comparisons[0].evidence
    assert among.runs_tested == 20
    assert (among.losses_at_least, among.lost) == (0, ())
    assert among.null is not None
    assert alone.null is not None
    assert among.null.p_S == alone.null.p_S  # per run, as it is
    assert among.adjusted_p["S"] == pytest.approx(min(1, 20 * among.null.p_S))
    assert among.listed_from is not None
    assert alone.listed_from is not None
    assert (alone.listed_from.lost, among.listed_from.lost) == (8, 12)


def test_a_rise_of_pass_at_1_is_corrected_over_all_runs(tmp_path: Path) -> None:
    """Rates rise on 80 problems and fall less on 80 others: 2.5 standard errors, in one of twenty runs."""
    runs = ol.load(counts(tmp_path, "base", [20] * 160)), ol.load(counts(tmp_path, "step20", [27, 16] * 80))
    alone, among = (compare(*runs, Question(replicates=1000), runs_after) for runs_after in (1, 20))
    assert headline(alone).finding == "sharpened"
    assert headline(among).finding == "no_change"
    assert "pass@1 31% -> 34% (not significant)" in headline(among).text
    assert alone.worth_at_most == alone.equivalent[0].high < among.worth_at_most


def test_a_fall_of_reach_is_corrected_over_all_runs() -> None:
    """Five problems fewer and one of them solved once: 2.9 standard deviations, with two for gains too rare to see."""
    pair = ol.tally_of_counts(N, [[20, 0]] * 4 + [[1, 0], [0, 0], [0, 0]] + [[40, 40]] * 20)
    assert reach_change(pair, N).fell
    assert not reach_change(pair, N, joint_confidence(20)).fell


NAMES = {
    ("step100", "step200"): RunsAre.CHECKPOINTS,
    ("grpo-global_step_20", "grpo-global_step_40"): RunsAre.CHECKPOINTS,
    ("checkpoint-50", "checkpoint-100"): RunsAre.CHECKPOINTS,
    ("ckpt_3", "ckpt_4", "ckpt_5"): RunsAre.CHECKPOINTS,
    ("seed1-step100", "seed1-step200"): RunsAre.CHECKPOINTS,
    ("seed1", "seed2"): RunsAre.SEEDS,
    ("seed1-step100", "seed2-step100"): RunsAre.SEEDS,
    ("seed1-step100", "seed2-step200"): RunsAre.METHODS,
    ("grpo-step100", "dapo-step100"): RunsAre.METHODS,
    ("grpo-step100", "dapo-step200"): RunsAre.METHODS,
    ("step100", "step0100"): RunsAre.METHODS,
    ("multistep1", "multistep2"): RunsAre.METHODS,
    ("s1", "s2"): RunsAre.METHODS,  # a model has that name
    ("grpo", "dapo"): RunsAre.METHODS,
    ("step100", "final"): RunsAre.METHODS,
}


@pytest.mark.parametrize(("names", "value"), NAMES.items())
def test_what_runs_are_is_guessed_from_names_that_differ_in_a_number_alone(
    names: tuple[str, ...], value: RunsAre
) -> None:
    guess = several_runs(names)
    assert (guess.value, guess.guessed) == (value, True)
    assert several_runs(names, RunsAre.SEEDS).value is RunsAre.SEEDS


def test_the_numbers_of_a_split_column_are_steps() -> None:
    assert several_runs(["10", "20"], column="global_step").value is RunsAre.CHECKPOINTS
    assert several_runs(["10", "20"], column="temperature").value is RunsAre.METHODS
    assert several_runs(["10", "20"]).value is RunsAre.METHODS


def test_methods_have_neither_union_nor_trend_and_a_line_says_why(tmp_path: Path) -> None:
    base = counts(tmp_path, "base", [10, 20, 0, 3])
    runs = [counts(tmp_path, name, [0, 20, 3, 3]) for name in ("grpo", "dapo")]
    result = ol.compare(base, *runs, replicates=100)
    assert result.union is None
    assert result.to_dict()["runs_are"] == {"value": "methods", "guessed": True}
    assert "treated as different methods (their names show neither steps nor seeds)" in " ".join(shown(result).split())
    chart = result.figure("checkpoints").chart.to_dict()
    assert '"line"' not in str(chart).replace("'", '"')
    steps = ol.compare(base, *runs, replicates=100, runs_are="checkpoints")
    assert steps.union is not None
    assert steps.to_dict()["runs_are"] == {"value": "checkpoints", "guessed": False}
    assert '"line"' in str(steps.figure("checkpoints").chart.to_dict()).replace("'", '"')


def test_single_training_per_method_is_said_and_several_seeds_are_not(tmp_path: Path) -> None:
    base = counts(tmp_path, "base", [10, 20, 0, 3])
    runs = [counts(tmp_path, f"seed{seed}", [0, 20, 3, 3]) for seed in (1, 2)]
    seeds = ol.compare(base, *runs, replicates=100)
    assert seeds.to_dict()["runs_are"] == {"value": "seeds", "guessed": True}
    assert seeds.to_dict()["single_training"] is None
    single = ol.compare(base, runs[0], replicates=100)
    said = document(single.comparisons)["single_training"]
    assert "another training seed" in str(said)
    assert "One training run per method" in single.report_text("md")


def test_bad_values_of_runs_are_name_the_next_step(tmp_path: Path) -> None:
    base, rl = counts(tmp_path, "base", [10, 20]), counts(tmp_path, "rl", [0, 20])
    with pytest.raises(OffleashError, match="'seeds'"):
        ol.compare(base, rl, rl, runs_are="seed")
    with pytest.raises(OffleashError, match=r"there is one \('rl'\)\. Name more runs"):
        ol.compare(base, rl, runs_are="seeds")
    other = tmp_path / "other.csv"
    other.write_text("problem,n,c\nz0,64,1\nz1,64,2\n")
    with pytest.raises(OffleashError, match="problem"):
        ol.compare(base, rl, str(other), runs_are="methods")
