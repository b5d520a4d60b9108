"""A likelihood report for programs: one JSON document."""

from offleash.analyses.likelihood.classes import Estimate, Group, Style
from offleash.analyses.likelihood.cross_support import Crossed, CrossSupport
from offleash.analyses.likelihood.law import SIDES
from offleash.analyses.likelihood.leash import Divergence
from offleash.analyses.likelihood.likelihood import Likelihood
from offleash.analyses.likelihood.words import finding, notes
from offleash.render.numbers import Json, number
from offleash.stats.intervals import Interval
from offleash.stats.likelihood import Reach

SCHEMA = 1


def likelihood_document(one: Likelihood) -> Json:
    """The whole report; what is not known is null."""
    return {
        "schema": SCHEMA,
        "kind": "likelihood",
        "k": one.cross.k,
        "epsilon": one.cross.epsilon,
        "first": one.first,
        "classes": one.classes,
        "runs": {side: _run(one, place) for place, side in enumerate(SIDES)},
        "scored_now": {
            "samples": one.work.samples,
            "traces": one.work.traces,
            "seconds": round(one.work.seconds, 3),
        },
        "traces": _traces_json(one),
        "perplexity": [_group(group) for group in one.groups],
        "style": [_style(style) for style in one.styles],
        "cross_support": _cross(one.cross),
        "leash": {
            "reason": one.leash.reason or None,
            "retokenised": one.leash.retokenised,
            "divergences": [_divergence(found) for found in one.leash.divergences],
        },
        "notes": notes(one),
        "finding": finding(one),
    }


def _run(one: Likelihood, place: int) -> Json:
    law, found = one.laws[place], one.scored[place]
    return {
        "name": law.run,
        "folder": str(law.folder),
        "model": str(law.model),
        "decoding": law.decoding.document() if law.known else None,
        "samples": found.samples,
        "scored": found.frame.height,
        "unsummed": found.unsummed,
        "checked": found.checked,
        "retokenised": found.retokenised,
        "windowed": found.windowed,
    }


def _traces_json(one: Likelihood) -> Json | None:
    if one.traces is None:
        return None
    file = one.traces.file
    return {
        "file": str(file.path),
        "rows": file.rows,
        "scored": one.traces.scored,
        "unknown_rows": file.unknown_rows,
        "unknown_problems": [{"problem": name, "nearest": near or None} for name, near in file.unknown.items()],
        "empty": file.empty,
        "duplicates": file.duplicates,
        "windowed": one.traces.windowed,
        "reasons": dict(one.traces.reasons),
    }


def _group(one: Group) -> Json:
    return {
        "author": one.author,
        "self_generated": one.own,
        "benchmark": one.benchmark or None,
        "class": one.cell,
        "problems": one.problems,
        "traces": one.traces,
        "unjudged": one.unjudged,
        "tokens": number(one.tokens),
        "perplexity": {side: _estimate(found) for side, found in one.perplexity.items()},
        "mean_perplexity": {side: number(found) for side, found in one.mean_perplexity.items()},
        "log_ratio": _estimate(one.log_ratio),
        "log_ratio_length_matched": None if one.matched is None else _estimate(one.matched),
    }


def _style(one: Style) -> Json:
    return {
        "author": one.author,
        "self_generated": one.own,
        "class": one.cell,
        "problems": one.problems,
        "correct_minus_wrong": {"before": _estimate(one.before), "after": _estimate(one.after)},
        "change": _estimate(one.change),
    }


def _cross(one: CrossSupport) -> Json:
    both = one.both
    return {
        "reason": one.reason or None,
        "counts": {cell: {reading.value: one.count(cell, reading) for reading in Reach} for cell in ("E", "S")},
        "problems": [_crossed_json(row) for row in one.rows],
        "both_runs_reason": one.both_reason or None,
        "both_runs": None
        if both is None
        else {
            "problems": both.problems,
            "samples": both.samples,
            "unjudged": dict(both.unjudged),
            "unusable": dict(both.unusable),
            "own": {side: _pair(*both.own[side]) for side in SIDES},
            "together": {side: _pair(*both.together[side]) for side in SIDES},
            "by_problem": [
                {"problem": problem, **dict(zip(SIDES, map(number, row), strict=True))}
                for problem, row in zip(both.problem_P, both.together_PR.tolist(), strict=True)
            ],
        },
    }


def _crossed_json(row: Crossed) -> Json:
    return {
        "problem": row.problem,
        "class": row.cell,
        "finder": row.finder,
        "drawn": row.drawn,
        "successes": row.successes,
        "distinct": row.distinct,
        "excluded": row.excluded,
        "unusable": row.unusable,
        "certain_bound": number(row.bound),
        "estimate": number(row.estimate),
        "effective_samples": number(row.effective),
        "bound_95": number(row.low),
        "chance_within_k": number(row.again),
        "reading": row.reading.value,
        "reading_is_certain": row.certain,
        "other_drawn": row.other_drawn,
        "other_successes": row.other_successes,
    }


def _divergence(one: Divergence) -> Json:
    return {
        "of": one.of,
        "problems": one.problems,
        "samples": one.samples,
        "sequence": {kind: _estimate(found) for kind, found in one.sequence.items()},
        "token": _estimate(one.token),
    }


def _estimate(one: Estimate) -> Json:
    return _pair(one.value, one.interval)


def _pair(value: float, interval: Interval) -> Json:
    return {"value": number(value), "interval": [number(interval.low), number(interval.high)]}
