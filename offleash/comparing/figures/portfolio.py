"""Coverage of a budget k that is split between the run before and the run after."""

from typing import Literal, cast

import altair as alt
import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import names
from offleash.render.figure import Figure, FigureFormat, Missing, Row, data, layered, rounded, run_colours, sized
from offleash.render.numbers import counted, share, short_name
from offleash.stats.portfolio import SAME, Portfolio

Align = Literal["left", "center", "right"]

TITLE = "Is a mix of both models better than either?"


def portfolio(subject: FigureInput, look: FigureFormat) -> Figure | Missing:
    """Coverage of k samples against how many of them the run before draws."""
    one = subject.comparison
    found = one.portfolio
    if found is None:
        return Missing("portfolio", TITLE, "a budget is split over problems; use --per problem")
    if found.best is None or found.k < 2:
        return Missing(
            "portfolio",
            TITLE,
            f"{counted(found.problems, 'problem')} {'has' if found.problems == 1 else 'have'} k = {found.k} samples of "
            "both runs, and a budget of one sample cannot be split; draw more",
        )
    rows: list[Row] = [
        {"base": int(base), "coverage": rounded(float(value))}
        for base, value in zip(found.base_S, found.coverage_S, strict=True)
    ]
    low, high = float(found.coverage_S.min()), float(found.coverage_S.max())
    room = max(high - low, 0.02)
    y = alt.Y(
        "coverage:Q",
        title=f"problems reached by {found.k:,} samples, share",
        scale=alt.Scale(domain=[max(0.0, low - 0.15 * room), min(1.0, high + 0.25 * room)], nice=True),
    )
    axis = alt.Axis(values=[round(found.k * part / 4) for part in range(5)], format="d")
    title = "samples by the run before, the rest after"
    x = alt.X("base:Q", title=title, scale=alt.Scale(domain=[0, found.k], nice=False, padding=6), axis=axis)
    line = alt.Chart(data(rows)).mark_line(point=False, color="#5b7db1")
    tips = [alt.Tooltip("base:Q", title="samples before"), alt.Tooltip("coverage:Q")]
    hover = alt.Chart(data(rows)).mark_point(opacity=0, size=120).encode(x=x, y=y, tooltip=tips)
    layers = [line.encode(x=x, y=y), hover, *_marked(one, found, x, y, look)]
    return Figure("portfolio", TITLE, *_words(one, found), (sized(layered(*layers), look),))


def _marked(one: Comparison, found: Portfolio, x: alt.X, y: alt.Y, look: FigureFormat) -> list[alt.Chart]:
    """The two ends, and the best split where it reaches more than they do, each with its name."""
    colours, letters = run_colours(look), 14
    assert found.best is not None, "checked by the caller"
    best = int(np.flatnonzero(found.base_S == found.best)[0])
    # a label stands on the side of its end to which the curve does not go
    fifth = len(found.base_S) // 5
    left, right = (
        -10 if end > beside else 14
        for end, beside in (
            (found.all_rl, float(found.coverage_S[fifth])),
            (found.all_base, float(found.coverage_S[-1 - fifth])),
        )
    )
    if _flat(found) and found.all_rl < 0.5:
        left = right = -10  # a line at the bottom leaves no room below
    places = [
        (0, found.all_rl, f"all {short_name(one.after.name, letters)}", colours["after"], "left", left),
        (found.k, found.all_base, f"all {short_name(one.before.name, letters)}", colours["before"], "right", right),
    ]
    if _mix_reaches_more(found):
        where = "left" if found.best < found.k / 3 else "right" if found.best > 2 * found.k / 3 else "center"
        beside = left if found.best < found.k / 4 else right if found.best > 3 * found.k / 4 else 0
        side = 14 if beside < 0 else -10  # near an end, on the side that its label leaves free
        places.append((found.best, float(found.coverage_S[best]), f"best: {found.best:,}", "#d55e00", where, side))
    marks = []
    for base, value, name, colour, align, up in places:
        chart = alt.Chart(data([{"base": base, "coverage": rounded(value), "name": name}])).encode(x=x, y=y)
        size = 45 if look.paper else 90
        marks.append(chart.mark_point(filled=True, size=size, color=colour, opacity=1, shape="diamond"))
        marks.append(chart.mark_text(align=cast(Align, align), dy=up).encode(text="name:N"))
    return marks


def _mix_reaches_more(found: Portfolio) -> bool:
    return float(found.coverage_S.max()) > max(found.all_base, found.all_rl) + SAME


def _flat(found: Portfolio) -> bool:
    return float(np.ptp(found.coverage_S)) <= SAME


def _words(one: Comparison, found: Portfolio) -> tuple[str, str]:
    before, after = names(one)
    read = (
        f"Share of problems that {found.k:,} samples reach when some of them are drawn by {before} (across) and the "
        f"others by {after}: at the left end all by {after}, at the right end all by {before}"
    )
    best = f"best with {found.best:,} of {found.k:,} by {before}" if _mix_reaches_more(found) else "no mix reaches more"
    gain = f"{found.gain:+.3f} [{found.gain_low:+.3f}, {found.gain_high:+.3f}]"
    mislead = (
        ". The top of the curve flatters the split, which was chosen by looking at it; and the vertical axis does not "
        "start at 0"
    )
    if _flat(found):
        worth, best = "All splits reach the same share, so none is the best", "every split reaches the same share"
        mislead = ""
    elif not np.isfinite(found.gain):
        worth, best = "With one problem the gain of a split cannot be told", f"{best}; one problem cannot tell the gain"
    else:
        worth = (
            f"Chosen on one half of the problems and valued on the other (cross-fitted), the best split gains {gain} "
            "over the better run alone (95% interval)"
        )
        best += f", cross-fitted gain {gain}"
    left = f" {counted(found.left_out, 'problem')} with fewer samples are left out." if found.left_out else ""
    size = counted(found.problems, "problem")
    caption = f"{read}. {worth}{mislead}. {size}, k = {found.k:,}, rule seen.{left}"
    said = (
        f"Coverage {share(found.all_rl)} with all samples by {after}, {share(found.all_base)} with all by {before}; "
        f"{best}."
    )
    return caption, said
