"""What two draws of one model show: closed forms against enumeration, and known worlds of an unchanged model."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from offleash.data.tally import Tally, tally_of_counts
from offleash.stats.change import count_thresholds, support_change
from offleash.stats.redraw import redraw_above, redraw_at, redraw_by_count, redraw_of_rates
from offleash.stats.support_classes import Rule

CASES = [(n, m, c) for n, m in ((3, 3), (2, 4), (4, 3)) for c in range(n + m + 1)]


def divisions(before: int, after: int, correct: int) -> list[tuple[list[int], list[int]]]:
    """All ways to divide a pool of samples, of which the first are correct, between two runs."""
    pool = range(before + after)
    return [
        ([int(i < correct) for i in chosen], [int(i < correct) for i in pool if i not in chosen])
        for chosen in combinations(pool, before)
    ]


@pytest.mark.parametrize(("before", "after", "correct"), CASES)
def test_two_draws_of_k_from_the_pool_are_all_pairs_of_disjoint_subsets(before: int, after: int, correct: int) -> None:
    drawn, hits = np.array([[before, after]]), np.array([[min(correct, before), max(correct - before, 0)]])
    for k in range(1, min(before, after) + 1):
        cells = np.zeros(3)
        pairs = [
            (sum(i < correct for i in one), sum(i < correct for i in other))
            for one in combinations(range(before + after), k)
            for other in combinations([i for i in range(before + after) if i not in one], k)
        ]
        for a, b in pairs:
            cells += [a > 0 and b > 0, a == 0 and b > 0, a > 0 and b == 0]
        assert redraw_at(drawn, hits, np.array([k]))[:, 0] == pytest.approx(cells / len(pairs), abs=1e-12)


@pytest.mark.parametrize(("least", "most"), [(1, 0), (2, 1), (3, 0), (3, 1), (5, -1), (5, 4)])
def test_a_rule_on_counts_is_averaged_over_all_divisions(least: int, most: int) -> None:
    k = 4
    for correct in range(2 * k + 1):
        cells = np.zeros(3)
        every = divisions(k, k, correct)
        for one, other in every:
            a, b = sum(one), sum(other)
            cells += [a >= least and b >= least, a <= most and b >= least, a >= least and b <= most]
        drawn, hits = np.full((1, 2), k), np.array([[min(correct, k), max(correct - k, 0)]])
        assert redraw_by_count(drawn, hits, k, least, most) == pytest.approx(cells / len(every), abs=1e-12)


@pytest.mark.parametrize(("least", "most"), [(1, 0), (2, 1), (3, 0), (4, -1)])
def test_a_rule_on_counts_with_more_samples_than_k_is_averaged_over_all_draws(least: int, most: int) -> None:
    k, pool = 3, range(8)
    pairs = [(one, rest) for one in combinations(pool, k) for rest in combinations(sorted({*pool} - {*one}), k)]
    for correct in range(len(pool) + 1):
        hits = [(sum(i < correct for i in one), sum(i < correct for i in rest)) for one, rest in pairs]
        cells = np.sum(
            [[a >= least and b >= least, a <= most and b >= least, a >= least and b <= most] for a, b in hits], axis=0
        )
        counts = np.array([[min(correct, 5), max(correct - 5, 0)]])
        shown = redraw_by_count(np.array([[5, 3]]), counts, k, least, most)
        assert shown == pytest.approx(cells / len(pairs), abs=1e-12)


@pytest.mark.parametrize(("before", "after", "correct"), CASES)
def test_above_a_floor_is_averaged_over_divisions_and_over_the_first_k(before: int, after: int, correct: int) -> None:
    drawn, hits = np.array([[before, after]]), np.array([[min(correct, before), max(correct - before, 0)]])
    for (low, high), k in product([(1, 1), (2, 2), (2, 3), (1, 2)], (1, 2)):
        cells = np.zeros(3)
        every = divisions(before, after, correct)
        for one, other in every:
            a, b = (
                float(np.mean([any(subset) for subset in combinations(side, k)])) if sum(side) >= least else 0.0
                for side, least in ((one, low), (other, high))
            )
            cells += [a * b, (1 - a) * b, a * (1 - b)]
        shown = redraw_above(drawn, hits, np.array([[low, high]]), k)
        assert shown == pytest.approx(cells / len(every), abs=1e-12)


def test_many_samples_are_divided_within_a_window_that_leaves_nothing_out() -> None:
    drawn, hits = np.array([[4096, 4096]]), np.array([[2100, 2000]])
    wide = redraw_above(drawn, hits, np.array([[2050, 2050]]), 4096)
    assert wide == pytest.approx(redraw_by_count(drawn, hits, 4096, 2050, 2049), abs=1e-10)


def test_rates_that_are_known_show_what_two_draws_of_them_show() -> None:
    """With a prior so narrow that a rate is known, P, E and S are (1-q)^2, q(1-q) and q(1-q) with q = (1-p)^k."""
    q = 0.9**8
    shown = redraw_of_rates(np.array([[8, 8]]), np.array([[1, 0]]), (1e7, 9e7), np.array([8]))[:, 0]
    assert shown == pytest.approx([(1 - q) ** 2, q * (1 - q), q * (1 - q)], abs=1e-5)


# Worlds of a model that did not change. Their rates lie where each rule decides by chance.


def drawn_twice(rng: np.random.Generator, rate_P: np.ndarray, n: int, m: int) -> Tally:
    return tally_of_counts(np.full((len(rate_P), 2), [n, m]), rng.binomial([n, m], rate_P[:, None]))


Rates = Callable[[np.random.Generator], NDArray[np.float64]]
WORLDS: dict[str, tuple[Rule, float, int, int, Rates]] = {
    "seen": (Rule.SEEN, 0.0, 64, 64, lambda rng: rng.beta(0.2, 12, 60)),
    "seen, unequal samples": (Rule.SEEN, 0.0, 48, 160, lambda rng: rng.beta(0.2, 12, 60)),
    "above": (Rule.ABOVE, 0.3, 32, 32, lambda rng: rng.beta(6, 12, 60)),
    "confident": (Rule.CONFIDENT, 0.0, 64, 64, lambda rng: rng.beta(0.3, 3, 60)),
    "posterior": (Rule.POSTERIOR, 0.0, 64, 64, lambda rng: rng.beta(0.3, 3, 60)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_model_drawn_twice_shows_its_redraw_value(world: str) -> None:
    """Expected and observed cells agree over studies: their mean difference is within three standard errors of 0."""
    rule, tau, n, m, rates = WORLDS[world]
    rng, studies = np.random.default_rng(5), 25 if rule is Rule.POSTERIOR else 150
    difference = np.zeros((studies, 3))
    for study in range(studies):
        pair = drawn_twice(rng, rates(rng), n, m)
        if n != m:
            change = support_change(pair, "before", "after", replicates=2)
        else:
            change = support_change(pair, "before", "after", rule=rule, tau=tau, replicates=2)
        assert change.redraw is not None
        difference[study] = [getattr(change, cell) - getattr(change.redraw, cell) for cell in "PES"]
    error = difference.std(axis=0, ddof=1) / np.sqrt(studies)
    # the posterior rule fits one prior per run, its redraw value one for both: a tenth of a problem of 60 is allowed
    assert (abs(difference.mean(axis=0)) <= 3 * error + (0.1 if rule is Rule.POSTERIOR else 1e-9)).all()


def test_runs_that_stopped_early_have_a_redraw_value_near_that_of_their_model() -> None:
    rng, until, budget, wrong = np.random.default_rng(3), 5, 64, []
    for _ in range(60):
        rate_P = rng.beta(0.3, 4, 80)
        pair = stopped(rng, rate_P, until, budget)
        change = support_change(pair, "before", "after", replicates=2)
        reach = 1 - (1 - rate_P) ** budget
        assert change.redraw is not None
        wrong.append(change.redraw.value["SRR"] - float((reach**2).sum() / reach.sum()))
    assert abs(np.mean(wrong)) < 0.01


def stopped(rng: np.random.Generator, rate_P: np.ndarray, until: int, budget: int) -> Tally:
    """Two draws that stop each problem at its `until`-th success."""
    hits_PRK = rng.random((len(rate_P), 2, budget)) < rate_P[:, None, None]
    count_PRK = hits_PRK.cumsum(axis=-1)
    stopped_PR = count_PRK[..., -1] >= until
    drawn_PR = np.where(stopped_PR, (count_PRK < until).sum(axis=-1) + 1, budget)
    plain = tally_of_counts(drawn_PR, np.minimum(count_PRK[..., -1], until))
    return replace(plain, stopped_PR=stopped_PR, budget_R=np.full(2, budget), until_R=np.full(2, until), head=budget)


def test_a_rule_that_decides_nothing_has_thresholds_beyond_the_counts() -> None:
    assert count_thresholds(Rule.CONFIDENT, 2)[0] == 3  # epsilon is above 1 there: no number of successes is in
    assert redraw_by_count(np.ones((1, 2), int), np.array([[1, 1]]), 1, 2, -1).tolist() == [0, 0, 0]
