"""Figures of the theory: each mechanism over training, all of them side by side, the world, and the tail-miss lemma."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import numpy as np

from offleash.analyses.theory.mechanisms import CELLS, EPSILON, SEEDS, LeashWorld, Mechanism, TheoryReport, mean
from offleash.analyses.theory.report import METHOD_NAMES, PASS_K, leash_text
from offleash.analyses.theory.statements.reweighting import simulate_tail_miss, tail_miss
from offleash.render.export import write_figure
from offleash.render.figure import (
    Chart,
    Figure,
    FigureFormat,
    Row,
    Trace,
    bands,
    budget_axis,
    data,
    layered,
    legend,
    lines,
    rounded,
    with_size,
)

FIGURE_FORMAT = FigureFormat(width=720, height=260)
MEASURES: dict[str, Trace] = {
    "pass@1": ("#7c8a96", [5, 3]),
    PASS_K: ("#9b5de5", [1, 0]),
    "problems kept": ("#2383c4", [6, 2]),
    "answers kept": ("#d55e00", [2, 2]),
}
CURVES: dict[str, tuple[str, Trace]] = {
    "base": ("base", ("#7c8a96", [5, 3])),
    "trained": ("trained (GRPO)", ("#9b5de5", [1, 0])),
    "tilt": ("tilt with the same pass@1", ("#009e73", [2, 2])),
}
RATE, MASS_COLOURS = 0.3, {0.001: "#2383c4", 0.01: "#9b5de5", 0.05: "#d55e00"}  # of the tail-miss figure: p, and masses
GROUPS = 20_000
PLOT_EVERY = 2  # of the moments along training, every second is drawn


def write_figures(report: TheoryReport, folder: Path) -> list[Path]:
    """Write every figure as SVG into the folder; returns where they are."""
    drawn = [
        *(mechanism_figure(name, [cell for cell in report.mechanisms if cell.name == name]) for name in CELLS),
        table_figure(report.mechanisms),
        world_figure(report.leash),
        tail_miss_figure(report.seed),
    ]
    paths = []
    for figure in drawn:
        path = folder / f"{figure.name}.svg"
        write_figure(figure, path, "--figures")
        paths.append(path)
    return paths


def mechanism_figure(name: str, cells: Sequence[Mechanism]) -> Figure:
    """One mechanism along training, a facet for each method: means over seeds with 95% bands."""
    facets = tuple(_training_chart(cell) for cell in cells)
    title = f"What does training do to support? Mechanism: {name}"
    caption = (
        f"Means over {SEEDS} worlds with 95% bands. Problems and answers kept: the share of those above epsilon = "
        f"{EPSILON:.3g} in the base that still are."
    )
    ends = "; ".join(
        f"{METHOD_NAMES[cell.method]}: {PASS_K} {cell.before[PASS_K].value:.3f} to {cell.after[PASS_K].value:.3f}, "
        f"answers kept {cell.after['answers kept'].value:.2f}"
        for cell in cells
    )
    return Figure(f"mechanism-{name.replace(' ', '-')}", title, caption, ends, facets, FIGURE_FORMAT)


def table_figure(cells: Sequence[Mechanism]) -> Figure:
    """Change of pass@k in every cell, with its interval."""
    order = list(CELLS)
    facets = []
    for method in dict.fromkeys(cell.method for cell in cells):
        rows: list[Row] = [
            {
                "cell": cell.name,
                "value": rounded(interval.value),
                "low": rounded(interval.low),
                "high": rounded(interval.high),
            }
            for cell in cells
            if cell.method == method
            for interval in [cell.change[PASS_K]]
        ]
        y = alt.Y("cell:N", sort=order, title=None, axis=alt.Axis(labelLimit=200))
        ends = [cell.change[PASS_K] for cell in cells]
        reach = [min(interval.low for interval in ends) - 0.01, max(interval.high for interval in ends) + 0.01]
        x = alt.X("value:Q", title=f"change in {PASS_K}", scale=alt.Scale(domain=reach, nice=False))
        chart = alt.Chart(data(rows))
        low = alt.X("low:Q", title=f"change in {PASS_K}", scale=alt.Scale(domain=reach, nice=False))
        zero = alt.Chart(data([{"value": 0}])).mark_rule(strokeDash=[3, 3]).encode(x=x)
        spans = chart.mark_rule(strokeWidth=2, color="#9b5de5").encode(x=low, x2="high:Q", y=y)
        points = chart.mark_point(filled=True, size=70, color="#9b5de5", opacity=1).encode(x=x, y=y)
        facets.append(with_size(layered(zero, spans, points), FIGURE_FORMAT, 150, METHOD_NAMES[method]))
    caption = f"Change in {PASS_K} by training, mean over {SEEDS} worlds with 95% interval."
    changes_text = "; ".join(f"{cell.method} {cell.name} {cell.change[PASS_K].value:+.3f}" for cell in cells)
    return Figure("mechanisms", "Which mechanism shrinks support?", caption, changes_text, tuple(facets), FIGURE_FORMAT)


def world_figure(leash: LeashWorld) -> Figure:
    """Exact pass@k of the base, of the trained policy and of the tilt in one world."""
    rows: list[Row] = [
        {"k": k, "who": CURVES[name][0], "value": rounded(float(value))}
        for name, curve in leash.curves.items()
        for k, value in zip(leash.k_K, curve, strict=True)
    ]
    y = alt.Y("value:Q", title="pass@k, exact", scale=alt.Scale(domain=[0, 1.02], nice=False))
    traces = dict(CURVES.values())
    facet = with_size(layered(*_series(rows, traces, budget_axis(leash.k_K[-1], FIGURE_FORMAT), y)), FIGURE_FORMAT, 300)
    title = "Can pass@1 rise while pass@k falls, and could the tilt have done it?"
    return Figure(
        "world", title, "Exact pass@k in one world; no sampling noise.", leash_text(leash), (facet,), FIGURE_FORMAT
    )


def tail_miss_figure(seed: int) -> Figure:
    """How often a group learns without the rare solution, by its size: the formula, and simulated groups as points."""
    sizes = [2**power for power in range(1, 11)]
    rng = np.random.default_rng([seed, 11])
    group_sizes = sorted({round(2 ** (power / 8)) for power in range(8, 81)})
    rows: list[Row] = [
        {"k": size, "who": f"mass {tau:g}", "value": rounded(tail_miss(tau, RATE, size))}
        for tau in MASS_COLOURS
        for size in group_sizes
    ]
    points: list[Row] = [
        {"k": size, "who": f"mass {tau:g}", "value": rounded(simulate_tail_miss(tau, RATE, size, GROUPS, rng))}
        for tau in MASS_COLOURS
        for size in sizes
    ]
    y = alt.Y("value:Q", title="active groups that miss it", scale=alt.Scale(domain=[0, 1], nice=False))
    axis = alt.Axis(values=sizes, format="d")
    scale = alt.Scale(type="log", base=2, domain=[sizes[0], sizes[-1]], nice=False)
    x = alt.X("k:Q", title="N, rollouts in a group", axis=axis, scale=scale)
    traces: dict[str, Trace] = {f"mass {tau:g}": (colour, [1, 0]) for tau, colour in MASS_COLOURS.items()}
    facet = with_size(layered(*_series(rows, traces, x, y, points)), FIGURE_FORMAT, 300)
    title = "How often does a group learn without drawing the rare solution?"
    caption = f"Success rate {RATE:g}; lines: the formula, points: {GROUPS:,} simulated groups each."
    peak = "; ".join(f"mass {tau:g}: {tail_miss(tau, RATE, 8):.2f} at N = 8" for tau in MASS_COLOURS)
    return Figure("tail-miss", title, caption, peak, (facet,), FIGURE_FORMAT)


def _training_chart(cell: Mechanism) -> Chart:
    rows: list[Row] = []
    for name in MEASURES:
        for index, step in list(enumerate(cell.step_S))[::PLOT_EVERY]:
            average = mean(cell.training_curves[name][:, index])
            low, high = max(average.low, 0.0), min(average.high, 1.0)
            ends = {"low": rounded(low), "high": rounded(high)}
            rows.append({"k": int(step), "who": name, "value": rounded(average.value)} | ends)
    x = alt.X("k:Q", title="step", scale=alt.Scale(nice=False))
    scale = alt.Scale(domain=[0, 1], nice=False)
    y, low_y = (alt.Y(field, title="share", scale=scale) for field in ("value:Q", "low:Q"))
    error_bar_rows = [row for row in rows if int(str(row["k"])) % 80 == 0]
    shown = [*bands(rows, "who", MEASURES, x, low_y), *_series(rows, MEASURES, x, y, error_bar_rows)]
    return with_size(layered(*shown), FIGURE_FORMAT, title=METHOD_NAMES[cell.method])


def _series(
    rows: Sequence[Row], traces: Mapping[str, Trace], x: alt.X, y: alt.Y, points: Sequence[Row] | None = None
) -> list[Chart]:
    """Lines by the field `who`, with points that carry the legend."""
    names = list(traces)
    scale = alt.Scale(domain=names, range=[colour for colour, _ in traces.values()])
    colour = alt.Color(
        "who:N", scale=scale, legend=legend(names, FIGURE_FORMAT, columns=2 if len(names) > 3 else 0), title=None
    )
    marks = alt.Chart(data(rows if points is None else points)).mark_point(filled=True, size=40, opacity=1)
    return [*lines(rows, "who", traces, x, y), marks.encode(x=x, y=y, color=colour)]
