"""The headline: known worlds for each of the six findings, and how often `shrank` and `grew` are wrong.

Every study draws its own rates and counts. The short form asks that a finding be the usual one in its world; the long
form (`make test-slow`) counts errors over 200 studies of each world.
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import betainc

import offleash as ol
from offleash.comparing.headline import Finding, Headline, headline
from offleash.data.tally import Tally
from offleash.stats.reach import beyond_sharpening_p, gains_beyond_sharpening, reach_change
from tests.effort import FULL

Float = NDArray[np.float64]
Rates = tuple[Float, Float]
World = Callable[[np.random.Generator, int], Rates]

FEW, MANY = 8, 200  # studies of a world in `make test`, and of the long form
PROBLEMS, SAMPLES = 100, 256


def base_rates(rng: np.random.Generator, problems: int) -> Float:
    """Rates as benchmarks have them: many low ones, a few high, some out of reach."""
    return np.where(rng.random(problems) < 0.1, 0.0, rng.beta(0.4, 1.6, problems))


def unchanged(rng: np.random.Generator, problems: int) -> Rates:
    rate_P = base_rates(rng, problems)
    return rate_P, rate_P


def sharpened(factor: float) -> World:
    """p -> 1-(1-p)^m: pass@k rises at every k, and nothing comes within reach that m samples for one would not."""

    def world(rng: np.random.Generator, problems: int) -> Rates:
        rate_P = base_rates(rng, problems)
        return rate_P, 1 - (1 - rate_P) ** factor

    return world


def shrunken(rng: np.random.Generator, problems: int) -> Rates:
    """Problems of low rate are lost, the others sharpened."""
    rate_P = base_rates(rng, problems)
    return rate_P, np.where(rate_P < 0.1, 0.0, 1 - (1 - rate_P) ** 3)


def expanded(rng: np.random.Generator, problems: int) -> Rates:
    rate_P = base_rates(rng, problems)
    return rate_P, np.where(rate_P == 0, 0.6, rate_P)


def moved(rng: np.random.Generator, problems: int) -> Rates:
    rate_P = base_rates(rng, problems)
    after_P = np.where(rate_P == 0, 0.6, rate_P)
    return rate_P, np.where((rate_P > 0.15) & (rate_P < 0.3), 0.0, after_P)


def compensated(rng: np.random.Generator, problems: int) -> Rates:
    """Real losses, made good by sharpening elsewhere: true reach is the same or higher."""
    lost, k = problems // 10, SAMPLES
    rate_P = np.full(problems, 0.4)
    rate_P[lost:] = rng.uniform(0.05, 0.6, problems - lost) / k
    needed = reach(rate_P, k)
    for factor in np.geomspace(1, 1e4, 400):
        after_P = np.minimum(factor * rate_P, 1.0)
        after_P[:lost] = 0
        if reach(after_P, k) >= needed:
            return rate_P, after_P
    raise AssertionError("no factor makes good for the losses")


def reach(rate_P: Float, k: int) -> float:
    return float((1 - (1 - rate_P) ** k).sum())


def study(rates: Rates, rng: np.random.Generator, samples: int = SAMPLES) -> Headline:
    frames = [
        pl.DataFrame(
            {"problem": [f"p{i}" for i in range(len(rate_P))], "n": samples, "c": rng.binomial(samples, rate_P)}
        )
        for rate_P in rates
    ]
    return headline(ol.compare(*frames, replicates=1_000).comparison)


def studies(
    world: World, label: int, problems: int = PROBLEMS, samples: int = SAMPLES, number: int = MANY
) -> list[tuple[Rates, Headline]]:
    out = []
    for seed in range(number):
        rng = np.random.default_rng([label, seed])
        rates = world(rng, problems)
        out.append((rates, study(rates, rng, samples)))
    return out


SHORT_AND_LONG = [pytest.mark.slow] if FULL else []  # `make test-slow` runs only what is marked slow
Record = Callable[[str, object], None]  # pytest's record_property: the shares are in the report of --junitxml


@pytest.mark.parametrize(
    ("world", "samples", "expected"),
    [
        pytest.param(shrunken, SAMPLES, Finding.SHRANK, marks=SHORT_AND_LONG),
        pytest.param(expanded, SAMPLES, Finding.GREW, marks=SHORT_AND_LONG),
        pytest.param(moved, SAMPLES, Finding.MOVED, marks=SHORT_AND_LONG),
        pytest.param(sharpened(4), SAMPLES, Finding.SHARPENED, marks=SHORT_AND_LONG),
        pytest.param(unchanged, SAMPLES, Finding.NO_CHANGE, marks=SHORT_AND_LONG),
        pytest.param(unchanged, 2, Finding.TOO_FEW_SAMPLES, marks=SHORT_AND_LONG),
    ],
    ids=[finding.value for finding in Finding],
)
def test_each_finding_is_the_usual_one_in_its_world(
    world: World, samples: int, expected: Finding, record_property: Record
) -> None:
    number = MANY if FULL else FEW
    findings = Counter(line.finding for _, line in studies(world, 1, samples=samples, number=number))
    record_property("findings", str({finding.value: count for finding, count in findings.items()}))
    assert findings[expected] >= 0.75 * number, findings


@pytest.mark.slow
@pytest.mark.parametrize("problems", [30, 300])
@pytest.mark.parametrize("samples", [16, 256])
@pytest.mark.parametrize("world", [unchanged, sharpened(2), compensated, expanded, shrunken], ids=lambda w: w.__name__)
def test_shrank_is_wrong_in_at_most_five_percent(
    world: World, problems: int, samples: int, record_property: Record
) -> None:
    """Wrong: the true reach within k samples is not lower."""
    wrong = sum(
        line.finding is Finding.SHRANK and reach(after_P, samples) >= reach(before_P, samples) - 1e-9
        for (before_P, after_P), line in studies(world, 2, problems, samples)
    )
    record_property("wrong", float(wrong / MANY))
    assert wrong <= 0.05 * MANY


@pytest.mark.slow
@pytest.mark.parametrize("problems", [30, 300])
@pytest.mark.parametrize("samples", [16, 256])
@pytest.mark.parametrize("factor", [1, 2, 4, 16])
def test_grew_is_wrong_in_at_most_five_percent(
    factor: int, problems: int, samples: int, record_property: Record
) -> None:
    """Wrong: `grew` or `moved` where no problem has p_rl > m p_base; sharpening by m has none."""
    lines = [line for _, line in studies(sharpened(factor), 3 + factor, problems, samples)]
    wrong = sum(line.finding in (Finding.GREW, Finding.MOVED) for line in lines)
    record_property("wrong", float(wrong / MANY))
    assert wrong <= 0.05 * MANY


def test_every_sentence_names_its_budget_and_its_first_try() -> None:
    for label, world in enumerate((shrunken, expanded, moved, sharpened(4), unchanged)):
        rng = np.random.default_rng([9, label])
        text = str(study(world(rng, 40), rng, 64))
        assert text.startswith("Within 64 samples ")
        assert "pass@1" in text


def test_nothing_left_to_gain_and_nothing_reached_are_said() -> None:
    full, none = np.full(20, 0.9), np.zeros(20)
    rng = np.random.default_rng(0)
    assert "nothing left to gain" in str(study((full, full), rng, 64))
    assert "before reaches none of the 20 problems" in str(study((none, none), rng, 64))


def test_a_gain_within_sharpening_is_no_growth_and_one_beyond_it_is() -> None:
    pair = ol.tally_of_counts(256, [[0, 4]] * 4 + [[64, 160]] * 30)
    assert gains_beyond_sharpening(pair, 4.0) == 0
    assert gains_beyond_sharpening(ol.tally_of_counts(256, [[0, 200]] + [[64, 160]] * 30), 4.0) == 1
    assert gains_beyond_sharpening(ol.tally_of_counts(256, [[0, 200]]), np.inf) == 0


@pytest.mark.parametrize(("drawn", "hits", "factor"), [(64, 3, 4.0), (64, 60, 4.0), (16, 5, 1.0), (1000, 2, 37.5)])
def test_p_beyond_sharpening_is_the_largest_chance_over_all_rates(drawn: int, hits: int, factor: float) -> None:
    rate = np.linspace(0, 1, 200_001)
    brute = ((1 - rate / factor) ** drawn * betainc(hits, drawn - hits + 1, rate)).max()
    ours = beyond_sharpening_p(ol.tally_of_counts(drawn, [[0, hits]]), factor)[0]
    assert ours == pytest.approx(brute, rel=1e-6)
    assert ours >= brute * (1 - 1e-9)


def test_p_beyond_sharpening_falls_with_successes_and_rises_with_the_factor() -> None:
    p_H = beyond_sharpening_p(ol.tally_of_counts(64, [[0, hits] for hits in range(1, 65)]), 4.0)
    assert all(low >= high for low, high in pairwise(p_H))
    p_M = [beyond_sharpening_p(ol.tally_of_counts(64, [[0, 20]]), factor)[0] for factor in (1.0, 2.0, 8.0, 64.0)]
    assert all(low <= high for low, high in pairwise(p_M))


def swap(pair: Tally) -> Tally:
    return ol.tally_of_counts(pair.drawn_PR[:, ::-1], pair.correct_PR[:, ::-1])


def test_a_change_of_reach_mirrors_when_the_runs_are_swapped() -> None:
    pair = ol.tally_of_counts(64, [[40, 0]] * 9 + [[30, 50]] * 20 + [[0, 0]] * 5 + [[0, 1]] * 2)
    forth, back = reach_change(pair, 64), reach_change(swap(pair), 64)
    assert (forth.fell, forth.rose) == (back.rose, back.fell) == (True, False)


def test_gains_too_rare_to_be_seen_are_granted_before_a_fall_is_claimed() -> None:
    """Two clear losses beside many unsolved problems may be made good by rare gains; beside none they may not."""
    lost = [[40, 0]] * 2 + [[30, 50]] * 20
    assert not reach_change(ol.tally_of_counts(64, lost + [[0, 0]] * 20), 64).fell
    assert reach_change(ol.tally_of_counts(64, lost), 64).fell
