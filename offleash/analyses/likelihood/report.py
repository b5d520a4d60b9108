"""A likelihood report as one JSON document, and in words; the tables are in terminal.py."""

from collections.abc import Sequence

import numpy as np

from offleash.analyses.likelihood.cross_support import ALL as EVERY
from offleash.analyses.likelihood.cross_support import FINDER, CrossSupport, CrossSupportRow, Divergence
from offleash.analyses.likelihood.likelihood import Likelihood
from offleash.analyses.likelihood.missing_scores import ScoringEstimate
from offleash.analyses.likelihood.models import SIDES
from offleash.analyses.likelihood.perplexity_by_class import ALL_BENCHMARKS, Style, TraceGroup
from offleash.render.escape import clean
from offleash.render.json import Json, number
from offleash.render.numbers import many
from offleash.stats.intervals import Estimate, Interval
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


def _group(one: TraceGroup) -> Json:
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


def _crossed_json(row: CrossSupportRow) -> Json:
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


# In words: what is about to be scored, what was found, and what to be careful with.


STYLE = (
    "Perplexity mixes style with substance: a model finds texts in its own manner likely, right or wrong. Only a "
    "difference between classes at like lengths, or between correct and wrong traces of one author, speaks of "
    "substance."
)
NEVER_NEW = (
    "Certain is what the mass of completions that were seen shows. Likelihood can show that a problem is within reach, "
    "never that it is not or that it is new: ways of solving it that the other model's samples do not show cannot be "
    "weighed."
)
SELECTED = (
    "E and S were chosen by these samples, so estimates that rest on one or two successes are too large more often "
    "than not, and the 95% is that of a problem before it was chosen; the certain bounds are not touched by that."
)
NAMED = 3


def ahead_text(ahead: ScoringEstimate) -> str:
    """What is about to be scored, before it begins."""
    if not ahead.missing:
        return "Everything that this needs is scored already."
    lines = [
        f"Scoring {many(ahead.missing, 'trace')}; what is done is kept, and the same command goes on after a stop."
    ]
    for step in ahead.steps:
        what = f"{step.missing:,} of {many(step.wanted, 'chosen sample')} of {step.chosen.law.run}"
        lines += [f"  {what} under {step.by.model}"] if step.missing else []
    lines += [
        f"  {many(len(some), 'external trace')} under the model {side}" for side, some in ahead.traces.items() if some
    ]
    return "\n".join(lines)


def finding(one: Likelihood) -> str:
    """The answer in words, with how sure it is."""
    parts = [*(_crossed_text(one, cell) for cell in FINDER), NEVER_NEW if one.cross.rows else "", _leash(one)]
    parts += [*_external(one), *(_tables_alone(one) if one.cross.reason else [])]
    return " ".join(part for part in parts if part) or "Nothing that was scored answers a question here."


def notes(one: Likelihood) -> list[str]:
    """What a reader should know before believing the numbers."""
    said = list(one.work.notes) + _traces_text(one)
    for found, law in zip(one.scored, one.laws, strict=True):
        scored = found.frame.height
        if found.retokenised:
            said.append(
                f"{found.retokenised:,} of {many(scored, 'scored sample')} of {law.run} are read as other tokens than "
                "were drawn: they weigh nothing in estimates, and count by their text elsewhere"
            )
        if law.decoding.stop:
            said.append(f"{law.run} was drawn with stop texts, so the ends of its samples are not scored")
        elif scored and not found.checked:
            said.append(f"{law.run} does not say how many tokens were drawn, so texts read as other tokens go unseen")
        if found.windowed:
            said.append(f"{found.windowed:,} samples of {law.run} are longer than a model's context and were read in "
                        "windows; they are left out of cross-support and of the leash")  # fmt: skip
        if found.unsummed:
            said.append(f"{found.unsummed:,} samples of {law.run} have no sums under one of the models")
    if _other_tokens(one):
        said.append("the two models cut texts into different tokens; per token means per token of the model before")
    if one.cross.rows:
        said.append(SELECTED)
    return said


def _crossed_text(one: Likelihood, cell: str) -> str:
    """What can be said of the problems that only one model reached."""
    rows = [row for row in one.cross.rows if row.cell == cell]
    if not rows:
        return ""
    finder, other = (one.laws[side].run for side in (FINDER[cell], 1 - FINDER[cell]))
    missed, within, left = ([row for row in rows if row.reading is reading] for reading in Reach)
    head = f"Of the {many(len(rows), 'problem')}" if len(rows) > 1 else "Of the one problem"
    head += f" that only {finder} reached at k = {one.cross.k:,}"
    if not missed and not within:
        return f"{head}, nothing can be told of {other}'s chance."
    told = [f"{other} missed {len(missed):,} on which its chance is above epsilon ({_sure(missed)})"] if missed else []
    more = f"{one.cross.k:,} more samples of {other} would show {len(within):,} with a chance of at least 5% each"
    told += [f"{more} ({_sure(within)})"] if within else []
    tail = f"; on {len(left):,} nothing can be told" if left else ""
    return f"{head}, {' and '.join(told)}{tail}."


