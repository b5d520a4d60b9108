"""Conditions on a comparison, for scripts and CI: `SRR<0.95` fails when the whole 95% interval is below 0.95.

An interval that contains the limit decides nothing, so a condition has three outcomes. Each run after the first is
checked on its own.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from offleash.comparing.compare import Comparison
from offleash.comparing.leaderboard import curves_at
from offleash.comparing.sentences import redraw_rates
from offleash.data.tally import Per
from offleash.errors import OffleashError, unknown
from offleash.stats.change import METRICS, common_budget
from offleash.stats.intervals import Interval

PASS, DIFFERENCE = "pass@", "difference@"  # of the run after; after minus before
BOUNDS = {"losses": "losses_at_least", "gains": "gains_at_least"}  # only a lower bound is known
VALUE_RANGES = {"NSCR": (-1.0, 1.0), DIFFERENCE: (-1.0, 1.0)}  # every other rate lies between 0 and 1
NAMES = (*METRICS, "pass@1", "pass@k", "difference@1", "difference@k", *BOUNDS)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda value, limit: value <= limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    ">": lambda value, limit: value > limit,
}
EXAMPLE = "Write, for example, 'SRR<0.95'."
CONDITION_PATTERN = re.compile(r"\s*([^<>=\s]+)\s*(<=|>=|<|>)\s*([^<>=\s]+)\s*")
BUDGET = re.compile(rf"({PASS}|{DIFFERENCE})(k|[1-9]\d{{0,8}})", re.I)


class ConditionOutcome(StrEnum):
    """What became of a condition."""

    FAILS = "fails"  # the whole interval meets it
    PASSES = "passes"  # no point of the interval does
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Condition:
    """One condition: a metric, a comparison sign and a limit."""

    metric: str  # a name of METRICS or BOUNDS, `pass@` or `difference@`
    operator: str
    limit: float
    k: int | None = None  # budget of pass@ and difference@; None: that of the comparison

    @property
    def at_budget(self) -> bool:
        return self.metric.endswith("@")

    def __str__(self) -> str:
        budget = "" if not self.at_budget else "k" if self.k is None else f"{self.k}"
        return f"{self.metric}{budget}{self.operator}{self.limit:g}"


@dataclass(frozen=True)
class CheckedCondition:
    """A condition on one run: the value, its 95% interval, and the outcome with a reason where there is no value."""

    run: str
    condition: str
    k: int  # samples per problem
    value: float
    interval: Interval  # of losses and gains the lower bound, open above
    outcome: ConditionOutcome
    redraw: float | None = None  # the rate that an unchanged model drawn twice would have
    reason: str | None = None

    def __str__(self) -> str:
        if math.isnan(self.value) or math.isnan(self.interval.low):
            measured_text = self.reason or "unknown"
        elif math.isinf(self.interval.high):
            measured_text = f"at least {self.value:g}"
        else:
            measured_text = f"{self.value:.3f} [{self.interval.low:.3f}, {self.interval.high:.3f}]"
        # a model that did not change can be below a limit too: without its value nobody could tell
        if self.redraw is not None:
            measured_text += f"; unchanged model {self.redraw:.3f}"
        return f"{self.run}: {self.condition} {self.outcome.value} ({measured_text})"


def parse_conditions(texts: Sequence[str], per: str = "problem") -> tuple[Condition, ...]:
    """Conditions as typed, each text one or several separated by commas.

    Args:
        texts: such as `SRR<0.95` or `pass@8>=0.5,NSCR<0`.
        per: what is counted; pass@k and its difference exist per problem only.

    >>> [str(condition) for condition in parse_conditions(["srr < 0.95, pass@8>=0.5"])]
    ['SRR<0.95', 'pass@8>=0.5']
    """
    conditions = [_parse(part) for text in texts for part in text.split(",")]
    for condition in conditions:
        if condition.at_budget and per != "problem":
            raise OffleashError(f"{condition} is defined per problem, not per {per}. Leave out --per {per}.")
    return tuple(dict.fromkeys(conditions))


def _parse(text: str) -> Condition:
    match = CONDITION_PATTERN.fullmatch(text)
    if match is None:
        raise OffleashError(f"{text.strip()!r} is not a condition METRIC<NUMBER (or <=, >, >=). {EXAMPLE}")
    name, operator, number = match.groups()
    metric, k = _metric(name)
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    low, high = VALUE_RANGES.get(metric, (0.0, math.inf if metric in BOUNDS else 1.0))
    if not (low <= limit <= high and math.isfinite(limit)):
        within = "at least 0" if metric in BOUNDS else f"between {low:g} and {high:g}"
        raise OffleashError(f"The limit of {text.strip()!r} is not a number {within}. {EXAMPLE}")
    if metric in BOUNDS and operator not in (">", ">="):
        raise OffleashError(
            f"{text.strip()!r} can never be decided: only a lower bound is known for {metric}. Use '{metric}>N'."
        )
    return Condition(metric, operator, limit, k)


def _metric(name: str) -> tuple[str, int | None]:
    """The metric that a name means, in any case, and its budget."""
    if (match := BUDGET.fullmatch(name)) is not None:
        return match[1].lower(), None if match[2].lower() == "k" else int(match[2])
    names_by_lowercase = {known.lower(): known for known in (*METRICS, *BOUNDS)}
    if name.lower() not in names_by_lowercase:
        raise unknown("metric", name, NAMES)
    return names_by_lowercase[name.lower()], None


def check_conditions(
    conditions: Sequence[Condition], comparisons: Sequence[Comparison]
) -> tuple[CheckedCondition, ...]:
    """Every condition on every run after the first."""
    return tuple(_check(condition, comparison) for comparison in comparisons for condition in conditions)


def check_budget(condition: Condition, most: int) -> None:
    """Refuse a condition on pass@k at more samples than there are."""
    if condition.k is not None and condition.k > most:
        raise OffleashError(
            f"The condition {condition} needs {condition.k:,} samples per problem, but the runs have {most:,}. "
            f"Use {condition.metric}{most} or a smaller budget."
        )


def _check(condition: Condition, comparison: Comparison) -> CheckedCondition:
    k = comparison.change.k if condition.k is None else condition.k
    value, interval, reason = _measure(condition, comparison, k)
    if math.isnan(interval.low) and reason is None:
        reason = f"{value:.3f}, without an interval"
    ends_meet = [OPERATORS[condition.operator](end, condition.limit) for end in (interval.low, interval.high)]
    if math.isnan(interval.low) or math.isnan(interval.high) or ends_meet[0] != ends_meet[1]:
        outcome = ConditionOutcome.NOT_DECIDED
    else:
        outcome = ConditionOutcome.FAILS if ends_meet[0] else ConditionOutcome.PASSES
    redraw = redraw_rates(comparison.change).get(condition.metric)
    return CheckedCondition(comparison.after.name, str(condition), k, value, interval, outcome, redraw, reason)


def _measure(condition: Condition, comparison: Comparison, k: int) -> tuple[float, Interval, str | None]:
    """The value that a condition is about, its interval, and why it has none."""
    change, evidence = comparison.change, comparison.evidence
    if condition.metric in METRICS:
        return change.value[condition.metric], change.interval[condition.metric], change.reason(condition.metric)
    if condition.metric in BOUNDS:
        bound = getattr(evidence, BOUNDS[condition.metric])
        if bound is None:
            why = evidence.bound_reason or evidence.null_reason or f"not defined for the rule {change.rule.value}"
            return math.nan, Interval(math.nan, math.nan), why
        return float(bound), Interval(float(bound), math.inf), None
    check_budget(condition, common_budget(comparison.tally))
    assert comparison.tally.per is Per.PROBLEM, "checked before anything was read"
    curve = curves_at(comparison, k)["after" if condition.metric == PASS else "difference"]
    return float(curve.value_K[0]), Interval(float(curve.low_K[0]), float(curve.high_K[0])), None
