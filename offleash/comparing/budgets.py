"""The parts of the JSON about other budgets: crossing, equivalent budget, portfolio, forecast."""

import math

from offleash.comparing.compare import Comparison
from offleash.render.numbers import Json, number
from offleash.stats.portfolio import Portfolio


def crossing_section(one: Comparison) -> Json:
    found = one.crossing
    return {
        "k": number(found.k),
        "interval": _within(found.low, found.high),
        "ends": list(found.ends()),
        "resolved": found.resolved,
        "text": found.text(),
        "sign_changes": found.sign_changes,
        "reason": found.reason
        if found.k is None
        else None
        if found.resolved
        else "not resolved: an end lies outside 1..n",
    }


def equivalent_budget_section(one: Comparison) -> Json:
    first = one.equivalent[0]
    return {
        "k": number(first.k),
        "interval": _within(first.low, first.high),
        "ends": list(first.ends()),
        "text": first.text(),
        "reason": first.reason,
        "kappa": {
            str(each.of): {
                "value": number(each.kappa),
                "interval": [None if end is None else end / each.of for end in _within(each.low, each.high)],
                "reason": each.reason,
            }
            for each in one.equivalent
        },
    }


def portfolio_section(one: Comparison) -> Json:
    best = one.portfolio
    if best is None:
        return {"k": None, "reason": "a portfolio counts problems, not answers or solutions"}
    told = best.gain_high > best.gain_low
    return {
        "k": best.k,
        "before_samples": best.best,
        "after_samples": None if best.best is None else best.k - best.best,
        "coverage": number(best.value),
        "all_before": number(best.all_base),
        "all_after": number(best.all_rl),
        "gain": number(best.gain),
        "gain_interval": [number(best.gain_low), number(best.gain_high)] if told else None,
        "reason": None if told else _untold(best),
        "curve": {str(int(k)): number(float(value)) for k, value in zip(best.base_S, best.coverage_S, strict=True)},
    }


def forecast_section(one: Comparison) -> Json:
    if not one.forecasts:
        why = (
            "stopped runs do not say how their samples would go on" if (one.tally.until_R > 0).any() else "per problem"
        )
        return {"reason": f"a forecast is of plain samples: {why}"}
    return {
        name: {
            "range": {
                str(int(k)): [number(float(low)), number(float(high))]
                for k, low, high in zip(each.budgets_K, each.low_K, each.high_K, strict=True)
            },
            "newly_reached_at_2n": number(each.newly_at_2n),
            "notes": list(each.notes),
        }
        for name, each in one.forecasts.items()
    }


def _within(low: float, high: float) -> list[float | None]:
    """Ends of an interval of budgets; null where they lie below 1 or above what was drawn."""
    return [end if 1 <= end < math.inf else None for end in (low, high)]


def _untold(best: Portfolio) -> str:
    if math.isnan(best.gain):
        return "a split is chosen on one half of the problems and valued on the other: it takes two problems"
    return "every resample chose the same run alone: nothing varies"
