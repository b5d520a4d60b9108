"""The mean over benchmarks: its intervals hold the truth, and few problems have none."""

from functools import partial

import numpy as np
import pytest

from offleash.comparing.per_benchmark import macro_mean
from offleash.data.tally import Tally, tally_of_counts
from offleash.stats.change import cells_at
from offleash.stats.support_classes import Rule, ratio
from tests.stats.test_known_worlds import lengths, slack

N = 32
CELLS = partial(cells_at, rule=Rule.SEEN, k=N, redraw=False)
# worlds that served to choose nothing: chances of P, E, S, O by benchmark, and problems in each
WORLDS = {
    "two": (((0.5, 0.1, 0.2, 0.2), (0.8, 0.05, 0.1, 0.05)), (40, 150)),
    "five": (((0.6, 0.1, 0.15, 0.15), (0.75, 0.02, 0.08, 0.15)) * 5, (20, 30, 30, 100, 500)),
    "many": (((0.85, 0.05, 0.05, 0.05),) * 12, (14,) * 12),
}


def drawn(rng: np.random.Generator, chances: tuple[tuple[float, ...], ...], sizes: tuple[int, ...]) -> Tally:
    """Counts of problems that are reached for certain or never."""
    cell = np.concatenate([rng.choice(4, p=p, size=n) for p, n in zip(chances, sizes, strict=False)])
    correct = np.array([[N, N], [0, N], [N, 0], [0, 0]])[cell]
    label = np.repeat([f"b{i:02}" for i in range(len(sizes))], sizes)
    return tally_of_counts(N, correct, benchmark_P=label)


@lengths(20, 600)
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_the_mean_over_benchmarks_hold_the_truth(world: str, studies: int) -> None:
    chances, sizes = WORLDS[world]
    truth = {
        name: np.mean([ratio(name, *p[:3], 1.0) for p, _ in zip(chances, sizes, strict=False)])
        for name in ("SRR", "NDR", "NSCR", "difference")
    }
    rng = np.random.default_rng(40)
    held: dict[str, list[bool]] = {name: [] for name in truth}
    for study in range(studies):
        macro = macro_mean(drawn(rng, chances, sizes), CELLS, 150, study)
        assert macro is not None
        for name, value in truth.items():
            ends = macro.interval[name]
            if not np.isnan(ends.low):
                held[name].append(bool(ends.low - 1e-12 <= value <= ends.high + 1e-12))
    for name, inside in held.items():
        assert len(inside) > studies / 4, name
        assert np.mean(inside) >= 0.92 - slack(0.92, len(inside)), name


def test_a_benchmark_of_one_problem_leaves_the_mean_without_an_interval() -> None:
    """Its interval covered .80: one problem shows nothing of how others like it differ."""
    counts = tally_of_counts(N, [[N, N]] * 31, benchmark_P=["one"] + ["many"] * 30)
    macro = macro_mean(counts, CELLS, 200, 0)
    assert macro is not None
    assert macro.value["SRR"] == 1
    assert np.isnan(macro.interval["SRR"].low)
    assert "fewer than the 8" in macro.reasons["SRR"]
