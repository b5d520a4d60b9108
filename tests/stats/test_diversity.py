"""Entropy and richness of answers against enumeration, exact fractions and the published example."""

import json
import time
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.stats import diversity
from offleash.stats.diversity import (
    chao1,
    distinct,
    distinct_rarefied,
    entropy_chao_shen,
    entropy_chao_wang_jost,
    entropy_miller_madow,
    entropy_plugin,
    entropy_rarefied,
    unseen_mass,
)
from tests.places import SHARED_DATA

COMPASS = [34, 32, 2] + [1] * 12  # 80 answers to AIME 2025 question 6
FILE = SHARED_DATA / "outputs" / "aime25_q06_compass.json"
ALL = (entropy_plugin, entropy_miller_madow, entropy_chao_shen, entropy_chao_wang_jost, distinct, unseen_mass, chao1)

small_counts = st.lists(st.integers(1, 5), min_size=1, max_size=5).filter(lambda c: sum(c) <= 11)


def one(counts: list[int]) -> tuple[list[int], list[int], int]:
    return counts, [0] * len(counts), 1


def plugin(samples: tuple[int, ...]) -> float:
    share = np.array(list(Counter(samples).values())) / len(samples)
    return float(-(share * np.log(share)).sum())


def test_the_published_example_has_fifteen_answers_and_1_48_nats() -> None:
    assert distinct(*one(COMPASS)).tolist() == [15]
    assert entropy_plugin(*one(COMPASS))[0] == pytest.approx(1.4797, abs=5e-5)
    assert unseen_mass(*one(COMPASS))[0] == pytest.approx(12 / 80)
    assert chao1(*one(COMPASS))[0] == pytest.approx(15 + 79 / 80 * 144 / 2)


def test_the_published_file_has_the_counts_typed_here() -> None:
    if not FILE.exists():
        pytest.skip(f"no {FILE}: the shared data are not beside the repository")
    assert sorted(Counter(json.loads(FILE.read_text())["answers"]).values()) == sorted(COMPASS)


@given(small_counts, st.data())
@settings(deadline=None, max_examples=40)
def test_rarefied_values_equal_enumeration_of_all_subsets(counts: list[int], data: st.DataObject) -> None:
    samples = [answer for answer, count in enumerate(counts) for _ in range(count)]
    n = data.draw(st.integers(1, len(samples)))
    subsets = list(combinations(samples, n))
    assert entropy_rarefied(*one(counts), n)[0] == pytest.approx(np.mean([plugin(s) for s in subsets]), abs=1e-12)
    assert distinct_rarefied(*one(counts), n)[0] == pytest.approx(np.mean([len(set(s)) for s in subsets]))


@given(small_counts)
@settings(deadline=None, max_examples=40)
def test_rarefying_to_all_samples_changes_nothing(counts: list[int]) -> None:
    n = sum(counts)
    assert entropy_rarefied(*one(counts), n) == pytest.approx(entropy_plugin(*one(counts)), abs=1e-12)
    assert distinct_rarefied(*one(counts), n).tolist() == pytest.approx([len(counts)])


@given(small_counts)
@settings(deadline=None, max_examples=60)
def test_chao_wang_jost_equals_its_printed_formula_in_fractions(counts: list[int]) -> None:
    n, once, twice = sum(counts), counts.count(1), counts.count(2)
    seen = sum(
        (Fraction(c, n) * sum((Fraction(1, k) for k in range(c, n)), Fraction(0)) for c in counts if c < n), Fraction(0)
    )
    value = float(seen)
    A = Fraction(1)
    if twice:
        A = Fraction(2 * twice, (n - 1) * once + 2 * twice)
    elif once:
        A = Fraction(2, (n - 1) * (once - 1) + 2)
    if once and A < 1:
        series = sum((Fraction(1, r) * (1 - A) ** r for r in range(1, n)), Fraction(0))
        value += once / n * float((1 - A) ** (1 - n)) * (-np.log(float(A)) - float(series))
    assert entropy_chao_wang_jost(*one(counts))[0] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("n", [39, 40, 300, 5000])
