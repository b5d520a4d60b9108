"""pass@k of all runs with bands; of two runs also where they cross.

The crossing is drawn only where its interval lies within the budgets drawn: a curve that is merely about to cross is
not evidence that it does.
"""

from math import log

import altair as alt
import numpy as np

from offleash.comparing.captions import basis, names, unit
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput, by_run, run_names, run_shape, run_traces
from offleash.comparing.question import RunsAre
from offleash.comparing.sentences import crossing_text
from offleash.data.tally import Per
from offleash.render.figure import (
    DASHES,
    DIFFERENT_DASHES,
    DIFFERENT_RUNS,
    DIFFERENT_SHAPES,
    RUN_SHAPES,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    bands,
    budget_axis,
    data,
    layered,
    legend,
    lines,
    ordered_colours,
    rounded,
    run_colours,
    share_axis_end,
    with_size,
)
from offleash.render.numbers import share, short_name, short_names


def passes(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """pass@k against k: of both runs with their crossing, or of the first run and all others."""
    if len(subject.comparisons) > 1:
        return _all_runs(subject, look)
    comparison = subject.comparison
    labels = run_names(comparison, look)
    rows = [row for side in labels for row in _rows(comparison, side, labels[side])]
    most = int(comparison.curves["before"].k_K[-1])
    top = share_axis_end([comparison.curves[side].band_high_K.max() for side in labels])
    scale = alt.Scale(domain=[0, top], nice=False)
    x, y, low = (
        budget_axis(most, look),
        *(alt.Y(f, title=_curve_name(comparison), scale=scale) for f in ("value:Q", "low:Q")),
    )
    tips = [alt.Tooltip(field, title=title) for field, title in _TOOLTIPS.items()]
    points = alt.Chart(data(rows)).mark_point(filled=True, size=25 if look.paper else 45, opacity=1)
    points_with_tooltips = points.encode(
        x=x, y=y, color=by_run(labels, look), shape=run_shape(labels, look), tooltip=tips
    )
    traces = run_traces(labels, look)
    curves = [*bands(rows, "run", traces, x, low), *lines(rows, "run", traces, x, y), points_with_tooltips]
    facet = with_size(layered(*_crossing(comparison, look), *curves), look)
    return Figure(
        "passes", f"How often do k samples reach a {unit(comparison, False)}?", *_caption_and_alt(comparison), (facet,)
    )


MOST_CURVES = 8  # after the first: more could not be told apart


def _all_runs(subject: FigureInput, look: FigureFormat) -> Figure:
    """pass@k of the first run and of each run after it, in one chart."""
    chosen = _chosen(subject)
    names_of_runs = [chosen[0].before.name, *(comparison.after.name for comparison in chosen)]
    labels = short_names(names_of_runs, 24 if look.paper else 36)
    curves = [(chosen[0], "before"), *((comparison, "after") for comparison in chosen)]
    rows = [
        row for (comparison, side), label in zip(curves, labels, strict=True) for row in _rows(comparison, side, label)
    ]
    ordered = subject.several is not None and subject.several.value is RunsAre.CHECKPOINTS
    after = ordered_colours(len(chosen)) if ordered else list(DIFFERENT_RUNS[: len(chosen)])
    colours = [run_colours(look)["before"], *after]
    dashes = [DASHES["before"], *([[1, 0]] * len(chosen) if ordered else DIFFERENT_DASHES[: len(chosen)])]
    shapes = [RUN_SHAPES["before"], *DIFFERENT_SHAPES[: len(chosen)]]
    traces = {label: (colour, dash) for label, colour, dash in zip(labels, colours, dashes, strict=True)}
    top = share_axis_end([comparison.curves[side].band_high_K.max() for comparison, side in curves])
    scale, title = alt.Scale(domain=[0, top], nice=False), _curve_name(chosen[-1])
    x = budget_axis(int(chosen[0].curves["before"].k_K[-1]), look)
    y, low = (alt.Y(field, title=title, scale=scale) for field in ("value:Q", "low:Q"))
    longest = max(map(len, labels))
    columns = (1 if longest > 14 else 2) if look.paper else 1 if longest > 28 else 2 if longest > 16 else 4
    curve_legend = legend(labels, look, columns=columns)
    points = alt.Chart(data(rows)).mark_point(filled=True, size=16 if look.paper else 36, opacity=1)
    points_with_tooltips = points.encode(
        x=x,
        y=y,
        color=alt.Color("run:N", scale=alt.Scale(domain=labels, range=colours), legend=curve_legend, title=None),
        shape=alt.Shape("run:N", scale=alt.Scale(domain=labels, range=shapes), legend=curve_legend, title=None),
        tooltip=[alt.Tooltip(field, title=heading) for field, heading in _TOOLTIPS.items()],
    )
    opacity = 0.17 if len(chosen) < 3 else 0.08  # many bands over each other would hide the curves
    layers = [*bands(rows, "run", traces, x, low, opacity), *lines(rows, "run", traces, x, y), points_with_tooltips]
    target = unit(chosen[-1], False)
    return Figure(
        "passes",
        f"How often do k samples of each run reach a {target}?",
        *_caption_and_alt_of_all(subject, chosen, labels),
        (with_size(layered(*layers), look),),
    )


def _chosen(subject: FigureInput) -> list[Comparison]:
    """The comparisons that are drawn: all, or of more than can be told apart a spread that ends with the last."""
    every = list(subject.comparisons)
    if len(every) <= MOST_CURVES:
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, MOST_CURVES).round().astype(int)]


