"""A comparison as GitHub-flavoured Markdown: the summary for a pull request.

Names of runs, problems and benchmarks come from logs and may hold links, mentions or table bars, so they are only ever
written as code (render/escape.py). Sentences are made with placeholders for names, escaped, and then filled in.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from offleash.comparing.captions import FORMULAS, MEANING, NET_RATIO, SPELT_OUT
from offleash.comparing.checkpoints import CheckpointUnion, several_runs_of
from offleash.comparing.compare import Comparison
from offleash.comparing.conditions import CheckedCondition, ConditionOutcome
from offleash.comparing.evidence import ALL_SAMPLES
from offleash.comparing.headline import headline
from offleash.comparing.leaderboard import LeaderboardRow, curves_at, leaderboard
from offleash.comparing.sentences import (
    NOTHING_LISTED,
    details,
    listed_from_text,
    no_change_text,
    redraw_rates,
    runs_are_text,
    single_training_caveat,
    warnings,
)
from offleash.data.tally import Per
from offleash.render.escape import code, fenced, prose
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.intervals import Estimate
from offleash.stats.support_classes import AFTER, BEFORE, Rule
from offleash.version import __version__

MOST_LISTED = 10  # problems of a list of losses or gains: a summary is read in a pull request
MOST_BENCHMARKS = 20  # those with most problems
UNCHANGED_SRR = "SRR of an unchanged model"  # drawn twice: beside every SRR
# Letters that stand for the names of runs until the words around them are escaped. They are printable, since others are
# replaced in names (render/numbers.py: short_name), and of a script that no sentence of ours uses.
_BEFORE_PLACEHOLDER, _AFTER_PLACEHOLDER = "\ua9c1", "\ua9c2"


def markdown(
    comparisons: Sequence[Comparison],
    union: CheckpointUnion | None = None,
    command: str = "",
    conditions: Sequence[CheckedCondition] = (),
) -> str:
    """A summary of the last comparison, and of the steps before it where there are several.

    Args:
        comparisons: each against the same first run.
        union: what several checkpoints reach together.
        command: the command line that made it, shown at the end; empty: none.
        conditions: those of --fail-if, checked.
    """
    comparison = comparisons[-1]
    parts = [
        _title(comparison),
        *_escape_sentences(comparison, _sentences(_with_placeholder_names(comparison))),
        *([_conditions(conditions)] if conditions else []),
        _about(comparison),
    ]
    parts += [_support(comparison), _metrics(comparison), *_pass_table(comparison), _significant(comparison)]
    if len(comparison.benchmarks) > 1:
        parts.append(_benchmarks(comparison))
    if len(comparisons) > 1:
        parts.append(_all_runs(comparisons, union))
    # sentences are built with placeholder names: a real name could hold Markdown that escaping a whole sentence breaks
    cautions = _escape_sentences(
        comparison,
        [*warnings(_with_placeholder_names(comparison)), single_training_caveat(several_runs_of(comparisons)) or ""],
    )
    cautions = [caution for caution in cautions if caution]
    if cautions:
        parts.append("### Caveats\n\n" + "\n".join(f"- {warning}" for warning in cautions))
    parts.append(f"Made with offleash {__version__}." if not command else f"Made with offleash {__version__}:")
    if command:
        parts.append(fenced(command))
    return "\n\n".join(parts) + "\n"


def _sentences(comparison: Comparison) -> list[str]:
    """The headline, and what stands beside it."""
    return [text for text in (headline(comparison).text, details(comparison)) if text]


def _title(comparison: Comparison) -> str:
    """A second-level heading: the summary is pasted into a pull request, which has its own title."""
    return (
        f"## From {code(comparison.change.before)} to {code(comparison.change.after)}: what was kept, lost and gained"
    )


def _about(comparison: Comparison) -> str:
    """The scope: targets, k, rule, and the samples of each run."""
    change = comparison.change
    per = "" if change.per is Per.PROBLEM else f", counted per {change.per.value}"
    runs = ((comparison.before.name, BEFORE), (comparison.after.name, AFTER))
    n = "; ".join(f"{code(name)} has {drawn(comparison, r)}" for name, r in runs)
    rule = f"Reached (rule {change.rule.value}): {rule_in_words(comparison)}"
    return f"{targets(comparison)}, k = {change.k:,}{per}. {rule}. {n}."


def _support(comparison: Comparison) -> str:
    """P, E, S, O as observed, as tested, for an unchanged model, and without guess-support."""
    evidence, null, without = comparison.evidence, comparison.evidence.null, comparison.guessing.without
    rows = [["observed", *_cells_with_SRR(comparison.change)]]
    # tests use all samples, of which there are more than the k of the table when budgets differ
    unchanged_label, at_k = "unchanged model, resampled", evidence.at_k
    if evidence.basis != ALL_SAMPLES and evidence.E is not None and evidence.S is not None:
        if at_k is not None:
            rows.append([unchanged_label, "", f"{at_k.changed:.1f}", f"{at_k.changed:.1f}", ""])
        rows.append([f"tested: {evidence.basis}", "", str(evidence.E), str(evidence.S), ""])
    if null is not None:
        rows.append([unchanged_label, "", f"{null.expected_E:.1f}", f"{null.expected_S:.1f}", ""])
        p = evidence.adjusted_p
        rows.append(["p (some rate rose, some rate fell)", "", p_value(p["E"]), p_value(p["S"]), ""])
    if without is not None:
        # guess-support is defined for the rule seen, whatever rule the rest of the table uses
        rule_text = "" if without.rule is comparison.change.rule else f" (rule {without.rule.value})"
        rows.append([f"without guess-support{rule_text}", *_cells_with_SRR(without)])
    if comparison.change.undetermined:
        rows.append([f"undetermined: {count_text(comparison.change.undetermined)}", "", "", "", ""])
    unit = comparison.tally.per.value
    header = [f"{unit}s", *(f"{name} ({meaning})" for name, meaning in CLASS_WORDS.items()), "SRR", UNCHANGED_SRR]
    table = _table(header, rows)
    if null is None and evidence.null_reason:
        table += f"\n\nNo expected counts for an unchanged model: {evidence.null_reason}."
    return table


def _cells_with_SRR(change: SupportChange) -> list[str]:
    """P, E, S, O and SRR, and beside it the SRR of an unchanged model drawn twice."""
    same = redraw_rates(change).get("SRR", math.nan)
    return [*map(count_text, cells(change)), decimal(change.value["SRR"]), decimal(same)]


def _metrics(comparison: Comparison) -> str:
    """The rates with intervals, those of an unchanged model, formulas and meaning; an undefined one with its reason."""
    rows, same = [], redraw_rates(comparison.change)
    for name in METRICS:
        value, ends = comparison.change.value[name], comparison.change.interval[name]
        label = f"{SPELT_OUT[name]} ({name})"
        why = comparison.change.reason(name)
        means = f"undefined: {why}" if why else f"{MEANING[name]}: {FORMULAS[name]}"
        unchanged_value = decimal(same.get(name, math.nan))
        rows.append([label, decimal(value), _interval(ends.low, ends.high), unchanged_value, means])
    retest = comparison.evidence.retest
    if retest is not None and np.isfinite(retest.net_ratio):
        ends, means = retest.net_ratio_interval, NET_RATIO.format(k=retest.k)
        rows.append(["net ratio", decimal(retest.net_ratio), _interval(ends.low, ends.high), "1.000", means])
    return _table(["metric", "value", "95% interval", "unchanged model", "meaning"], rows, left=(0, 4))


def _pass_table(comparison: Comparison) -> list[str]:
    """pass@1 and pass@k of both runs; empty per answer or solution, where a pass is not defined."""
    if comparison.tally.per is not Per.PROBLEM:
        return []
    rows = []
    for k in dict.fromkeys((1, comparison.change.k)):  # one row where k is 1
        before, after, difference = curves_at(comparison, k).values()
        rows.append(
            [
                f"pass@{k:,}",
                decimal(before.value_K[0], 4),
                decimal(after.value_K[0], 4),
                decimal(difference.value_K[0], 4, "+"),
                _interval(difference.low_K[0], difference.high_K[0], 4, "+"),
            ]
        )
    runs = (code(name, in_table=True) for name in (comparison.change.before, comparison.change.after))
    return [_table(["averaged over problems", *runs, "difference", "95% interval"], rows)]


def _significant(comparison: Comparison) -> str:
    """The significant losses and gains with the successes behind them, strongest first; or why there is no list."""
    evidence, parts = comparison.evidence, []
    row_by_problem = {str(problem): row for row, problem in enumerate(comparison.tally.problem_P)}
    for label, problems in (("Lost, the rate fell", evidence.lost), ("Gained, the rate rose", evidence.gained)):
        if not problems:
            continue
        lines = [
            f"- {code(problem)}: {_success_counts(comparison, row_by_problem[problem])}"
            for problem in problems[:MOST_LISTED]
        ]
        if len(problems) > MOST_LISTED:
            lines.append(f"- and {len(problems) - MOST_LISTED:,} more")
        parts.append(f"### {label} significantly (FDR 5%): {len(problems):,}\n\n" + "\n".join(lines))
    more = listed_from_text(evidence)
    if evidence.E and (words := no_change_text(_with_placeholder_names(comparison))):
        more = f"{more} {_escape_sentences(comparison, [words])[0]}".strip()
    if parts:
        return "\n\n".join([*parts, more] if more else parts)
    # an empty list must not read as "nothing changed" where nothing could be tested
    if evidence.losses_at_least is None:
        why = evidence.bound_reason or evidence.null_reason or "it is not defined for this rule"
        return f"No list of significant losses and gains: {why}."
    return f"{NOTHING_LISTED} {more}".strip()


def _success_counts(comparison: Comparison, row: int) -> str:
    """The counts behind one loss or gain, before and after: all samples, as they were tested."""
    tally = comparison.tally
    success_counts = [f"{tally.correct_PR[row, r]:,} of {tally.drawn_PR[row, r]:,}" for r in (BEFORE, AFTER)]
    return f"{success_counts[0]} samples correct before, {success_counts[1]} after"


def _benchmarks(comparison: Comparison) -> str:
    """One row per benchmark, by name; the mean, where each weighs the same, last."""
    rates = ["SRR", UNCHANGED_SRR, "NDR", "NSCR", "95% interval of NSCR"]
    header = ["benchmark", "problems", *CLASS_WORDS, *rates, "pass@1", "pass@k"]
    rows = []
    largest_benchmarks = sorted(comparison.benchmarks, key=lambda part: -part.problems)[:MOST_BENCHMARKS]
    for part in sorted(largest_benchmarks, key=lambda part: part.name):
        change, ends = part.change, part.change.interval["NSCR"]
        metrics = [decimal(change.value[name]) for name in ("NDR", "NSCR")]
        # before and after share a cell: a table in a pull request is narrow
        passes = [" → ".join(decimal(side) for side in pair) for pair in (part.pass_at_1, part.pass_at_k)]
        counts = [f"{part.problems:,}", *_cells_with_SRR(change)]
        rows.append([code(part.name, in_table=True), *counts, *metrics, _interval(ends.low, ends.high), *passes])
    if len(comparison.benchmarks) > MOST_BENCHMARKS:
        rows.append([f"and {len(comparison.benchmarks) - MOST_BENCHMARKS} smaller ones"])
    if comparison.macro is not None:
        macro, ends = comparison.macro, comparison.macro.interval["NSCR"]
        values = (macro.value["SRR"], macro.redraw["SRR"], macro.value["NDR"], macro.value["NSCR"])
        metrics = [decimal(value) for value in values]
        rows.append(["mean of benchmarks", "", "", "", "", "", *metrics, _interval(ends.low, ends.high)])
    return "### Benchmarks\n\n" + _table(header, rows)


def _all_runs(comparisons: Sequence[Comparison], union: CheckpointUnion | None) -> str:
    """The leaderboard, the classes of each run, what the runs are, and what checkpoints reach together."""
    several = several_runs_of(comparisons)
    assert several is not None, "there are several"
    title = f"### Each compared with {code(comparisons[0].change.before)}"
    corrected = f"Bounds hold for all {len(comparisons)} runs together (95% confidence)."
    about = f"{prose(runs_are_text(several), {})} {corrected}"
    return "\n\n".join([title, about, _leaderboard(leaderboard(comparisons)), _classes(comparisons, union)])


def _leaderboard(rows: Sequence[LeaderboardRow]) -> str:
    """pass@1, pass@k and the rates of every run, with 95% intervals."""
    passes = [f"pass@{budget:,}" for budget in (1, rows[0].k)] if rows[0].pass_at_1 is not None else []
    cells_of_rows = []
    for row in rows:
        values = [_estimate(row.pass_at_1), _estimate(row.pass_at_k)] if passes else []
        same = decimal(row.redraw["SRR"]) if row.redraw is not None else "" if row.SRR is None else "–"
        rates = [_estimate(row.SRR), same, _estimate(row.NDR), _estimate(row.NSCR)]
        cells_of_rows.append([code(row.run, in_table=True), *values, *rates])
    return _table(["run (95% intervals)", *passes, "SRR", UNCHANGED_SRR, "NDR", "NSCR"], cells_of_rows)


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    ends = _interval(estimate.interval.low, estimate.interval.high)
    return decimal(estimate.value) + (f" ({ends})" if ends and math.isfinite(estimate.value) else "")


def _classes(comparisons: Sequence[Comparison], union: CheckpointUnion | None) -> str:
    """P, E, S, O of each run with the bounds on them, and of the union of checkpoints."""
    header = ["run", *CLASS_WORDS, "lost, rate fell on at least", "gained, rate rose on at least", "finding"]
    rows = []
    for comparison in comparisons:
        change, evidence = comparison.change, comparison.evidence
        bounds = [
            "–" if bound is None else f"{bound:,}" for bound in (evidence.losses_at_least, evidence.gains_at_least)
        ]
        name, finding = code(change.after, in_table=True), headline(comparison).finding.words
        rows.append([name, *map(count_text, cells(change)), *bounds, finding])
    if union is not None and comparisons[0].tally.per is Per.PROBLEM:  # the union counts problems, by the rule seen
        rule, k = "" if comparisons[0].change.rule is Rule.SEEN else " (rule seen)", comparisons[0].change.k
        for samples, cells_of_union in (("each", union.each_k), ("in total", union.equal_k)):
            if cells_of_union is not None:
                label = f"union of {union.checkpoints}, {k:,} samples {samples}{rule}"
                rows.append([label, *map(count_text, cells_of_union)])
    return _table(header, rows)


def _conditions(conditions: Sequence[CheckedCondition]) -> str:
    """The conditions of --fail-if with their outcomes."""
    rows = []
    for checked in conditions:
        bound = math.isinf(checked.interval.high)  # of losses and gains only a lower bound is known
        ends = f"at least {checked.value:g}" if bound else _interval(checked.interval.low, checked.interval.high)
        unchanged = "" if checked.redraw is None else decimal(checked.redraw)
        outcome = f"**{checked.outcome.value}**" if checked.outcome is ConditionOutcome.FAILS else checked.outcome.value
        value = checked.reason or ("" if bound else decimal(checked.value))
        rows.append([code(checked.run, in_table=True), code(checked.condition, in_table=True), outcome])
        rows[-1] += [value, ends, unchanged]
    return _table(["run", "fails if", "outcome", "value", "95% interval", "unchanged model"], rows, left=(0, 1, 2))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: tuple[int, ...] = (0,)) -> str:
    """A table; columns are aligned right but for those in `left`. Short rows are filled up."""
    marks = [":--" if column in left else "--:" for column in range(len(header))]
    # rows of summaries are shorter than the header; padded, the table is valid in strict renderers too
    whole = [[*row, *[""] * (len(header) - len(row))] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *whole))


def _interval(low: float, high: float, digits: int = 3, sign: str = "") -> str:
    """Both ends of an interval in words: brackets would need escaping in Markdown."""
    return "" if np.isnan(low) else f"{decimal(low, digits, sign)} to {decimal(high, digits, sign)}"


def _with_placeholder_names(comparison: Comparison) -> Comparison:
    """The comparison with runs whose names are one letter that no text has."""
    return replace(
        comparison,
        before=replace(comparison.before, name=_BEFORE_PLACEHOLDER),
        after=replace(comparison.after, name=_AFTER_PLACEHOLDER),
        change=replace(comparison.change, before=_BEFORE_PLACEHOLDER, after=_AFTER_PLACEHOLDER),
        tally=replace(comparison.tally, runs=(_BEFORE_PLACEHOLDER, _AFTER_PLACEHOLDER)),
    )


def _escape_sentences(comparison: Comparison, texts: Iterable[str]) -> list[str]:
    """Our sentences with the real names of the runs as code, escaped."""
    names = {_BEFORE_PLACEHOLDER: comparison.before.name, _AFTER_PLACEHOLDER: comparison.after.name}
    return [prose(text, names) for text in texts]


# Numbers and rules in words, as latex.py and the page print them too.


CLASS_WORDS = {"P": "preserved", "E": "gained", "S": "lost", "O": "neither"}


def count_text(value: float) -> str:
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


def rule_in_words(comparison: Comparison) -> str:
    """What it takes to be reached."""
    change, question = comparison.change, comparison.question
    correct_phrase = "is correct" if change.per is Per.PROBLEM else f"is correct and gives this {change.per.value}"
    return {
        Rule.SEEN: f"at least one of k samples {correct_phrase}",
        Rule.ABOVE: f"the share of correct samples is at least {question.tau:g}",
        Rule.CONFIDENT: f"the success rate is above what k samples can miss, with confidence {1 - question.zeta:g}",
        Rule.POSTERIOR: f"the success rate is above what k samples can miss, with posterior probability "
        f"{1 - question.zeta:g}",
    }.get(change.rule, change.rule.value)


def targets(comparison: Comparison) -> str:
    """How many problems, answers or solutions were compared."""
    problems = len(set(comparison.tally.problem_P.tolist()))
    text = f"{problems:,} {'problem' if problems == 1 else 'problems'}"
    if comparison.tally.per is Per.PROBLEM:
        return text
    return f"{len(comparison.tally):,} {comparison.tally.per.value}s of {text}"


def drawn(comparison: Comparison, r: int) -> str:
    """n: samples per problem of a run; of a run that stopped early, its budget and its stop."""
    tally = comparison.counted.tally
    if tally.until_R[r] > 0:
        return f"up to {int(tally.budget_R[r]):,} samples per problem, stopped at success {int(tally.until_R[r])}"
    least, most = int(tally.drawn_PR[:, r].min()), int(tally.drawn_PR[:, r].max())
    return f"{least:,} samples per problem" if least == most else f"{least:,} to {most:,} samples per problem"


def cells(change: SupportChange) -> list[float]:
    """P, E, S, O."""
    return [change.P, change.E, change.S, change.O]