@pytest.mark.parametrize("A", [0.5, 0.101, 0.099, 0.01, 1e-3])
def test_the_unseen_series_equals_its_sum(n: int, A: float) -> None:
    m = np.arange(int(50 / A))
    value = diversity._lerch(np.array([float(n)]), np.array([A]))[0]
    assert value == pytest.approx(((1 - A) ** m * n / (n + m)).sum(), rel=1e-10)


def test_the_corrected_entropies_come_nearer_to_the_truth() -> None:
    law = np.arange(1, 201) ** -1.5
    law /= law.sum()
    truth = -(law * np.log(law)).sum()
    count_PA = np.random.default_rng(3).multinomial(100, law, size=400)
    flat = count_PA.ravel(), np.repeat(np.arange(400), 200), 400
    error = {estimate: abs(estimate(*flat).mean() - truth) for estimate in ALL[:4]}
    assert error[entropy_chao_wang_jost] < error[entropy_miller_madow] < error[entropy_plugin]
    assert error[entropy_chao_shen] < error[entropy_miller_madow]


def test_chao_shen_by_hand() -> None:
    share = (1 - 1 / 4) * np.array([3, 1]) / 4
    expected = -(share * np.log(share) / (1 - (1 - share) ** 4)).sum()
    assert entropy_chao_shen(*one([3, 1]))[0] == pytest.approx(expected)


def test_one_answer_has_no_entropy_and_nothing_unseen() -> None:
    for estimate in (entropy_plugin, entropy_miller_madow, entropy_chao_shen, entropy_chao_wang_jost, unseen_mass):
        assert estimate(*one([7]))[0] == pytest.approx(0, abs=1e-15)
    assert chao1(*one([7])).tolist() == [1]
    assert entropy_rarefied(*one([7]), [1, 3, 7]).tolist() == [[0, 0, 0]]


def test_chao1_uses_the_bias_corrected_form_where_nothing_was_seen_twice() -> None:
    assert chao1(*one([1, 1, 1]))[0] == pytest.approx(3 + 2 / 3 * 3)


def test_a_problem_without_samples_has_no_estimate() -> None:
    for estimate in ALL:
        value = estimate([2, 1, 0], [0, 0, 1], 3)
        assert np.isfinite(value[0])
        assert (value[1:] == 0).all() if estimate is distinct else np.isnan(value[1:]).all()
    assert np.isnan(entropy_rarefied([2, 1], [0, 0], 2, 4)).all()
    assert distinct_rarefied([2, 1], [0, 0], 2, [0, 3, 4]) == pytest.approx(
        np.array([[0, 2, np.nan], [0, np.nan, np.nan]]), nan_ok=True
    )


@given(st.lists(small_counts, min_size=1, max_size=4), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_problems_are_independent_and_the_order_of_rows_does_not_matter(world: list[list[int]], seed: int) -> None:
    count = np.concatenate(world)
    problem = np.repeat(np.arange(len(world)), [len(c) for c in world])
    turn = np.random.default_rng(seed).permutation(count.size)
    for estimate in ALL:
        alone = [estimate(*one(counts))[0] for counts in world]
        assert estimate(count[turn], problem[turn], len(world)) == pytest.approx(alone, abs=1e-12)
    assert entropy_rarefied(count[turn], problem[turn], len(world), 2) == pytest.approx(
        [entropy_rarefied(*one(counts), 2)[0] for counts in world], abs=1e-12, nan_ok=True
    )


def test_rarefied_entropy_of_large_counts_agrees_with_simulation() -> None:
    counts, n = [9000, 5000, 2000, 300, 83, 1], 8192
    draws = np.random.default_rng(0).multivariate_hypergeometric(counts, n, size=3000)
    share = np.maximum(draws, 1e-300) / n
    simulated = -(share * np.log(share)).sum(axis=1)
    value = entropy_rarefied(*one(counts), n)[0]
    assert abs(value - simulated.mean()) < 4 * simulated.std() / np.sqrt(3000)


def test_a_million_answers_take_seconds() -> None:
    rng = np.random.default_rng(0)
    count, problem = rng.zipf(1.7, 1_000_000).clip(max=400), np.repeat(np.arange(20_000), 50)
    start = time.process_time()
    assert entropy_rarefied(count, problem, 20_000, 64).shape == (20_000,)
    assert time.process_time() - start < 8
