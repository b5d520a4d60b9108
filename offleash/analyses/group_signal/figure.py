"""Figure of a plan: the share of groups without signal against the size of a group."""

import altair as alt

from offleash.analyses.group_signal.plan import TrainingPlan
from offleash.render.figure import Figure, FigureFormat, Row, bands, data, layered, lines, rounded, with_size

FIGURE_FORMAT = FigureFormat(width=460, height=240)
SERIES = {"no signal": ("#1b2026", []), "all wrong": ("#b24a00", [6, 3]), "all right": ("#00639c", [2, 3])}


def signal_by_group_size(plan: TrainingPlan, look: FigureFormat = FIGURE_FORMAT) -> Figure:
    """All wrong, all right and both against the group size, with the interval of both and the size planned for."""
    rows: list[Row] = []
    for signal in plan.signals:
        share_of = {"no signal": signal.none, "all wrong": signal.all_wrong, "all right": signal.all_right}
        rows += [{"group": signal.size, "share": rounded(share), "of": name} for name, share in share_of.items()]
    interval_rows: list[Row] = [
        {"group": signal.size, "low": rounded(signal.low), "high": rounded(signal.high), "of": "no signal"}
        for signal in plan.signals
    ]
    sizes = [signal.size for signal in plan.signals]
    x = alt.X(
        "group:Q",
        scale=alt.Scale(type="log", base=2, domain=[min(sizes), max(sizes)]),
        axis=alt.Axis(title="samples per group", values=sizes, format="d"),
    )
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(title="share of groups", format="%")
    traces = {name: (colour, dashes) for name, (colour, dashes) in SERIES.items()}
    colour = alt.Color(
        "of:N",
        scale=alt.Scale(domain=list(SERIES), range=[colour for colour, _ in SERIES.values()]),
        legend=alt.Legend(title=None, orient="top"),
    )
    y = alt.Y("share:Q", scale=scale, axis=axis)
    points = alt.Chart(data(rows)).mark_point(filled=True, size=30).encode(x=x, y=y, color=colour)
    planned = alt.Chart(data([{"group": plan.group}])).mark_rule(strokeDash=[3, 3], color="#888888").encode(x=x)
    band_y = alt.Y("low:Q", scale=scale, axis=axis)
    chart = layered(*bands(interval_rows, "of", traces, x, band_y), planned, *lines(rows, "of", traces, x, y), points)
    planned_signal = next(signal for signal in plan.signals if signal.size == plan.group)
    caption = (
        f"Expected share of groups without signal, from {plan.samples} base samples of each of {len(plan.problems)} "
        "problems. Band: 95%, over all distributions of rates that fit the counts."
    )
    shares = f"{planned_signal.all_wrong:.0%} all wrong, {planned_signal.all_right:.0%} all right"
    text = f"At {plan.group} samples per group, {planned_signal.none:.0%} have no signal: {shares}."
    return Figure("groups", "How many groups would teach nothing?", caption, text, (with_size(chart, look),), look)
