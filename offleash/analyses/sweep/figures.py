"""Figure of a sweep: pass@1 and pass@k against temperature (or top-p), with the match at equal token entropy."""

from collections.abc import Mapping, Sequence

import altair as alt

from offleash.analyses.sweep.match import EntropyMatch
from offleash.analyses.sweep.points import SweepPoint
from offleash.analyses.sweep.runs import decoding_label
from offleash.analyses.sweep.sweep import Sweep
from offleash.comparing.figures.figure_input import by_run, run_shape, run_traces
from offleash.render.figure import (
    Chart,
    Figure,
    FigureFormat,
    Row,
    bands,
    data,
    layered,
    lines,
    rounded,
    run_colours,
    share_axis_end,
    with_size,
)
from offleash.render.numbers import share, short_names
from offleash.stats.intervals import Estimate

FIGURE_FORMAT = FigureFormat(width=620, height=230)
SIDES = ("before", "after")
TOP_PS_SHOWN = 4  # top-p that get a facet of their own
LABEL_LIMIT, OVERLAP_DISTANCE = (
    0.85,
    0.18,
)  # shares of an axis: above LABEL_LIMIT a label does not fit, labels nearer than OVERLAP_DISTANCE overlap
OFFSET_PIXELS = 4  # pixels by which two marks at the same temperature are moved apart
NAME = "decoding"
TITLE = "How does decoding change what is reached?"


def support_by_decoding(sweep: Sweep, look: FigureFormat = FIGURE_FORMAT) -> Figure:
    """pass@1 and pass@k against temperature; a facet for each top-p where there are several, pass@k then."""
    labels = short_names([member.label for member in sweep.members], 30)
    names = dict(zip(SIDES, labels, strict=False))
    names_by_label = {member.label: name for member, name in zip(sweep.members, labels, strict=True)}
    top_ps = list(dict.fromkeys(decoding.top_p for decoding in sweep.decodings))
    warm = len({decoding.temperature for decoding in sweep.decodings}) > 1
    facets: list[Chart] = []
    if warm and len(top_ps) > 1:
        for top_p in top_ps[:TOP_PS_SHOWN]:
            points = [point for point in sweep.points if point.decoding.top_p == top_p]
            matches = [match for match in sweep.matched if match.decoding.top_p == top_p]
            facets.append(
                _facet(points, matches, names_by_label, names, look, "temperature", sweep.k, f"top-p {top_p:g}")
            )
    else:
        axis_field = "top_p" if len(top_ps) > 1 else "temperature"
        for k in (1, sweep.k) if sweep.k > 1 else (1,):
            matches = list(sweep.matched) if axis_field == "temperature" else []
            facets.append(_facet(sweep.points, matches, names_by_label, names, look, axis_field, k, f"pass@{k}"))
    return Figure(NAME, TITLE, _caption(sweep, bool(top_ps[TOP_PS_SHOWN:])), _alt_text(sweep), tuple(facets), look)


def _facet(
    points: Sequence[SweepPoint],
    matched: Sequence[EntropyMatch],
    names_by_label: Mapping[str, str],
    names: Mapping[str, str],
    look: FigureFormat,
    axis_field: str,
    k: int,
    title: str,
) -> Chart:
    rows = [
        _row(names_by_label[point.label], getattr(point.decoding, axis_field), _value(point, k)) for point in points
    ]
    extra = [_match(match, names, k) for match in matched]
    _drop_overlapping_labels(extra, [float(str(row["x"])) for row in [*rows, *extra]])
    top = share_axis_end([float(str(row["high"])) for row in [*rows, *extra]])
    axis_x = "temperature" if axis_field == "temperature" else "top-p"
    x = alt.X("x:Q", title=axis_x, scale=alt.Scale(zero=False, nice=False, padding=30 if extra else 12))
    scale = alt.Scale(domain=[0, top], nice=False)
    y, low = (alt.Y(field, title=f"pass@{k}", scale=scale) for field in ("value:Q", "low:Q"))
    traces = run_traces(names, look)
    tips = [alt.Tooltip(field) for field in ("run:N", "x:Q", "value:Q", "low:Q", "high:Q")]
    alone = len(points) == len({point.label for point in points})  # one decoding: a band of no width is no band
    layers: list[Chart] = [] if alone else [*bands(rows, "run", traces, x, low), *lines(rows, "run", traces, x, y)]
    diamond_charts: list[Chart] = []
    for number, row in enumerate(rows) if alone else [(0, None)]:  # side by side where both have the same place
        own, shift = (
            alt.Chart(data(rows if row is None else [row])),
            OFFSET_PIXELS * (2 * number - 1) if len(rows) == 2 and alone else 0,
        )
        if alone:
            rule = own.mark_rule(strokeWidth=1.5, xOffset=shift)
            layers.append(rule.encode(x=x, y=low, y2="high:Q", color=by_run(names, look)))
        marks = own.mark_point(filled=True, size=55, opacity=1, xOffset=shift)
        diamond_charts.append(
            marks.encode(x=x, y=y, color=by_run(names, look), shape=run_shape(names, look), tooltip=tips)
        )
    if extra:
        layers += _diamonds(extra, top, x, y, low, tips, look)
    return with_size(layered(*layers, *diamond_charts), look, title=title)


