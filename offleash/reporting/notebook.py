"""Results as a notebook shows them: a small piece of HTML, with pass@k as inline SVG and without scripts.

Notebooks are shared and trusted by their readers, so nothing in it may run; Jinja escapes every name.
"""

from dataclasses import dataclass
from functools import singledispatch
from math import log2

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.sentences import finding, redraw_rates, warnings
from offleash.data.tally import Per
from offleash.render.numbers import short_names, whole
from offleash.render.page import template
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.curves import Curve, PassCurve

TITLES = {"P": "P kept", "E": "E gained", "S": "S lost", "O": "O neither"}
# those of the page (render/figure.py, which imports altair)
RUN_COLOURS = ("#7c8a96", "#9b5de5")
COLOURS = {"P": "#2383c4", "E": "#009e73", "S": "#d55e00", "O": "#8f8f8f"}


@singledispatch
def notebook_html(result: object) -> str:
    """A result as HTML for a notebook."""
    raise TypeError(f"{type(result).__name__} cannot be shown in a notebook")


@notebook_html.register
def _(result: Comparison) -> str:
    """A comparison: finding, tiles and rates, what an unchanged model would show, pass@k, and warnings."""
    return _change(result.change, finding(result), warnings(result), _chart(result))


@notebook_html.register
def _(result: SupportChange) -> str:
    """A support change alone."""
    return _change(result, "", [])


@notebook_html.register
def _(result: PassCurve) -> str:
    """pass@k as a table with a row per k and a column per run."""
    k_K = next(iter(result.runs.values())).k_K
    return template("curve.html.j2").render(
        runs=list(result.runs),
        rows=[
            [
                f"{int(k):,}",
                *(f"{c.value_K[i]:.4f} [{c.low_K[i]:.3f}, {c.high_K[i]:.3f}]" for c in result.runs.values()),
            ]
            for i, k in enumerate(k_K)
        ],
    )


@dataclass(frozen=True)
class ClassTile:
    """One class of problems."""

    title: str
    value: str
    chance: str  # what an unchanged model would show
    colour: str


def _change(change: SupportChange, sentence: str, cautions: list[str], chart: "Chart | None" = None) -> str:
    """A support change: tiles and rates, with what an unchanged model would show and cautions where they are known."""
    expected = {} if change.redraw is None else {"E": change.redraw.E, "S": change.redraw.S}
    same = redraw_rates(change)
    chance = {name: f"{same[name]:.3f} if unchanged" if name in same else "" for name in METRICS} if same else {}
    tiles = [
        ClassTile(
            title,
            whole(float(getattr(change, name))),
            f"{expected[name]:.1f} by chance" if name in expected else "",
            COLOURS[name],
        )
        for name, title in TITLES.items()
    ]
    return template("notebook.html.j2").render(
        change=change,
        finding=sentence,
        tiles=tiles,
        rates=_rates(change),
        chance=chance,
        warnings=cautions,
        chart=chart,
    )


def _rates(change: SupportChange) -> dict[str, str]:
    """The rates with their intervals, by name; a dash where one is undefined."""

    def rate(name: str) -> str:
        value, ends = change.value[name], change.interval[name]
        return "–" if np.isnan(value) else f"{value:.3f} [{ends.low:.3f}, {ends.high:.3f}]"

    return {name: rate(name) for name in METRICS}


# pass@k of both runs as SVG: drawn by hand, since a chart of Altair would need scripts.


@dataclass(frozen=True)
class Tick:
    """A label of an axis and where it stands."""

    at: float
    label: str


@dataclass(frozen=True)
class Line:
    """One run: its curve, its interval and its place in the legend."""

    name: str
    colour: str
    dashes: str  # so that the runs differ in grayscale too
    points: str
    band: str
    key: float


@dataclass(frozen=True)
class Chart:
    """A chart in pixels."""

    alt: str
    rates: list[Tick]
    budgets: list[Tick]
    lines: list[Line]
    width: int = 560
    height: int = 240
    left: int = 44
    right: int = 548
    top: int = 24
    bottom: int = 200


MAX_BUDGET_TICKS = 8


def _chart(comparison: Comparison) -> Chart | None:
    """pass@k with pointwise 95% intervals against k, by powers of two; None per answer and for a single budget."""
    curves = [comparison.curves[side] for side in ("before", "after")]
    k_K = curves[0].k_K.tolist()
    if comparison.tally.per is not Per.PROBLEM or len(k_K) < 2:
        return None
    frame = Chart("", [], [], [])
    max_rate = max(float(np.nanmax(curve.high_K)) for curve in curves)
    top = next(rate for rate in (0.05, 0.1, 0.2, 0.5, 1.0) if max_rate <= rate or rate == 1.0)

    def x(k: float) -> float:
        return round(frame.left + (frame.right - frame.left) * log2(k) / log2(k_K[-1]), 1)

    def y(rate: float) -> float:
        return round(frame.bottom - (frame.bottom - frame.top) * min(max(rate / top, 0.0), 1.0), 1)

    def line(curve: Curve, name: str, colour: str, dashes: str, key: float) -> Line:
        def points(value_K: np.ndarray) -> list[str]:
            return [f"{x(k)},{y(float(rate))}" for k, rate in zip(k_K, value_K, strict=True)]

        band = [*points(curve.low_K), *reversed(points(curve.high_K))]
        return Line(name, colour, dashes, " ".join(points(curve.value_K)), " ".join(band), key)

    step = -(-len(k_K) // MAX_BUDGET_TICKS)
    names = short_names([comparison.change.before, comparison.change.after], 24)
    ends = " and ".join(
        f"{name} from {curve.value_K[0]:.3f} to {curve.value_K[-1]:.3f}"
        for name, curve in zip(names, curves, strict=True)
    )
    return Chart(
        alt=f"pass@k of {ends}, from k = 1 to {k_K[-1]:,}.",
        rates=[Tick(y(top * share), f"{top * share:.3g}") for share in (0, 0.25, 0.5, 0.75, 1)],
        budgets=[Tick(x(k), f"{k:,}") for k in k_K[::step]],
        lines=[
            line(curves[0], names[0], RUN_COLOURS[0], "5 3", 120),
            line(curves[1], names[1], RUN_COLOURS[1], "", 340),
        ],
    )
