"""What stopping at the fifth success costs: rounds of the run's grid against the oracle, the full draw and doubling.

    python benchmarks/stopping.py [--small]

Counts alone, no model: the sample of the fifth success of every problem is drawn from its law. The oracle knows that
sample beforehand and stops there; rounds learn of it at their end, so they go past it.
"""

import sys

import numpy as np

from offleash.drawing.schedule import Chunks, chunks_for

SMALL = "--small" in sys.argv
PROBLEMS, BUDGET, UNTIL = 500, 8192, 5
STUDIES = 40 if SMALL else 400  # of each mix
DEMANDED = 1.15  # of the oracle, at most, on every mix


def main() -> None:
    print(f"{PROBLEMS} problems, budget {BUDGET}, until success {UNTIL}, means of {STUDIES} studies a mix")
    head = ("oracle", "rounds", "doubling", "full draw", "reached", "stopped")
    print(f"{'mix':<20}" + "".join(title.rjust(12) for title in head) + "   rounds/oracle in 95% of studies")
    ratios = [line for number, (name, rate) in enumerate(mixes().items()) for line in cost_of(number, name, rate)]
    other_grids()
    rate, worst = worst_rate()
    print(f"\nworst single rate: {rate:.4f}")
    print("\n".join([*ratios, f"ratio rounds over oracle, all problems of the worst single rate: {worst:.3f}"]))


def mixes() -> dict[str, np.ndarray]:
    """The rates of a large population of problems in each mix of difficulty."""
    rng, rank = np.random.default_rng(1), np.linspace(0, 1, 100_000)
    return {
        "mostly easy": rng.beta(2, 2, len(rank)),  # around one half
        "spread": 10.0 ** (-4 * rank),  # log-uniform from 1 to 1e-4
        "mostly out of reach": np.where(rng.random(len(rank)) < 0.7, 0.0, 10.0 ** (-6 * rank)),  # 70% of rate 0
    }


def cost_of(number: int, name: str, rate: np.ndarray) -> list[str]:
    """One row of the table; the ratios of one mix."""
    rng = np.random.default_rng([7, number])
    stop = fifth_success(rng, rng.choice(rate, (STUDIES, PROBLEMS)))
    oracle = np.minimum(stop, BUDGET).sum(axis=1)
    rounds, doubling = (drawn(stop, grid).sum(axis=1) for grid in (chunks_for(UNTIL), Chunks(first=UNTIL, growth=2.0)))
    full = PROBLEMS * BUDGET
    reached, stopped = float(np.mean(1 - (1 - rate) ** BUDGET)), float((stop <= BUDGET).mean())
    low, high = np.quantile(rounds / oracle, [0.025, 0.975])
    costs = "".join(f"{value:12,.0f}" for value in (oracle.mean(), rounds.mean(), doubling.mean(), full))
    print(f"{name:<20}{costs}{reached:12.1%}{stopped:12.1%}   {low:.3f} to {high:.3f}")
    assert rounds.mean() <= DEMANDED * oracle.mean(), f"{name}: {rounds.mean() / oracle.mean():.3f} of the oracle"
    return [
        f"ratio rounds over oracle, {name}: {rounds.mean() / oracle.mean():.3f}",
        f"ratio doubling rounds over oracle, {name}: {doubling.mean() / oracle.mean():.3f}",
        f"ratio full draw over rounds, {name}: {full / rounds.mean():.2f}",
        f"ratio full draw over oracle, {name}: {full / oracle.mean():.2f}",
    ]


def fifth_success(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """The number of the sample that is a problem's fifth success; beyond any budget where the rate is 0."""
    possible = rate > 0
    failures = rng.negative_binomial(UNTIL, np.where(possible, rate, 1.0))
    return np.where(possible, failures + UNTIL, np.iinfo(np.int64).max)


def drawn(stop: np.ndarray, chunks: Chunks) -> np.ndarray:
    """Samples drawn in rounds: to the end of the round that holds the stop, or to the budget."""
    ends = [chunks.round_end(0)]
    while ends[-1] < BUDGET:
        ends.append(chunks.round_end(ends[-1]))
    end = np.minimum(np.array(ends), BUDGET)
    return np.asarray(end[np.minimum(np.searchsorted(end, stop), len(end) - 1)])


def other_grids() -> None:
    """Rounds over oracle on the three mixes for other first rounds and growths, and how many rounds that is."""
    rng = np.random.default_rng(3)
    population = [fifth_success(rng, rng.choice(rate, STUDIES * PROBLEMS)) for rate in mixes().values()]
    print("\nfirst  growth  rounds  rounds over oracle on the three mixes")
    for first in (UNTIL, 2 * UNTIL):
        for growth in (1.1, 1.25, 1.3, 1.4, 1.5, 2.0):
            grid, count, end = Chunks(first=first, growth=growth), 0, 0
            while end < BUDGET:
                count, end = count + 1, grid.round_end(end)
            cost = (drawn(stop, grid).sum() / np.minimum(stop, BUDGET).sum() for stop in population)
            print(f"{first:5d}{growth:8.2f}{count:8d}  " + "  ".join(f"{value:.3f}" for value in cost))


def worst_rate() -> tuple[float, float]:
    """The rate at which rounds cost most, were all problems of that rate."""
    rng, size = np.random.default_rng(5), STUDIES * PROBLEMS // 4
    found = []
    for rate in np.geomspace(1e-3, 1.0, 60):
        stop = fifth_success(rng, np.full(size, rate))
        cost = drawn(stop, chunks_for(UNTIL)).sum() / np.minimum(stop, BUDGET).sum()
        found.append((float(cost), float(rate)))
    cost, rate = max(found)
    return rate, cost


if __name__ == "__main__":
    main()
