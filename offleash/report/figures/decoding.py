"""Support against temperature (or top-p) for the models of a sweep, with the match at equal token entropy."""

from collections.abc import Mapping, Sequence
from typing import Literal

import altair as alt

from offleash.report.figures.encodings import (
    Row,
    bands,
    by_run,
    data,
    layered,
    lines,
    rounded,
    run_shape,
    run_traces,
    share_top,
    shortened,
    sized,
)
from offleash.report.figures.figure import Figure, Look, Panel
from offleash.report.figures.style import run_colours
from offleash.report.figures.wording import share
from offleash.study.matching import Matched
from offleash.study.sweep import Swept
from offleash.study.sweep_grid import way
from offleash.study.sweep_points import Estimate, Point

LOOK = Look(width=620, height=230)
SIDES = ("before", "after")
MOST = 4  # top-p that get a panel of their own
NAME = "decoding"
TITLE = "What does the decoding do to what is reached?"


def support_by_decoding(swept: Swept, look: Look = LOOK) -> Figure:
    """pass@1 and pass@k against temperature; a panel for each top-p where there are several, pass@k then."""
    labels = shortened([member.label for member in swept.members], 30)
    names = dict(zip(SIDES, labels, strict=False))
    shown = {member.label: name for member, name in zip(swept.members, labels, strict=True)}
    top_ps = list(dict.fromkeys(how.top_p for how in swept.decodings))
    warm = len({how.temperature for how in swept.decodings}) > 1
    panels: list[Panel] = []
    if warm and len(top_ps) > 1:
        for top_p in top_ps[:MOST]:
            some = [point for point in swept.points if point.decoding.top_p == top_p]
            found = [one for one in swept.matched if one.decoding.top_p == top_p]
            panels.append(_panel(some, found, shown, names, look, "temperature", swept.k, f"top-p {top_p:g}"))
    else:
        over = "top_p" if len(top_ps) > 1 else "temperature"
        for k in (1, swept.k) if swept.k > 1 else (1,):
            found = list(swept.matched) if over == "temperature" else []
            panels.append(_panel(swept.points, found, shown, names, look, over, k, f"pass@{k}"))
    return Figure(NAME, TITLE, _caption(swept, bool(top_ps[MOST:])), _alt(swept), tuple(panels), look)


def _panel(
    points: Sequence[Point],
    matched: Sequence[Matched],
    shown: Mapping[str, str],
    names: Mapping[str, str],
    look: Look,
    over: str,
    k: int,
    title: str,
) -> Panel:
    rows = [_row(shown[point.label], getattr(point.decoding, over), _value(point, k)) for point in points]
    extra = [_match(one, names, k) for one in matched]
    top = share_top([float(str(row["high"])) for row in [*rows, *extra]])
    axis_x = "temperature" if over == "temperature" else "top-p"
    x = alt.X("x:Q", title=axis_x, scale=alt.Scale(zero=False, nice=False, padding=12))
    scale = alt.Scale(domain=[0, top], nice=False)
    y, low = (alt.Y(field, title=f"pass@{k}", scale=scale) for field in ("value:Q", "low:Q"))
    traces = run_traces(names, look)
    tips = [alt.Tooltip(field) for field in ("run:N", "x:Q", "value:Q", "low:Q", "high:Q")]
    marks = alt.Chart(data(rows)).mark_point(filled=True, size=55, opacity=1)
    marked = marks.encode(x=x, y=y, color=by_run(names, look), shape=run_shape(names, look), tooltip=tips)
    layers: list[Panel] = [*bands(rows, "run", traces, x, low), *lines(rows, "run", traces, x, y)]
    if len(points) == len({point.label for point in points}):  # one decoding: a band of no width is no band
        layers = [alt.Chart(data(rows)).mark_rule(strokeWidth=1.5).encode(x=x, y=low, y2="high:Q")]
    if extra:
        colour = run_colours(look)["after"]
        there = alt.Chart(data(extra))
        low_x, high_x = (pick(float(str(row["x"])) for row in [*rows, *extra]) for pick in (min, max))
        side = 1 if 2 * matched[0].temperature < low_x + high_x else -1  # where there is room for words
        align: Literal["left", "right"] = "left" if side == 1 else "right"
        layers.append(there.mark_rule(color=colour, strokeDash=[2, 2]).encode(x=x, y=low, y2="high:Q"))
        layers.append(
            there.mark_point(filled=False, opacity=1, size=110, shape="diamond", color=colour, strokeWidth=2).encode(
                x=x, y=y, tooltip=tips
            )
        )
        layers.append(
            there.mark_text(dx=side * 9, align=align, fontSize=10, color=colour, text="equal entropy").encode(x=x, y=y)
        )
    return sized(layered(*layers, marked), look, title=title)


def _value(point: Point, k: int) -> Estimate:
    return point.pass_1 if k == 1 else point.pass_k


def _row(name: str, x: float, found: Estimate) -> Row:
    ends = found.interval
    return {"run": name, "x": x, "value": rounded(found.value), "low": rounded(ends.low), "high": rounded(ends.high)}


def _match(one: Matched, names: Mapping[str, str], k: int) -> Row:
    """The model after at the temperature of equal entropy, from the curve of its comparison."""
    curve, place = one.matched.curves["after"], 0 if k == 1 else -1
    ends = {"low": rounded(float(curve.low_K[place])), "high": rounded(float(curve.high_K[place]))}
    return {"run": names["after"], "x": one.temperature, "value": rounded(float(curve.value_K[place])), **ends}


def _caption(swept: Swept, more: bool) -> str:
    what = (
        f"The share of {swept.problems:,} problems of which at least one of k samples is right, by decoding; k = "
        f"{swept.k:,} samples of each problem. Bands are 95% intervals at each decoding (problems resampled), not of "
        "whole curves."
    )
    extra = (
        " The open diamond is the model after RL at the temperature at which its entropy a token equals that of the "
        "model before."
        if swept.matched
        else ""
    )
    left = f" Only the first {MOST} top-p are drawn." if more else ""
    caution = (
        " The best decoding of a curve is chosen by the same problems that show it, so its height is flattered; two "
        "bands may overlap although the difference is sure, since both models answer the same problems."
    )
    return f"{what}{extra}{left}{caution}"


def _alt(swept: Swept) -> str:
    told = []
    for label in dict.fromkeys(point.label for point in swept.points):
        values = [f"{share(point.pass_k.value)} at {way(point.decoding)}" for point in swept.of(label)]
        told.append(f"pass@{swept.k} of {label}: {', '.join(values)}")
    told += [
        f"at equal entropy (temperature {one.temperature:g}): {share(float(one.matched.curves['after'].value_K[-1]))}"
        for one in swept.matched
    ]
    return ". ".join(told) + "."
