"""The page of a watched training: it reloads itself, carries no script, and shows texts of the log as text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offleash.render.page import style, template
from offleash.training.watch.report import COLUMNS, LISTED, WatchedTraining, base_cells, lost_cells, title, window_cells
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
        lost=[lost_cells(loss) for loss in look.lost[:LISTED]],
        hidden=max(len(look.lost) - LISTED, 0),
        axes={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
    )


def step_charts(look: WatchedTraining) -> list[StepChart]:
    """The charts of a look, without those of which nothing is known."""
    drawn = [
        _step_chart(look, "Solved", (("pass@1", _of("pass_1")), ("pass@G", _of("pass_G")))),
        _step_chart(look, "Groups without signal", (("all wrong", _of("all_wrong")), ("all right", _of("all_right")))),
        _step_chart(look, "Answer entropy (nats)", (("answers of a group", _of("answer_entropy")),)),
        _step_chart(
            look,
            "Samples",
            (
                ("unread", _of("unread") if look.reads_answers else lambda _: None),
                ("cut off", _of("truncated")),
                ("repeats", _of("repeated")),
            ),
        ),
    ]
    return [drawing for drawing in drawn if drawing is not None]


def _of(name: str) -> Value:
    return lambda window: getattr(window, name)


COLOURS = (("var(--P)", ""), ("var(--S)", "6 3"), ("var(--after)", "2 3"))


def _step_chart(look: WatchedTraining, title_text: str, series: Sequence[tuple[str, Value]]) -> StepChart | None:
    known = [(name, [value(window) for window in look.windows]) for name, value in series]
    known = [(name, values) for name, values in known if any(value is not None for value in values)]
    if not known:
        return None
    largest = max(value for _, values in known for value in values if value is not None)
    top = 1.0 if all(name != "answers of a group" for name, _ in known) else max(0.5, largest * 1.1)
    first, last = look.windows[0].first, look.windows[-1].last

    def across(window: WindowStats) -> float:
        middle = (window.first + window.last) / 2
        return LEFT + (RIGHT - LEFT) * ((middle - first) / (last - first) if last > first else 0.5)

    def up(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / top

    lines, key = [], LEFT
    for (name, values), (colour, dashes) in zip(known, COLOURS, strict=False):
        points = [
            None if value is None else (round(across(window), 1), round(up(value), 1))
            for window, value in zip(look.windows, values, strict=True)
        ]
        lines.append(ChartLine(name, colour, dashes, key, _pieces(points), tuple(point for point in points if point)))
        key += 40 + 7 * len(name)
    newest = ", ".join(f"{name} {values[-1]:.2f}" for name, values in known if values[-1] is not None)
    levels = (0.0, top / 2, top)
    return StepChart(
        title_text,
        f"{title_text}, steps {first} to {last}; newest window: {newest or 'unknown'}",
        tuple(ChartTick(up(level), f"{level:.0%}" if top == 1.0 else f"{level:.1f}") for level in levels),
        tuple(ChartTick(at, str(step)) for at, step in ((LEFT, first), (RIGHT, last)) if first < last or at == LEFT),
        tuple(lines),
    )


def _pieces(points: Sequence[tuple[float, float] | None]) -> tuple[str, ...]:
    """Polylines between the unknown points."""
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{point[0]},{point[1]}")
    return tuple(" ".join(piece) for piece in pieces if len(piece) > 1)
