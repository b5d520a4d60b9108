"""Scatter plot of problems: success rate after against before, with strips for zero and the region chance explains."""

from dataclasses import dataclass
from math import log10

import altair as alt
import numpy as np

from offleash.comparing.captions import CELLS, basis, names
from offleash.comparing.evidence import GREEDY
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.per_problem import ProblemDetail
from offleash.data.tally import Per
from offleash.render.figure import (
    CLASS_NAMES,
    CLASSES,
    SHAPES,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    legend,
    rounded,
    with_size,
)
from offleash.render.numbers import counted, short_name, whole
from offleash.stats.binomials import Float
from offleash.stats.chance import LEVEL, chance_region
from offleash.stats.support_classes import AFTER, BEFORE

DRAW_ORDER = ("P", "O", "U", "E", "S")  # what changed is drawn last, above the rest
MAX_LOG_P = 6  # -log10 p at which dots reach their largest size
MANY = 1000  # problems from which less of each text is kept
R2_SEQUENCE = (0.7548776662466927, 0.5698402909980532)  # even spread in the plane (Roberts' R2 sequence)
STEPS = 60  # places at which the edge of the chance region is worked out


@dataclass(frozen=True)
class Frame:
    """The common axis of both rates: a strip for zero, a rule, then decades up to 1."""

    start: float
    zero: float
    edge: float
    least: float
    end: float

    @property
    def decades(self) -> float:
        """Powers of ten between the smallest rate shown and 1."""
        return -log10(self.least)


