"""pass@k of both runs with bands, and where they cross."""

import altair as alt

from offleash.report.figures.figure import Figure, Look, Missing, Subject
from offleash.report.figures.style import DASHES, RUNS


def passes(subject: Subject, look: Look) -> Figure | Missing:
    """pass@k against k."""
    one = subject.one
    names = {"before": one.before.name, "after": one.after.name}
    rows = [
        {"k": int(k), "run": names[side], "value": float(value), "low": float(low), "high": float(high)}
        for side in names
        for k, value, low, high in zip(
            one.curves[side].k_K,
            one.curves[side].value_K,
            one.curves[side].band_low_K,
            one.curves[side].band_high_K,
            strict=True,
        )
    ]
    run = alt.Color("run:N", title=None).scale(domain=list(names.values()), range=[RUNS[side] for side in names])
    dash = alt.StrokeDash("run:N", title=None).scale(domain=list(names.values()), range=[DASHES[s] for s in names])
    k = alt.X("k:Q", title="k, samples a problem").scale(type="log", base=2, nice=False)
    chart = alt.Chart(alt.Data(values=rows)).encode(x=k, color=run)
    band = chart.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="pass@k").scale(domain=[0, 1]), y2="high:Q")
    line = chart.mark_line(point=True).encode(y="value:Q", strokeDash=dash)
    panel = (band + line).properties(width=look.width or "container", height=look.height)
    return Figure("passes", "How often is one of k tries right?", "", "", (panel,))
