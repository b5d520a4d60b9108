"""A likelihood report as one JSON document, and in words; the tables are in terminal.py."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from offleash.analyses.likelihood.cross_support import ALL as EVERY
from offleash.analyses.likelihood.cross_support import FINDER_BY_CLASS, CrossSupport, CrossSupportRow
from offleash.analyses.likelihood.likelihood import Likelihood
from offleash.analyses.likelihood.missing_scores import ScoringEstimate
from offleash.analyses.likelihood.models import SIDES
from offleash.analyses.likelihood.perplexity_by_class import ALL_BENCHMARKS, Style, TraceGroup
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import many
from offleash.stats.intervals import Estimate
from offleash.stats.likelihood import Reach


def likelihood_document(report: Likelihood) -> Json:
    """The whole report as JSON; unknown numbers are null."""
    document: Json = encode(
        {
            "schema": SCHEMA,
            "kind": "likelihood",
            "k": report.cross.k,
            "epsilon": report.cross.epsilon,
            "first": report.first,
            "classes": report.classes,
            "runs": {side: _run_section(report, r) for r, side in enumerate(SIDES)},
            "scored_now": {
                "samples": report.work.samples,
                "traces": report.work.traces,
                "seconds": round(report.work.seconds, 3),
            },
            "traces": _traces_section(report),
            "perplexity": [_group_section(group) for group in report.groups],
            "style": [_style_section(style) for style in report.styles],
            "cross_support": _cross_section(report.cross),
            "leash": {
                "reason": report.leash.reason or None,
                "retokenised": report.leash.retokenised,
                "divergences": report.leash.divergences,
            },
            "notes": notes(report),
            "finding": finding(report),
        }
    )
    return document


def _run_section(report: Likelihood, r: int) -> Json:
    run_model, samples = report.run_models[r], report.scored[r]
    return {
        "name": run_model.run,
        "folder": run_model.folder,
        "model": str(run_model.model),
        "decoding": run_model.decoding.document() if run_model.known else None,
        "samples": samples.samples,
        "scored": samples.frame.height,
        "unsummed": samples.unsummed,
        "checked": samples.checked,
        "retokenised": samples.retokenised,
        "windowed": samples.windowed,
    }


def _traces_section(report: Likelihood) -> Json | None:
    """What became of the rows of the file of traces; None without one."""
    if report.traces is None:
        return None
    file = report.traces.file
    return {
        "file": file.path,
        "rows": file.rows,
        "scored": report.traces.scored,
        "unknown_rows": file.unknown_rows,
        "unknown_problems": [{"problem": name, "nearest": near or None} for name, near in file.unknown.items()],
        "empty": file.empty,
        "duplicates": file.duplicates,
        "windowed": report.traces.windowed,
        "reasons": report.traces.reasons,
    }


def _group_section(group: TraceGroup) -> Json:
    return {
        "author": group.author,
        "self_generated": group.own,
        "benchmark": group.benchmark or None,
        "class": group.cell,
        "problems": group.problems,
        "traces": group.traces,
        "unjudged": group.unjudged,
        "tokens": group.tokens,
        "perplexity": group.perplexity,
        "mean_perplexity": group.mean_perplexity,
        "log_ratio": group.log_ratio,
        "log_ratio_length_matched": group.matched,
    }


def _style_section(style: Style) -> Json:
    return {
        "author": style.author,
        "self_generated": style.own,
        "class": style.cell,
        "problems": style.problems,
        "correct_minus_wrong": {"before": style.before, "after": style.after},
        "change": style.change,
    }


def _cross_section(cross: CrossSupport) -> Json:
    """Readings by class, a row per problem, and the estimates from both runs together."""
    both = cross.both
    return {
        "reason": cross.reason or None,
        "counts": {cell: {reading: cross.count(cell, reading) for reading in Reach} for cell in ("E", "S")},
        "problems": [_row_section(row) for row in cross.rows],
        "both_runs_reason": cross.both_reason or None,
        "both_runs": None
        if both is None
        else {
            "problems": both.problems,
            "samples": both.samples,
            "unjudged": both.unjudged,
            "unusable": both.unusable,
            "own": both.own,
            "together": both.together,
            "by_problem": [
                {"problem": problem, **dict(zip(SIDES, row, strict=True))}
                for problem, row in zip(both.problem_P, both.mixture_PR.tolist(), strict=True)
            ],
        },
    }


def _row_section(row: CrossSupportRow) -> Json:
    # The fields are the keys, but for the class, which Python does not allow as a name.
    return {"class" if field.name == "cell" else field.name: getattr(row, field.name) for field in fields(row)}


# In words: what is about to be scored, what the scores show, and what to be careful with.


STYLE_NOTE = (
    "Perplexity mixes style with substance: a model finds text in its own style likely, right or wrong. Only "
    "differences between classes at equal lengths, or between correct and wrong traces of one author, say something "
    "about substance."
)
CERTAIN_NOTE = (
    "Certain means that the probability of the observed correct completions alone is enough. Likelihood can show that "
    "a problem is within reach, never that it is out of reach or new: strategies that no sample shows have no weight."
)
SELECTION_NOTE = (
    "E and S were selected by these same samples, so estimates from one or two successes tend to be too large, and the "
    "95% holds before that selection; the certain bounds are not affected"
)
MAX_NAMED = 3  # unknown problems that a note names


def estimate_text(estimate: ScoringEstimate) -> str:
    """What is about to be scored, before it begins."""
    if not estimate.missing:
        return "All required scores are already stored."
    lines = [
        f"Scoring {many(estimate.missing, 'trace')}. Scores are stored as they are computed; run the same command to "
        "resume."
    ]
    for step in estimate.steps:
        samples_text = f"{step.missing:,} of {many(step.wanted, 'selected sample')} of {step.chosen.run_model.run}"
        lines += [f"  {samples_text} under {step.by.model}"] if step.missing else []
    lines += [
        f"  {many(len(traces), 'external trace')} under the model {side}"
        for side, traces in estimate.traces.items()
        if traces
    ]
    return "\n".join(lines)


def finding(report: Likelihood) -> str:
    """The result in words, each statement with how certain it is."""
    parts = [
        *(_cross_support_text(report, cell) for cell in FINDER_BY_CLASS),
        CERTAIN_NOTE if report.cross.rows else "",
        _divergence_text(report),
    ]
    parts += [*_external_text(report), *(_perplexity_only_text(report) if report.cross.reason else [])]
    return " ".join(part for part in parts if part) or "The scores do not support any conclusion."


def notes(report: Likelihood) -> list[str]:
    """What a reader should know before relying on the numbers."""
    lines = list(report.work.notes) + _traces_text(report)
    for samples, run_model in zip(report.scored, report.run_models, strict=True):
        scored = samples.frame.height
        if samples.retokenised:
            lines.append(
                f"{samples.retokenised:,} of {many(scored, 'scored sample')} of {run_model.run} are tokenised "
                "differently from how they were drawn: estimates leave them out, everything else uses the scores of "
                "their text"
            )
        if run_model.decoding.stop:
            lines.append(f"{run_model.run} was drawn with stop texts, so the ends of its samples are not scored")
        elif scored and not samples.checked:
            lines.append(
                f"{run_model.run} does not record token counts, so samples that retokenise differently go unnoticed"
            )
        if samples.windowed:
            lines.append(
                f"{samples.windowed:,} samples of {run_model.run} are longer than a model's context and were scored in "
                "windows; they are left out of cross-support and of the leash"
            )
        if samples.unsummed:
            lines.append(f"{samples.unsummed:,} samples of {run_model.run} were not scored by both models")
    if _token_counts_differ(report):
        lines.append("the two models have different tokenisers; 'per token' counts tokens of the model before")
    if report.cross.rows:
        lines.append(SELECTION_NOTE)
    return lines


def _cross_support_text(report: Likelihood, cell: str) -> str:
    """The conclusion about the problems of a class that only one model reached; empty where there are none."""
    rows = [row for row in report.cross.rows if row.cell == cell]
    if not rows:
        return ""
    finder, other = (report.run_models[side].run for side in (FINDER_BY_CLASS[cell], 1 - FINDER_BY_CLASS[cell]))
    missed_rows, within_rows, undecided_rows = ([row for row in rows if row.reading is reading] for reading in Reach)
    subject = f"Of the {many(len(rows), 'problem')}" if len(rows) > 1 else "Of the one problem"
    subject += f" that only {finder} reached at k = {report.cross.k:,}"
    if not missed_rows and not within_rows:
        return f"{subject}, {other}'s chance could not be determined."
    statements = (
        [f"{other} missed {len(missed_rows):,} although its chance per sample is above epsilon ({_basis(missed_rows)})"]
        if missed_rows
        else []
    )
    more_samples_text = (
        f"{report.cross.k:,} more samples of {other} would solve {len(within_rows):,} with a chance of at least 5% each"
    )
    statements += [f"{more_samples_text} ({_basis(within_rows)})"] if within_rows else []
    tail = f"; {len(undecided_rows):,} undecided" if undecided_rows else ""
    return f"{subject}, {' and '.join(statements)}{tail}."


def _basis(rows: Sequence[CrossSupportRow]) -> str:
    """How many readings are certain, that is follow from a lower bound alone, and how many rest on estimates."""
    certain_count = sum(row.reading_rests_on == "certain_bound" for row in rows)
    if certain_count == len(rows):
        return "certain"
    basis_text = "estimated from several correct samples, at 95% before problems were selected by outcome"
    return f"{certain_count:,} certain, {len(rows) - certain_count:,} {basis_text}" if certain_count else basis_text


def _divergence_text(report: Likelihood) -> str:
    """Both divergences in one sentence; empty where there are none."""
    names = dict(zip(("before", "after"), (run_model.run for run_model in report.run_models), strict=True))
    divergences = []
    for divergence in report.leash.divergences:
        other = names["after" if divergence.of == "before" else "before"]
        sequence = divergence.sequence[EVERY]
        divergences.append(f"KL({names[divergence.of]} || {other}) = {amount(sequence, '.3g')} nats per sample, "
                    f"{divergence.token.value:.3g} per token")  # fmt: skip
    return f"Length of the leash, mean over problems: {'; '.join(divergences)}." if divergences else ""


def _external_text(report: Likelihood) -> list[str]:
    """For each class of problems with external traces, which model finds them likelier, and whether that is settled."""
    before, after = (run_model.run for run_model in report.run_models)
    sentences = []
    for group in report.groups:
        if group.own or group.benchmark != ALL_BENCHMARKS or group.cell not in "ESO":
            continue
        # At equal lengths where the author's classes overlap in length.
        ratio = group.matched or group.log_ratio
        settled = ratio.interval.low > 0 or ratio.interval.high < 0
        known = np.isfinite([ratio.interval.low, ratio.interval.high]).all()
        likelier_model, other = (after, before) if ratio.value > 0 else (before, after)
        lengths = "at equal lengths" if group.matched else "at their own lengths"
        tail = "" if settled else "; not significant: the interval includes 0"
        if not known:
            tail = f"; {'one problem' if group.problems == 1 else 'too few problems at equal lengths'}, so no interval"
        sentences.append(
            f"The traces of {clean(group.author)} on {group.cell} are likelier under {likelier_model} than under "
            f"{other}, by {amount(absolute(ratio), '.3g')} nats per token ({lengths}){tail}."
        )
    return sentences


def _perplexity_only_text(report: Likelihood) -> list[str]:
    """The result where probabilities of whole completions are not known: the tables, and what the rest would need."""
    before, after = (run_model.run for run_model in report.run_models)
    sentences = []
    for name in dict.fromkeys(group.author for group in report.groups if group.own):
        own_groups = [
            group for group in report.groups if group.own and group.author == name and group.benchmark == ALL_BENCHMARKS
        ]
        ratios_text = ", ".join(f"{group.cell} {amount(group.log_ratio, '+.3g')}" for group in own_groups)
        sentences.append(
            f"Of the correct samples of {name}, log {after} - log {before} per token by class: {ratios_text}."
        )
    # The decoding is known, so something else is in the way (stop texts).
    if all(run_model.known for run_model in report.run_models):
        return [*sentences, f"Neither cross-support nor the length of the leash is available: {report.cross.reason}."]
    return [
        *sentences,
        "The tables show the likelihood of traces under both models, by class. Cross-support and the length of the "
        "leash need the decoding of the runs: --decoding, --temperature, --top-p.",
    ]


def _traces_text(report: Likelihood) -> list[str]:
    """Notes on rows of the file of traces that were left out or have no scores."""
    summary = report.traces
    if summary is None:
        return []
    file, lines = summary.file, []
    if file.unknown_rows:
        unknown = [
            f"{clean(name)!r}" + (f" (nearest: {clean(near)!r})" if near else "") for name, near in file.unknown.items()
        ]
        ellipsis = ", ..." if len(unknown) > MAX_NAMED else ""
        lines.append(f"{many(file.unknown_rows, 'trace')} of {many(len(unknown), 'unknown problem')} left out: "
                    f"{', '.join(unknown[:MAX_NAMED])}{ellipsis}")  # fmt: skip
    lines += [f"{many(file.empty, 'empty trace')} left out"] if file.empty else []
    lines += [f"{many(file.duplicates, 'duplicate row')} left out"] if file.duplicates else []
    if summary.windowed:
        lines.append(f"{many(summary.windowed, 'trace')} longer than a model's context, scored in overlapping windows")
    lines += [f"{many(count, 'trace')} without scores: {clean(reason)}" for reason, count in summary.reasons.items()]
    return lines


def _token_counts_differ(report: Likelihood) -> bool:
    return any((samples.frame["tokens_before"] != samples.frame["tokens_after"]).any() for samples in report.scored)


def author_text(group: TraceGroup | Style) -> str:
    """Who wrote the traces, marked where it is one of the two models."""
    return f"{clean(group.author)} (self-generated)" if group.own else clean(group.author)


def amount(estimate: Estimate, form: str = "+.3f") -> str:
    """A number with its interval, where it has one; a dash where it is not known."""
    if not np.isfinite(estimate.value):
        return "-"
    ends = estimate.interval
    if not (np.isfinite(ends.low) and np.isfinite(ends.high)):
        return f"{estimate.value:{form}}"
    return f"{estimate.value:{form}} [{ends.low:{form}}, {ends.high:{form}}]"


def absolute(estimate: Estimate) -> Estimate:
    """The estimate, negated where it is negative; the ends of its interval change places then."""
    if estimate.value >= 0:
        return estimate
    return Estimate(-estimate.value, type(estimate.interval)(-estimate.interval.high, -estimate.interval.low))
