"""Several runs against the first: what each reaches (pass@1, pass@k), keeps (SRR) and gains (NDR).

Checkpoints of one training run are joined by lines; seeds and methods have no order, so they are points.
"""

import altair as alt
import numpy as np

from offleash.comparing.captions import METRIC_WORDS, basis, names
from offleash.comparing.checkpoints import SeveralRuns
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.question import RunsAre
from offleash.comparing.sentences import redraw_rates, runs_are_text
from offleash.data.tally import Per
from offleash.render.figure import (
    METRIC_DASHES,
    METRIC_NAMES,
    METRIC_SHAPES,
    METRICS,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    legend,
    lines,
    rounded,
    with_size,
)
from offleash.render.numbers import share, short_names, whole
from offleash.stats.support_classes import Rule

TITLE = "How does support change over training?"
TITLES = {
    RunsAre.CHECKPOINTS: TITLE,
    RunsAre.SEEDS: "How does support change from seed to seed?",
    RunsAre.METHODS: "How does support change from method to method?",
}
PASS_COLOURS, PASS_DASHES, PASS_SHAPES = ["#5b7db1", "#9b5de5"], [[5, 3], [1, 0]], ["circle", "square"]
SHARE_REACHED = "share reached"  # by another rule than `seen`, where it is not pass@k
RATIOS = ("SRR", "NDR")  # what is kept of the base, and what is new


