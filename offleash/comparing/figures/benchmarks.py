"""Forest plot of the support change of each benchmark, of all problems pooled, and on average."""

from math import isfinite

import altair as alt
import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import METRIC_WORDS, basis, between, names, redraw_rates
from offleash.render.figure import (
    METRIC_SHAPES,
    METRICS,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    rounded,
    with_size,
)
from offleash.render.numbers import short_names
from offleash.stats.intervals import Interval

TITLE = "Is the change the same on every benchmark?"
MOST = 40  # benchmarks shown, those with most problems; the caption says how many are left out
SHOWN = ("NSCR", "SRR", "NDR")
METRIC_TITLES = {"NSCR": "NSCR, net change", "SRR": "SRR, kept", "NDR": "NDR, new"}
# label, values, intervals, values of an unchanged model, and whether the line is a summary
Line = tuple[str, dict[str, float], dict[str, Interval], dict[str, float], bool]
# summaries below the benchmarks: pooled counts weigh by problems, the mean weighs all alike
POOLED_LABEL, MEAN_LABEL = "all problems", "mean of benchmarks"


def benchmarks(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """NSCR, SRR and NDR of every benchmark, of all problems pooled, and the mean."""
    comparison = subject.comparison
    if len(comparison.benchmarks) < 2:
        name = comparison.benchmarks[0].name if comparison.benchmarks else ""
        no_figure_reason = (
            f"all problems belong to one benchmark ({name})" if name else "the problems have no benchmark name"
        )
        return MissingFigure(
            "benchmarks",
            TITLE,
            f"{no_figure_reason}; compare runs on several benchmarks, or logs that record the benchmark",
        )
    lines = _lines(comparison, look)
    facets = tuple(_facet(metric, lines, look) for metric in SHOWN)
    return Figure("benchmarks", TITLE, *_caption_and_alt(comparison), facets)


def _lines(comparison: Comparison, look: FigureFormat) -> list[Line]:
    """One line per benchmark by name, then all problems pooled, then the mean."""
    # the largest benchmarks are shown, in the order of their names so that they are easy to find
    kept = sorted(sorted(comparison.benchmarks, key=lambda part: -part.problems)[:MOST], key=lambda part: part.name)
    labels = short_names([part.name for part in kept], 16)
    lines = [
        (f"{label} ({part.problems:,})", part.change.value, part.change.interval, redraw_rates(part.change), False)
        for label, part in zip(labels, kept, strict=True)
    ]
    problems = len(np.unique(comparison.tally.problem_P))
    pooled, macro = comparison.change, comparison.macro
    lines.append((f"{POOLED_LABEL} ({problems:,})", pooled.value, pooled.interval, redraw_rates(pooled), True))
    if macro is not None:
        lines.append((MEAN_LABEL, macro.value, macro.interval, macro.redraw, True))
    return lines


def _facet(metric: str, lines: list[Line], look: FigureFormat) -> Chart:
    """One metric: a dot with its interval per benchmark, diamonds for the summaries.

    The axis always contains 0, so that a change and its absence look different at a glance.
    """
    rows: list[Row] = [
        {
            "benchmark": label,
            "value": rounded(value[metric]),
            "low": rounded(interval[metric].low),
            "high": rounded(interval[metric].high),
            "same": rounded(same.get(metric, float("nan"))),
            "whole": whole,
        }
        for label, value, interval, same, whole in lines
    ]
    ends = [float(str(row[end])) for row in rows for end in ("low", "high") if row[end] is not None]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    margin = 0.04 * max(high - low, 0.05)
    domain = [max(-1.0, low - margin) if low < 0 else 0.0, min(1.0, high + margin)]
    order = [label for label, *_ in lines]
    axis = alt.Axis(labelLimit=130 if look.paper else 170, grid=False, title=None)
    y = alt.Y("benchmark:N", axis=axis, scale=alt.Scale(domain=order))
    x = alt.Scale(domain=domain, nice=True)
    chart = alt.Chart(data(rows)).encode(y=y)
    colour = METRICS[metric]
    bars = chart.mark_rule(strokeWidth=1.2 if look.paper else 2, color=colour).encode(
        x=alt.X("low:Q", title=METRIC_TITLES[metric], scale=x, axis=alt.Axis(tickCount=4, labelFlush=False)),
        x2="high:Q",
    )
    size = alt.condition("datum.whole", alt.value(70 if look.paper else 130), alt.value(30 if look.paper else 60))
    shape = alt.condition("datum.whole", alt.value("diamond"), alt.value(METRIC_SHAPES["SRR"]))
    tips = [alt.Tooltip("benchmark:N"), alt.Tooltip("value:Q", title=metric)]
    tips += [alt.Tooltip("low:Q", title="95% low"), alt.Tooltip("high:Q", title="95% high")]
    tips += [alt.Tooltip("same:Q", title="unchanged model")]
    points = chart.mark_point(filled=True, opacity=1, color=colour).encode(
        x="value:Q", size=size, shape=shape, tooltip=tips
    )
    ticks = chart.mark_tick(color="#111111", thickness=1 if look.paper else 2, size=9 if look.paper else 15)
    # SRR and NDR cannot be negative, so only NSCR has a line at no change
    layers: list[Chart] = [bars, ticks.encode(x="same:Q", tooltip=tips), points]
    if metric == "NSCR":
        zero = alt.Chart(data([{"value": 0}])).mark_rule(strokeWidth=0.8, strokeDash=[3, 3])
        layers.insert(0, zero.encode(x="value:Q"))
    return with_size(layered(*layers), look, (12 if look.paper else 22) * len(lines))


def _caption_and_alt(comparison: Comparison) -> tuple[str, str]:
    """Caption and alternative text."""
    before, after = names(comparison)
    left = max(len(comparison.benchmarks) - MOST, 0)
    metrics = "; ".join(METRIC_WORDS[name] for name in SHOWN)
    read = (
        f"Each row is a benchmark with its number of problems; dots are estimates, bars 95% intervals. Plots: {metrics}"
    )
    summary = "Diamonds: all problems pooled, where large benchmarks weigh more, and the unweighted mean of benchmarks"
    left_out_note = f" The {left} smallest benchmarks are left out." if left else ""
    mislead = (
        "With many benchmarks some intervals miss the true value by chance; small benchmarks have wide intervals; "
        "where there is no dot, the value is undefined"
    )
    same = "Black ticks: what an unchanged model drawn twice would show"
    caption = f"{read}. {same}. {summary}.{left_out_note} {mislead}. {basis(comparison)}"
    value = {
        part.name: part.change.value["NSCR"] for part in comparison.benchmarks if isfinite(part.change.value["NSCR"])
    }
    pooled = between(comparison.change.value["NSCR"], comparison.change.interval["NSCR"])
    ends = ""
    if value:
        least, most = min(value, key=lambda name: value[name]), max(value, key=lambda name: value[name])
        ends = f" Lowest {least or '(unnamed)'} {value[least]:+.3f}, highest {most or '(unnamed)'} {value[most]:+.3f}."
    return (
        caption,
        f"{len(comparison.benchmarks)} benchmarks, {before} to {after}: net change {pooled} over all problems.{ends}",
    )