def _caption_and_alt_of_all(subject: FigureInput, chosen: list[Comparison], labels: list[str]) -> tuple[str, str]:
    """Caption and alternative text of the figure of all runs."""
    last, name = chosen[-1], _curve_name(chosen[-1])
    most, target = int(last.curves["before"].k_K[-1]), unit(last, False)
    correct_phrase = "is correct" if last.tally.per is Per.PROBLEM else f"gives the {target}"
    what = f"{name}: the chance that at least one of k samples {correct_phrase}, averaged over {target}s"
    left_out = len(subject.comparisons) - len(chosen)
    left_out_text = (
        f" {left_out} of the {len(subject.comparisons)} runs after the first are not shown." if left_out else ""
    )
    caption = (
        f"{what}. A band contains the whole curve of its run with 95% confidence (bootstrap over problems). Bands may "
        "overlap even where a difference is significant, because all runs share the same problems; nothing is known "
        f"beyond k = {most:,}.{left_out_text} {basis(last)}"
    )
    curves = [chosen[0].curves["before"], *(comparison.curves["after"] for comparison in chosen)]
    ends = "; ".join(
        f"{label} from {share(curve.value_K[0])} to {share(curve.value_K[-1])}"
        for label, curve in zip(labels, curves, strict=True)
    )
    return caption, f"{len(labels)} curves of {name} over k from 1 to {most:,}: {ends}."


# fields of a tooltip and their titles
_TOOLTIPS = {"run:N": "run", "k:Q": "k", "value:Q": "pass@k", "low:Q": "band low", "high:Q": "band high"}


def _rows(comparison: Comparison, side: str, name: str) -> list[Row]:
    """One run as points with its simultaneous band."""
    curve = comparison.curves[side]
    columns = zip(curve.k_K, curve.value_K, curve.band_low_K, curve.band_high_K, strict=True)
    return [
        {"k": int(k), "run": name, "value": rounded(value), "low": rounded(low), "high": rounded(high)}
        for k, value, low, high in columns
    ]


def _curve_name(comparison: Comparison) -> str:
    """What the curves show: per answer a share of targets is not called pass@k."""
    return "pass@k" if comparison.tally.per is Per.PROBLEM else f"share of {unit(comparison)} reached"


def _crossing(comparison: Comparison, look: FigureFormat) -> list[Chart]:
    """The span of the crossing, its rule and what it says; nothing where it is not resolved."""
    cross = comparison.crossing
    if cross.k is None or not cross.is_resolved:
        return []
    is_in_right_half = log(cross.k) > log(cross.most) / 2
    label = [f"beyond {cross.text()}", f"{short_name(comparison.before.name, 22)} is ahead"]
    row: Row = {"k": rounded(cross.k), "from": rounded(cross.low), "to": rounded(cross.high), "crossing": label}
    chart = alt.Chart(data([row]))
    # where the crossing is late the curves leave room above on its left, else below on its right
    font = 8 if look.paper else 11
    label_y = alt.value(5 if is_in_right_half else look.height - 9 - font)
    rule, start = budget_axis(cross.most, look), budget_axis(cross.most, look, "from:Q")
    end = start if is_in_right_half else budget_axis(cross.most, look, "to:Q")
    return [
        chart.mark_rect(opacity=0.12, color="#808080").encode(x=start, x2="to:Q"),
        chart.mark_rule(strokeDash=[3, 3], strokeWidth=1.2).encode(x=rule),
        chart.mark_text(
            fontSize=font,
            lineHeight=font + 3,
            align="right" if is_in_right_half else "left",
            dx=-6 if is_in_right_half else 6,
            baseline="top" if is_in_right_half else "bottom",
        ).encode(x=end, y=label_y, text="crossing:N"),
    ]


def _caption_and_alt(comparison: Comparison) -> tuple[str, str]:
    """Caption and alternative text."""
    before, after = names(comparison)
    value = {side: comparison.curves[side].value_K for side in ("before", "after")}
    most, name = int(comparison.curves["before"].k_K[-1]), _curve_name(comparison)
    target = unit(comparison, False)
    correct_phrase = "is correct" if comparison.tally.per is Per.PROBLEM else f"gives the {target}"
    what = f"{name}: the chance that at least one of k samples {correct_phrase}, averaged over {target}s"
    averaging_text = (
        "For k below the number drawn it is averaged over all subsets of k samples, so their order does not matter"
    )
    bands = "A band contains the whole curve with 95% confidence (bootstrap over problems)"
    mislead = (
        "The bands may overlap even where the difference is significant, because both runs share the same problems; "
        f"nothing is known beyond k = {most:,}."
    )
    caption = f"{what}. {averaging_text}. {bands}. {crossing_text(comparison)} {mislead} {basis(comparison)}"
    ends = "; ".join(
        f"at k = {k:,} {before} has {share(value['before'][i])} and {after} {share(value['after'][i])}"
        for i, k in ((0, 1), (-1, most))
    )
    return caption, f"Two curves of {name} over k from 1 to {most:,}: {ends}. {crossing_text(comparison)}"
