"""Known worlds: models whose rates are written down, drawn again and again; sizes of tests and coverage of intervals.

A world is a large population of problems, each with a rate before and after. A study draws problems from it and then
samples of both runs. What an interval should cover is the value of the metric in the whole population at that budget.
The short versions run always, with bounds that allow for their Monte Carlo error; the long ones are marked `slow`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from offleash.data.tally import Tally, tally_of_counts
from offleash.stats.chance import exchange_null, mcnemar, retest
from offleash.stats.change import METRICS, support_change
from offleash.stats.curves import crossing, curve, dense_budgets, equivalent_budget
from offleash.stats.significance import gains_at_least, losses_at_least
from offleash.stats.support_classes import Cells, ratio, reach_PRK, thinned_cells

NAMES = (*METRICS, "before", "after", "difference")
POPULATION = 30_000
SHORT, LONG = 200, 1000
REPLICATES = 1000
BATCH = 200  # studies that share one matrix of weights

World = np.ndarray  # (problems, 2): the rate of each problem before and after


def hard_and_easy(rng: np.random.Generator, impossible: float = 0.2, center: float = -2.0) -> np.ndarray:
    rate = special.expit(rng.normal(center, 3.0, POPULATION))
    return np.where(rng.random(POPULATION) < impossible, 0.0, rate)


def same_model() -> World:
    rate = hard_and_easy(np.random.default_rng(1))
    return np.stack([rate, rate], axis=1)


def sharpened() -> World:
    """Likely problems become likelier and unlikely ones less likely: pass@1 rises, pass@k falls."""
    rate = hard_and_easy(np.random.default_rng(2))
    with np.errstate(divide="ignore"):
        after = special.expit(1.7 * special.logit(rate) + 2.0)
    return np.stack([rate, after], axis=1)


def few_losses() -> World:
    """Nothing is found and three in a hundred are lost: E is nearly always 0, and S often."""
    rng = np.random.default_rng(3)
    rate = rng.beta(5, 3, POPULATION)
    return np.stack([rate, np.where(rng.random(POPULATION) < 0.03, 0.0, rate)], axis=1)


def few_gains() -> World:
    return few_losses()[:, ::-1]


WORLDS: dict[str, Callable[[], World]] = {
    "same model": same_model,
    "sharpened": sharpened,
    "few losses": few_losses,
    "few gains": few_gains,
}


def study(world: World, problems: int, n: int, studies: int, seed: int) -> Tally:
    """Counts of many studies, one below the other."""
    rng = np.random.default_rng([seed, problems, n])
    rate = world[rng.integers(0, len(world), studies * problems)]
    return tally_of_counts(np.full(rate.shape, n), rng.binomial(n, rate))


def part(tally: Tally, number: int, problems: int) -> Tally:
    return tally.take(np.arange(number * problems, (number + 1) * problems))


def truth(world: World, k: int) -> dict[str, float]:
    """The metrics of the whole population at budget k: ratios of expected cells."""
    a, b = 1 - (1 - world[:, 0]) ** k, 1 - (1 - world[:, 1]) ** k
    P, E, S = float((a * b).mean()), float(((1 - a) * b).mean()), float((a * (1 - b)).mean())
    return {name: float(ratio(name, P, E, S, 1.0)) for name in NAMES}


def side_by_side(tally: Tally, problems: int, k: int, stratum: np.ndarray) -> Iterator[Cells]:
    """The cells of many studies as the columns of one, so that they share their bootstrap weights."""
    cells = thinned_cells(tally, np.array([k]))
    studies = len(tally) // problems
    for start in range(0, studies, BATCH):
        stop = min(start + BATCH, studies)
        columns = [
            side.reshape(studies, problems)[start:stop].T
            for side in (cells.P_PK, cells.E_PK, cells.S_PK, cells.determined_PK)
        ]
        P, E, S, told = columns
        yield Cells(np.arange(start, stop), P, E, S, told, stratum, True)


def coverage(
    world: World, problems: int, n: int, k: int, studies: int, replicates: int, strata: int = 1
) -> dict[str, tuple[float, float]]:
    """How often the interval of each metric holds the truth, and the smallest width of one."""
    stratum = np.arange(problems) * strata // problems
    if strata == 1:
        tally, true = study(world, problems, n, studies, 7), truth(world, k)
    else:
        tally, true = stratified(world, problems, n, studies, stratum, strata, k)
    held: dict[str, list[bool]] = {name: [] for name in NAMES}
    width: dict[str, list[float]] = {name: [] for name in NAMES}
    for cells in side_by_side(tally, problems, k, stratum):
        sums = cells.sums(replicates)
        for name in NAMES:
            for end in sums.intervals(name):
                held[name].append(end.low - 1e-12 <= true[name] <= end.high + 1e-12)
                width[name].append(end.high - end.low)
    return {name: (float(np.mean(held[name])), float(np.nanmin(width[name]))) for name in NAMES}


def stratified(
    world: World, problems: int, n: int, studies: int, stratum: np.ndarray, strata: int, k: int
) -> tuple[Tally, dict[str, float]]:
    """Benchmarks of increasing difficulty: thirds of the population, sorted by their rate, of fixed size in a study."""
    order = np.argsort(world.max(axis=1), kind="stable")
    pool = np.array_split(world[order], strata)
    size = np.bincount(stratum)
    rng = np.random.default_rng([11, problems, n])
    rate = np.empty((studies, problems, 2))
    for s in range(strata):
        rate[:, stratum == s] = pool[s][rng.integers(0, len(pool[s]), (studies, size[s]))]
    mean = np.zeros(3)
    for s in range(strata):
        a, b = (1 - (1 - pool[s][:, r]) ** k for r in (0, 1))
        mean += size[s] / problems * np.array([(a * b).mean(), ((1 - a) * b).mean(), (a * (1 - b)).mean()])
    true = {name: float(ratio(name, mean[0], mean[1], mean[2], 1.0)) for name in NAMES}
    flat = rate.reshape(-1, 2)
    return tally_of_counts(np.full(flat.shape, n), rng.binomial(n, flat)), true


def slack(chance: float, studies: int) -> float:
    """What a share of `studies` may differ from its chance by luck: 3.3 standard errors, one time in two thousand."""
    return 3.3 * float(np.sqrt(chance * (1 - chance) / studies))


def lengths(short: int = SHORT, long: int = LONG) -> pytest.MarkDecorator:
    slow = pytest.param(long, marks=pytest.mark.slow, id="long")
    return pytest.mark.parametrize("studies", [pytest.param(short, id="short"), slow])


# Coverage of the intervals


def test_studies_side_by_side_have_the_intervals_of_each_alone() -> None:
    tally = study(sharpened(), 40, 16, 3, 0)
    [cells] = side_by_side(tally, 40, 8, np.zeros(40, int))
    sums = cells.sums(500)
    for number in range(3):
        alone = support_change(part(tally, number, 40), "before", "after", k=8, replicates=500)
        for name in METRICS:
            together = sums.intervals(name, np.array([number]))[0]
            assert together.to_json() == pytest.approx(alone.interval[name].to_json())


@lengths()
@pytest.mark.parametrize(("n", "k"), [(32, 32), (64, 8)], ids=["whole budget", "thinned"])
@pytest.mark.parametrize("strata", [1, 3], ids=["one benchmark", "three benchmarks"])
@pytest.mark.parametrize("problems", [30, pytest.param(100, marks=pytest.mark.slow), 500])
@pytest.mark.parametrize("world", list(WORLDS))
def test_intervals_hold_the_value_of_the_population(
    world: str, problems: int, strata: int, n: int, k: int, studies: int
) -> None:
    result = coverage(WORLDS[world](), problems, n, k, studies, REPLICATES, strata)
    print(f"coverage {world} N={problems} strata={strata} k={k}", {name: round(result[name][0], 3) for name in NAMES})
    for name in (*METRICS, "difference"):
        held, narrowest = result[name]
        assert held >= 0.92 - slack(0.92, studies), (name, held)
        assert narrowest > 0.002, (name, narrowest)
    # elsewhere a truth at 0 or 1 is held nearly always; of thirty problems none is gained in most studies
    if n == k and problems > 30 and world in ("same model", "sharpened"):
        for name in (*METRICS, "difference"):
            assert result[name][0] <= 0.995, (name, result[name][0])


@pytest.mark.parametrize("world", ["same model", "sharpened"])
def test_intervals_hold_the_value_with_many_small_benchmarks(world: str) -> None:
    """Weights of Exp(1) scaled to the size of a stratum vary too little: by (n-1)/(n+1), nothing at all for n = 1.

    Gamma(1 - 2/n) weights have the right variance; benchmarks of fewer than five problems can share a stratum.
    """
    result = coverage(WORLDS[world](), 100, 32, 32, 1000, 2000, strata=50)
    for name in (*METRICS, "difference"):
        assert result[name][0] >= 0.92 - slack(0.92, 1000), (name, result[name][0])


def lost_or_gained(problems: int, most: int, lost: bool) -> Cells:
    """Studies side by side with 0, 1, ... `most` problems lost, or gained, and all others kept."""
    changed_PK = (np.arange(problems)[:, None] < np.arange(most + 1)).astype(np.float64)
    none_PK = np.zeros_like(changed_PK)
    E_PK, S_PK = (none_PK, changed_PK) if lost else (changed_PK, none_PK)
    one_stratum = np.zeros(problems, int)
    return Cells(np.arange(most + 1), 1 - changed_PK, E_PK, S_PK, np.ones_like(changed_PK), one_stratum, True)


@pytest.mark.parametrize("problems", [30, 100, 500])
@pytest.mark.parametrize(
    ("name", "lost"),
    [("SRR", True), ("NDR", False), ("SDS", False), ("NSCR", True), ("difference", True), ("before", False)],
)
def test_intervals_hold_the_value_whatever_share_of_problems_changed(name: str, lost: bool, problems: int) -> None:
    """By binomial sums, on a grid of shares: with the plain percentiles coverage falls to .88 where one to three of all
    problems are expected to change. A share that was not seen at all, or once, is where it matters."""
    most = min(problems, 70)
    ends = lost_or_gained(problems, most, lost).sums(10_000).intervals(name)
    low, high = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
    share = np.geomspace(0.02 / problems, 0.5 if problems == 30 else 15 / problems, 400)[:, None]
    number = np.arange(most + 1)
    chance = np.exp(
        special.gammaln(problems + 1) - special.gammaln(number + 1) - special.gammaln(problems - number + 1)
    ) * np.exp(number * np.log(share) + (problems - number) * np.log1p(-share))
    S, E = (share, 0 * share) if lost else (0 * share, share)
    true = ratio(name, 1 - S - E, E, S, 1.0)
    covered = (chance * ((low - 1e-12 <= true) & (true <= high + 1e-12))).sum(axis=1)
    assert covered.min() >= 0.92, (covered.min(), share[covered.argmin()])


def hard_problems() -> World:
    rate = np.random.default_rng(9).beta(0.2, 8, POPULATION)
    return np.stack([rate, rate], axis=1)


@lengths()
@pytest.mark.parametrize("problems", [30, pytest.param(100, marks=pytest.mark.slow), 500])
@pytest.mark.parametrize(("n", "k"), [(32, 32), (64, 8)], ids=["whole budget", "thinned"])
@pytest.mark.parametrize("world", ["same model", "sharpened"])
def test_intervals_of_pass_at_k_of_one_run_hold_it(world: str, n: int, k: int, problems: int, studies: int) -> None:
    result = coverage(WORLDS[world](), problems, n, k, studies, REPLICATES)
    for name in ("before", "after"):
        assert 0.92 - slack(0.92, studies) <= result[name][0] <= 0.995, (name, result[name])


@pytest.mark.parametrize(("world", "k"), [(few_losses, 8), (hard_problems, 1)], ids=["near one", "near zero"])
def test_intervals_of_pass_at_k_of_one_run_hold_it_near_its_ends(world: Callable[[], World], k: int) -> None:
    """Two of the four pseudo-problems land on each side of one run's table, twice the weight of Jeffreys' prior.

    With one pseudo-problem of Gamma(1/2) reached and one not, coverage is .92 and .95 at N = 30; it is .75 and .86 now.
    """
    result = coverage(world(), 30, 64, k, 1000, 2000)
    assert result["before"][0] >= 0.92 - slack(0.92, 1000), result["before"]


@lengths(200, 500)
@pytest.mark.parametrize("world", ["same model", "sharpened"])
def test_bands_hold_the_whole_curve(world: str, studies: int) -> None:
    held, pointwise = whole_curves(WORLDS[world](), 100, 32, studies)
    for name in NAMES:
        assert held[name] >= 0.92 - slack(0.92, studies), (name, held[name])
    assert pointwise["before"] < held["before"]  # pointwise intervals do not hold together


def whole_curves(world: World, problems: int, n: int, studies: int) -> tuple[dict[str, float], dict[str, float]]:
    """How often the band, and the pointwise intervals, hold the curve at every budget."""
    k_K = 2 ** np.arange(n.bit_length())
    true = {name: np.array([truth(world, int(k))[name] for k in k_K]) for name in NAMES}
    tally = study(world, problems, n, studies, 8)
    band, points = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    for number in range(studies):
        sums = thinned_cells(part(tally, number, problems), k_K).sums(1000, number)
        for name in NAMES:
            result = curve(sums, name)
            band[name] += ((result.band_low_K <= true[name]) & (true[name] <= result.band_high_K)).all() / studies
            points[name] += ((result.low_K <= true[name]) & (true[name] <= result.high_K)).all() / studies
    return band, points


# Tests against chance


def sizes(world: World, problems: int, n: int, studies: int) -> dict[str, np.ndarray]:
    """The p-values of many studies."""
    tally = study(world, problems, n, studies, 12)
    out: dict[str, list[float]] = {name: [] for name in ("p_S", "p_E", "mcnemar", "mid_p_S", "mid_p_E")}
    for number in range(studies):
        result = part(tally, number, problems)
        null = exchange_null(result.drawn_PR, result.correct_PR)
        for name in ("p_S", "p_E", "mid_p_S", "mid_p_E"):
            out[name].append(getattr(null, name))
        reached = result.correct_PR > 0
        E, S = (~reached[:, 0] & reached[:, 1]).sum(), (reached[:, 0] & ~reached[:, 1]).sum()
        out["mcnemar"].append(mcnemar(int(E), int(S)))
    return {name: np.array(values) for name, values in out.items()}


@lengths()
@pytest.mark.parametrize("problems", [30, 500])
def test_the_same_model_is_called_changed_no_more_often_than_it_says(problems: int, studies: int) -> None:
    p = sizes(same_model(), problems, 32, studies)
    for name in ("p_S", "p_E", "mcnemar"):
        for level in (0.01, 0.05, 0.1):
            assert np.mean(p[name] <= level) <= level + slack(level, studies), (name, level)
    if problems == 500:  # discrete, so below the level, but not far below
        assert np.mean(p["p_S"] <= 0.05) >= 0.02
        for name in ("mid_p_S", "mid_p_E"):
            assert abs(np.mean(p[name] <= 0.05) - 0.05) <= 0.015 + slack(0.05, studies)


@lengths(200, LONG)
def test_losses_are_not_called_where_rates_only_rise(studies: int) -> None:
    rate = hard_and_easy(np.random.default_rng(4))
    p = sizes(np.stack([rate, np.sqrt(rate)], axis=1), 100, 32, studies)
    assert np.mean(p["p_S"] <= 0.05) <= 0.05 + slack(0.05, studies)
    assert np.mean(p["p_E"] <= 0.05) > 0.5  # a small p_E says that some rate rose, which sharpening alone does


@lengths(200, LONG)
def test_real_losses_are_seen(studies: int) -> None:
    p = sizes(sharpened(), 500, 32, studies)
    assert np.mean(p["p_S"] <= 0.05) > 0.5


def losing(rise: bool) -> World:
    """A tenth of the problems go to a rate of exactly 0; the others keep theirs, or rise."""
    rng = np.random.default_rng(6)
    rate = hard_and_easy(rng)
    kept = np.sqrt(rate) if rise else rate
    return np.stack([rate, np.where(rng.random(POPULATION) < 0.1, 0.0, kept)], axis=1)


def bounds_on_losses(world: World, problems: int, n: int, studies: int) -> np.ndarray:
    """For each study: losses at least, true losses, gains at least."""
    rng = np.random.default_rng([13, problems])
    rows = []
    for _ in range(studies):
        rate = world[rng.integers(0, len(world), problems)]
        drawn, correct = np.full(rate.shape, n), rng.binomial(n, rate)
        real = int(((rate[:, 0] > 0) & (rate[:, 1] < rate[:, 0])).sum())
        rows.append([losses_at_least(drawn, correct), real, gains_at_least(drawn, correct)])
    return np.array(rows)


@lengths(200, LONG)
@pytest.mark.parametrize("rise", [False, True], ids=["others keep", "others rise"])
@pytest.mark.parametrize("problems", [30, 200])
def test_real_losses_are_at_least_as_many_as_is_said(rise: bool, problems: int, studies: int) -> None:
    said, real, gains = bounds_on_losses(losing(rise), problems, 32, studies).T
    assert np.mean(said > real) <= 0.05 + slack(0.05, studies)
    if not rise:
        assert np.mean(gains > 0) <= 0.05 + slack(0.05, studies)
    if problems == 200:
        assert np.median(said / real) > 0.25  # and the bound is of use


@lengths(300, LONG)
def test_no_loss_is_said_to_be_real_between_two_runs_of_one_model(studies: int) -> None:
    said, _, gains = bounds_on_losses(same_model(), 100, 32, studies).T
    assert np.mean(said > 0) <= 0.05 + slack(0.05, studies)
    assert np.mean(gains > 0) <= 0.05 + slack(0.05, studies)


# Retest


def retests(world: World, problems: int, n: int, k: int, studies: int) -> dict[str, float]:
    """Coverage and mean error of the net ratio and the net gain against a redraw."""
    a, b, twice = 1 - (1 - world[:, 0]) ** k, 1 - (1 - world[:, 1]) ** k, 1 - (1 - world[:, 0]) ** (2 * k)
    retention = float((a * b).mean() / (2 * a - twice).mean())
    gain = problems * float(((1 - a) * b - (twice - a)).mean())
    tally = study(world, problems, n, studies, 14)
    every = [retest(part(tally, number, problems), k, 1000, number) for number in range(studies)]
    shown = [item.net_ratio_interval for item in every if not np.isnan(item.net_ratio_interval.low)]
    assert len(shown) > 0.7 * studies  # with thirty problems a few studies have too few that would be reached twice
    return {
        "SRR": float(np.mean([ends.low <= retention <= ends.high for ends in shown])),
        "gain": float(np.mean([item.gain_interval.low <= gain <= item.gain_interval.high for item in every])),
        "bias of SRR": float(np.mean([item.net_ratio for item in every]) - retention),
        "bias of gain": float(np.mean([item.gain for item in every]) - gain),
        "error of gain": float(np.std([item.gain for item in every]) / np.sqrt(studies)),
        "true SRR": retention,
        "true gain": gain,
    }


@lengths(300, LONG)
@pytest.mark.parametrize("problems", [30, 100])
@pytest.mark.parametrize("world", list(WORLDS))
def test_intervals_of_the_retest_hold_its_value(world: str, problems: int, studies: int) -> None:
    result = retests(WORLDS[world](), problems, 32, 16, studies)
    assert result["gain"] >= 0.92 - slack(0.92, studies), result
    if problems == 100 and world != "few gains":  # the rest: see the next test
        assert result["SRR"] >= 0.92 - slack(0.92, studies), result
    assert abs(result["bias of gain"]) <= 4 * result["error of gain"]
    assert abs(result["bias of SRR"]) < 0.02
    if world == "same model":
        assert (result["true SRR"], result["true gain"]) == pytest.approx((1, 0), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["same model", "sharpened", "few gains"])
def test_intervals_of_retested_retention_hold_it_in_small_studies(world: str) -> None:
    """The pseudo-problems (0, 1) and (1, 1) only pull retention down, and it can lie above 1.

    A third, (1/2, 0), a problem seen once in 2k draws, brings .88, .85 and .53 to .99 and more, the width up a tenth.
    """
    result = retests(WORLDS[world](), 30, 32, 16, 1000)
    assert result["SRR"] >= 0.92 - slack(0.92, 1000), result


# Crossing and equivalent budget


def leashed() -> World:
    """Far better at the first try, and a third of what the run before rarely reaches is gone."""
    rng = np.random.default_rng(15)
    rate = special.expit(rng.normal(-2.5, 1.5, POPULATION))
    lost = rng.random(POPULATION) < 0.3 * (rate < 0.1)
    return np.stack([rate, np.where(lost, 0.0, np.sqrt(rate))], axis=1)


def crossings(world: World, problems: int, n: int, studies: int) -> dict[str, float]:
    """Coverage of the crossing and of what one try is worth, by the population's own curves on the same budgets."""
    k_K = dense_budgets(n)
    before = np.array([truth(world, int(k))["before"] for k in k_K])
    after = np.array([truth(world, int(k))["after"] for k in k_K])
    where = int(np.flatnonzero(before > after)[0])
    share = (after - before)[where - 1] / ((after - before)[where - 1] - (after - before)[where])
    cross = float(np.exp(np.interp(share, [0, 1], np.log(k_K[where - 1 : where + 1]))))
    worth = float(np.exp(np.interp(after[0], before, np.log(k_K))))
    tally = study(world, problems, n, studies, 16)
    held, resolved, told = [], [], []
    for number in range(studies):
        sums = thinned_cells(part(tally, number, problems), k_K).sums(1000, number)
        first, tries = crossing(sums), equivalent_budget(sums, 1)
        held.append((first.low is None or first.low <= cross) and (first.high is None or cross <= first.high))
        resolved.append(first.is_resolved)
        told.append((tries.low is None or tries.low <= worth) and (tries.high is None or worth <= tries.high))
    return {
        "crossing": float(np.mean(held)),
        "resolved": float(np.mean(resolved)),
        "budget": float(np.mean(told)),
        "true crossing": cross,
        "true budget": worth,
    }


