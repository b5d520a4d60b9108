"""A frontier as text and JSON: the cost, the points, differences at equal pass@1, the recommendation and the headline.

The document is a literal that is encoded once; the tables fit a terminal of 80 columns.
"""

from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.frontier.frontier import Frontier
from offleash.analyses.frontier.retention import RetentionDifference
from offleash.analyses.frontier.runs import FrontierCost, FrontierRequest
from offleash.analyses.frontier.search import BLENDS, NO_GAIN, Family, FrontierPoint, HeldOutConfirmation, Part
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode, number
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text
from offleash.stats.intervals import Estimate

RULE = (
    "Rule: the highest pass@1 among points whose SRR, divided by that of the base drawn again at the same k, is at "
    "least {floor:g}."
)
MANY_TIMES = 1_000  # times the problems at hand: a larger number of problems needed is no advice


def cost_document(cost: FrontierCost) -> Json:
    """The cost as JSON, of a dry run."""
    document: Json = encode(cost)
    return {"schema": SCHEMA, **document, "tokens_at_most": cost.samples_at_most * cost.tokens}


def cost_text(request: FrontierRequest, cost: FrontierCost) -> str:
    """What a frontier may cost, before anything is loaded."""
    grid = request.grid
    blends = ", ".join(f"{weight:g}" for weight in grid.weights) or "none"
    blends += f", and up to {grid.refinements} more" if grid.refinements else ""
    temperatures = ", ".join(f"{value:g}" for value in grid.temperatures) or "none"
    return (
        f"Frontier between {clean(request.base.label)} and {clean(request.rl.label)}: "
        f"{many(cost.choosing_problems, 'problem')} choose, {cost.held_out_problems} others confirm; k = {cost.k:,}, "
        f"{decoding_text(request.decoding)}.\n"
        f"  Blends: {blends}; temperatures of {clean(request.rl.label)}: "
        f"{temperatures}; checkpoints: {len(grid.checkpoints)}.\n"
        f"  {cost_lines(cost)}"
    )


def cost_lines(cost: FrontierCost) -> str:
    """The samples and tokens, at most."""
    return (
        f"Cost: at most {many(cost.samples_at_most, 'sample')} ({cost.samples_at_most * cost.tokens:,} tokens). It is "
        "less where RL gains nothing, and where runs are already there."
    )


def frontier_document(frontier: Frontier) -> Json:
    """A frontier as JSON."""
    result = frontier.search
    document: Json = {
        "schema": SCHEMA,
        "folder": frontier.folder,
        "base": frontier.base,
        "rl": frontier.rl,
        "k": frontier.k,
        "floor": frontier.floor,
        "problems": {Part.CHOOSING: result.problems, Part.HELD_OUT: _confirmed_on(result.confirmation)},
        "points": [_point(point) for point in result.points],
        "portfolio": result.portfolio,
        "differences": result.differences,
        "gains": dict(result.gains),
        "recommended": None if result.recommended is None else result.recommended.label,
        "reason": result.reason,
        "confirmation": result.confirmation,
        "command": frontier.command,
        "headline": headline(frontier),
        "notes": frontier.notes,
        "new": frontier.new,
        "missing": frontier.missing,
        "seconds": round(frontier.seconds, 3),
    }
    return encode(document)


def _point(point: FrontierPoint) -> Json:
    return {
        "point": point.label,
        "family": point.family,
        "weight": point.weight,
        "temperature": point.temperature,
        "pass_at_1": point.pass_1,
        "pass_at_k": point.pass_k,
        "SRR": point.SRR,
        "retention": point.retention,
        "lost_over_chance": point.lost_over_chance,
        "dominated": point.dominated,
    }


def _confirmed_on(confirmation: HeldOutConfirmation | None) -> int:
    return 0 if confirmation is None else confirmation.problems


def show_frontier(console: Console, frontier: Frontier, written: Sequence[str] = ()) -> None:
    """Print the tables, files that were written, the command for the recommended model, and the headline last."""
    result = frontier.search
    title = Text.assemble((f"{clean(frontier.base)} → {clean(frontier.rl)}", "bold"))
    title.append(f"   {many(result.problems, 'choosing problem')}, k = {frontier.k:,}", "dim")
    parts: list[RenderableType] = [title, points_table(frontier)]
    if result.differences:
        parts += [differences_table(result.differences), Text("")]
    parts += [Text(sentence) for sentence in sentences(frontier)]
    parts += [
        Text(f"· {clean(note.text)}{f' ({note.rows:,})' if note.rows else ''}", style="dim") for note in frontier.notes
    ]
    drawn = f"{many(frontier.new, 'sample')} drawn" if frontier.new else "no new samples drawn"
    parts.append(Text(f"{drawn}, {duration(frontier.seconds)}; the runs are in {frontier.folder}", style="dim"))
    parts += [Text(line, style="dim") for line in written]
    if frontier.command is not None:
        parts.append(Text(f"To use it: {frontier.command}"))
    parts.append(Text(headline(frontier), style="bold"))
    for part in parts:
        console.print(part)


