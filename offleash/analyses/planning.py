"""Plan from a pilot: the budget k at which a loss of each problem could be shown to be significant, and its cost.

The plan (beta-binomial, fitted to all problems), then its JSON and its table.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from scipy import special

from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.errors import OffleashError
from offleash.render.json import SCHEMA, Json, encode
from offleash.stats.binomials import Float, Integer, binomial_at_least, binomial_at_most
from offleash.stats.power import chance_of_detection, successes_needed
from offleash.stats.support_classes import beta_prior

_POINTS = 64  # quantiles that stand for each problem's posterior


@dataclass(frozen=True)
class BudgetPlan:
    """For K budgets: the chance that each problem is settled, and the samples that takes, stopped early or not.

    A problem is settled when the run before would show successes enough for its loss to be significant.
    """

    k_K: Integer
    min_successes_K: Integer  # successes that make a loss significant at each budget
    chance_PK: Float  # of each problem
    samples_K: Integer  # of one run
    stop_successes_K: (
        Integer  # successes at which a problem would stop: those that settle it, unless --until names others
    )
    stopped_cost_K: Float  # samples of one run that stops so, expected
    problems: int


def budget_plan(drawn_P: Integer, correct_P: Integer, k_K: Integer, until: int | None = None) -> BudgetPlan:
    """Predict from a pilot's counts what larger budgets would settle.

    Rates of problems come from a beta prior fitted to all of them; each problem's posterior is Beta(a + correct, b +
    wrong), taken at `_POINTS` quantiles of equal mass, so that a mean over them is an expectation.

    Args:
        drawn_P: samples of each problem in the pilot.
        correct_P: of these, correct.
        k_K: budgets to predict for.
        until: successes at which a problem stops; by default those that settle it.
    """
    shape_a, shape_b = beta_prior(drawn_P.astype(np.float64), correct_P.astype(np.float64))
    quantiles = (np.arange(_POINTS) + 0.5) / _POINTS
    shape_a_P, shape_b_P = shape_a + correct_P, shape_b + drawn_P - correct_P
    rate_PQ: Float = np.asarray(special.betaincinv(shape_a_P[:, None], shape_b_P[:, None], quantiles), dtype=np.float64)
    problems = len(drawn_P)
    min_successes = [successes_needed(int(k), int(k), problems) for k in k_K]
    min_successes_K = np.array(
        [int(k) + 1 if successes is None else successes for k, successes in zip(k_K, min_successes, strict=True)]
    )
    chance_PK = np.stack(
        [
            chance_of_detection(rate_PQ, k, successes).mean(axis=1)
            for k, successes in zip(k_K, min_successes_K, strict=True)
        ],
        axis=1,
    )
    stop_successes_K = min_successes_K if until is None else np.full_like(min_successes_K, until)
    costs = (stopped_cost(rate_PQ, int(k), int(m)) for k, m in zip(k_K, stop_successes_K, strict=True))
    stopped_cost_K = np.array([cost_PQ.mean(axis=1).sum() for cost_PQ in costs])
    return BudgetPlan(
        k_K=k_K,
        min_successes_K=min_successes_K,
        chance_PK=chance_PK,
        samples_K=k_K * problems,
        stop_successes_K=stop_successes_K,
        stopped_cost_K=stopped_cost_K,
        problems=problems,
    )


def stopped_cost(rate: Float, k: int, until: int) -> Float:
    """Expected samples of a problem of each rate when it stops at its until-th success or at k.

    The number of draws to the m-th success is negative binomial; cut off at k its mean is k P(fewer than m successes in
    k) + (m/p) P(more than m successes in k + 1).

    >>> float(stopped_cost(np.array([1.0]), 100, 5).round(6)[0])
    5.0
    """
    p = np.maximum(rate, 1e-300)  # a rate of 0 never stops: the second term must be 0, not 0/0
    ended = binomial_at_least(until + 1, k + 1, p)
    return np.asarray(k * binomial_at_most(until - 1, k, p) + np.where(ended > 0, until * ended / p, 0.0))


GROWTH = 7  # doublings beyond the pilot: from 64 samples to 8,192, the paper's largest budget


@dataclass(frozen=True)
class PilotPlan:
    """Which problems of a pilot are open, and what larger budgets would settle at what cost."""

    run: str
    pilot: int  # samples per problem, median
    table: BudgetPlan
    expected_settled_K: Float  # expected number of the problems that the pilot reached, at each budget
    unreached: int  # problems the pilot did not reach: they are open at any budget
    target: float
    recommended_k: int | None  # smallest budget that settles the target share of what the pilot reached
    open: tuple[str, ...]  # reached, but not often enough for a loss to be significant
    tokens: float | None  # per sample, mean; None when the log does not say


def plan(run: Run, target: float = 0.9, until: int | None = None) -> PilotPlan:
    """The budget at which a loss of `target` of the problems that the pilot reached would be significant."""
    if until is not None and until < 1:
        raise OffleashError(f"--until takes a number of successes, 1 or more; found {until}.")
    if not 0 < target < 1:
        raise OffleashError(f"--settle takes a share of the problems, above 0 and below 1; found {target}.")
    pilot_tally = tally([run]).tally
    drawn_P, correct_P = pilot_tally.drawn_PR[:, 0], pilot_tally.correct_PR[:, 0]
    pilot = int(np.median(drawn_P))
    k_K = np.unique(pilot * 2 ** np.arange(GROWTH + 1))
    table = budget_plan(drawn_P, correct_P, k_K[k_K <= 1 << 20], until)
    reached_P = correct_P > 0
    if not reached_P.any():
        raise OffleashError(
            f"The pilot {run.name!r} reached none of its {len(pilot_tally)} problems in {pilot} samples each, so "
            "nothing can be planned from it. Draw a larger pilot, or choose easier problems."
        )
    expected_settled_K = table.chance_PK[reached_P].sum(axis=0)
    enough = np.flatnonzero(expected_settled_K >= target * reached_P.sum())
    undecided_P = reached_P & (correct_P < table.min_successes_K[0])
    return PilotPlan(
        run=run.name,
        pilot=pilot,
        table=table,
        expected_settled_K=expected_settled_K,
        unreached=int((~reached_P).sum()),
        target=target,
        recommended_k=int(table.k_K[enough[0]]) if enough.size else None,
        open=tuple(str(name) for name in pilot_tally.problem_P[undecided_P]),
        tokens=_tokens(run),
    )


def _tokens(run: Run) -> float | None:
    if run.samples is None:
        return None
    mean = run.samples.select(pl.col("tokens").mean()).collect(engine="streaming").item()
    return None if mean is None else float(mean)


# The plan as JSON and as a table.


def plan_document(plan: PilotPlan) -> Json:
    """The plan as JSON."""
    table = plan.table
    document: Json = {
        "schema": SCHEMA,
        "run": plan.run,
        "pilot": plan.pilot,
        "problems": table.problems,
        "never_reached": plan.unreached,
        "open": plan.open,
        "target": plan.target,
        "advised_k": plan.recommended_k,
        "reason": None if plan.recommended_k else f"no budget up to {int(table.k_K[-1])} settles that share",
        "tokens_a_sample": plan.tokens,
        "budgets": [
            {
                "k": k,
                "settled": plan.expected_settled_K[i],
                "successes_needed": table.min_successes_K[i],
                "samples": table.samples_K[i],
                "until": table.stop_successes_K[i],
                "samples_with_until": table.stopped_cost_K[i],
                "tokens": None if plan.tokens is None else plan.tokens * table.samples_K[i],
                "tokens_with_until": None if plan.tokens is None else plan.tokens * table.stopped_cost_K[i],
            }
            for i, k in enumerate(table.k_K)
        ],
    }
    return encode(document)


def plan_table(plan: PilotPlan) -> RenderableType:
    """The plan as a table with its reading."""
    table = Table(box=box.SIMPLE_HEAD)
    columns = ["k", "problems settled", "successes needed", "samples per run", "with early stopping"]
    for column in [*columns, "tokens per run"] if plan.tokens else columns:
        table.add_column(column, justify="right")
    for i, k in enumerate(plan.table.k_K):
        row = [
            f"{k:,}{' <' if k == plan.recommended_k else ''}",
            f"{plan.expected_settled_K[i]:.1f} of {plan.table.problems - plan.unreached}",
            str(plan.table.min_successes_K[i]),
            f"{plan.table.samples_K[i]:,}",
            f"{plan.table.stopped_cost_K[i]:,.0f}",
        ]
        table.add_row(*row, *([f"{plan.tokens * plan.table.samples_K[i]:,.0f}"] if plan.tokens else []))
    if plan.recommended_k:
        advice = f"k = {plan.recommended_k:,} settles {plan.target:.0%} of the problems that the pilot reached."
    else:
        largest = int(plan.table.k_K[-1])
        advice = f"No budget up to {largest:,} settles {plan.target:.0%} of the problems that the pilot reached."
    reading = (
        f"{plan.run}: {plan.pilot} samples per problem. {len(plan.open)} of the problems it reached are open: too few "
        f"successes for a loss to be significant. {plan.unreached} were not reached and stay open. {advice} A problem "
        "is settled when losing it would be significant (Bonferroni, 5%). With early stopping each problem stops at "
        f"{_stop(plan)}."
    )
    return Group(Text(reading), table)


def _stop(plan: PilotPlan) -> str:
    needed = bool((plan.table.stop_successes_K == plan.table.min_successes_K).all())
    return (
        "the number of successes needed"
        if needed
        else f"{plan.table.stop_successes_K[0]} successes, whether or not it is settled"
    )
