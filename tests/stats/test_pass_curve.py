"""pass@k of every run of a tally."""

import numpy as np
import pytest

from offleash.data.tally import Tally, tally_of_counts
from offleash.errors import OffleashError
from offleash.stats.curves import pass_curve
from offleash.stats.pass_at_k import pass_at_k


def three_runs() -> Tally:
    rng = np.random.default_rng(0)
    rate = rng.beta(0.3, 1, (40, 1)) ** np.array([1.0, 0.7, 2.0])
    return tally_of_counts(np.full((40, 3), 48), rng.binomial(48, rate), runs=("base", "mid", "late"))


def test_every_run_has_the_mean_of_its_problems_at_every_budget() -> None:
    tally = three_runs()
    curves = pass_curve(tally, 200).runs
    assert list(curves) == ["base", "mid", "late"]
    for r, item in enumerate(curves.values()):
        assert item.k_K.tolist() == [1, 2, 4, 8, 16, 32, 48]
        assert item.value_K == pytest.approx([pass_at_k(48, tally.correct_PR[:, r], k).mean() for k in item.k_K])
        assert (np.diff(item.value_K) >= 0).all()
        assert (item.low_K < item.value_K).all()
        assert (item.value_K < item.high_K).all()


def test_the_largest_budget_is_one_that_every_problem_has() -> None:
    tally = tally_of_counts([[8, 16], [6, 16]], [[1, 2], [3, 4]])
    assert pass_curve(tally, 50).runs["before"].k_K.tolist() == [1, 2, 4, 6]


def test_a_run_against_itself_never_crosses_and_is_worth_its_own_tries() -> None:
    curves = pass_curve(three_runs(), 200)
    assert curves.crossing("base", "base").k is None
    assert curves.equivalent_budget("base", "base", 4).k == pytest.approx(4)


def test_a_better_run_is_worth_several_tries() -> None:
    result = pass_curve(three_runs(), 500).equivalent_budget("late", "mid", 1)
    assert result.k is not None
    assert result.k > 2


def test_an_equivalent_budget_is_that_of_the_k_asked_for() -> None:
    assert pass_curve(three_runs(), 200).equivalent_budget("base", "base", 22).k == pytest.approx(22, rel=1e-3)


def test_an_equivalent_budget_beyond_the_samples_is_refused_in_words() -> None:
    with pytest.raises(OffleashError, match="49"):
        pass_curve(three_runs(), 200).equivalent_budget("base", "mid", 49)


def test_a_pass_curve_prints_a_row_for_every_budget() -> None:
    text = str(pass_curve(three_runs(), 200))
    assert len(text.splitlines()) == 8
    assert "late" in text
