"""Several checkpoints of one training: what each reaches, keeps and finds."""

import altair as alt
import numpy as np

from offleash.report.figures.encodings import Row, data, layered, legend, lines, rounded, shortened, sized
from offleash.report.figures.figure import Figure, Look, Missing, Panel, Subject
from offleash.report.figures.style import METRIC_DASHES, METRIC_NAMES, METRIC_SHAPES, METRICS
from offleash.report.figures.wording import METRIC_WORDS, basis, names, share, whole
from offleash.study.compare import Comparison

TITLE = "How does support change over training?"
PASS_COLOURS, PASS_DASHES, PASS_SHAPES = ["#5b7db1", "#9b5de5"], [[5, 3], [1, 0]], ["circle", "square"]
RATIOS = ("SRR", "NDR")


def checkpoints(subject: Subject, look: Look) -> Figure | Missing:
    """pass@1, pass@k, SRR and NDR of every checkpoint, in the order in which they were named."""
    steps = subject.comparisons
    if len(steps) < 2:
        return Missing(
            "checkpoints", TITLE, "there is one run after the first; name several checkpoints, in their order"
        )
    labels = shortened([steps[0].before.name, *(one.after.name for one in steps)], 14 if look.paper else 20)
    panels = (_reach(steps, labels, look), _ratios(steps, labels, look))
    return Figure("checkpoints", TITLE, *_words(subject), panels)


def _reach(steps: tuple[Comparison, ...], labels: list[str], look: Look) -> Panel:
    k = steps[0].change.k
    kinds = ["pass@1", f"pass@{k}"] if k > 1 else ["pass@1"]
    sides = [(steps[0], "before"), *((one, "after") for one in steps)]
    rows: list[Row] = []
    for place, (one, side) in enumerate(sides):
        curve = one.curves[side]
        for kind, budget in zip(kinds, (1, k), strict=False):
            at = np.flatnonzero(curve.k_K == budget)
            if at.size:
                ends = curve.value_K[at[0]], curve.low_K[at[0]], curve.high_K[at[0]]
                rows.append(_row(labels[place], place, kind, *map(float, ends)))
            elif side == "after":
                rows.append(_row(labels[place], place, kind, _reached(one, "E"), np.nan, np.nan))
            else:
                rows.append(_row(labels[place], place, kind, _reached(one, "S"), np.nan, np.nan))
    return _panel(rows, labels, kinds, (PASS_COLOURS, PASS_DASHES, PASS_SHAPES), "share of problems reached", look)


def _reached(one: Comparison, only: str) -> float:
    """Share of problems that a run reaches at the budget of the comparison: P and what it alone reaches."""
    determined = one.change.problems - one.change.undetermined
    return float((one.change.P + getattr(one.change, only)) / determined) if determined > 0 else float("nan")


def _ratios(steps: tuple[Comparison, ...], labels: list[str], look: Look) -> Panel:
    kinds = [METRIC_NAMES[name] for name in RATIOS]
    rows = [
        _row(
            labels[place],
            place,
            METRIC_NAMES[name],
            one.change.value[name],
            one.change.interval[name].low,
            one.change.interval[name].high,
        )
        for name in RATIOS
        for place, one in enumerate(steps, start=1)
    ]
    style = ([METRICS[n] for n in RATIOS], [METRIC_DASHES[n] for n in RATIOS], [METRIC_SHAPES[n] for n in RATIOS])
    return _panel(rows, labels, kinds, style, "ratio", look)


def _row(label: str, place: int, kind: str, value: float, low: float, high: float) -> Row:
    ends = {"low": rounded(low), "high": rounded(high)}
    return {"run": label, "place": place, "kind": kind, "value": rounded(value)} | ends


def _panel(
    rows: list[Row],
    labels: list[str],
    kinds: list[str],
    style: tuple[list[str], list[list[int]], list[str]],
    title: str,
    look: Look,
) -> Panel:
    several = legend(kinds, look)
    colours, shapes = (alt.Scale(domain=kinds, range=part[: len(kinds)]) for part in (style[0], style[2]))
    wide = sum(map(len, labels)) > (30 if look.paper else 60)
    axis = alt.Axis(labelAngle=-35 if wide else 0, labelLimit=110, labelOverlap=True, grid=False, title=None)
    x = alt.X("run:O", axis=axis, scale=alt.Scale(domain=labels))
    y, low = (alt.Y(field, title=title, scale=alt.Scale(domain=[0, 1])) for field in ("value:Q", "low:Q"))
    traces = {kind: (style[0][i], style[1][i]) for i, kind in enumerate(kinds)}
    chart = alt.Chart(data(rows)).encode(x=x, color=alt.Color("kind:N", scale=colours, legend=several))
    bars = chart.mark_rule(strokeWidth=1 if look.paper else 1.5).encode(y=low, y2="high:Q")
    tips = [alt.Tooltip("run:N"), alt.Tooltip("kind:N", title="what"), alt.Tooltip("value:Q")]
    tips += [alt.Tooltip("low:Q", title="95% from"), alt.Tooltip("high:Q", title="95% to")]
    points = chart.mark_point(filled=True, size=30 if look.paper else 60, opacity=1)
    marked = points.encode(y=y, shape=alt.Shape("kind:N", scale=shapes, legend=several), tooltip=tips)
    return sized(layered(*lines(rows, "kind", traces, x, y), bars, marked), look)


def _words(subject: Subject) -> tuple[str, str]:
    steps, together, (before, _) = subject.comparisons, subject.together, names(subject.one)
    k = steps[0].change.k
    read = (
        f"First panel: pass@1 and pass@{k}, the chance that 1 or {k:,} samples hold a right one, of {before} and of "
        f"each checkpoint in the order named. Second panel, each checkpoint against {before}: {METRIC_WORDS['SRR']}; "
        f"{METRIC_WORDS['NDR']}. Bars are 95% intervals"
    )
    union = ""
    if together is not None:
        each = ", ".join(
            f"{cell} {whole(round(value, 1))}" for cell, value in zip("PESO", together.each_k, strict=True)
        )
        union = f" All {together.checkpoints} checkpoints together, with {together.k:,} samples of each: {each}."
    mislead = "The same problems and the same base stand behind all points, so their errors go together."
    said = "; ".join(
        f"{names(one)[1]}: SRR {share(one.change.value['SRR'])}, NDR {share(one.change.value['NDR'])}" for one in steps
    )
    return f"{read}.{union} {mislead} {basis(steps[-1])}", f"{len(steps)} checkpoints against {before}. {said}."