@lengths(200, LONG)
@pytest.mark.parametrize("problems", [100, 400])
def test_intervals_of_the_crossing_and_of_the_equivalent_budget_hold_them(problems: int, studies: int) -> None:
    result = crossings(leashed(), problems, 64, studies)
    assert result["crossing"] >= 0.92 - slack(0.92, studies), result
    assert result["budget"] >= 0.92 - slack(0.92, studies), result
    if problems == 400:
        assert result["resolved"] > 0.5, result


# Stopping early


def stopped_study(world: World, problems: int, budget: int, until: int, seed: int) -> tuple[Tally, Tally]:
    """The same samples as two tallies: every record to its until-th success, and every record whole."""
    rng = np.random.default_rng(seed)
    rate = world[rng.integers(0, len(world), problems)]
    total = np.cumsum(rng.random((problems, 2, budget)) < rate[:, :, None], axis=2, dtype=np.int64)
    stopped = total[:, :, -1] >= until
    n = np.where(stopped, (total >= until).argmax(axis=2) + 1, budget)
    early = tally_of_counts(n, np.where(stopped, until, total[:, :, -1]))
    early = replace(early, stopped_PR=stopped, budget_R=np.full(2, budget), until_R=np.full(2, until))
    return early, tally_of_counts(np.full((problems, 2), budget), total[:, :, -1])


