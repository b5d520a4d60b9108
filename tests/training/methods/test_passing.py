"""Pass@k as the aim: pass_at_k and pkpo against enumeration of all sets and of all outcomes."""

from collections.abc import Callable
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from offleash.errors import OffleashError
from offleash.training.method import Method
from offleash.training.methods.baselines import rloo
from offleash.training.methods.grpo import grpo
from offleash.training.methods.pass_at_k import pass_at_k, pkpo, rho
from tests.training.methods.groups import a_group

CASES = [(n, c, k) for n in range(1, 8) for c in range(n + 1) for k in range(1, n + 1)]
SETS = [(n, c, k) for n, c, k in CASES if k > 1]
SMALLER_SETS = [(n, c, k) for n, c, k in SETS if k < n]


def rewards(n: int, c: int) -> list[int]:
    return [1] * c + [0] * (n - c)


def test_pass_at_k_is_the_mean_advantage_of_all_sets_that_a_sample_is_in() -> None:
    for n, c, k in CASES:
        reward = rewards(n, c)
        sets = list(combinations(range(n), k))
        best = np.array([max(reward[i] for i in chosen) for chosen in sets])
        if best.std() == 0:
            expected = np.zeros(n)
        else:
            normal = (best - best.mean()) / best.std()
            expected = np.array([np.mean([a for a, s in zip(normal, sets, strict=True) if i in s]) for i in range(n)])
        assert pass_at_k(k=k).advantages(a_group(reward)) == pytest.approx(expected, abs=1e-12)


def test_the_advantages_of_pass_at_k_add_up_to_nothing() -> None:
    for n, c, k in CASES:
        assert pass_at_k(k=k).advantages(a_group(rewards(n, c))).sum() == pytest.approx(0, abs=1e-12)


def test_pass_at_k_by_hand() -> None:
    # N = 4, c = 1, k = 2: Rbar = 1 - C(3,2)/C(4,2) = 1/2, sigma = 1/2,
    # A+ = (1 - 1/2) / (1/2) = 1, A- = (1 - 1/2 - C(2,1)/C(3,1)) / (1/2) = -1/3
    assert pass_at_k(k=2).advantages(a_group([0, 1, 0, 0])) == pytest.approx([-1 / 3, 1, -1 / 3, -1 / 3])
    # N = 4, c = 3, k = 2: no two samples are both wrong, every pair passes
    assert pass_at_k(k=2).advantages(a_group([1, 1, 0, 1])).tolist() == [0, 0, 0, 0]


def test_pass_at_1_has_the_advantages_of_grpo() -> None:
    group = a_group(rewards(6, 2))
    assert pass_at_k(k=1).advantages(group) == pytest.approx(grpo(delta=1e-12).advantages(group))


def test_pkpo_is_the_mean_over_sets_of_what_a_sample_adds_to_its_set() -> None:
    for n, c, k in SETS:
        reward = rewards(n, c)
        expected = [
            n * sum(max(reward[j] for j in s) - max(reward[j] for j in s if j != i) for s in sets) / comb(n, k)
            for i in range(n)
            for sets in [[s for s in combinations(range(n), k) if i in s]]
        ]
        assert pkpo(k=k).advantages(a_group(reward)) == pytest.approx(expected, abs=1e-12)


def weight(reward: list[int], i: int, members: list[int], k: int) -> float:
    """The mean over sets of k members of their best reward, sets without i counting as 0."""
    sets = [s for s in combinations(members, k) if i in s]
    return sum(max(reward[j] for j in s) for s in sets) / comb(len(members), k)


def test_pkpo_with_equal_sets_subtracts_the_mean_weight_of_the_others_without_the_sample() -> None:
    for n, c, k in SMALLER_SETS:
        reward = rewards(n, c)

        everyone = list(range(n))
        expected = []
        for i in everyone:
            others = [j for j in everyone if j != i]
            expected.append(
                n * (weight(reward, i, everyone, k) - sum(weight(reward, j, others, k) for j in others) / (n - 1))
            )
        assert pkpo(k=k, equal=True).advantages(a_group(reward)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("n", "k", "equal"), [(4, 1, False), (4, 2, False), (5, 3, True), (4, 4, False), (5, 2, True)])
def test_the_expected_gradient_of_pkpo_is_that_of_pass_at_k(chance: float, n: int, k: int, equal: bool) -> None:
    # one parameter, p = sigmoid(theta): d log p / d theta = 1 - p for a correct sample, -p for a wrong one
    gradient = 0.0
    for outcome in product([0, 1], repeat=n):
        probability = np.prod([chance if right else 1 - chance for right in outcome])
        score_G = np.array([1 - chance if right else -chance for right in outcome])
        gradient += probability * (pkpo(k=k, equal=equal).advantages(a_group(outcome)) * score_G).mean()
    # pass@k = 1 - (1-p)^k, and dp / d theta = p (1-p)
    assert gradient == pytest.approx(k * (1 - chance) ** (k - 1) * chance * (1 - chance), rel=1e-10)


def test_pkpo_with_one_sample_is_rloo() -> None:
    group = a_group([1, 0, 0, 1, 0])
    assert pkpo(k=1).advantages(group) == pytest.approx(rloo().advantages(group))


def test_rho_counts_the_sets_that_pass() -> None:
    for n, c, k in CASES:
        assert rho(n, c, k) == pytest.approx(np.mean([any(s) for s in combinations(rewards(n, c), k)]))


@pytest.mark.parametrize("make", [pass_at_k, pkpo])
def test_a_k_beyond_the_group_is_refused_with_both_numbers(make: Callable[..., Method]) -> None:
    with pytest.raises(OffleashError, match=r"k = 5 .* a group has only 4"):
        make(k=5).advantages(a_group([1, 0, 0, 0]))


def test_equal_sets_of_the_whole_group_are_refused() -> None:
    with pytest.raises(OffleashError, match="Choose k up to 3"):
        pkpo(k=4, equal=True).advantages(a_group([1, 0, 0, 0]))
