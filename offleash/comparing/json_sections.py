"""Sections of the JSON of a comparison (schema 1); `compare --json` is put together in reporting/comparison.py.

Unknown values are null with a reason.
"""

import math
from collections.abc import Iterable

import numpy as np

from offleash.comparing.answers import Diversity, RunDiversity
from offleash.comparing.checkpoints import Union
from offleash.comparing.compare import GAP_BUDGET, Comparison
from offleash.comparing.per_benchmark import BenchmarkChange, Macro
from offleash.data.run import Run
from offleash.data.tables import Note
from offleash.data.tally import Tally
from offleash.render.json import Json, count, number
from offleash.stats.chance import Retest
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.curves import Curve
from offleash.stats.pass_at_k import cover_at
from offleash.stats.portfolio import Portfolio

COVER = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)


def notes_section(notes: Iterable[Note]) -> list[Json]:
    return [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in notes]


def support_section(change: SupportChange) -> Json:
    """The table of a support change."""
    out: Json = {name: count(getattr(change, name)) for name in ("P", "E", "S", "O")}
    out |= {name: number(change.value[name]) for name in METRICS}
    reasons = {name: why for name in METRICS if (why := change.reason(name))}
    if out["O"] is None:
        reasons["O"] = f"per {change.per.value} what neither run reached cannot be observed"
    return out | {
        "undetermined": count(change.undetermined),
        "rule": change.rule.value,
        "per": change.per.value,
        "k": change.k,
        "interval": {name: change.interval[name].to_json() for name in METRICS},
        "reasons": reasons,
    }


def _by_k(k_K: np.ndarray, value_K: Iterable[float]) -> Json:
    return {str(int(k)): number(float(value)) for k, value in zip(k_K, value_K, strict=True)}


def _ends(curve: Curve, low: str = "low_K", high: str = "high_K") -> Json:
    ends = zip(curve.k_K, getattr(curve, low), getattr(curve, high), strict=True)
    return {str(int(k)): [number(float(a)), number(float(b))] for k, a, b in ends}


def curve_section(curve: Curve) -> Json:
    return {
        "value": _by_k(curve.k_K, curve.value_K),
        "interval": _ends(curve),
        "band": _ends(curve, "band_low_K", "band_high_K"),
    }


def pass_at_k_section(one: Comparison) -> Json:
    before, after, difference = (one.curves[name] for name in ("before", "after", "difference"))
    out: Json = {
        "before": _by_k(before.k_K, before.value_K),
        "after": _by_k(after.k_K, after.value_K),
        "difference_interval": _ends(difference),
        "before_interval": _ends(before),
        "after_interval": _ends(after),
        "difference_band": _ends(difference, "band_low_K", "band_high_K"),
        "estimator": "unbiased",
    }
    if one.prefix:
        out["prefix"] = {name: _by_k(before.k_K, value_K) for name, value_K in one.prefix.items()}
    gap = one.efficiency_gap
    reason = None if gap is not None else f"needs {GAP_BUDGET} samples a problem"
    return out | {"sampling_efficiency_gap": {"value": number(gap), "reason": reason}, "cover": _cover(one)}


def _cover(one: Comparison) -> Json:
    """Cover@tau: share of the problems with a rate of at least tau."""
    if (one.tally.until_R > 0).any():
        return {"reason": "a run that stopped early has no plain rates"}
    n_PR, c_PR = one.tally.drawn_PR, one.tally.correct_PR
    return {
        name: {str(tau): number(cover_at(n_PR[:, r], c_PR[:, r], tau)) for tau in COVER}
        for r, name in enumerate(("before", "after"))
    }


def guessing_section(one: Comparison) -> Json:
    found = one.guessing
    return {
        "floor": found.floor,
        "reason": found.reason,
        "tested": found.tested,
        "typical_floor": {name: number(value) for name, value in found.typical.items()},
        "guess_support": {name: len(problems) for name, problems in found.problems.items()},
        "guess_support_by_rank": found.by_rank,
        "problems": {name: list(problems) for name, problems in found.problems.items()},
        "support_without": None if found.without is None else support_section(found.without),
    }


def diversity_section(found: Diversity | None) -> Json:
    if found is None:
        return {"reason": "the runs keep no answers, or stopped early"}
    sides: dict[str, RunDiversity] = {"before": found.before, "after": found.after}
    return {
        "n": found.n,
        "votes": found.votes,
        "problems": found.problems,
        "entropy_difference": number(found.entropy_difference),
        "entropy_difference_interval": found.entropy_interval.to_json(),
    } | {name: {key: number(value) for key, value in vars(side).items()} for name, side in sides.items()}


def max_at_k_section(one: Comparison) -> Json:
    if one.graded is None:
        return {"reason": "the runs have no graded scores, between 0 and 1"}
    k_K = one.curves["before"].k_K
    return {"before": _by_k(k_K, one.graded.before_K), "after": _by_k(k_K, one.graded.after_K)}


