"""Plan: from a pilot to the budget that would settle it, and its cost."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.support_planning import BudgetPlan, budget_plan
from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.errors import OffleashError
from offleash.stats.binomials import Float

GROWTH = 7  # doublings beyond the pilot


@dataclass(frozen=True)
class Plan:
    """Which problems of a pilot are open, and what larger budgets would settle at what cost."""

    run: str
    pilot: int  # samples a problem
    table: BudgetPlan
    settled_K: Float  # expected number of the problems that the pilot reached, at each budget
    never: int  # problems the pilot did not reach: they are open at any budget
    target: float
    advised: int | None  # smallest budget that settles the target share of what the pilot reached
    open: tuple[str, ...]  # reached, but not often enough for a loss to be certain
    tokens: float | None  # a sample, mean; None when the log does not say


def plan(run: Run, target: float = 0.9, until: int | None = None) -> Plan:
    """The budget at which a loss of `target` of the problems that the pilot reached would be certain."""
    if until is not None and until < 1:
        raise OffleashError(f"--until is a number of successes, at least 1; found {until}.")
    if not 0 < target < 1:
        raise OffleashError(f"--settle is a share of the problems, above 0 and below 1; found {target}.")
    counted = tally([run]).tally
    drawn_P, correct_P = counted.drawn_PR[:, 0], counted.correct_PR[:, 0]
    pilot = int(np.median(drawn_P))
    k_K = np.unique(pilot * 2 ** np.arange(GROWTH + 1))
    table = budget_plan(drawn_P, correct_P, k_K[k_K <= 1 << 20], until)
    reached_P = correct_P > 0
    if not reached_P.any():
        raise OffleashError(
            f"The pilot {run.name!r} reached none of its {len(counted)} problems in {pilot} samples each, so nothing "
            "can be planned from it; draw a larger pilot or easier problems."
        )
    settled_K = table.chance_PK[reached_P].sum(axis=0)
    enough = np.flatnonzero(settled_K >= target * reached_P.sum())
    open_P = reached_P & (correct_P < table.least_K[0])
    return Plan(
        run=run.name,
        pilot=pilot,
        table=table,
        settled_K=settled_K,
        never=int((~reached_P).sum()),
        target=target,
        advised=int(table.k_K[enough[0]]) if enough.size else None,
        open=tuple(str(name) for name in counted.problem_P[open_P]),
        tokens=_tokens(run),
    )


def _tokens(run: Run) -> float | None:
    if run.samples is None:
        return None
    mean = run.samples.select(pl.col("tokens").mean()).collect(engine="streaming").item()
    return None if mean is None else float(mean)
