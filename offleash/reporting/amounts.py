"""Amounts as a summary prints them."""

import math

from offleash.comparing.compare import Comparison
from offleash.data.tally import Per
from offleash.stats.change import SupportChange
from offleash.stats.rules import Rule

CELLS = {"P": "preserved", "E": "found", "S": "lost", "O": "neither"}


def amount(value: float) -> str:
    """A count: whole where it is whole, one decimal where it is an expectation over thinned samples."""
    if not math.isfinite(value):
        return "?"
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def decimal(value: float, digits: int = 3, sign: str = "") -> str:
    """A ratio; a dash where it is undefined."""
    return f"{value:{sign}.{digits}f}" if math.isfinite(value) else "–"


def p_value(value: float) -> str:
    """A p-value, short."""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def rule_in_words(one: Comparison) -> str:
    """What it takes to be reached."""
    change, asked = one.change, one.question
    shows = "is correct" if change.per is Per.PROBLEM else f"is correct and shows this {change.per.value}"
    return {
        Rule.SEEN: f"at least one of k samples {shows}",
        Rule.ABOVE: f"more than {asked.tau:g} of k samples are correct",
        Rule.CONFIDENT: f"the rate is surely above what k samples can miss, out: surely below (zeta = {asked.zeta:g})",
        Rule.POSTERIOR: f"the rate is above what k samples can miss with posterior chance {1 - asked.zeta:g}",
    }.get(change.rule, change.rule.value)


def targets(one: Comparison) -> str:
    """How many problems, answers or solutions were compared."""
    problems = len(set(one.tally.problem_P.tolist()))
    told = f"{problems:,} {'problem' if problems == 1 else 'problems'}"
    if one.tally.per is Per.PROBLEM:
        return told
    return f"{len(one.tally):,} {one.tally.per.value}s of {told}"


def drawn(one: Comparison, r: int) -> str:
    """n: samples a problem that a run has; of a run that stopped early, its budget and its stop."""
    tally = one.counted.tally
    if tally.until_R[r] > 0:
        return f"up to {int(tally.budget_R[r]):,} samples a problem, stopped at success {int(tally.until_R[r])}"
    least, most = int(tally.drawn_PR[:, r].min()), int(tally.drawn_PR[:, r].max())
    return f"{least:,} samples a problem" if least == most else f"{least:,} to {most:,} samples a problem"


def cells(change: SupportChange) -> list[float]:
    """P, E, S, O."""
    return [change.P, change.E, change.S, change.O]