@pytest.mark.parametrize("until", [1, 2, 5])
def test_runs_that_stop_early_are_unbiased_and_have_the_table_of_the_full_draw(until: int) -> None:
    world, k_K = sharpened(), np.array([1, 2, 4, 8, 16, 32, 64])
    early, full = stopped_study(world, 20_000, 64, until, 17)
    true = np.array([[truth(world, int(k))[name] for k in k_K] for name in ("before", "after")])
    reach = reach_PRK(early, k_K)
    assert (np.abs(reach.mean(axis=0) - true) <= 4 * reach.std(axis=0) / np.sqrt(len(early))).all()
    first, two = (support_change(tally, "before", "after", replicates=50) for tally in (early, full))
    assert first.k == two.k == 64
    assert (first.P, first.E, first.S, first.O) == (two.P, two.E, two.S, two.O)
    assert early.drawn_PR.sum() < 0.9 * full.drawn_PR.sum()


@lengths(300, LONG)
def test_intervals_of_runs_that_stop_early_hold_the_value_of_the_population(studies: int) -> None:
    world, problems, k = sharpened(), 100, 16
    early, _ = stopped_study(world, problems * studies, 32, 5, 18)
    true, held = truth(world, k), dict.fromkeys((*METRICS, "difference"), 0.0)
    for cells in side_by_side(early, problems, k, np.zeros(problems, int)):
        sums = cells.sums(2000)
        for name in held:
            held[name] += sum(end.low <= true[name] <= end.high for end in sums.intervals(name))
    for name, count in held.items():
        assert count / studies >= 0.92 - slack(0.92, studies), (name, count / studies)