def checkpoints(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """pass@1, pass@k, SRR and NDR of every checkpoint, as named; per answer or solution there is no pass@k."""
    steps = subject.comparisons
    if len(steps) < 2:
        return MissingFigure(
            "checkpoints", TITLE, "there is only one run after the first; pass several checkpoints in order"
        )
    several = subject.several
    assert several is not None, "there are several runs after the first"
    labels = short_names(
        [steps[0].before.name, *(comparison.after.name for comparison in steps)], 14 if look.paper else 20
    )
    is_trend = several.value is RunsAre.CHECKPOINTS
    kinds, ratios = _measures(steps), _ratios(steps, labels, look, is_trend)
    facets = (_reach(steps, labels, kinds, look, is_trend), ratios) if kinds else (ratios,)
    return Figure("checkpoints", TITLES[several.value], *_caption_and_alt(subject, several, kinds), facets)


def _measures(steps: tuple[Comparison, ...]) -> list[str]:
    """What is shown of each run: pass@1 and pass@k, or instead of pass@k the share that another rule reaches."""
    change = steps[0].change
    if change.per is not Per.PROBLEM:
        return []
    if change.k == 1:
        return ["pass@1"]
    # by the rule seen the share reached is pass@k, so it serves where the curves leave out k
    known = change.rule is Rule.SEEN or all(change.k in comparison.curves["after"].k_K for comparison in steps)
    return ["pass@1", f"pass@{change.k}" if known else SHARE_REACHED]


def _reach(
    steps: tuple[Comparison, ...], labels: list[str], kinds: list[str], look: FigureFormat, is_trend: bool
) -> Chart:
    """What the base and each run after it reach."""
    sides = [(steps[0], "before"), *((comparison, "after") for comparison in steps)]
    rows = [
        _row(labels[position], position, kind, *_value(comparison, side, kind, budget))
        for position, (comparison, side) in enumerate(sides)
        for kind, budget in zip(kinds, (1, steps[0].change.k), strict=False)
    ]
    title = "share of problems" if SHARE_REACHED in kinds else "pass@k"
    return _facet(rows, labels, kinds, (PASS_COLOURS, PASS_DASHES, PASS_SHAPES), title, look, is_trend)


def _value(comparison: Comparison, side: str, kind: str, budget: int) -> tuple[float, float, float]:
    """pass@k of a run with its interval, or the share of problems that it reaches by the rule in force."""
    curve, change = comparison.curves[side], comparison.change
    at = np.flatnonzero(curve.k_K == budget)
    if at.size and kind != SHARE_REACHED:
        return float(curve.value_K[at[0]]), float(curve.low_K[at[0]]), float(curve.high_K[at[0]])
    # an undetermined problem is neither reached nor missed; such a share has no interval of its own
    determined = change.problems - change.undetermined
    reached = change.P + (change.E if side == "after" else change.S)
    return float(reached / determined) if determined > 0 else np.nan, np.nan, np.nan


def _ratios(steps: tuple[Comparison, ...], labels: list[str], look: FigureFormat, is_trend: bool) -> Chart:
    """SRR and NDR of each run; the base, compared with itself, has none."""
    kinds = [METRIC_NAMES[name] for name in RATIOS]
    rows = [
        _row(
            labels[position],
            position,
            METRIC_NAMES[name],
            comparison.change.value[name],
            comparison.change.interval[name].low,
            comparison.change.interval[name].high,
        )
        for name in RATIOS
        for position, comparison in enumerate(steps, start=1)
    ]
    style = ([METRICS[n] for n in RATIOS], [METRIC_DASHES[n] for n in RATIOS], [METRIC_SHAPES[n] for n in RATIOS])
    return _facet(rows, labels, kinds, style, "ratio", look, is_trend)


def _row(label: str, position: int, kind: str, value: float, low: float, high: float) -> Row:
    """One point with its interval, as the figure holds it."""
    ends = {"low": rounded(low), "high": rounded(high)}
    return {"run": label, "place": position, "kind": kind, "value": rounded(value)} | ends


def _facet(
    rows: list[Row],
    labels: list[str],
    kinds: list[str],
    style: tuple[list[str], list[list[int]], list[str]],
    title: str,
    look: FigureFormat,
    is_trend: bool,
) -> Chart:
    """Points with intervals, joined by lines where they are a trend; `style` has colours, dashes and shapes by kind."""
    several = legend(kinds, look)
    colours, shapes = (alt.Scale(domain=kinds, range=part[: len(kinds)]) for part in (style[0], style[2]))
    wide = sum(map(len, labels)) > (30 if look.paper else 60)
    # slanted names of a dozen runs do not overlap, and a name that is left out cannot be guessed as a step can
    axis = alt.Axis(
        labelAngle=-35 if wide else 0, labelLimit=110, labelOverlap=len(labels) > 12, grid=False, title=None
    )
    x = alt.X("run:O", axis=axis, scale=alt.Scale(domain=labels))
    y, low = (alt.Y(field, title=title, scale=alt.Scale(domain=[0, 1])) for field in ("value:Q", "low:Q"))
    traces = {kind: (style[0][i], style[1][i]) for i, kind in enumerate(kinds)}
    chart = alt.Chart(data(rows)).encode(x=x, color=alt.Color("kind:N", scale=colours, legend=several))
    bars = chart.mark_rule(strokeWidth=1 if look.paper else 1.5).encode(y=low, y2="high:Q")
    tips = [alt.Tooltip("run:N"), alt.Tooltip("kind:N", title="metric"), alt.Tooltip("value:Q")]
    tips += [alt.Tooltip("low:Q", title="95% low"), alt.Tooltip("high:Q", title="95% high")]
    points = chart.mark_point(filled=True, size=30 if look.paper else 60, opacity=1)
    points_with_tooltips = points.encode(y=y, shape=alt.Shape("kind:N", scale=shapes, legend=several), tooltip=tips)
    joined = lines(rows, "kind", traces, x, y) if is_trend else ()
    return with_size(layered(*joined, bars, points_with_tooltips), look)


def _caption_and_alt(subject: FigureInput, several: SeveralRuns, kinds: list[str]) -> tuple[str, str]:
    """Caption and alternative text."""
    singular = several.value.value.removesuffix("s")
    steps, union, (before, _) = subject.comparisons, subject.union, names(subject.comparison)
    ratios = f"{singular} compared with {before}: {METRIC_WORDS['SRR']}; {METRIC_WORDS['NDR']}"
    if kinds:
        order = f"for {before} and each {singular} in the order given"
        read = f"First plot: {_first_plot_text(steps, kinds)}, {order}. Second plot, each {ratios}"
    else:
        read = f"Each {ratios}"
    union_text = ""
    if union is not None and kinds:  # it counts problems
        each = ", ".join(f"{cell} {whole(round(value, 1))}" for cell, value in zip("PESO", union.each_k, strict=True))
        rule = "" if subject.comparison.change.rule is Rule.SEEN else ", rule seen"
        union_text = f" Union of all {union.checkpoints} checkpoints, {union.k:,} samples from each{rule}: {each}."
    mislead = "All points share the same problems and the same base, so their errors are correlated."
    values = [(names(comparison)[1], comparison.change.value) for comparison in steps]
    ratios_text = "; ".join(f"{name}: SRR {share(value['SRR'])}, NDR {share(value['NDR'])}" for name, value in values)
    same = [rates["SRR"] for comparison in steps if "SRR" in (rates := redraw_rates(comparison.change))]
    chance = f" An unchanged model drawn twice would show SRR {share(min(same))} to {share(max(same))}." if same else ""
    description = f"{read}. Bars are 95% intervals.{union_text}{chance}"
    caption = f"{description} {mislead} {runs_are_text(several)} {basis(steps[-1])}"
    return caption, f"{len(steps)} {several.value.value} compared with {before}. {ratios_text}."


def _first_plot_text(steps: tuple[Comparison, ...], kinds: list[str]) -> str:
    """What the first plot shows."""
    if SHARE_REACHED in kinds:
        problems = "determined problems" if any(comparison.change.undetermined for comparison in steps) else "problems"
        return f"pass@1, the chance that a sample is correct, and the share of {problems} reached by the rule in force"
    sample_phrase = "1 sample includes" if len(kinds) == 1 else f"1 or {steps[0].change.k:,} samples include"
    return f"{' and '.join(kinds)}, the chance that {sample_phrase} a correct one"
