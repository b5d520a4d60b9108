"""pass@k of every run of a tally, with intervals, and where two of them cross."""

from dataclasses import dataclass

import numpy as np

from offleash.data.tally import Tally
from offleash.display import html
from offleash.stats.change import common_budget
from offleash.stats.classes import CellSums, thinned_cells
from offleash.stats.crossing import Crossing, EquivalentBudget, crossing, equivalent_budget
from offleash.stats.curves import Curve, budgets, curve, dense_budgets
from offleash.stats.intervals import REPLICATES


@dataclass(frozen=True)
class PassCurve:
    """pass@k of R runs at the same budgets."""

    tally: Tally
    runs: dict[str, Curve]
    replicates: int
    seed: int

    def crossing(self, before: str, after: str) -> Crossing:
        """The budget beyond which the run before has the higher pass@k."""
        return crossing(self._sums(before, after))

    def equivalent_budget(self, before: str, after: str, of: int = 1) -> EquivalentBudget:
        """How many tries of the run before equal `of` tries of the run after."""
        return equivalent_budget(self._sums(before, after, of), of)

    def _sums(self, before: str, after: str, of: int = 1) -> CellSums:
        pair = self.tally.pair(before, after)
        grid = dense_budgets(common_budget(pair))
        return thinned_cells(pair, np.union1d(grid, [of])).sums(self.replicates, self.seed)

    def __str__(self) -> str:
        k_K = next(iter(self.runs.values())).k_K
        rows = ["k".rjust(8) + "".join(name.rjust(24) for name in self.runs)]
        for i, k in enumerate(k_K):
            cells = (f"{c.value_K[i]:.4f} [{c.low_K[i]:.3f}, {c.high_K[i]:.3f}]" for c in self.runs.values())
            rows.append(f"{k:8d}" + "".join(cell.rjust(24) for cell in cells))
        return "\n".join(rows)

    def _repr_html_(self) -> str | None:
        return html(self)


def pass_curve(tally: Tally, replicates: int = REPLICATES, seed: int = 0) -> PassCurve:
    """The unbiased pass@k curve of every run, up to the largest budget that every problem has."""
    k_K = budgets(common_budget(tally))
    runs = {}
    for name in tally.runs:
        sums = thinned_cells(tally.pair(name, name), k_K).sums(replicates, seed)
        runs[name] = curve(sums, "before", np.asarray(k_K))
    return PassCurve(tally, runs, replicates, seed)
