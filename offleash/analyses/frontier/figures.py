"""Figure of a frontier: retention against pass@1, a point per model and decoding, and the split budget as a line."""

from collections.abc import Sequence

import altair as alt

from offleash.analyses.frontier.frontier import Frontier
from offleash.analyses.frontier.report import headline
from offleash.analyses.frontier.search import Family, FrontierPoint
from offleash.render.figure import Chart, Figure, FigureFormat, Row, data, layered, legend, rounded, with_size
from offleash.render.numbers import share, short_name
from offleash.stats.intervals import Estimate

FIGURE_FORMAT = FigureFormat(width=620, height=340)
NAME = "frontier"
TITLE = "What does first-try accuracy cost in reach?"
# Name in the legend, colour and shape of each family.
FAMILIES = {
    Family.BASE: ("base", "#4d5a66", "circle"),
    Family.BLEND: ("blend (weight of RL)", "#2383c4", "circle"),
    Family.RL: ("after RL", "#9b5de5", "square"),
    Family.TEMPERATURE: ("RL at another temperature", "#d55e00", "triangle-up"),
    Family.CHECKPOINT: ("checkpoint", "#009e73", "diamond"),
}
HELD_OUT = ("recommended, held-out problems", "#c0408f", "cross")
DOMINATED, SPLIT, RECOMMENDED = "#b5bcc4", "#a89400", "#c0408f"
LABEL_LETTERS = 18


def retention_by_pass_1(frontier: Frontier, look: FigureFormat = FIGURE_FORMAT) -> Figure:
    """Retention against pass@1 with 95% intervals; dominated points are grey, the recommended one has a ring."""
    rows = [_row(point, frontier.search.recommended == point) for point in frontier.search.points]
    confirmation = frontier.search.confirmation
    if confirmation is not None:
        held_out = _estimates(HELD_OUT[0], confirmation.pass_1, confirmation.retention)
        rows.append({**held_out, "label": "", "dominated": False, "recommended": False})
    split: list[Row] = [
        {"x": rounded(point.pass_1), "y": rounded(point.retention.value), "share": point.base_share}
        for point in frontier.search.portfolio
    ]
    domain_x, domain_y = _domains(rows, split)
    x, y = _x(domain_x), _y(domain_y)
    used = [entry for entry in (*FAMILIES.values(), HELD_OUT) if any(row["family"] == entry[0] for row in rows)]
    names, colours, shapes = (list(column) for column in zip(*used, strict=True))
    # one legend: Vega-Lite merges those of colour and shape where their domains and titles are equal
    key = legend(names, look, columns=1 if look.paper else 3)
    colour = alt.Color("family:N", scale=alt.Scale(domain=names, range=colours), legend=key, title=None)
    shape = alt.Shape("family:N", scale=alt.Scale(domain=names, range=shapes), legend=key, title=None)
    layers: list[Chart] = [
        alt.Chart(data([{"y": frontier.floor}])).mark_rule(strokeDash=[5, 4]).encode(y=y),
        *_split_line(split, x, y),
    ]
    for is_dominated in (True, False):
        shown = [row for row in rows if row["dominated"] is is_dominated]
        layers += _points(shown, (domain_x, domain_y), colour, shape, DOMINATED if is_dominated else None)
    layers += _marks(rows, x, y)
    chart = with_size(layered(*layers), look)
    return Figure(NAME, TITLE, _caption(frontier), _alt_text(frontier), (chart,), look)


def _row(point: FrontierPoint, is_recommended: bool) -> Row:
    label = {
        Family.BLEND: f"{point.weight:g}" if point.weight is not None else "",
        Family.TEMPERATURE: f"T {point.temperature:g}" if point.temperature is not None else "",
        Family.CHECKPOINT: short_name(point.label, LABEL_LETTERS),
    }.get(point.family, short_name(point.label, LABEL_LETTERS))
    estimates = _estimates(FAMILIES[point.family][0], point.pass_1, point.retention)
    return {**estimates, "label": label, "dominated": point.dominated, "recommended": is_recommended}


def _estimates(family: str, pass_1: Estimate, retention: Estimate) -> Row:
    x, y = pass_1.interval, retention.interval
    ends = {"left": x.low, "right": x.high, "low": y.low, "high": y.high}
    return {
        "family": family,
        "x": rounded(pass_1.value),
        "y": rounded(retention.value),
        **{name: rounded(end) for name, end in ends.items()},
    }


