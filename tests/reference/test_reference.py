"""The reference itself: it imports nothing of the package, and agrees with enumeration, SciPy and printed values."""

import ast
import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from offleash.stats.pass_at_k import g_pass_at_k, mg_pass_at_k, pass_at_k, pass_hat_k
from tests.reference import answers, chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.compared import document
from tests.reference.studies import Problem, Record, study

HERE = Path(__file__).parent
OWN = ("agreement", "answers", "chance", "estimates", "resampling", "studies")


@pytest.mark.parametrize("name", OWN)
def test_the_reference_imports_nothing_of_the_package(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    ours = {module for module in imported if module.split(".")[0] in ("offleash", "tests")}
    assert ours <= {f"tests.reference.{own}" for own in OWN}


def test_values_that_are_in_print() -> None:
    """Arithmetic that was published or computed elsewhere: chances of c successes against none, epsilon, the table."""
    by_chance = [float(chance.lost_by_exchange(chance.Pair("", 256, c, 256, 0))) for c in range(1, 6)]
    assert [round(p, 4) for p in by_chance] == [0.5, 0.2495, 0.1243, 0.0618, 0.0306]
    assert [chance.successes_needed(10_000, 10_000, N) for N in (30, 100, 500)] == [10, 11, 14]
    assert chance.mcnemar(100, 100) == 1.0
    assert [chance.confident(1024)(1024, c) for c in range(10)] == [0, -1, -1, -1, -1, -1, -1, 1, 1, 1]


def test_chances_of_subsets_are_those_of_enumeration() -> None:
    outcomes = (True, False, False, True, False, False, False)
    n, c = len(outcomes), sum(outcomes)
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(outcomes, k))
        assert estimates.miss(n, c, k) == Fraction(sum(not any(s) for s in subsets), len(subsets))
        assert estimates.misses(n, c)[k] == float(estimates.miss(n, c, k))
        assert estimates.pass_hat(n, c, k) == Fraction(sum(all(s) for s in subsets), len(subsets))
        assert estimates.at_least(n, c, k, 2) == Fraction(sum(sum(s) >= 2 for s in subsets), len(subsets))


@pytest.mark.parametrize(("n", "c"), [(7, 2), (6, 3), (8, 1), (5, 5)])
def test_confirmation_is_the_share_of_splits_with_a_success_in_each_half(n: int, c: int) -> None:
    half, both, splits = n // 2, 0, 0
    for first in itertools.combinations(range(n), half):
        for second in itertools.combinations(sorted(set(range(n)) - set(first)), half):
            splits += 1
            both += min(first) < c and min(second) < c  # samples 0, ..., c-1 are the correct ones
    assert chance.in_both_halves(n, c) == Fraction(both, splits)


