"""The JSON of a comparison (schema 1, docs/json.md): which keys there are, and what is null for which reason.

Every section is a literal of plain results; `comparison_json` puts them in order and encodes them once. A value that is
not known is null and has a reason beside it, so that a reader of the JSON never takes "not computed" for zero.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from offleash.comparing.checkpoints import CheckpointUnion
from offleash.comparing.compare import GAP_BUDGET, Comparison
from offleash.comparing.diversity import Diversity
from offleash.comparing.per_benchmark import BenchmarkChange, Macro
from offleash.comparing.per_problem import detail, problem_table
from offleash.data.run import Run
from offleash.data.tally import Tally
from offleash.render.json import Json, count, encode
from offleash.stats.chance import Retest
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.curves import Curve
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS
from offleash.stats.pass_at_k import cover_at
from offleash.stats.portfolio import Portfolio
from offleash.stats.support_classes import Rule, epsilon

COVER_RATES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)  # success rates tau of Cover@tau, from "ever" to "almost always"
SIDES = {"before": 0, "after": 1}  # columns of a tally


def comparison_json(comparison: Comparison, entropy: Mapping[str, object]) -> Json:
    """One comparison as JSON.

    Args:
        comparison: two compared runs.
        entropy: its section on entropies, which an analysis above this package computes.

    Returns:
        The sections in the order of docs/json.md; `compare --json` adds `schema` and what belongs to several runs.
    """
    tally, curves = comparison.tally, comparison.curves
    runs = {"before": comparison.before, "after": comparison.after}
    document: Json = encode(
        {
            "support": support_section(comparison.change),
            "pass_at_k": _pass_at_k(comparison),
            "curves": {name: _curve(curves[name]) for name in METRICS},
            "chance": _chance(comparison),
            "guessing": _guessing(comparison),
            "crossing": _crossing(comparison),
            "equivalent_budget": _equivalent_budget(comparison),
            "portfolio": _portfolio(comparison),
            "forecast": _forecast(comparison),
            "diversity": _diversity(comparison.diversity),
            "entropy": entropy,
            "max_at_k": _max_at_k(comparison),
            "sensitivity": _sensitivity(comparison),
            "epsilon": epsilon(comparison.change.k),
            "runs": {name: _run(run, tally, SIDES[name]) for name, run in runs.items()},
            "benchmarks": {part.name or "all": _benchmark(part) for part in comparison.benchmarks},
            "macro": _macro(comparison.macro),
            "problems": _problems(comparison),
            "problems_reasons": detail(comparison).reasons,
            "notes": comparison.notes,
        }
    )
    return document


def support_section(change: SupportChange) -> Json:
    """The table of a support change, its rates and their intervals; also a section of other analyses' documents."""
    cells = {name: count(getattr(change, name)) for name in ("P", "E", "S", "O")}
    reasons = {name: why for name in METRICS if (why := change.reason(name))}
    if cells["O"] is None:
        reasons["O"] = f"per {change.per.value}, what neither run reached cannot be observed"
    same = change.redraw
    if same is None:
        exact = change.rule is Rule.CERTIFIED
        reasons["redraw"] = "certificates have no sampling noise" if exact else "greedy decoding has no sampling noise"
    section: Json = encode(
        {
            **cells,
            **{name: change.value[name] for name in METRICS},
            "undetermined": count(change.undetermined),
            "rule": change.rule,
            "per": change.per,
            "k": change.k,
            "interval": {name: change.interval[name] for name in METRICS},
            "redraw": None if same is None else {"P": same.P, "E": same.E, "S": same.S, **same.value},
            "reasons": reasons,
        }
    )
    return section


def union_section(union: CheckpointUnion) -> Json:
    """What several checkpoints reach together, against the first run."""

    def table(cells: tuple[float, ...] | None) -> Json | None:
        return None if cells is None else {name: count(cell) for name, cell in zip("PESO", cells, strict=True)}

    return {
        "k": union.k,
        "checkpoints": union.checkpoints,
        "problems": union.problems,
        "k_samples_of_each": table(union.each_k),
        "k_samples_in_all": table(union.equal_k),
    }


# pass@k and other curves over budgets: objects with the budget as the key.


def _by_k(k_K: np.ndarray, *columns_K: Iterable[float]) -> Json:
    """Values by budget; several columns give a list per budget, such as the two ends of an interval."""
    rows = zip(*columns_K, strict=True)
    return {str(int(k)): row[0] if len(row) == 1 else row for k, row in zip(k_K, rows, strict=True)}