def points_table(frontier: Frontier) -> Table:
    """Every point in the order of pass@1; an interval is below its value, a dominated point is grey."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ("point", "pass@1", f"pass@{frontier.k}", "SRR", "retention", "lost over\nchance")
    for name in columns:
        is_label = name == "point"
        table.add_column(name, justify="left" if is_label else "right", no_wrap=not is_label, overflow="fold")
    for point in sorted(frontier.search.points, key=lambda point: point.pass_1.value):
        is_chosen = frontier.search.recommended == point
        label = f"{clean(point.label)}{' <' if is_chosen else ''}"
        style = "bold" if is_chosen else "dim" if point.dominated else ""
        table.add_row(label, *point_cells(point), style=style)
    return table


def point_cells(point: FrontierPoint, between: str = "\n") -> list[str]:
    """The numbers of a point as cells of a table; ends of intervals without the 0 before the point, to be narrow."""
    cells = []
    for estimate in (point.pass_1, point.pass_k, point.SRR, point.retention):
        low, high = (f"{end:.3f}".removeprefix("0") for end in (estimate.interval.low, estimate.interval.high))
        cells.append(f"{estimate.value:.3f}{between}{low}-{high}")
    lost = point.lost_over_chance
    return [*cells, f"{lost.value:.1f}{between}{lost.interval.low:.1f} to {lost.interval.high:.1f}"]


def differences_table(differences: Sequence[RetentionDifference]) -> Table:
    title = "retention at equal pass@1, intervals corrected for all comparisons"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in DIFFERENCE_COLUMNS:
        table.add_column(name, justify="left" if name == "compared" else "right", overflow="fold")
    for difference in differences:
        table.add_row(*difference_cells(difference))
    return table


DIFFERENCE_COLUMNS = ("compared", "pass@1", "first", "second", "difference")


def difference_cells(difference: RetentionDifference) -> list[str]:
    """A comparison as cells of a table."""
    gap, ends = difference.difference.value, difference.difference.interval
    return [
        f"{difference.curve} - {clean(difference.point)}",
        f"{difference.pass_1:.3f}",
        f"{difference.curve_retention:.3f}",
        f"{difference.point_retention:.3f}",
        f"{gap:+.3f} [{ends.low:+.3f}, {ends.high:+.3f}]",
    ]


def sentences(frontier: Frontier) -> list[str]:
    """The rule, what is not drawn and why, what the comparisons show, and the numbers behind the recommendation."""
    result, lines = frontier.search, []
    if result.reason == NO_GAIN:
        return ["Without a gain in pass@1 there is nothing to trade: blends and temperatures were not drawn."]
    lines.append(RULE.format(floor=frontier.floor) + f" Chosen on {many(result.problems, 'problem')}.")
    if not frontier.can_blend:
        lines.append("No blends: both models have to be folders of weights (hf: or vllm:, without an adapter).")
    if result.differences:
        lines.append(f"At equal pass@1 {_comparisons(result.differences)}.")
    return lines


def _comparisons(differences: Sequence[RetentionDifference]) -> str:
    """The comparisons that are significant after correction, in words."""
    findings = []
    for difference in differences:
        ends, is_blend = difference.difference.interval, difference.curve == BLENDS
        if ends.low > 0 or ends.high < 0:
            curve, verb = ("blends", "keep") if is_blend else ("a split budget", "keeps")
            findings.append(f"{curve} {verb} {'more' if ends.low > 0 else 'less'} than {clean(difference.point)}")
    if not findings:
        return f"none of {many(len(differences), 'difference')} in retention is significant"
    return f"{'; '.join(findings)} (significant after correction)"


def gain_text(frontier: Frontier) -> str:
    """By how much training raised pass@1, where that is not significant."""
    gains = [
        f"{clean(label)} {gain.value:+.3f} [{gain.interval.low:+.3f}, {gain.interval.high:+.3f}]"
        for label, gain in frontier.search.gains
    ]
    return f"pass@1 is not significantly above that of {clean(frontier.base)}: {', '.join(gains)}."


def headline(frontier: Frontier) -> str:
    """The recommendation in one or two sentences; where there is none, why."""
    result, floor = frontier.search, f"{100 * frontier.floor:g}%"
    if result.reason == NO_GAIN:
        return f"Nothing is recommended: {gain_text(frontier)}"
    if result.recommended is None or result.confirmation is None:
        return (
            f"Nothing is recommended: no point with a higher pass@1 than {clean(frontier.base)} has a net retention "
            f"of at least {floor} of that of the base drawn again, within {many(frontier.k, 'sample')}."
        )
    point, on = result.recommended, result.confirmation
    kept = on.retention
    what = f"blend {point.weight:g}" if point.family is Family.BLEND else clean(point.label)
    return (
        f"Recommended: {what}. On {many(on.problems, 'held-out problem')} its pass@1 is {on.pass_1.value:.3f} "
        f"({clean(frontier.base)} {on.base_pass_1.value:.3f}, {clean(frontier.rl)} {on.rl_pass_1.value:.3f}), and "
        f"within {many(frontier.k, 'sample')} its net retention is {_percent(kept)} of that of the base drawn again "
        f"({clean(frontier.rl)}: {_percent(on.rl_retention)}): {verdict(frontier, on)}."
    )


def verdict(frontier: Frontier, on: HeldOutConfirmation) -> str:
    """Whether the confirmation shows the floor, and what would."""
    floor = f"{100 * frontier.floor:g}%"
    if on.shown:
        return f"shown to keep at least {floor}"
    if number(on.retention.value) is None:
        return f"not shown to keep {floor}, since the base reaches none of these problems; use easier ones"
    if on.problems_needed is None:
        return (
            f"not shown to keep {floor}; the estimate is below it, so use a lower --floor or more problems to choose on"
        )
    share = on.problems / max(on.problems + frontier.search.problems, 1)
    total = round(on.problems_needed / share)
    if total > MANY_TIMES * on.problems:
        return f"not shown to keep {floor}, and too close to it for any practical number of problems to show it"
    return f"not shown to keep {floor}; at this estimate about {total:,} problems in all would show it"


def _percent(estimate: Estimate) -> str:
    if number(estimate.value) is None:
        return "an unknown share"
    return f"{estimate.value:.1%} [{estimate.interval.low:.1%}, {estimate.interval.high:.1%}]"
