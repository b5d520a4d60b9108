"""Novelty and richness of ways, against enumeration and simulated worlds."""

from itertools import combinations

import numpy as np
import pytest

from offleash.stats.intervals import Interval
from offleash.stats.strategies import Basis, Richness, StrategyCounts, StrategyNovelty, novelty, richness

WRONG = -1


def counts(before: list[list[int]], after: list[list[int]], drawn: tuple[int, int]) -> StrategyCounts:
    """Counts of ways, problem by problem; both lists have one number a way."""
    rows = [
        (c, d, p)
        for p, (left, right) in enumerate(zip(before, after, strict=True))
        for c, d in zip(left, right, strict=True)
    ]
    table = np.array(rows, dtype=np.int64)
    drawn_P2 = np.tile(np.array(drawn, dtype=np.int64), (len(before), 1))
    return StrategyCounts(table[:, :2], table[:, 2], drawn_P2, np.zeros(len(before), dtype=np.int64))


def samples(seen: list[int], drawn: int) -> list[int]:
    """The way of every sample; WRONG for those that are not correct."""
    told = [way for way, count in enumerate(seen) for _ in range(count)]
    return told + [WRONG] * (drawn - len(told))


def right(some: tuple[int, ...]) -> set[int]:
    return set(some) - {WRONG}


def test_novelty_at_equal_draws_equals_enumeration_of_all_subsets() -> None:
    base, rl, n = [2, 1, 0], [1, 0, 2], 2
    result = novelty(counts([base], [rl], (6, 5)), Basis.DRAWN, n)
    assert result is not None
    first = list(combinations(samples(base, 6), n))
    second = list(combinations(samples(rl, 5), n))
    new = np.mean([len(right(b) - right(a)) for a in first for b in second])
    seen = np.mean([len(right(b)) for b in second])
    assert result.strategies.value == pytest.approx(new / seen)
    unseen = [np.mean([way not in right(a) for a in first]) for way in range(3)]
    assert result.mass.value == pytest.approx(np.dot(rl, unseen) / sum(rl))


def test_the_redraw_value_equals_enumeration_of_all_pairs_of_disjoint_draws() -> None:
    base, drawn, n = [3, 1, 1], 7, 3
    result = novelty(counts([base], [[1, 1, 1]], (drawn, 7)), Basis.DRAWN, n)
    assert result is not None
    told = samples(base, drawn)
    new, seen, new_mass, mass = 0, 0, 0, 0
    for first in combinations(range(drawn), n):
        rest = [place for place in range(drawn) if place not in first]
        a = right(tuple(told[place] for place in first))
        for second in combinations(rest, n):
            b = [told[place] for place in second if told[place] != WRONG]
            new, seen = new + len(set(b) - a), seen + len(set(b))
            new_mass, mass = new_mass + sum(way not in a for way in b), mass + len(b)
    assert result.strategies_redraw.value == pytest.approx(new / seen)
    assert result.mass_redraw.value == pytest.approx(new_mass / mass)


def test_on_the_basis_of_correct_samples_the_wrong_ones_do_not_count() -> None:
    few, many = (
        novelty(counts([[4, 2]], [[3, 3]], (drawn, drawn)), Basis.CORRECT, 1000, replicates=200) for drawn in (6, 600)
    )
    assert few is not None
    assert few == many
    assert few.n == 3


def test_richness_equals_enumeration_on_both_bases() -> None:
    base, rl = [3, 1, 1], [2, 0, 1]
    table = counts([base], [rl], (6, 4))
    drawn, correct = richness(table, Basis.DRAWN, 3), richness(table, Basis.CORRECT, 3)
    assert drawn is not None
    assert correct is not None
    for side, seen, total in ((drawn.before, base, 6), (drawn.after, rl, 4)):
        assert side.value == pytest.approx(
            np.mean([len(right(some)) for some in combinations(samples(seen, total), 3)])
        )
    for side, seen in ((correct.before, base), (correct.after, rl)):
        assert side.value == pytest.approx(np.mean([len(set(some)) for some in combinations(samples(seen, 0), 3)]))
    assert correct.n == 3
    assert correct.difference.value == pytest.approx(correct.after.value - correct.before.value)


