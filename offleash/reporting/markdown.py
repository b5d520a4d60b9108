"""A comparison as GitHub-flavoured Markdown: the summary for a pull request."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from offleash.comparing.checkpoints import Union
from offleash.comparing.compare import Comparison
from offleash.comparing.sentences import FORMULAS, MEANING, SPELT_OUT, finding, warnings
from offleash.data.tally import Per
from offleash.render.escape import code, fenced, prose
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.curves import Curve, curve
from offleash.stats.support_classes import AFTER, BEFORE, Rule, thinned_cells
from offleash.version import __version__

MOST_LISTED = 10  # problems of a list of losses or gains
MOST_BENCHMARKS = 20  # those with most problems
_BEFORE, _AFTER = "\ue000", "\ue001"  # stand for the names of the runs until the words around them are safe


def markdown(comparisons: Sequence[Comparison], together: Union | None = None, command: str = "") -> str:
    """A summary of the last comparison, and of the steps before it where there are several."""
    one = comparisons[-1]
    parts = [_title(one), _say(one, [finding(_unnamed(one))])[0], _about(one)]
    parts += [_support(one), _metrics(one), *_passes(one), _sure(one)]
    if len(one.benchmarks) > 1:
        parts.append(_benchmarks(one))
    if len(comparisons) > 1:
        parts.append(_checkpoints(comparisons, together))
    care = _say(one, warnings(_unnamed(one)))
    if care:
        parts.append("### Before believing it\n\n" + "\n".join(f"- {warning}" for warning in care))
    parts.append(f"Made with offleash {__version__}." if not command else f"Made with offleash {__version__}:")
    if command:
        parts.append(fenced(command))
    return "\n\n".join(parts) + "\n"


def _title(one: Comparison) -> str:
    return f"## From {code(one.change.before)} to {code(one.change.after)}: what was kept, lost and found"


def _about(one: Comparison) -> str:
    change = one.change
    per = "" if change.per is Per.PROBLEM else f", counted per {change.per.value}"
    runs = ((one.before.name, BEFORE), (one.after.name, AFTER))
    n = "; ".join(f"{code(name)} has {drawn(one, r)}" for name, r in runs)
    return f"{targets(one)}, k = {change.k:,}{per}. Reached (rule {change.rule.value}): {rule_in_words(one)}. {n}."


def _support(one: Comparison) -> str:
    found, null, without = one.evidence, one.evidence.null, one.guessing.without
    rows = [["observed", *map(amount, cells(one.change))]]
    if found.basis != "all samples" and found.E is not None and found.S is not None:
        rows.append([f"tested: {found.basis}", "", str(found.E), str(found.S), ""])
    if null is not None:
        rows.append(
            ["by chance alone, had no rate changed", "", f"{null.expected_E:.1f}", f"{null.expected_S:.1f}", ""]
        )
        rows.append(["p (some rate rose, some rate fell)", "", p_value(null.p_E), p_value(null.p_S), ""])
    if without is not None:
        other = "" if without.rule is one.change.rule else f" (rule {without.rule.value})"
        rows.append([f"without guess-support{other}", *map(amount, cells(without))])
    if one.change.undetermined:
        rows.append([f"undetermined: {amount(one.change.undetermined)}", "", "", "", ""])
    unit = one.tally.per.value
    table = _table([f"{unit}s", *(f"{name} ({meaning})" for name, meaning in CELLS.items())], rows)
    if null is None and found.null_reason:
        table += f"\n\nNo count by chance: {found.null_reason}."
    return table


def _metrics(one: Comparison) -> str:
    rows = []
    for name in METRICS:
        value, ends = one.change.value[name], one.change.interval[name]
        label = f"{SPELT_OUT[name]} ({name})"
        why = one.change.reason(name)
        means = f"undefined: {why}" if why else f"{MEANING[name]}: {FORMULAS[name]}"
        rows.append([label, decimal(value), _ends(ends.low, ends.high), means])
    again = one.evidence.retest
    if again is not None and np.isfinite(again.SRR):
        ends = again.SRR_interval
        same = f"1 for the same model drawn twice; at k = {again.k:,}, half of the samples or fewer"
        rows.append(["SRR, corrected for a redraw", decimal(again.SRR), _ends(ends.low, ends.high), same])
    return _table(["metric", "value", "95% interval", "meaning"], rows, left=(0, 3))


def _passes(one: Comparison) -> list[str]:
    """pass@1 and pass@k of both runs; empty per answer or solution, where a pass is not defined."""
    if one.tally.per is not Per.PROBLEM:
        return []
    rows = []
    for k in dict.fromkeys((1, one.change.k)):
        before, after, difference = _at(one, k)
        rows.append(
            [
                f"pass@{k:,}",
                decimal(before.value_K[0], 4),
                decimal(after.value_K[0], 4),
                decimal(difference.value_K[0], 4, "+"),
                _ends(difference.low_K[0], difference.high_K[0], 4, "+"),
            ]
        )
    runs = (code(name, in_table=True) for name in (one.change.before, one.change.after))
    return [_table(["mean over problems", *runs, "difference", "95% interval"], rows)]


def _at(one: Comparison, k: int) -> list[Curve]:
    """pass@k before, after and their difference at one budget, from the curves where they have it."""
    names = ("before", "after", "difference")
    place = np.flatnonzero(one.curves["before"].k_K == k)
    if not place.size:
        sums = thinned_cells(one.tally, np.array([k])).sums(one.question.replicates, one.question.seed)
        return [curve(sums, name) for name in names]
    whole = (one.curves[name] for name in names)
    return [Curve(it.name, *(getattr(it, axis)[place] for axis in _AXES)) for it in whole]


_AXES = ("k_K", "value_K", "low_K", "high_K", "band_low_K", "band_high_K")


def _sure(one: Comparison) -> str:
    """The surest losses and gains with the successes that speak for them."""
    found, parts = one.evidence, []
    row_of = {str(problem): row for row, problem in enumerate(one.tally.problem_P)}
    for label, problems in (("Surely lost", found.lost), ("Surely gained", found.gained)):
        if not problems:
            continue
        lines = [f"- {code(problem)}: {_successes(one, row_of[problem])}" for problem in problems[:MOST_LISTED]]
        if len(problems) > MOST_LISTED:
            lines.append(f"- and {len(problems) - MOST_LISTED:,} more")
        parts.append(f"### {label} (5% false discoveries): {len(problems):,}\n\n" + "\n".join(lines))
    if parts:
        return "\n\n".join(parts)
    if found.losses_at_least is None:
        return f"No list of sure losses and gains: {found.bound_reason or found.null_reason or 'not by this rule'}."
    least = found.smallest_certain_loss
    needs = f" One problem's loss is certain from {least} successes against none." if least is not None else ""
    return f"No single loss or gain is sure (5% false discoveries).{needs}"


def _successes(one: Comparison, row: int) -> str:
    tally, k = one.tally, one.change.k
    if (tally.until_R > 0).any():
        sides = [f"{tally.correct_PR[row, r]:,} of {tally.drawn_PR[row, r]:,}" for r in (BEFORE, AFTER)]
    else:
        sides = [f"{tally.head_PR[row, r]:,} of {k:,}" for r in (BEFORE, AFTER)]
    return f"{sides[0]} samples correct before, {sides[1]} after"


def _benchmarks(one: Comparison) -> str:
    header = ["benchmark", "problems", *CELLS, "SRR", "NDR", "NSCR", "95% interval of NSCR", "pass@1", "pass@k"]
    rows = []
    widest = sorted(one.benchmarks, key=lambda part: -part.problems)[:MOST_BENCHMARKS]
    for part in sorted(widest, key=lambda part: part.name):
        change, ends = part.change, part.change.interval["NSCR"]
        metrics = [decimal(change.value[name]) for name in ("SRR", "NDR", "NSCR")]
        passes = [" → ".join(decimal(side) for side in pair) for pair in (part.pass_at_1, part.pass_at_k)]
        counts = [f"{part.problems:,}", *map(amount, cells(change))]
        rows.append([code(part.name, in_table=True), *counts, *metrics, _ends(ends.low, ends.high), *passes])
    if len(one.benchmarks) > MOST_BENCHMARKS:
        rows.append([f"and {len(one.benchmarks) - MOST_BENCHMARKS} smaller ones"])
    if one.macro is not None:
        ends = one.macro.interval["NSCR"]
        metrics = [decimal(one.macro.value[name]) for name in ("SRR", "NDR", "NSCR")]
        rows.append(["mean of benchmarks", "", "", "", "", "", *metrics, _ends(ends.low, ends.high)])
    return "### Benchmarks\n\n" + _table(header, rows)


def _checkpoints(comparisons: Sequence[Comparison], together: Union | None) -> str:
    k = comparisons[0].change.k
    budgets = (1, k) if comparisons[0].tally.per is Per.PROBLEM else ()  # per answer or solution there is no pass
    passing = [f"pass@{budget:,}" for budget in budgets]
    header = ["run", *passing, *CELLS, "SRR", "NDR", "surely lost, at least", "surely found, at least"]
    rows = []
    for one in comparisons:
        change, found = one.change, one.evidence
        bounds = ["–" if bound is None else f"{bound:,}" for bound in (found.losses_at_least, found.gains_at_least)]
        passes = [decimal(_at(one, budget)[1].value_K[0]) for budget in budgets]
        ratios = [decimal(change.value[name]) for name in ("SRR", "NDR")]
        rows.append([code(change.after, in_table=True), *passes, *map(amount, cells(change)), *ratios, *bounds])
    if together is not None and budgets:  # the union counts problems, by the rule seen
        rule = "" if comparisons[0].change.rule is Rule.SEEN else " (rule seen)"
        for samples, union in (("of each", together.each_k), ("in all", together.equal_k)):
            if union is not None:
                label = f"any of {together.checkpoints}, {k:,} samples {samples}{rule}"
                rows.append([label, "", "", *map(amount, union)])
    return f"### Each against {code(comparisons[0].change.before)}\n\n" + _table(header, rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: tuple[int, ...] = (0,)) -> str:
    """A table; every column but those at the `left` stands to the right. Short rows are filled up."""
    marks = [":--" if column in left else "--:" for column in range(len(header))]
    whole = [[*row, *[""] * (len(header) - len(row))] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *whole))


def _ends(low: float, high: float, digits: int = 3, sign: str = "") -> str:
    return "" if np.isnan(low) else f"{decimal(low, digits, sign)} to {decimal(high, digits, sign)}"


def _unnamed(one: Comparison) -> Comparison:
    """The comparison with runs whose names are one letter that no text has."""
    return replace(
        one,
        before=replace(one.before, name=_BEFORE),
        after=replace(one.after, name=_AFTER),
        change=replace(one.change, before=_BEFORE, after=_AFTER),
        tally=replace(one.tally, runs=(_BEFORE, _AFTER)),
    )


def _say(one: Comparison, texts: Iterable[str]) -> list[str]:
    names = {_BEFORE: one.before.name, _AFTER: one.after.name}
    return [prose(text, names) for text in texts]


# Numbers and rules in words, as latex.py and the page print them too.


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
