"""Coverage of a budget k that is split between the run before and the run after.

The curve is in-sample, so its top is optimistic; the gain in the caption is not (stats/portfolio.py).
"""

from typing import Literal, cast

import altair as alt
import numpy as np

from offleash.comparing.captions import names
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import best_split_text, split_gain_text
from offleash.render.figure import (
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    rounded,
    run_colours,
    with_size,
)
from offleash.render.numbers import counted, share, short_name
from offleash.stats.portfolio import TIE_TOLERANCE, Portfolio

Align = Literal["left", "center", "right"]

TITLE = "Is a mix of both models better than either?"


def portfolio(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Coverage of k samples against how many of them the run before draws."""
    comparison = subject.comparison
    split = comparison.portfolio
    if split is None:
        return MissingFigure("portfolio", TITLE, "splitting a budget is defined per problem; use --per problem")
    if split.problems == 0 or split.k < 2:
        return MissingFigure(
            "portfolio",
            TITLE,
            f"{counted(split.problems, 'problem')} {'has' if split.problems == 1 else 'have'} k = {split.k} samples in "
            "both runs, which is too few to split; draw more",
        )
    rows: list[Row] = [
        {"base": int(base), "coverage": rounded(float(value))}
        for base, value in zip(split.base_S, split.coverage_S, strict=True)
    ]
    low, high = float(split.coverage_S.min()), float(split.coverage_S.max())
    height = max(high - low, 0.02)  # a flat curve must not be stretched until rounding looks like a trend
    y = alt.Y(
        "coverage:Q",
        title=f"share of problems reached by {split.k:,} samples",
        scale=alt.Scale(domain=[max(0.0, low - 0.15 * height), min(1.0, high + 0.25 * height)], nice=True),
    )
    axis = alt.Axis(values=[round(split.k * part / 4) for part in range(5)], format="d")
    title = "samples from the run before, the rest from the run after"
    x = alt.X("base:Q", title=title, scale=alt.Scale(domain=[0, split.k], nice=False, padding=6), axis=axis)
    line = alt.Chart(data(rows)).mark_line(point=False, color="#5b7db1")
    tips = [alt.Tooltip("base:Q", title="samples from the run before"), alt.Tooltip("coverage:Q")]
    # invisible points carry the tooltips: a line itself has none at a given split
    hover_points = alt.Chart(data(rows)).mark_point(opacity=0, size=120).encode(x=x, y=y, tooltip=tips)
    layers = [line.encode(x=x, y=y), hover_points, *_labelled_points(comparison, split, x, y, look)]
    return Figure("portfolio", TITLE, *_caption_and_alt(comparison, split), (with_size(layered(*layers), look),))


def _labelled_points(
    comparison: Comparison, split: Portfolio, x: alt.X, y: alt.Y, look: FigureFormat
) -> list[alt.Chart]:
    """The two ends, and the best split where it reaches more than they do, each with its name."""
    colours, name_characters = run_colours(look), 14
    # a label stands on the side of its end to which the curve does not go
    step = len(split.base_S) // 5
    left, right = (
        -10 if end > label_shift else 14
        for end, label_shift in (
            (split.all_rl, float(split.coverage_S[step])),
            (split.all_base, float(split.coverage_S[-1 - step])),
        )
    )
    if _is_flat(split) and split.all_rl < 0.5:
        left = right = -10  # a line at the bottom leaves no room below
    labels = [
        (0, split.all_rl, f"all {short_name(comparison.after.name, name_characters)}", colours["after"], "left", left),
        (
            split.k,
            split.all_base,
            f"all {short_name(comparison.before.name, name_characters)}",
            colours["before"],
            "right",
            right,
        ),
    ]
    if split.best is not None and _mix_reaches_more(split):
        best = int(np.flatnonzero(split.base_S == split.best)[0])
        where = "left" if split.best < split.k / 3 else "right" if split.best > 2 * split.k / 3 else "center"
        label_shift = left if split.best < split.k / 4 else right if split.best > 3 * split.k / 4 else 0
        side = 14 if label_shift < 0 else -10  # near an end, on the side that its label leaves free
        labels.append((split.best, float(split.coverage_S[best]), f"best: {split.best:,}", "#d55e00", where, side))
    # a point and its label are separate layers, since Vega-Lite has no mark for both
    marks = []
    for base, value, name, colour, align, offset_y in labels:
        chart = alt.Chart(data([{"base": base, "coverage": rounded(value), "name": name}])).encode(x=x, y=y)
        size = 45 if look.paper else 90
        marks.append(chart.mark_point(filled=True, size=size, color=colour, opacity=1, shape="diamond"))
        marks.append(chart.mark_text(align=cast(Align, align), dy=offset_y).encode(text="name:N"))
    return marks


def _mix_reaches_more(split: Portfolio) -> bool:
    """Whether some split reaches more than both pure strategies, beyond rounding."""
    return float(split.coverage_S.max()) > max(split.all_base, split.all_rl) + TIE_TOLERANCE


def _is_flat(split: Portfolio) -> bool:
    """Whether all splits reach the same, as when both runs solve the same problems."""
    return float(np.ptp(split.coverage_S)) <= TIE_TOLERANCE


def _caption_and_alt(comparison: Comparison, split: Portfolio) -> tuple[str, str]:
    """Caption and alternative text; they never name a best split where none is better."""
    before, after = names(comparison)
    read = (
        f"Share of problems reached by {split.k:,} samples when some come from {before} (x axis) and the rest from "
        f"{after}: at the left end all from {after}, at the right end all from {before}"
    )
    flat, gain_text = _is_flat(split), split_gain_text(split)
    best = best_split_text(split, before, flat, _mix_reaches_more(split))
    mislead = (
        ". The top of the curve is optimistic, because the split was chosen on the same problems; the y axis does not "
        "start at 0"
    )
    if flat:
        gain_text, mislead = "All splits reach the same share, so none is best", ""
    left = f" Left out: {counted(split.left_out, 'problem')} with fewer samples." if split.left_out else ""
    size = counted(split.problems, "problem")
    caption = f"{read}. {gain_text}{mislead}. {size}, k = {split.k:,}, rule seen.{left}"
    summary = (
        f"Coverage {share(split.all_rl)} with all samples from {after}, {share(split.all_base)} with all from "
        f"{before}; {best}."
    )
    return caption, summary