def _sure(rows: Sequence[CrossSupportRow]) -> str:
    """How many readings are certain: what they say is of a lower bound alone."""
    certain = sum(row.certain for row in rows)
    if certain == len(rows):
        return "certain"
    by = "by estimates that several right samples carry, 95% sure before problems were chosen"
    return f"{certain:,} certain, {len(rows) - certain:,} {by}" if certain else by


def _leash(one: Likelihood) -> str:
    names = dict(zip(("before", "after"), (law.run for law in one.laws), strict=True))
    said = []
    for found in one.leash.divergences:
        other = names["after" if found.of == "before" else "before"]
        whole = found.sequence[EVERY]
        said.append(f"KL({names[found.of]} || {other}) = {amount(whole, '.3g')} nats a sample, "
                    f"{found.token.value:.3g} a token")  # fmt: skip
    return f"The length of the leash, mean over problems: {'; '.join(said)}." if said else ""


def _external(one: Likelihood) -> list[str]:
    """For each class of problems with external traces, which model finds them likelier."""
    before, after = (law.run for law in one.laws)
    said = []
    for group in one.groups:
        if group.own or group.benchmark != ALL_BENCHMARKS or group.cell not in "ESO":
            continue
        best = group.matched or group.log_ratio
        settled = best.interval.low > 0 or best.interval.high < 0
        known = np.isfinite([best.interval.low, best.interval.high]).all()
        likelier, other = (after, before) if best.value > 0 else (before, after)
        how = "at like lengths" if group.matched else "as they are"
        tail = "" if settled else "; the interval holds 0, so which of the two is not settled"
        if not known:
            tail = f"; {'one problem' if group.problems == 1 else 'too few problems at like lengths'}, so no interval"
        what = f"the traces of {clean(group.author)} on {group.cell} likelier than {other} does"
        said.append(f"{likelier} finds {what}, by {amount(absolute(best), '.3g')} nats a token ({how}){tail}.")
    return said


def _tables_alone(one: Likelihood) -> list[str]:
    """What is found where nothing says what whole completions are: the tables, and what the rest would need."""
    before, after = (law.run for law in one.laws)
    said = []
    for name in dict.fromkeys(group.author for group in one.groups if group.own):
        own = [
            group for group in one.groups if group.own and group.author == name and group.benchmark == ALL_BENCHMARKS
        ]
        each = ", ".join(f"{group.cell} {amount(group.log_ratio, '+.3g')}" for group in own)
        said.append(f"Of the correct samples of {name}, log {after} - log {before} a token by class: {each}.")
    if all(law.known for law in one.laws):
        return [*said, f"There is no cross-support and no length of the leash: {one.cross.reason}."]
    return [*said, "The tables say how likely both models find traces, class by class; cross-support and the length of "
                   "the leash need to know how the runs were drawn: --decoding, --temperature, --top-p."]  # fmt: skip


def _traces_text(one: Likelihood) -> list[str]:
    told = one.traces
    if told is None:
        return []
    file, said = told.file, []
    if file.unknown_rows:
        some = [
            f"{clean(name)!r}" + (f" (nearest: {clean(near)!r})" if near else "") for name, near in file.unknown.items()
        ]
        more = ", ..." if len(some) > NAMED else ""
        said.append(f"{many(file.unknown_rows, 'trace')} of {many(len(some), 'unknown problem')} left out: "
                    f"{', '.join(some[:NAMED])}{more}")  # fmt: skip
    said += [f"{many(file.empty, 'empty trace')} left out"] if file.empty else []
    said += [f"{many(file.duplicates, 'row')} repeated an earlier one and counted once"] if file.duplicates else []
    if told.windowed:
        said.append(f"{many(told.windowed, 'trace')} longer than a model's context, read in windows that overlap")
    said += [f"{many(count, 'trace')} without sums: {clean(reason)}" for reason, count in told.reasons.items()]
    return said


def _other_tokens(one: Likelihood) -> bool:
    return any((found.frame["tokens_before"] != found.frame["tokens_after"]).any() for found in one.scored)


def author(one: TraceGroup | Style) -> str:
    """Who wrote the traces, marked where it is one of the two models."""
    return f"{clean(one.author)} (self-generated)" if one.own else clean(one.author)


def amount(one: Estimate, form: str = "+.3f") -> str:
    """A number with its interval."""
    if not np.isfinite(one.value):
        return "-"
    ends = one.interval
    if not (np.isfinite(ends.low) and np.isfinite(ends.high)):
        return f"{one.value:{form}}"
    return f"{one.value:{form}} [{ends.low:{form}}, {ends.high:{form}}]"


def absolute(one: Estimate) -> Estimate:
    """The estimate with the sign that makes it positive."""
    if one.value >= 0:
        return one
    return Estimate(-one.value, type(one.interval)(-one.interval.high, -one.interval.low))
