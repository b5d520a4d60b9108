"""A plan for people and programs."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.planning import Plan


def plan_document(plan: Plan) -> dict[str, object]:
    """The plan as JSON."""
    table = plan.table
    return {
        "schema": 1,
        "run": plan.run,
        "pilot": plan.pilot,
        "problems": table.problems,
        "never_reached": plan.never,
        "open": list(plan.open),
        "target": plan.target,
        "advised_k": plan.advised,
        "reason": None if plan.advised else f"no budget up to {int(table.k_K[-1])} settles that share",
        "tokens_a_sample": plan.tokens,
        "budgets": [
            {
                "k": int(k),
                "settled": float(plan.settled_K[i]),
                "successes_needed": int(table.least_K[i]),
                "samples": int(table.samples_K[i]),
                "until": int(table.until_K[i]),
                "samples_with_until": float(table.stopped_K[i]),
                "tokens": None if plan.tokens is None else plan.tokens * float(table.samples_K[i]),
                "tokens_with_until": None if plan.tokens is None else plan.tokens * float(table.stopped_K[i]),
            }
            for i, k in enumerate(table.k_K)
        ],
    }


def plan_table(plan: Plan) -> RenderableType:
    """The plan as a table with its reading."""
    table = Table(box=box.SIMPLE_HEAD)
    columns = ["k", "problems settled", "successes needed", "samples a run", "stopping early"]
    for column in [*columns, "tokens a run"] if plan.tokens else columns:
        table.add_column(column, justify="right")
    for i, k in enumerate(plan.table.k_K):
        row = [
            f"{k:,}{' <' if k == plan.advised else ''}",
            f"{plan.settled_K[i]:.1f} of {plan.table.problems - plan.never}",
            str(plan.table.least_K[i]),
            f"{plan.table.samples_K[i]:,}",
            f"{plan.table.stopped_K[i]:,.0f}",
        ]
        table.add_row(*row, *([f"{plan.tokens * plan.table.samples_K[i]:,.0f}"] if plan.tokens else []))
    if plan.advised:
        advice = f"k = {plan.advised:,} settles {plan.target:.0%} of what the pilot reached."
    else:
        advice = f"No budget up to {int(plan.table.k_K[-1]):,} settles {plan.target:.0%} of what the pilot reached."
    reading = (
        f"{plan.run}: {plan.pilot} samples a problem. {len(plan.open)} of the problems it reached are open: too few "
        f"successes for a loss to be certain. {plan.never} were not reached and stay open. {advice} "
        "A problem is settled when losing it would be certain (Bonferroni, 5%). Stopping early: each problem ends at "
        f"{_stop(plan)}."
    )
    return Group(Text(reading), table)


def _stop(plan: Plan) -> str:
    needed = bool((plan.table.until_K == plan.table.least_K).all())
    return "the successes needed" if needed else f"success {plan.table.until_K[0]}, settled or not"