def test_accuracy_alone_is_no_richness() -> None:
    """A model with the same mix of ways that is right four times as often shows more ways, but not per correct one."""
    rng = np.random.default_rng(0)
    mix = np.array([0.4, 0.3, 0.2, 0.1])
    before = [rng.multinomial(20, mix).tolist() for _ in range(200)]
    after = [rng.multinomial(80, mix).tolist() for _ in range(200)]
    table = counts(before, after, (100, 100))
    drawn, correct = richness(table, Basis.DRAWN, 100), richness(table, Basis.CORRECT, 100)
    assert drawn is not None
    assert correct is not None
    assert drawn.difference.interval.low > 0.1
    assert correct.difference.interval.low < 0 < correct.difference.interval.high


@pytest.mark.parametrize("basis", list(Basis))
def test_a_second_draw_of_the_same_model_is_as_new_as_its_redraw_value_says(basis: Basis) -> None:
    excess = []
    covered = np.zeros(2)
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        law = [rng.dirichlet(np.full(8, 0.5)) * rng.uniform(0.1, 0.9) for _ in range(60)]
        draws = [[rng.multinomial(60, [*item, 1 - item.sum()])[:-1].tolist() for item in law] for _ in range(2)]
        result = novelty(counts(draws[0], draws[1], (60, 60)), basis, 60, replicates=400)
        assert result is not None
        excess.append((result.strategies_excess.value, result.mass_excess.value))
        covered += [holds(item.interval, 0.0) for item in (result.strategies_excess, result.mass_excess)]
    mean, error = np.mean(excess, axis=0), np.std(excess, axis=0) / np.sqrt(len(excess))
    assert (np.abs(mean) < 3.5 * error + 0.003).all()
    assert (covered >= 33).all()  # of 40 intervals of 95%


def holds(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def test_a_new_way_in_every_problem_is_found_as_excess() -> None:
    table = counts([[30, 0]] * 30, [[15, 15]] * 30, (60, 60))
    result = novelty(table, Basis.CORRECT, 60, replicates=500)
    assert result is not None
    assert result.mass.value == pytest.approx(0.5)
    assert result.strategies_redraw.value == pytest.approx(0)
    assert result.strategies_excess.interval.low > 0.3


@pytest.mark.parametrize("problems", [10, 30, 100])
def test_the_same_ways_at_twice_the_accuracy_are_seldom_called_poorer_or_newer(problems: int) -> None:
    """False claims where only accuracy changed: about one in twenty of richness, new ways and new mass."""
    worlds, false = 200, np.zeros(3)
    for seed in range(worlds):
        rng = np.random.default_rng([5, problems, seed])
        rates = rng.beta(0.5, 2, problems)
        law = [rng.dirichlet(np.full(6, 0.7)) for _ in range(problems)]
        sides = [
            [
                rng.multinomial(64, [*(ways * rate), max(1 - rate, 0)])[:-1].tolist()
                for ways, rate in zip(law, r, strict=True)
            ]
            for r in (rates, np.minimum(2 * rates, 1))
        ]
        table = counts(sides[0], sides[1], (64, 64))
        rich, new = (item(table, Basis.CORRECT, 64, replicates=300) for item in (richness, novelty))
        if isinstance(rich, Richness):
            false[0] += not holds(rich.difference.interval, 0.0)
        if isinstance(new, StrategyNovelty):
            false[1:] += [not holds(item.interval, 0.0) for item in (new.strategies_excess, new.mass_excess)]
    assert (false / worlds <= 0.08).all()


def test_few_problems_that_move_alike_have_an_interval_of_some_width_and_nothing_is_made_of_it() -> None:
    result = richness(counts([[5, 5]] * 3, [[10, 0]] * 3, (10, 10)), Basis.CORRECT, 10)
    assert result is not None
    assert not result.enough
    assert result.difference.interval.high - result.difference.interval.low > 0.5


def test_a_loss_in_every_one_of_many_problems_is_resolved() -> None:
    result = richness(counts([[20, 20]] * 30, [[40, 0]] * 30, (40, 40)), Basis.CORRECT, 40)
    assert result is not None
    assert result.enough
    assert result.difference.interval.high < -0.7


def test_equal_runs_of_one_way_have_intervals_of_some_width() -> None:
    result = novelty(counts([[20]] * 12, [[20]] * 12, (20, 20)), Basis.CORRECT, 20)
    assert result is not None
    for excess in (result.strategies_excess, result.mass_excess):
        assert excess.interval.low < 0 == excess.value < excess.interval.high


def test_nothing_correct_gives_no_number() -> None:
    table = counts([[0, 3]], [[0, 0]], (1, 1))
    assert novelty(table, Basis.CORRECT, 1) is None
    assert richness(table, Basis.CORRECT, 1) is None
    assert novelty(table, Basis.DRAWN, 1) is None  # one sample cannot be drawn twice