def plane(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Success rate after against success rate before, one dot per problem."""
    detail = subject.detail
    frame = _frame(detail)
    layers = [*_region(subject, frame), *_rules(frame), _dots(detail, frame, look)]
    facet = with_size(layered(*layers), look, look.width or 440 if look.paper else 440)
    return Figure("plane", "Which problems were gained, and which were lost?", *_caption_and_alt(subject), (facet,))


def _frame(detail: ProblemDetail) -> Frame:
    """The axis for these rates: it reaches down to the smallest positive rate, and below it has a strip for zeros.

    The strip scales with the number of decades, so that it looks the same whatever was drawn.
    """
    positive = detail.rate_PR[detail.rate_PR > 0]
    least = min(float(positive.min(initial=1.0)), 1 / float(detail.tally.drawn_PR.max(initial=2)), 0.5)
    decades = -log10(least)
    zero_levels = [least * 10 ** -(share * decades + 0.02) for share in (0.04, 0.10, 0.17)]
    return Frame(
        start=zero_levels[2], zero=zero_levels[1], edge=zero_levels[0], least=least, end=10 ** (0.035 * decades)
    )


def _axis(frame: Frame, title: str) -> tuple[alt.Axis, alt.Scale, str]:
    """Ticks at decades, and one labelled 0 in the strip, where a logarithmic axis cannot have it."""
    step = max(1, round(frame.decades / 4))
    ticks = [frame.zero, *(10.0**-power for power in range(0, int(frame.decades + 1e-9) + 1, step))]
    words = f"datum.value < {frame.edge!r} ? '0' : format(datum.value, '~g')"
    axis = alt.Axis(values=ticks, labelExpr=words, labelOverlap=True, gridOpacity=0.6)
    return axis, alt.Scale(type="log", domain=[frame.start, frame.end], nice=False), title


def _x(frame: Frame, field: str = "x:Q") -> alt.X:
    """The axis of rates before."""
    axis, scale, title = _axis(frame, "success rate before")
    return alt.X(field, axis=axis, scale=scale, title=title)


def _y(frame: Frame, field: str = "y:Q") -> alt.Y:
    """The axis of rates after, of the same length: the diagonal must be where both rates are equal."""
    axis, scale, title = _axis(frame, "success rate after")
    return alt.Y(field, axis=axis, scale=scale, title=title)


def _dots(detail: ProblemDetail, frame: Frame, look: FigureFormat) -> Chart:
    """The dots; columns are kept whole and taken apart by the figure, which halves the page."""
    present = [name for name in CLASSES if (detail.class_P == name).any()]
    labels = [f"{CLASS_NAMES[name]} {int((detail.class_P == name).sum()):,}" for name in present]
    columns = _columns(detail, frame)
    several = legend(labels, look, 2, label_expr=f"{dict(zip(present, labels, strict=True))!r}[datum.label]")
    # dots shrink with the number of problems, between what can still be clicked and what hides its neighbours
    size = float(np.clip(6000 / max(len(detail.tally), 1), 11, 36)) * (0.4 if look.paper else 1)
    tips = {"id": "problem", "asked": "question", "part": "benchmark", "name": "class"}
    tips |= {"old": "correct before", "new": "correct after", "p": "p (rate changed)"}
    dots = (
        alt.Chart(data([columns]))
        .transform_flatten(list(columns))
        .transform_calculate(name=f"{CLASS_NAMES!r}[datum.cls]")
        .mark_point(filled=True, cursor="pointer", opacity=0.65 if len(detail.tally) < MANY else 0.5)
        .encode(
            x=_x(frame),
            y=_y(frame),
            color=alt.Color(
                "cls:N", scale=alt.Scale(domain=present, range=[CLASSES[c] for c in present]), legend=several
            ),
            shape=alt.Shape(
                "cls:N", scale=alt.Scale(domain=present, range=[SHAPES[c] for c in present]), legend=several
            ),
            size=alt.Size("sure:Q", scale=alt.Scale(domain=[0, MAX_LOG_P], range=[size, 4 * size]), legend=None),
            tooltip=[alt.Tooltip(f"{field}:N", title=title) for field, title in tips.items()],
        )
    )
    named: alt.Chart = dots.properties(name="dots")
    return named


def _columns(detail: ProblemDetail, frame: Frame) -> Row:
    """The dots as columns: place, class, evidence and what a tooltip shows.

    The keys are short because a page repeats them; the script of the page reads `row` to open a problem.
    """
    order = np.argsort([DRAW_ORDER.index(name) for name in detail.class_P.tolist()], kind="stable")
    x_P, y_P = (_jittered(detail.rate_PR[:, r], R2_SEQUENCE[r], frame) for r in (BEFORE, AFTER))
    characters = 100 if len(order) <= MANY else 60  # questions are the largest part of a page with many problems
    n_PR, c_PR, p_P = detail.tally.drawn_PR, detail.tally.correct_PR, detail.p_P
    size_P = np.where(np.isnan(p_P), 1.0, np.minimum(-np.log10(np.maximum(p_P, 1e-300)), MAX_LOG_P))
    questions, benchmarks = detail.problems["question"], detail.problems["benchmark"]
    return {
        "row": order.tolist(),
        "x": [rounded(x_P[i], 4) for i in order],
        "y": [rounded(y_P[i], 4) for i in order],
        "cls": [str(detail.class_P[i]) for i in order],
        "sure": [rounded(size_P[i], 2) for i in order],
        "id": [short_name(str(detail.problems["problem"][int(i)]), 60) for i in order],
        "asked": [_question_start(questions[int(i)], characters) for i in order],
        "part": [short_name(benchmarks[int(i)] or "", 40) for i in order],
        "old": [f"{c_PR[i, BEFORE]} of {n_PR[i, BEFORE]}" for i in order],
        "new": [f"{c_PR[i, AFTER]} of {n_PR[i, AFTER]}" for i in order],
        "p": ["not tested" if np.isnan(p_P[i]) else f"{p_P[i]:.2g}" for i in order],
    }


def _question_start(question: str | None, characters: int) -> str:
    """The beginning of a question, on one line and printable."""
    text = " ".join((question or "")[: 4 * characters].split())
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return plain if len(plain) <= characters else f"{plain[: characters - 1]}…"


def _jittered(rate_P: Float, step: float, frame: Frame) -> Float:
    """Where dots stand: moved a little so that equal ones are seen, zeros over the width of their strip."""
    spread_P = (0.5 + np.arange(len(rate_P)) * step) % 1 - 0.5
    jitter_width = log10(frame.edge / frame.start) * 0.8
    log_P = np.where(rate_P > 0, np.log10(np.maximum(rate_P, frame.least)), log10(frame.zero))
    return np.asarray(10 ** (log_P + spread_P * np.where(rate_P > 0, 0.016 * frame.decades, jitter_width)))


def _rules(frame: Frame) -> list[Chart]:
    """The diagonal of equal rates, and the rules behind which zeros stand."""
    ends: list[Row] = [{"x": frame.least, "y": frame.least}, {"x": 1, "y": 1}]
    diagonal = alt.Chart(data(ends)).mark_line(strokeDash=[4, 3], strokeWidth=1, color="#808080")
    edge = alt.Chart(data([{"x": frame.edge, "y": frame.edge}])).mark_rule(strokeWidth=0.8)
    return [diagonal.encode(x=_x(frame), y=_y(frame)), edge.encode(x=_x(frame)), edge.encode(y=_y(frame))]


def _region(subject: FigureInput, frame: Frame) -> list[Chart]:
    """What chance explains, for the number of samples that problems typically have."""
    drawn = _median_samples(subject)
    if drawn is None:
        return []
    before, after = drawn
    c_C = np.unique(np.rint(np.append(0, np.geomspace(1, before, STEPS))).astype(np.int64))
    low_C, high_C = chance_region(drawn, c_C)
    rows: list[Row] = []
    for c, low, high in zip(c_C.tolist(), low_C.tolist(), high_C.tolist(), strict=True):
        # an edge lies half a success beyond the last pair of counts inside, so that their dots do too
        floor = max((low - 0.5) / after, frame.start) if low > 0 else frame.start
        ends: Row = {"low": rounded(floor), "high": rounded(min((high + 0.5) / after, 1.0))}
        if c <= 1 or (low > 0 and rows[-1]["low"] == rounded(frame.start)):  # a step, not a slope, out of the strips
            step = frame.edge if c == 1 else (c - 0.5) / before if c else frame.start
            rows += [{**rows[-1], "x": rounded(step)}] if rows else []
            rows.append({"x": rounded(step), **ends})
        if c:
            rows.append({"x": rounded(c / before), **ends})
    area = alt.Chart(data(rows)).mark_area(opacity=0.16, color="#808080", clip=True)
    return [area.encode(x=_x(frame), y=_y(frame, "low:Q"), y2="high:Q")]


def _median_samples(subject: FigureInput) -> tuple[int, int] | None:
    """The median number of samples before and after, for which the chance region is drawn.

    None for runs that stopped early, which have no fixed number, and for greedy ones, which have no chance.
    """
    if (subject.detail.tally.until_R > 0).any() or subject.comparison.evidence.null_reason == GREEDY:
        return None
    before, after = (int(n) for n in np.median(subject.detail.tally.drawn_PR, axis=0))
    return (before, after) if before >= 1 and after >= 1 else None


def _caption_and_alt(subject: FigureInput) -> tuple[str, str]:
    """Caption and alternative text."""
    detail, comparison, (before, after) = subject.detail, subject.comparison, names(subject.comparison)
    drawn, number = _median_samples(subject), {name: int((detail.class_P == name).sum()) for name in CLASSES}
    read = (
        f"Each dot is a problem, with its success rate under {before} on the x axis and under {after} on the y axis, "
        "both logarithmic; the strips at 0 hold problems without a correct sample. Above the dashed diagonal the "
        "rate rose"
    )
    if drawn is None:
        greedy = comparison.evidence.null_reason == GREEDY
        runs = "Greedy runs" if greedy else "Runs that stopped early"
        evidence = f"{runs} are not tested here, so all dots have one size and no chance region is shaded"
    else:
        evidence = (
            "Larger dots have smaller p-values (Fisher's exact test, from 1 down to one in a million). Shaded: changes "
            f"that are not significant at {LEVEL:.0%} with {drawn[0]:,} samples before and {drawn[1]:,} after, the "
            "medians here; of many problems some lie outside by chance alone"
        )
    mislead = "Dots are jittered. A rate of 0 means that no correct sample was drawn, not that there is none"
    classes = f"Classes, from all samples of each run: {CELLS}"
    caption = f"{read}. {classes}. {evidence}. {mislead}. {basis(comparison, Per.PROBLEM)}"
    class_counts = ", ".join(f"{whole(number[name])} {CLASS_NAMES[name]}" for name in CLASSES if number[name])
    rose = int((detail.rate_PR[:, AFTER] > detail.rate_PR[:, BEFORE]).sum())
    fallen_count = int((detail.rate_PR[:, AFTER] < detail.rate_PR[:, BEFORE]).sum())
    change_text = f"the share of correct samples is higher after on {rose:,} and lower on {fallen_count:,}"
    return caption, f"Scatter plot of {counted(len(detail.tally), 'problem')}: {class_counts}; {change_text}."
