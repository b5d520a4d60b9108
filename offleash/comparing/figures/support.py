"""Support against the budget k: P, E, S and O, and the ratios computed from them.

All of it is by the rule `seen`, whatever the comparison uses: only there is every k an average over choices of samples.
"""

import altair as alt
import numpy as np

from offleash.comparing.captions import CELLS, METRIC_WORDS, basis, unit
from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import redraw_text
from offleash.data.tally import Per
from offleash.render.figure import (
    CLASS_NAMES,
    CLASSES,
    METRIC_DASHES,
    METRIC_NAMES,
    METRIC_SHAPES,
    METRICS,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    bands,
    budget_axis,
    class_fills,
    data,
    layered,
    legend,
    lines,
    rounded,
    translucent,
    with_size,
)
from offleash.render.numbers import share, whole
from offleash.stats.binomials import Float, Integer
from offleash.stats.change import common_budget
from offleash.stats.curves import dense_budgets
from offleash.stats.support_classes import Rule, thinned_cells

BUDGETS_PER_OCTAVE = 3  # budgets in each octave: enough for smooth areas


def support(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """P/E/S/O, and SRR, NDR and NSCR, against k."""
    comparison = subject.comparison
    k_K = dense_budgets(common_budget(comparison.tally), BUDGETS_PER_OCTAVE)
    cells = _cells(comparison, k_K)
    facets = (_areas(comparison, k_K, cells, look), _ratios(comparison, look))
    return Figure(
        "support", "What is kept, gained and lost as k grows?", *_caption_and_alt(comparison, k_K, cells), facets
    )


def _cells(comparison: Comparison, k_K: Integer) -> dict[str, Float]:
    """Expected numbers in each class at each budget; O only where it can be observed."""
    thinned = thinned_cells(comparison.tally, k_K)
    cells = {name: np.asarray(getattr(thinned, f"{name}_PK").sum(axis=0)) for name in ("P", "E", "S")}
    if comparison.tally.per is Per.PROBLEM:
        # O is what is left over; rounding may push an exact 0 just below it
        rest = thinned.determined_PK.sum(axis=0) - sum(cells.values())
        cells["O"] = np.maximum(rest, 0.0)
    return cells


def _areas(comparison: Comparison, k_K: Integer, cells: dict[str, Float], look: FigureFormat) -> Chart:
    """The classes stacked over k. Per problem their sum is the same at every k."""
    order = [name for name in ("P", "E", "S", "O") if name in cells]
    rows: list[Row] = [
        {"k": int(k), "class": CLASS_NAMES[name], "value": rounded(value), "place": index}
        for index, name in enumerate(order)
        for k, value in zip(k_K, cells[name], strict=True)
    ]
    labels = [CLASS_NAMES[name] for name in order]
    several = legend(labels, look, 4, symbol="square")
    total = float(sum(cells[name][-1] for name in order))
    fills = class_fills(look)
    areas = (
        alt.Chart(data(rows))
        .mark_area(opacity=1, strokeWidth=0.6)
        .encode(
            x=budget_axis(int(k_K[-1]), look),
            y=alt.Y("value:Q", title=unit(comparison), stack="zero", scale=alt.Scale(domain=[0, total], nice=False)),
            fill=alt.Fill(
                "class:N",
                scale=alt.Scale(domain=labels, range=[translucent(CLASSES[n], fills[n]) for n in order]),
                legend=several,
            ),
            stroke=alt.Stroke(
                "class:N", scale=alt.Scale(domain=labels, range=[CLASSES[n] for n in order]), legend=several
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("class:N", title="class"),
                alt.Tooltip("k:Q"),
                alt.Tooltip("value:Q", title=unit(comparison)),
            ],
        )
    )
    return with_size(areas, look)


def _ratios(comparison: Comparison, look: FigureFormat) -> Chart:
    """SRR, NDR and NSCR over k, with bands that cover the whole curve."""
    rows: list[Row] = [
        {"k": int(k), "ratio": label, "value": rounded(value), "low": rounded(low), "high": rounded(high)}
        for name, label in METRIC_NAMES.items()
        for k, value, low, high in zip(
            comparison.curves[name].k_K,
            comparison.curves[name].value_K,
            comparison.curves[name].band_low_K,
            comparison.curves[name].band_high_K,
            strict=True,
        )
    ]
    labels = list(METRIC_NAMES.values())
    several = legend(labels, look, 3)
    # the axis starts at 0 unless a band of NSCR goes below, and then at a multiple of 0.2
    lowest = min((float(row["low"]) for row in rows if isinstance(row["low"], float)), default=0.0)
    bottom = 0.0 if lowest >= 0 else max(-1.0, -0.2 * np.ceil(-lowest / 0.2))
    scale = alt.Scale(domain=[bottom, 1], nice=False)
    x = budget_axis(int(comparison.curves["SRR"].k_K[-1]), look)
    y, low = (alt.Y(field, title="ratio", scale=scale) for field in ("value:Q", "low:Q"))
    points = alt.Chart(data(rows)).mark_point(filled=True, size=20 if look.paper else 40, opacity=1)
    points_with_tooltips = points.encode(
        x=x,
        y=y,
        color=alt.Color("ratio:N", scale=alt.Scale(domain=labels, range=list(METRICS.values())), legend=several),
        shape=alt.Shape("ratio:N", scale=alt.Scale(domain=labels, range=list(METRIC_SHAPES.values())), legend=several),
        tooltip=[
            alt.Tooltip("ratio:N"),
            alt.Tooltip("k:Q"),
            alt.Tooltip("value:Q"),
            alt.Tooltip("low:Q", title="band low"),
            alt.Tooltip("high:Q", title="band high"),
        ],
    )
    traces = {label: (METRICS[name], METRIC_DASHES[name]) for name, label in METRIC_NAMES.items()}
    zero = alt.Chart(data([{"value": 0}])).mark_rule(strokeWidth=0.8).encode(y="value:Q")
    curves = [*bands(rows, "ratio", traces, x, low), *lines(rows, "ratio", traces, x, y), *_unchanged(comparison, x)]
    return with_size(layered(zero, *curves, points_with_tooltips), look)


def _unchanged(comparison: Comparison, x: alt.X) -> list[Chart]:
    """SRR of an unchanged model drawn twice, as a thin black line; none where nothing is random."""
    curve = comparison.curves["SRR"]
    if curve.redraw_K is None:
        return []
    rows: list[Row] = [
        {"k": int(k), "value": rounded(value)} for k, value in zip(curve.k_K, curve.redraw_K, strict=True)
    ]
    return [alt.Chart(data(rows)).mark_line(strokeWidth=1, color="#111111").encode(x=x, y="value:Q")]


def _caption_and_alt(comparison: Comparison, k_K: Integer, cells: dict[str, Float]) -> tuple[str, str]:
    """Caption and alternative text."""
    change = comparison.change
    metrics = "; ".join(METRIC_WORDS[name] for name in METRIC_NAMES)
    read = f"First plot: number of {unit(comparison)} in each class with k samples per problem ({CELLS})"
    thin = "" if comparison.curves["SRR"].redraw_K is None else "; thin black line: SRR of an unchanged model"
    second = f"Second plot: {metrics}. Bands contain the whole curve with 95% confidence{thin}"
    note = "" if comparison.tally.per is Per.PROBLEM else " O cannot be observed here and is left out."
    rule = "" if change.rule is Rule.SEEN else f" Both plots use the rule seen at every k, not {change.rule.value}."
    chance = f" {text}" if (text := redraw_text(comparison)) else ""
    mislead = "At small k, E and S are mostly sampling noise: one run hits a rare success that the other misses."
    caption = f"{read}. {second}.{note}{rule}{chance} {mislead} {basis(comparison)}"
    ends = "; ".join(
        f"at k = {int(k_K[i]):,} {', '.join(f'{name} {whole(round(float(v[i]), 1))}' for name, v in cells.items())}"
        for i in (0, -1)
    )
    last = ", ".join(f"{name} {share(float(comparison.curves[name].value_K[-1]))}" for name in METRIC_NAMES)
    return caption, f"Classes over k: {ends}. At the largest k {last}."
