"""The page of a watched training run: it reloads itself, carries no script, and shows texts of the log as text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offleash.render.page import style, template
from offleash.training.watch.report import (
    COLUMNS,
    LISTED,
    WatchedTraining,
    base_cells,
    lost_problem_cells,
    title,
    window_cells,
)
from offleash.training.watch.windows import WindowStats

WIDTH, HEIGHT = 460, 200  # of a chart
LEFT, RIGHT, TOP, BOTTOM = 44, 448, 28, 172  # of its axes
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
Value = Callable[[WindowStats], float | None]


@dataclass(frozen=True)
class ChartTick:
    at: float
    label: str


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart, in pieces where values are unknown."""

    name: str
    colour: str
    dashes: str
    key: int  # where its name begins
    pieces: tuple[str, ...]  # points of polylines
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StepChart:
    """A chart over the steps."""

    title: str
    alt: str
    rates: tuple[ChartTick, ...]
    steps: tuple[ChartTick, ...]
    lines: tuple[ChartLine, ...]


def watch_page(look: WatchedTraining, seconds: float | None) -> str:
    """The page of a look; it reloads after so many seconds, or not at all."""
    return template("watch.html.j2").render(
        style=style(),
        policy=POLICY,
        seconds=None if seconds is None else max(round(seconds), 1),
        title=title(look),
        look=look,
        columns=COLUMNS,
        charts=step_charts(look),
        windows=[
            (f"{window.first}-{window.last}", f"{window.samples:,}", *window_cells(window, look.reads_answers))
            for window in reversed(look.windows)
        ],
        against=[base_cells(row) for row in reversed(look.against)],
        lost=[lost_problem_cells(loss) for loss in look.lost[:LISTED]],
        hidden=max(len(look.lost) - LISTED, 0),
        axes={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
    )


def step_charts(look: WatchedTraining) -> list[StepChart]:
    """The charts of a look, without those of which nothing is known."""
    drawn = [
        _step_chart(look, "Solved", (("pass@1", _value_getter("pass_1")), ("pass@G", _value_getter("pass_G")))),
        _step_chart(
            look,
            "Groups without signal",
            (("all wrong", _value_getter("all_wrong")), ("all right", _value_getter("all_right"))),
        ),
        _step_chart(look, "Answer entropy (nats)", (("answers of a group", _value_getter("answer_entropy")),)),
        _step_chart(
            look,
            "Samples",
            (
                ("unread", _value_getter("unread") if look.reads_answers else lambda _: None),
                ("cut off", _value_getter("truncated")),
                ("repeats", _value_getter("repeated")),
            ),
        ),
    ]
    return [chart for chart in drawn if chart is not None]


def _value_getter(name: str) -> Value:
    return lambda window: getattr(window, name)


COLOURS = (("var(--P)", ""), ("var(--S)", "6 3"), ("var(--after)", "2 3"))


def _step_chart(look: WatchedTraining, title_text: str, series: Sequence[tuple[str, Value]]) -> StepChart | None:
    known = [(name, [value(window) for window in look.windows]) for name, value in series]
    known = [(name, values) for name, values in known if any(value is not None for value in values)]
    if not known:
        return None
    max_value = max(value for _, values in known for value in values if value is not None)
    axis_top = 1.0 if all(name != "answers of a group" for name, _ in known) else max(0.5, max_value * 1.1)
    first, last = look.windows[0].first, look.windows[-1].last

    def x_of(window: WindowStats) -> float:
        middle_step = (window.first + window.last) / 2
        return LEFT + (RIGHT - LEFT) * ((middle_step - first) / (last - first) if last > first else 0.5)

    def y_of(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / axis_top

    lines, key = [], LEFT
    for (name, values), (colour, dashes) in zip(known, COLOURS, strict=False):
        points = [
            None if value is None else (round(x_of(window), 1), round(y_of(value), 1))
            for window, value in zip(look.windows, values, strict=True)
        ]
        lines.append(
            ChartLine(name, colour, dashes, key, _line_segments(points), tuple(point for point in points if point))
        )
        key += 40 + 7 * len(name)
    newest = ", ".join(f"{name} {values[-1]:.2f}" for name, values in known if values[-1] is not None)
    tick_values = (0.0, axis_top / 2, axis_top)
    return StepChart(
        title_text,
        f"{title_text}, steps {first} to {last}; newest window: {newest or 'unknown'}",
        tuple(
            ChartTick(y_of(tick_value), f"{tick_value:.0%}" if axis_top == 1.0 else f"{tick_value:.1f}")
            for tick_value in tick_values
        ),
        tuple(ChartTick(x, str(step)) for x, step in ((LEFT, first), (RIGHT, last)) if first < last or x == LEFT),
        tuple(lines),
    )


def _line_segments(points: Sequence[tuple[float, float] | None]) -> tuple[str, ...]:
    """Polylines between the unknown points."""
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{point[0]},{point[1]}")
    return tuple(" ".join(piece) for piece in pieces if len(piece) > 1)