def _curve(curve: Curve) -> Json:
    """A curve with its pointwise intervals and its simultaneous band."""
    section: Json = {
        "value": _by_k(curve.k_K, curve.value_K),
        "interval": _by_k(curve.k_K, curve.low_K, curve.high_K),
        "band": _by_k(curve.k_K, curve.band_low_K, curve.band_high_K),
    }
    if curve.name in METRICS:
        section["redraw"] = None if curve.redraw_K is None else _by_k(curve.k_K, curve.redraw_K)
    return section


def _pass_at_k(comparison: Comparison) -> Json:
    """pass@k of both runs, its differences, Cover@tau and the sampling-efficiency gap."""
    before, after, difference = (_curve(comparison.curves[name]) for name in ("before", "after", "difference"))
    section: Json = {
        "before": before["value"],
        "after": after["value"],
        "difference_interval": difference["interval"],
        "before_interval": before["interval"],
        "after_interval": after["interval"],
        "difference_band": difference["band"],
        "estimator": "unbiased",
    }
    if comparison.prefix:  # the key is absent, not null, where the order of samples is not known
        k_K = comparison.curves["before"].k_K
        section["prefix"] = {name: _by_k(k_K, value_K) for name, value_K in comparison.prefix.items()}
    gap = comparison.efficiency_gap
    reason = None if gap is not None else f"needs {GAP_BUDGET} samples per problem"
    return section | {"sampling_efficiency_gap": {"value": gap, "reason": reason}, "cover": _cover_section(comparison)}


def _cover_section(comparison: Comparison) -> Json:
    """Cover@tau: share of the problems with a rate of at least tau."""
    tally = comparison.tally
    if (tally.until_R > 0).any():
        return {"reason": "a run stopped early, so its rates are not shares of a fixed number of samples"}
    return {
        name: {str(tau): cover_at(tally.drawn_PR[:, r], tally.correct_PR[:, r], tau) for tau in COVER_RATES}
        for name, r in SIDES.items()
    }


def _max_at_k(comparison: Comparison) -> Json:
    """Mean best score of k samples, for verifiers that give partial credit."""
    graded = comparison.graded
    if graded is None:
        return {"reason": "the runs have no graded scores (strictly between 0 and 1)"}
    k_K = comparison.curves["before"].k_K
    return {"before": _by_k(k_K, graded.before_K), "after": _by_k(k_K, graded.after_K)}


# The runs, their benchmarks and their answers.


def _run(run: Run, tally: Tally, r: int) -> Json:
    """What was compared of a run; `problems` are those in common, `problems_in_run` all it has."""
    drawn_P = tally.drawn_PR[:, r]
    return {
        "name": run.name,
        "problems": len(set(tally.problem_P)),  # per answer a problem has several rows
        "problems_in_run": run.problems.height,
        "samples": drawn_P.sum(),
        "samples_a_problem": [drawn_P.min(), drawn_P.max()],
        "verifier": run.verifier,
        "unread": tally.unread_PR[:, r].sum(),
        "failed": tally.failed_PR[:, r].sum(),
        "unverified": tally.unverified_PR[:, r].sum(),
        "truncated": tally.truncated_PR[:, r].sum(),
        "source": run.facts,
    }


def _benchmark(part: BenchmarkChange) -> Json:
    """The support table of one benchmark, with pass@1 and pass@k."""
    return support_section(part.change) | {
        "problems": part.problems,
        "pass_at_1": dict(zip(SIDES, part.pass_at_1, strict=True)),
        "pass_at_k": dict(zip(SIDES, part.pass_at_k, strict=True)),
    }


def _problems(comparison: Comparison) -> list[Json]:
    """Every problem: its class, its counts and its tests."""
    return problem_table(comparison).drop("question", "gold").to_dicts()


def _macro(macro: Macro | None) -> object:
    """The mean over benchmarks, or why there is none."""
    return macro or {"value": None, "reason": "with one benchmark the macro mean is the pooled value"}


def _diversity(diversity: Diversity | None) -> object:
    """Diversity of the answers of both runs, or why it is unknown."""
    return diversity or {"reason": "the runs record no answers, or stopped early"}