def _diamonds(
    extra: list[Row], top: float, x: alt.X, y: alt.Y, low: alt.Y, tips: list[alt.Tooltip], look: FigureFormat
) -> list[Chart]:
    """Matches with their intervals; words above the interval, or below it where there is no room."""
    colour, chart = run_colours(look)["after"], alt.Chart(data(extra))
    diamond = chart.mark_point(filled=False, opacity=1, size=110, shape="diamond", color=colour, strokeWidth=2)
    layers: list[Chart] = [
        chart.mark_rule(color=colour, strokeDash=[2, 2]).encode(x=x, y=low, y2="high:Q"),
        diamond.encode(x=x, y=y, tooltip=tips),
    ]
    high = [row for row in extra if float(str(row["high"])) > LABEL_LIMIT * top]
    # a label has two lines and is anchored at the first: placed above, it needs room for the second
    for rows, field, label_offset in (([row for row in extra if row not in high], "high:Q", -19), (high, "low:Q", 12)):
        if rows:
            words = alt.Chart(data(rows)).mark_text(dy=label_offset, fontSize=9, color=colour, lineBreak="|")
            layers.append(words.encode(x=x, y=alt.Y(field), text="words:N"))
    return layers


def _value(point: SweepPoint, k: int) -> Estimate:
    return point.pass_1 if k == 1 else point.pass_k


def _row(name: str, x: float, rate: Estimate) -> Row:
    ends = rate.interval
    return {"run": name, "x": x, "value": rounded(rate.value), "low": rounded(ends.low), "high": rounded(ends.high)}


def _match(match: EntropyMatch, names: Mapping[str, str], k: int) -> Row:
    """The model after at the temperature of equal entropy, from the curve of its comparison."""
    curve, index = match.matched.curves["after"], 0 if k == 1 else -1
    ends = {"low": rounded(float(curve.low_K[index])), "high": rounded(float(curve.high_K[index]))}
    position = {"x": match.temperature, "value": rounded(float(curve.value_K[index])), **ends}
    return {"run": names["after"], **position, "words": f"entropy|as at {match.decoding.temperature:g}"}


def _drop_overlapping_labels(extra: list[Row], x: Sequence[float]) -> None:
    """Leave out a label that would overlap that of the match before it; its diamond says enough."""
    reach, last = OVERLAP_DISTANCE * (max(x) - min(x)), float("-inf")
    for row in sorted(extra, key=lambda row: float(str(row["x"]))):
        position = float(str(row["x"]))
        if position - last < reach:
            row["words"] = ""
        else:
            last = position


def _caption(sweep: Sweep, more: bool) -> str:
    text = (
        f"The share of {sweep.problems:,} problems with at least one correct sample among k, by decoding; k = "
        f"{sweep.k:,} samples per problem. Bands are pointwise 95% intervals (problems resampled)."
    )
    extra = (
        " An open diamond is the model after RL at the temperature at which its entropy per token equals that of the "
        "model before at the temperature written beside it."
        if sweep.matched
        else ""
    )
    left = f" Only the first {TOP_PS_SHOWN} values of top-p are shown." if more else ""
    caution = (
        " The peak of a curve is picked and measured on the same problems, so it is biased upwards; two bands may "
        "overlap although the difference is significant, since both models answer the same problems."
    )
    return f"{text}{extra}{left}{caution}"


def _alt_text(sweep: Sweep) -> str:
    sentences = []
    for label in dict.fromkeys(point.label for point in sweep.points):
        values = [f"{share(point.pass_k.value)} at {decoding_label(point.decoding)}" for point in sweep.of(label)]
        sentences.append(f"pass@{sweep.k} of {label}: {', '.join(values)}")
    sentences += [
        f"at equal entropy (temperature {match.temperature:g}): "
        f"{share(float(match.matched.curves['after'].value_K[-1]))}"
        for match in sweep.matched
    ]
    return ". ".join(sentences) + "."