def sensitivity_section(one: Comparison) -> Json:
    bounds = one.undecided
    return {
        "false_positive_rate_that_explains": {name: number(rate) for name, rate in one.evidence.tipping.items()},
        "reason": None if bounds else "no sample is undecided (failed or unverified), or the rule is not 'seen'",
        "undecided_all_wrong": None if bounds is None else support_section(bounds[0]),
        "undecided_all_right": None if bounds is None else support_section(bounds[1]),
    }


def least_drawn(tally: Tally, r: int) -> int:
    """Samples that every problem of a run has; a record that stopped early stands for its whole budget."""
    return int(np.where(tally.stopped_PR[:, r], tally.budget_R[r], tally.drawn_PR[:, r]).min())


def run_section(run: Run, tally: Tally, r: int) -> Json:
    drawn_P = tally.drawn_PR[:, r]
    totals = {
        name: int(getattr(tally, f"{name}_PR")[:, r].sum()) for name in ("unread", "failed", "unverified", "truncated")
    }
    return {
        "name": run.name,
        "problems": len(set(tally.problem_P)),
        "problems_in_run": run.problems.height,
        "samples": int(drawn_P.sum()),
        "samples_a_problem": [int(drawn_P.min()), int(drawn_P.max())],
        "verifier": run.verifier,
        **totals,
        "source": run.facts,
    }


def benchmark_section(part: BenchmarkChange) -> Json:
    return support_section(part.change) | {
        "problems": part.problems,
        "pass_at_1": {"before": part.pass_at_1[0], "after": part.pass_at_1[1]},
        "pass_at_k": {"before": part.pass_at_k[0], "after": part.pass_at_k[1]},
    }


def macro_section(found: Macro | None) -> Json:
    if found is None:
        return {"value": None, "reason": "there is one benchmark, whose value is the pooled one"}
    return {
        "value": {name: number(value) for name, value in found.value.items()},
        "interval": {name: interval.to_json() for name, interval in found.interval.items()},
        "benchmarks": found.benchmarks,
    }


def union_section(found: Union) -> Json:
    def table(cells: tuple[float, ...] | None) -> Json | None:
        return None if cells is None else {name: count(cell) for name, cell in zip("PESO", cells, strict=True)}

    return {
        "k": found.k,
        "checkpoints": found.checkpoints,
        "problems": found.problems,
        "k_samples_of_each": table(found.each_k),
        "k_samples_in_all": table(found.equal_k),
    }


# Other budgets: crossing, equivalent budget, portfolio, forecast.


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


# Chance: what luck would give, what is significant, and why a number is missing.


_NULL = ("expected_E", "expected_S", "p_E", "p_S", "mid_p_E", "mid_p_S")


def chance_section(one: Comparison) -> Json:
    """Exchange null, McNemar, bounds, lists, retest, strength and confirmation of a comparison."""
    found, null = one.evidence, one.evidence.null
    return {name: None if null is None else number(getattr(null, name)) for name in _NULL} | {
        "observed_E": found.E,
        "observed_S": found.S,
        "basis": found.basis,
        "mcnemar_p": found.mcnemar_p,
        "losses_at_least": found.losses_at_least,
        "gains_at_least": found.gains_at_least,
        "lost": list(found.lost),
        "gained": list(found.gained),
        "fallen": list(found.fallen),
        "risen": list(found.risen),
        "retest": _retest(found.retest),
        "strength": {name: vars(by) for name, by in found.strength.items()},
        "confirmation": {name: vars(by) for name, by in found.confirmation.items()},
        "smallest_certain_loss": found.smallest_certain_loss,
        "reasons": _reasons(one),
    }


def _retest(again: Retest | None) -> Json:
    if again is None:
        return dict.fromkeys(("SRR", "gain", "k", "observed_SRR", "redraw_SRR", "redraw", "interval"))
    values = {name: number(getattr(again, name)) for name in ("SRR", "gain", "observed_SRR", "redraw_SRR", "redraw")}
    return {
        **values,
        "k": again.k,
        "interval": {"SRR": again.SRR_interval.to_json(), "gain": again.gain_interval.to_json()},
    }


def _reasons(one: Comparison) -> dict[str, str | None]:
    """Why each number that is null is so."""
    found = one.evidence
    missing = {
        **dict.fromkeys(_NULL, found.null is None),
        **dict.fromkeys(("observed_E", "observed_S"), found.E is None),
        "mcnemar_p": found.mcnemar_p is None,
    }
    reasons = {name: found.null_reason for name, absent in missing.items() if absent}
    if found.retest is None:
        reasons["retest"] = found.retest_reason
    if found.smallest_certain_loss is None:
        few = f"no number of successes in k = {one.change.k} samples makes the loss of one problem certain"
        reasons["smallest_certain_loss"] = found.null_reason or few
    if found.losses_at_least is None:
        rule = f"the bound is about problems without any success, not about the rule {one.change.rule.value!r}"
        reasons |= dict.fromkeys(("losses_at_least", "gains_at_least"), found.bound_reason or found.null_reason or rule)
    return reasons