def _guessing(comparison: Comparison) -> Json:
    """Guess floors, the problems they explain, and the table without these."""
    guessing = comparison.guessing
    return {
        "floor": guessing.floor,
        "reason": guessing.reason,
        "tested": guessing.tested,
        "typical_floor": guessing.median_floor,
        "guess_support": {name: len(problems) for name, problems in guessing.problems.items()},
        "guess_support_by_rank": guessing.by_rank,
        "problems": guessing.problems,
        "support_without": None if guessing.without is None else support_section(guessing.without),
    }


def _sensitivity(comparison: Comparison) -> Json:
    """What wrong verdicts could explain, and what each number could be if undecided samples were decided."""
    rates: dict[str, float | None] = dict(comparison.evidence.false_positive_rate_that_explains)
    verifiers = comparison.before.verifier, comparison.after.verifier
    # what judged the counts or verdicts of a file is not recorded, so two such files may have different verifiers
    are_recorded = all(name and not name.startswith("the file's own") for name in verifiers)
    shared = verifiers[0] == verifiers[1] if are_recorded else None
    reasons = {}
    if comparison.undecided is None:
        reasons["undecided"] = comparison.undecided_reason
    if shared and rates:
        # one verifier has its false positives in both runs: they give as many losses as gains, up to chance
        rates |= dict.fromkeys(("E", "S"))
        alone = "one verifier judged both runs, so its false positives cannot be in one of them alone"
        reasons |= dict.fromkeys(("E", "S"), alone)
    return {
        "false_positive_rate_that_explains": rates,
        "verifier_is_shared": shared,
        "even_split_p": comparison.evidence.mcnemar_p if rates else None,
        "undecided": comparison.undecided,
        "reasons": reasons,
    }


# Other budgets: crossing, equivalent budget, portfolio, forecast.


def _crossing(comparison: Comparison) -> Json:
    """The k beyond which the run before is ahead. A point without a resolved interval keeps both, with a reason."""
    crossing = comparison.crossing
    unresolved = None if crossing.is_resolved else "not resolved: the interval extends beyond 1..n"
    return {
        "k": crossing.k,
        "interval": _ends_in_range(crossing.low, crossing.high),
        "ends": crossing.ends(),
        "resolved": crossing.is_resolved,
        "text": crossing.text(),
        "sign_changes": crossing.sign_changes,
        "reason": crossing.reason if crossing.k is None else unresolved,
    }


def _equivalent_budget(comparison: Comparison) -> Json:
    """How many samples of the run before equal one of the run after; `kappa` has the same for 2, 4, 8, ..."""
    first = comparison.equivalent[0]
    kappa = {}
    for equivalent in comparison.equivalent:
        ends = _ends_in_range(equivalent.low, equivalent.high)
        kappa[str(equivalent.of)] = {
            "value": equivalent.kappa,
            "interval": [None if end is None else end / equivalent.of for end in ends],
            "reason": equivalent.reason,
        }
    return {
        "k": first.k,
        "interval": _ends_in_range(first.low, first.high),
        "ends": first.ends(),
        "text": first.text(),
        "reason": first.reason,
        "kappa": kappa,
    }


def _portfolio(comparison: Comparison) -> Json:
    """The best split of k samples; `coverage` and `gain` are cross-fitted, `curve` is not."""
    split = comparison.portfolio
    if split is None:
        return {"k": None, "reason": "a portfolio is defined per problem, not per answer or solution"}
    return {
        "k": split.k,
        "before_samples": split.best,
        "after_samples": None if split.best is None else split.k - split.best,
        "coverage": split.value,
        "all_before": split.all_base,
        "all_after": split.all_rl,
        "gain": split.gain,
        "gain_interval": None if math.isnan(split.gain_low) else [split.gain_low, split.gain_high],
        "reason": _why_no_gain_interval(split),
        "curve": _by_k(split.base_S, split.coverage_S),
    }


def _why_no_gain_interval(split: Portfolio) -> str | None:
    """Why the gain of a split has no interval, or why there is no gain."""
    if math.isnan(split.gain):
        return "a split is chosen on one half of the problems and evaluated on the other, which needs two problems"
    if math.isnan(split.gain_low):
        return f"an interval needs {MIN_EFFECTIVE_PROBLEMS} problems, here {split.problems}"
    return None


def _forecast(comparison: Comparison) -> Json:
    """The range of pass@k beyond the samples drawn, per run."""
    if not comparison.forecasts:
        stopped = (comparison.tally.until_R > 0).any()
        why = "a run that stopped early cannot be extrapolated" if stopped else "forecasts are defined per problem"
        return {"reason": why}
    return {
        name: {
            "range": _by_k(forecast.budgets_K, forecast.low_K, forecast.high_K),
            "newly_reached_at_2n": forecast.newly_at_2n,
            "notes": forecast.notes,
            "reason": forecast.reason,
        }
        for name, forecast in comparison.forecasts.items()
    }


