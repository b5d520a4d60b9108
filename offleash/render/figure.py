"""What all figures share: formats, axes, legends, and the colours, dashes and shapes of runs and classes.

Names come from logs: they are values of data, never expressions. Neutral parts (text, axes, rules) are coloured by the
page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import cast

import altair as alt
import numpy as np

Chart = alt.Chart | alt.LayerChart


@dataclass(frozen=True)
class FigureFormat:
    """Where a figure is to be seen. A width of None fills the place it is put in."""

    width: int | None = None
    height: int = 300
    paper: bool = False  # must be readable in grey, at the size of a column


PAGE = FigureFormat()
PAPER = FigureFormat(width=236, height=170, paper=True)


@dataclass(frozen=True)
class Figure:
    """A figure: its facets, a title that names the question, how to read it, and what it shows in words."""

    name: str
    title: str
    caption: str
    alt: str
    facets: tuple[Chart, ...]
    look: FigureFormat = PAGE  # the one it was drawn for


@dataclass(frozen=True)
class MissingFigure:
    """A figure that cannot be drawn from these runs; the reason says why, and what would make it possible."""

    name: str
    title: str
    reason: str


Row = dict[str, object]
Trace = tuple[str, list[int]]  # colour and dashes

DIGITS = 5
MAX_LEGEND_CHARACTERS = 44  # characters of all labels of a legend that still fit side by side on a phone


def rounded(value: float, digits: int = DIGITS) -> float | None:
    """A number with few digits, which keeps a page small; None where it is not finite."""
    if not isfinite(value):
        return None
    return 0.0 if value == 0 else round(float(value), digits - 1 - floor(log10(abs(value))))


def data(rows: Sequence[Row]) -> alt.Data:
    """Rows embedded in the figure itself, so that a page needs no other file."""
    return alt.Data(values=list(rows))


def legend(
    labels: Sequence[str], look: FigureFormat, columns: int | None = None, symbol: str = "", label_expr: str = ""
) -> alt.Legend:
    """A legend above the facet, in one column where its labels are wide; `label_expr` never holds names of runs."""
    is_wide = sum(map(len, labels)) > MAX_LEGEND_CHARACTERS
    return alt.Legend(
        symbolType=symbol or alt.Undefined,
        labelExpr=label_expr or alt.Undefined,
        orient="top",
        title=None,
        columns=columns if columns is not None else 1 if is_wide else 0,
        labelLimit=190 if look.paper else 260,
        symbolLimit=40,
        symbolOpacity=1,
    )


def layered(*charts: Chart) -> alt.LayerChart:
    """Charts drawn on top of each other."""
    return cast(alt.LayerChart, alt.layer(*charts))


def lines(rows: Sequence[Row], field: str, traces: Mapping[str, Trace], x: alt.X, y: alt.Y) -> list[Chart]:
    """A line for each value of a field; points explain them, since a dash would tear the symbols of a legend."""
    return [
        alt.Chart(data([row for row in rows if row[field] == name]))
        .mark_line(color=colour, strokeDash=dash)
        .encode(x=x, y=y)
        for name, (colour, dash) in traces.items()
    ]


def bands(
    rows: Sequence[Row], field: str, traces: Mapping[str, Trace], x: alt.X, y: alt.Y, opacity: float = 0.17
) -> list[Chart]:
    """A band from `low`, the field of `y`, to `high` for each value of a field."""
    return [
        alt.Chart(data([row for row in rows if row[field] == name]))
        .mark_area(color=colour, opacity=opacity)
        .encode(x=x, y=y, y2="high:Q")
        for name, (colour, _) in traces.items()
    ]


def budget_axis(max_budget: int, look: FigureFormat, field: str = "k:Q") -> alt.X:
    """The axis of budgets: powers of two, as many as fit."""
    octaves = max(int(max_budget).bit_length() - 1, 0)
    step = max(1, -(-octaves // (5 if look.paper else 8)))
    ticks = [2**power for power in range(0, octaves + 1, step)]
    axis = alt.Axis(
        values=ticks, format="~s" if max_budget > 1 << 20 else "d", labelOverlap=True, labelSeparation=5, grid=True
    )
    scale = alt.Scale(type="log", base=2, domain=[1, max(int(max_budget), 2)], nice=False)
    return alt.X(field, title="k, samples per problem", axis=axis, scale=scale)


def share_axis_end(values: Sequence[float] | np.ndarray) -> float:
    """Where an axis of shares that starts at 0 ends: at 1, or lower where all shares are small."""
    finite = [float(value) for value in np.ravel(values) if isfinite(value)]
    largest = max(finite, default=1.0)
    if largest > 0.5 or largest <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(largest))
    return float(next(step * unit for step in (1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 12) if step * unit >= largest * 1.02))


def with_size(chart: Chart, look: FigureFormat, height: int | None = None, title: str | None = None) -> Chart:
    """A chart at the size of its look; a title where a figure has several facets."""
    width = "container" if look.width is None else look.width
    sized = chart.properties(width=width, height=look.height if height is None else height)
    return sized if title is None else sized.properties(title=alt.TitleParams(title, anchor="start"))


RUNS = {"before": "#7c8a96", "after": "#9b5de5"}
RUNS_ON_PAPER = {"before": "#98a4b0", "after": "#5a189a"}  # lightness differs too, for prints in grey
DASHES = {"before": [5, 3], "after": [1, 0]}
RUN_SHAPES = {"before": "circle", "after": "square"}
# Runs after the first, where there are several: by their order for checkpoints, else as different as eight can be. None
# is so light or so dark that it is lost on the ground of the page.
ORDERED_RUNS = ("#dca000", "#e0632b", "#c0408f", "#7b4fe0")
DIFFERENT_RUNS = ("#9b5de5", "#2383c4", "#009e73", "#d55e00", "#cc5f9d", "#a89400", "#4ab0c9", "#8a5a44")
DIFFERENT_SHAPES = (
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "circle",
    "triangle-right",
    "triangle-left",
)
DIFFERENT_DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 3], [3, 1])
CLASSES = {"P": "#2383c4", "E": "#009e73", "S": "#d55e00", "O": "#8f8f8f", "U": "#b8a200"}
CLASS_NAMES = {"P": "P kept", "E": "E gained", "S": "S lost", "O": "O neither", "U": "undetermined"}
SHAPES = {"P": "circle", "E": "triangle-up", "S": "triangle-down", "O": "square", "U": "diamond"}
FILLS = {"P": 0.85, "E": 0.85, "S": 0.85, "O": 0.35}  # opacity of areas
FILLS_ON_PAPER = {"P": 0.55, "E": 0.22, "S": 1.0, "O": 0.08}
METRICS = {"SRR": "#2383c4", "NDR": "#009e73", "NSCR": "#cc5f9d"}
METRIC_NAMES = {"SRR": "SRR, kept", "NDR": "NDR, new", "NSCR": "NSCR, net"}
METRIC_DASHES = {"SRR": [1, 0], "NDR": [5, 3], "NSCR": [2, 2]}
METRIC_SHAPES = {"SRR": "circle", "NDR": "triangle-up", "NSCR": "diamond"}
MODELS = ["#2383c4", "#d55e00", "#009e73", "#cc5f9d", "#b8a200", "#56b4e9"]
MODEL_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]


def translucent(colour: str, opacity: float) -> str:
    """A colour that lets through what is behind it, on a light page and on a dark one."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def run_colours(look: FigureFormat) -> dict[str, str]:
    """Colours of the runs before and after."""
    return RUNS_ON_PAPER if look.paper else RUNS


def class_fills(look: FigureFormat) -> dict[str, float]:
    """Opacities of areas by class."""
    return FILLS_ON_PAPER if look.paper else FILLS


def ordered_colours(count: int) -> list[str]:
    """Colours of so many runs in their order, from amber to violet."""
    stops = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in ORDERED_RUNS])
    at = np.linspace(0, len(stops) - 1, count) if count > 1 else np.array([len(stops) - 1.0])
    channels = [np.interp(at, np.arange(len(stops)), stops[:, channel]) for channel in range(3)]
    return [f"#{round(red):02x}{round(green):02x}{round(blue):02x}" for red, green, blue in zip(*channels, strict=True)]