def test_exchange_null_is_that_of_all_permutations() -> None:
    """Two problems, all ways to give the samples of both runs their outcomes: the number lost has this law."""
    pairs = [chance.Pair("a", 3, 2, 2, 0), chance.Pair("b", 2, 1, 4, 1)]
    lost = []
    for pair in pairs:
        outcomes = [True] * (pair.c_before + pair.c_after)
        outcomes += [False] * (pair.n_before + pair.n_after - len(outcomes))
        ways = list(itertools.permutations(outcomes))
        lost.append(Fraction(sum(any(w[: pair.n_before]) and not any(w[pair.n_before :]) for w in ways), len(ways)))
    assert lost == [chance.lost_by_exchange(pair) for pair in pairs]
    null = chance.exchange_null(pairs)
    assert null.observed == 1
    assert null.expected == pytest.approx(float(sum(lost)), rel=1e-15)
    assert null.p == pytest.approx(float(1 - (1 - lost[0]) * (1 - lost[1])), rel=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_redraw_is_that_of_all_ways_to_take_two_draws(k: int) -> None:
    """Both runs in one pool, two disjoint draws of k: by a rule, and by `seen` in closed form."""
    problem = Problem("a", "", None, Record((True, False, False)), Record((False, True, True, False)))
    pool = [*problem.before.outcomes, *problem.after.outcomes]
    half = chance.above(Fraction(1, 2))
    for state, table in (
        (chance.seen, chance.redraw([problem], k)),
        (chance.seen, chance.redraw_by([problem], k, chance.seen)),
        (half, chance.redraw_by([problem], k, half)),
    ):
        cells: Counter[tuple[int, int]] = Counter()
        for order in itertools.permutations(pool, 2 * k):
            cells[state(k, sum(order[:k])), state(k, sum(order[k:]))] += 1
        expected = [cells[cell] / cells.total() for cell in ((1, 1), (0, 1), (1, 0), (0, 0))]
        cells_of = [table.P, table.E, table.S, table.O]
        assert cells_of == pytest.approx(expected, abs=1e-14)


def test_level_of_the_bounds_is_a_quarter_of_five_percent() -> None:
    """7 successes of 64 against none have p = .0063: within 1.25%, at 1.25% of two problems with Holm no more."""
    lost, same = chance.Pair("a", 64, 7, 64, 0), chance.Pair("b", 64, 64, 64, 64)
    assert Fraction(1, 160) < chance.loss_p(lost) < Fraction(1, 80)
    assert chance.losses_at_least([lost]) == 1
    assert chance.holm([chance.loss_p(lost), chance.loss_p(same)], chance.BOUND) == 0


@pytest.mark.parametrize("seed", range(20))
def test_tests_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng([24, seed])
    n_before, n_after = (int(n) for n in rng.integers(1, 80, 2))
    c_before, c_after = int(rng.integers(1, n_before + 1)), int(rng.integers(0, n_after + 1))
    pair = chance.Pair("", n_before, c_before, n_after, c_after)
    counts = np.array([[c_before, n_before - c_before], [c_after, n_after - c_after]])
    fisher = stats.fisher_exact(counts, alternative="greater").pvalue
    assert float(chance.fall_p(pair) if c_after else chance.loss_p(pair)) == pytest.approx(fisher, rel=1e-9)
    floor = float(rng.choice([0.25, 0.01]))
    tail = stats.binomtest(c_before, n_before, floor, alternative="greater").pvalue
    assert chance.upper_tail(n_before, c_before, floor) == pytest.approx(tail, rel=1e-9)
    bound = stats.beta.ppf(0.05, c_before, n_before - c_before + 1)  # Clopper-Pearson: in means a bound above epsilon
    epsilon = -math.log(0.05) / n_before
    assert (chance.confident(n_before)(n_before, c_before) == 1) == (bound > epsilon)
    E, S = (int(x) for x in rng.integers(0, 30, 2))
    if E + S:
        assert chance.mcnemar(E, S) == pytest.approx(stats.binomtest(E, E + S).pvalue, rel=1e-9)
    p = {str(place): Fraction(int(x), 1000) for place, x in enumerate(rng.integers(1, 200, 12))}
    adjusted = stats.false_discovery_control([float(x) for x in p.values()])
    assert set(chance.benjamini_hochberg(p)) == {str(place) for place in np.nonzero(adjusted <= 0.05 + 1e-12)[0]}
    assert [float(q) for q in chance.adjusted(list(p.values()))] == pytest.approx(list(adjusted), rel=1e-12)


def test_majority_and_rarefied_answers_are_those_of_enumeration() -> None:
    drawn = ["a", "a", "b", "b", "c", None, "a"]
    counts, k = answers.readable(drawn), 4
    credit, entropies, distinct = Fraction(0), [], []
    subsets = list(itertools.combinations(drawn, k))
    for subset in subsets:
        votes = answers.readable(subset)
        winners = [answer for answer, number in votes.items() if number == max(votes.values())]
        credit += Fraction(sum(answer in "ac" for answer in winners), len(winners))
    assert answers.majority(dict(counts), frozenset("ac"), 1, k) == credit / len(subsets)
    for subset in itertools.combinations([answer for answer in drawn if answer], k):
        entropies.append(answers.entropy(list(answers.readable(subset).values())))
        distinct.append(len(set(subset)))
    assert answers.rarefied_entropy(list(counts.values()), k) == pytest.approx(estimates.mean(entropies), rel=1e-14)
    assert answers.distinct(list(counts.values()), k) == pytest.approx(estimates.mean(distinct), rel=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_estimators_of_a_problem_agree(seed: int) -> None:
    """pass^k, G-Pass@k and mG-Pass@k have no key in the JSON: their functions."""
    rng = np.random.default_rng([25, seed])
    n = int(rng.integers(1, 301))
    c, k = int(rng.integers(0, n + 1)), int(rng.integers(1, n + 1))
    assert float(pass_at_k(n, c, k)) == pytest.approx(1 - float(estimates.miss(n, c, k)), abs=1e-12)
    assert float(pass_hat_k(n, c, k)) == pytest.approx(float(estimates.pass_hat(n, c, k)), abs=1e-12)
    for tau in ("0.25", "0.5", "1"):
        least = max(1, math.ceil(Fraction(tau) * k))
        value = float(estimates.at_least(n, c, k, least))
        assert float(g_pass_at_k(n, c, k, float(tau))) == pytest.approx(value, abs=1e-9)
    above_half = [estimates.at_least(n, c, k, least) for least in range(math.ceil(k / 2) + 1, k + 1)]
    value = float(Fraction(2, k) * sum(above_half, start=Fraction(0)))
    assert float(mg_pass_at_k(n, c, k)) == pytest.approx(value, abs=1e-9)


def test_the_command_line_prints_the_same_document(tmp_path: Path) -> None:
    before, after = study(1).write(tmp_path)
    command = [sys.executable, "-m", "offleash", "compare", before, after, "--replicates", "1000", "--json"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    check = Disagreements(printed)
    for section in ("support", "pass_at_k", "curves", "chance", "crossing", "equivalent_budget", "portfolio", "macro"):
        check.same(section, json.loads(json.dumps(document(1)[section])))
    assert check.lines == []