def _ends_in_range(low: float, high: float) -> list[float | None]:
    """Ends of an interval of budgets; null where they lie below 1 or above what was drawn."""
    return [end if 1 <= end < math.inf else None for end in (low, high)]


# Chance: what resampling an unchanged model would give, what is significant, and why a number is missing.


_NULL_FIELDS = ("expected_E", "expected_S", "p_E", "p_S", "mid_p_E", "mid_p_S")
_RETEST_FIELDS = ("net_ratio", "gain", "observed_SRR", "redraw_SRR", "redraw")


def _chance(comparison: Comparison) -> Json:
    """Exchange null, McNemar, bounds, lists, retest, strength and confirmation of a comparison."""
    evidence = comparison.evidence
    return {
        **{name: getattr(evidence.null, name, None) for name in _NULL_FIELDS},
        "observed_E": evidence.E,
        "observed_S": evidence.S,
        "basis": evidence.basis,
        **{f"p_{cell}_adjusted": evidence.adjusted_p.get(cell) for cell in ("E", "S")},
        "expected_at_k": None if evidence.at_k is None else evidence.at_k.changed,
        "mcnemar_p": getattr(evidence.net, "p", None),
        "mcnemar_p_adjusted": getattr(evidence.net, "adjusted_p", None),
        "mcnemar_basis": getattr(evidence.net, "basis", None),
        "runs_tested": evidence.runs_tested,
        "losses_at_least": evidence.losses_at_least,
        "gains_at_least": evidence.gains_at_least,
        "lost": evidence.lost,
        "gained": evidence.gained,
        "fallen": evidence.fallen,
        "risen": evidence.risen,
        "retest": _retest(evidence.retest),
        "strength": evidence.strength,
        "confirmation": evidence.confirmation,
        "listed_from": evidence.listed_from,
        "successes_needed": evidence.successes_needed,
        "gain_power": evidence.gain_power,
        "reasons": _reasons(comparison),
    }


def _retest(retest: Retest | None) -> Json:
    """Net ratio and gain against a redraw of the run before."""
    if retest is None:  # every key is there, also where nothing is known
        return dict.fromkeys((*_RETEST_FIELDS, "k", "interval"))
    return {
        **{name: getattr(retest, name) for name in _RETEST_FIELDS},
        "k": retest.k,
        "interval": {"net_ratio": retest.net_ratio_interval, "gain": retest.gain_interval},
    }


def _reasons(comparison: Comparison) -> dict[str, str | None]:
    """Why each number of the section that is null is so."""
    evidence = comparison.evidence
    # keys with a value get no reason, so that a reader can test for a key instead of comparing with null
    missing = {
        **dict.fromkeys(_NULL_FIELDS, evidence.null is None),
        **dict.fromkeys(("observed_E", "observed_S"), evidence.E is None),
        **dict.fromkeys(("p_E_adjusted", "p_S_adjusted"), evidence.null is None),
    }
    reasons = {name: evidence.null_reason for name, is_missing in missing.items() if is_missing}
    if evidence.retest is None:
        reasons["retest"] = evidence.retest_reason
    if evidence.net is None:
        reasons |= dict.fromkeys(("mcnemar_p", "mcnemar_p_adjusted", "mcnemar_basis"), evidence.net_reason)
    rule_only = f"defined for the rule 'seen', not {comparison.change.rule.value!r}"
    if evidence.at_k is None:
        reasons["expected_at_k"] = evidence.null_reason or rule_only
    if evidence.gain_power is None:
        reasons["gain_power"] = evidence.null_reason or rule_only
    if evidence.listed_from is None:
        reasons["listed_from"] = evidence.null_reason
    if evidence.successes_needed is None:
        too_few = "with so few samples no loss of a single problem is significant whatever the others show"
        reasons["successes_needed"] = evidence.null_reason or too_few
    if evidence.losses_at_least is None:
        rule = f"the bound is defined for the rule 'seen', not {comparison.change.rule.value!r}"
        why = evidence.bound_reason or evidence.null_reason or rule
        reasons |= dict.fromkeys(("losses_at_least", "gains_at_least"), why)
    return reasons