def _domains(rows: Sequence[Row], split: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Where both axes begin and end: they hold every interval, and neither begins at 0, which the caption says."""

    def domain(fields: tuple[str, str], field: str) -> list[float]:
        numbers = [row[name] for row in rows for name in fields] + [row[field] for row in split]
        values = [float(str(value)) for value in numbers if value is not None]
        span = max(max(values) - min(values), 0.02)
        return [min(values) - 0.04 * span, max(values) + 0.06 * span]

    return domain(("left", "right"), "x"), domain(("low", "high"), "y")


def _x(domain: list[float], field: str = "x:Q") -> alt.X:
    return alt.X(field, title="pass@1", scale=alt.Scale(domain=domain, nice=False, zero=False))


def _y(domain: list[float], field: str = "y:Q") -> alt.Y:
    title = "retention: SRR relative to the base drawn again"
    return alt.Y(field, title=title, scale=alt.Scale(domain=domain, nice=False, zero=False))


def _split_line(split: Sequence[Row], x: alt.X, y: alt.Y) -> list[Chart]:
    if not split:
        return []
    chart = alt.Chart(data(split))
    tips = [alt.Tooltip("share:Q", title="share of the budget for the base"), alt.Tooltip("x:Q"), alt.Tooltip("y:Q")]
    middle = alt.Chart(data([{**split[len(split) // 2], "words": "budget split between base and RL"}]))
    return [
        chart.mark_line(color=SPLIT, strokeDash=[2, 2], strokeWidth=1.5).encode(x=x, y=y, order="share:Q"),
        chart.mark_point(opacity=0, size=90).encode(x=x, y=y, tooltip=tips),
        middle.mark_text(color=SPLIT, dy=-9, fontSize=10).encode(x=x, y=y, text="words:N"),
    ]


def _points(
    rows: Sequence[Row],
    domains: tuple[list[float], list[float]],
    colour: alt.Color,
    shape: alt.Shape,
    grey: str | None,
) -> list[Chart]:
    """Points with intervals in both directions; of one colour where `grey` is given."""
    if not rows:
        return []
    chart, x, y = alt.Chart(data(rows)), _x(domains[0]), _y(domains[1])
    paint = {"color": alt.value(grey) if grey else colour}
    tips = [alt.Tooltip(f"{name}:{kind}") for name, kind in (("family", "N"), ("label", "N"), ("x", "Q"), ("y", "Q"))]
    return [
        chart.mark_rule(opacity=0.45).encode(x=_x(domains[0], "left:Q"), x2="right:Q", y=y, **paint),
        chart.mark_rule(opacity=0.45).encode(x=x, y=_y(domains[1], "low:Q"), y2="high:Q", **paint),
        chart.mark_point(filled=True, size=75, opacity=1).encode(x=x, y=y, shape=shape, tooltip=tips, **paint),
    ]


def _marks(rows: Sequence[Row], x: alt.X, y: alt.Y) -> list[Chart]:
    """The ring of the recommended point, and the labels of all."""
    chosen = [row for row in rows if row["recommended"]]
    ring = alt.Chart(data(chosen)).mark_point(filled=False, size=330, color=RECOMMENDED, strokeWidth=2, opacity=1)
    texts = alt.Chart(data([row for row in rows if row["label"]]))
    words = texts.mark_text(align="left", dx=8, dy=-8, fontSize=10).encode(x=x, y=y, text="label:N")
    return [*([ring.encode(x=x, y=y)] if chosen else []), words]


def _caption(frontier: Frontier) -> str:
    result = frontier.search
    text = (
        f"Retention is SRR divided by that of the base drawn again, at k = {frontier.k:,}; {result.problems:,} "
        f"problems, with 95% intervals over problems. The dashed line is the floor of {frontier.floor:g}. Grey points "
        "are dominated: another has at least their pass@1 and their retention. Neither axis begins at 0."
    )
    if result.portfolio:
        text += (
            " The dotted line splits the k samples between base and RL, from all RL to all base; pass@1 is then "
            "that of a sample drawn from either."
        )
    if result.confirmation is not None:
        text += (
            " The ring marks the recommended point, chosen on these problems and therefore flattered by them; the "
            f"cross is the same point on {result.confirmation.problems:,} problems that did not choose it."
        )
    return text


def _alt_text(frontier: Frontier) -> str:
    points = [
        f"{point.label}: pass@1 {share(point.pass_1.value)}, retention {share(point.retention.value)}"
        for point in frontier.search.points
    ]
    return f"{'; '.join(points)}. {headline(frontier)}"
