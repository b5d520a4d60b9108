"""Histogram of the accuracy per problem, for both runs.

Zero and one have bars of their own: "never in n samples" is the class that support is about, and a bin from 0 to 0.1
would hide it.
"""

import altair as alt
import numpy as np

from offleash.comparing.captions import drawn, names
from offleash.comparing.figures.figure_input import FigureInput, run_names, run_scale
from offleash.render.figure import (
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    legend,
    rounded,
    run_colours,
    translucent,
    with_size,
)
from offleash.render.numbers import counted
from offleash.stats.binomials import Float
from offleash.stats.support_classes import AFTER, BEFORE

BINS = 10  # between exactly 0 and exactly 1
SIDES = {"before": BEFORE, "after": AFTER}
ZERO_BAR, FULL_BAR = -0.11, 1.11  # middles of the bars of exactly 0 and exactly 1
HALF_BIN = 0.05  # of the width of a bin
# a Vega expression: labels of the axis, where the places of the two special bars are outside 0 to 1
WORDS = "datum.value < 0 ? 'none' : datum.value > 1 ? 'all' : format(datum.value, '~g')"


def accuracy(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """How many problems are solved how often, by each run."""
    detail, labels = subject.detail, run_names(subject.comparison, look)
    histograms = {side: _histogram(detail.rate_PR[:, r]) for side, r in SIDES.items()}
    rows: list[Row] = [
        {"run": labels[side], "problems": int(problems), "share": _bin_label(b)} | _bar_ends(b, r)
        for side, r in SIDES.items()
        for b, problems in enumerate(histograms[side])
        if problems
    ]
    # both runs share one axis: side by side they are only comparable at the same scale
    top = max(1.0, 1.05 * max(float(part.max()) for part in histograms.values()))
    axis = alt.Axis(
        values=[ZERO_BAR, 0, 0.2, 0.4, 0.6, 0.8, 1, FULL_BAR], labelExpr=WORDS, labelOverlap=False, grid=False
    )
    scale = alt.Scale(domain=[ZERO_BAR - 1.6 * HALF_BIN, FULL_BAR + 1.6 * HALF_BIN], nice=False)
    colours = run_colours(look)
    fills = [translucent(colours["before"], 0.5), colours["after"]]
    several = legend(list(labels.values()), look, symbol="square")
    bars = (
        alt.Chart(data(rows))
        .mark_rect(strokeWidth=0.8)
        .encode(
            x=alt.X("from:Q", title="share of a problem's samples that are correct", axis=axis, scale=scale),
            x2="to:Q",
            y=alt.Y(
                "problems:Q",
                title="problems",
                scale=alt.Scale(domain=[0, top], nice=True),
                axis=alt.Axis(tickMinStep=1, format="d", tickCount=6),
            ),
            y2=alt.Y2Datum(0),
            fill=alt.Fill("run:N", scale=alt.Scale(domain=list(labels.values()), range=fills), legend=several),
            stroke=alt.Stroke("run:N", scale=run_scale(labels, look), legend=several),
            tooltip=[
                alt.Tooltip("run:N"),
                alt.Tooltip("share:N", title="share correct"),
                alt.Tooltip("problems:Q"),
            ],
        )
    )
    return Figure(
        "accuracy",
        "How often is each problem solved?",
        *_caption_and_alt(subject, histograms),
        (with_size(bars, look),),
    )


def _bar_ends(b: int, r: int) -> Row:
    """From where to where a bar stands: the run before on the left half of a bin, the run after on the right."""
    middle = ZERO_BAR if b == 0 else FULL_BAR if b == BINS + 1 else (b - 0.5) / BINS
    start = middle - 0.84 * HALF_BIN * (1 - r)
    return {"from": rounded(start), "to": rounded(start + 0.84 * HALF_BIN)}


def _histogram(rate_P: Float) -> Float:
    """Exactly 0, ten equal bins, exactly 1."""
    inside = rate_P[(rate_P > 0) & (rate_P < 1)]
    # bins are open on the left, (0, 0.1], ...; the tolerance keeps a rate of 3/10 out of the bin above 0.3
    bin_P = np.minimum(np.ceil(inside * BINS - 1e-9) - 1, BINS - 1).astype(np.int64)
    middle = np.bincount(np.maximum(bin_P, 0), minlength=BINS)
    return np.concatenate([[(rate_P == 0).sum()], middle, [(rate_P >= 1).sum()]]).astype(np.float64)


def _bin_label(b: int) -> str:
    """What a bar covers, for its tooltip."""
    if b in (0, BINS + 1):
        return f"exactly {b // (BINS + 1)}"
    return f"above {(b - 1) / BINS:g}, up to {b / BINS:g}" if b < BINS else f"above {(b - 1) / BINS:g}, below 1"


def _caption_and_alt(subject: FigureInput, histograms: dict[str, Float]) -> tuple[str, str]:
    """Caption and alternative text."""
    comparison, detail, (before, after) = subject.comparison, subject.detail, names(subject.comparison)
    read = (
        f"Number of problems by the share of their samples that are correct, for {before} (light) and {after} (solid). "
        "The first and last bars are problems solved in none and in all samples; between them are ten equal bins"
    )
    meaning = "Where training raised high rates and lowered low ones, problems moved from the middle to both ends"
    mislead = "None means none of the samples drawn: a success rate well below 1/n looks like 0"
    problems = counted(len(detail.tally), "problem")
    ends = "; ".join(
        f"{name} never solves {counted(histograms[side][0], 'problem')} and always solves "
        f"{int(histograms[side][-1]):,}, mean accuracy {detail.rate_PR[:, SIDES[side]].mean():.3f}"
        for side, name in (("before", before), ("after", after))
    )
    return f"{read}. {meaning}. {mislead}. {problems}, {drawn(comparison)}.", f"Two histograms over {problems}: {ends}."
