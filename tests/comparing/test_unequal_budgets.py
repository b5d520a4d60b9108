"""Unequal numbers of samples: the table is at the smaller k, tests use all samples and depend on no seed."""

from math import comb
from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.comparing.per_problem import detail
from offleash.stats.chance import exchange_at_k, exchange_null


def counts(path: Path, rows: list[tuple[int, int]]) -> str:
    path.write_text("problem,n,c\n" + "".join(f"q{i},{n},{c}\n" for i, (n, c) in enumerate(rows)))
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """256 samples before, 64 after; rates of 0 to 12%, many of them lost."""
    rng = np.random.default_rng(0)
    before = [(256, int(c)) for c in rng.integers(0, 31, 60)]
    after = [(64, 0 if rng.random() < 0.5 else int(rng.integers(0, 8))) for _ in range(60)]
    return counts(tmp_path / "base.csv", before), counts(tmp_path / "rl.csv", after)


def test_no_test_depends_on_the_seed(pair: tuple[str, str]) -> None:
    sections = [ol.compare(*pair, seed=seed, replicates=100).to_dict()["chance"] for seed in (0, 1, 2)]
    for section in sections:
        section.pop("retest")  # its interval is a bootstrap
    assert sections[0] == sections[1] == sections[2]


def test_tests_use_all_samples_and_say_so(pair: tuple[str, str]) -> None:
    result = ol.compare(*pair, replicates=100)
    tally, evidence = result.comparison.tally, result.evidence
    assert int(((tally.correct_PR[:, 0] > 0) & (tally.correct_PR[:, 1] == 0)).sum()) == evidence.S
    assert evidence.null == exchange_null(tally.drawn_PR, tally.correct_PR)
    assert result.change.k == 64
    assert abs(evidence.S - result.change.S) > 0.1
    assert evidence.basis == "all samples (n = 256 before, 64 after)"
    assert f"which give {evidence.S} lost and {evidence.E} gained" in result.finding
    assert "256 per problem from base, 64 per problem from rl" in result.finding
    classes = detail(result.comparison).class_P  # of the page's table, too
    assert int((classes == "S").sum()) == evidence.S
    assert evidence.net is None
    assert "unknown order" in str(evidence.net_reason)


def test_ragged_runs_use_all_samples_of_each_problem(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = rng.integers(16, 200, (40, 2))
    c = np.minimum(rng.integers(0, 16, (40, 2)) * rng.integers(0, 2, (40, 2)), n)
    runs = [
        counts(tmp_path / name, list(zip(n[:, r], c[:, r], strict=True))) for r, name in enumerate(("b.csv", "r.csv"))
    ]
    results = [ol.compare(*runs, seed=seed, replicates=100) for seed in (0, 5)]
    assert vars(results[0].evidence.null) == pytest.approx(vars(exchange_null(n, c)))  # another order of rows
    assert results[0].evidence.losses_at_least == results[1].evidence.losses_at_least
    assert results[0].evidence.lost == results[1].evidence.lost


def test_rules_on_the_rate_are_tested_at_the_thresholds_of_each_n(pair: tuple[str, str]) -> None:
    result = ol.compare(*pair, rule="above", tau=0.02, replicates=100)
    tally = result.comparison.tally
    inside = tally.correct_PR > 0.02 * tally.drawn_PR
    assert int((inside[:, 0] & ~inside[:, 1]).sum()) == result.evidence.S
    assert int((~inside[:, 0] & inside[:, 1]).sum()) == result.evidence.E
    assert result.evidence.null is not None
    assert result.evidence.at_k is None


@pytest.mark.parametrize(("n", "c", "k"), [((8, 4), (3, 0), 4), ((8, 8), (2, 5), 3), ((5, 9), (1, 1), 5)])
def test_the_expectation_at_k_is_that_of_two_draws_from_one_pool(
    n: tuple[int, int], c: tuple[int, int], k: int
) -> None:
    pool, total = sum(n), sum(c)
    miss, miss_both = comb(pool - total, k) / comb(pool, k), comb(pool - total, 2 * k) / comb(pool, 2 * k)
    found = exchange_at_k(np.array([n]), np.array([c]), k)
    assert (found.changed, found.either) == pytest.approx((miss - miss_both, 1 - miss_both))


def test_with_k_samples_of_both_the_two_expectations_are_one(tmp_path: Path) -> None:
    runs = [counts(tmp_path / name, [(16, c) for c in cs]) for name, cs in (("a.csv", [3, 0, 9]), ("b.csv", [0, 1, 9]))]
    evidence = ol.compare(*runs, replicates=100).evidence
    assert evidence.at_k is not None
    assert evidence.null is not None
    assert evidence.at_k.changed == pytest.approx(evidence.null.expected_S)


def test_the_same_model_at_unequal_budgets_shows_losses_in_few_studies() -> None:
    """The exact null at n = 96 against 24, in a known world: the size of p_S stays below .05."""
    rng, significant, studies = np.random.default_rng(2), 0, 300
    drawn = np.tile([96, 24], (50, 1))
    for _ in range(studies):
        rate = rng.beta(0.3, 1.5, 50)
        significant += exchange_null(drawn, rng.binomial(drawn, rate[:, None])).p_S <= 0.05
    assert significant / studies <= 0.05


def test_no_gain_is_beside_what_could_have_been_gained(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(64, 5)] * 97 + [(64, 0)] * 3)
    rl = counts(tmp_path / "rl.csv", [(64, 5)] * 97 + [(64, 0)] * 3)
    result = ol.compare(base, rl, replicates=100)
    assert (
        "Of the 3 problems that base does not reach, none has a success rate of 0.047 or more under rl"
        in result.finding
    )
    text = result.report_text("md")
    assert "reaches 97 of 100 problems, so at most 3 could be gained" in text.replace("`", "")
    power = result.to_dict()["chance"]["gain_power"]
    assert (power["candidates"], power["gained"]) == (3, 0)


def test_the_rate_that_may_be_missed_is_that_of_the_k_in_force(pair: tuple[str, str]) -> None:
    assert ol.compare(*pair, replicates=100, at=8).to_dict()["epsilon"] == pytest.approx(-np.log(0.05) / 8)
