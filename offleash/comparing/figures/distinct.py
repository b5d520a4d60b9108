"""How many distinct answers k samples give, before and after.

Both runs are rarefied to the same numbers of readable answers: a run with more of them would look more diverse.
"""

import altair as alt
import numpy as np

from offleash.comparing.captions import drawn, names
from offleash.comparing.figures.figure_input import FigureInput, by_run, run_names, run_shape, run_traces
from offleash.render.figure import (
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    budget_axis,
    data,
    layered,
    lines,
    rounded,
    with_size,
)
from offleash.render.numbers import counted, short_number
from offleash.stats.support_classes import AFTER, BEFORE

TITLE = "How many distinct answers do k samples give?"
SIDES = {"before": BEFORE, "after": AFTER}


def distinct(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Mean number of distinct answers against k."""
    rarefaction, comparison = subject.detail.distinct_answers, subject.comparison
    if rarefaction is None:
        return MissingFigure("distinct", TITLE, _reason(subject))
    k_K, mean_KR, _ = rarefaction
    # some room above the curves shows where the dotted line, every answer new, leaves them behind
    labels, top = run_names(comparison, look), max(2.0, float(np.nanmax(mean_KR)) * 1.3)
    rows: list[Row] = [
        {"k": int(k), "run": labels[side], "answers": rounded(float(value))}
        for side, r in SIDES.items()
        for k, value in zip(k_K, mean_KR[:, r], strict=True)
    ]
    x, y = budget_axis(int(k_K[-1]), look), _number_axis(top)
    tips = [alt.Tooltip("run:N"), alt.Tooltip("k:Q"), alt.Tooltip("answers:Q", title="distinct answers")]
    points = alt.Chart(data(rows)).mark_point(filled=True, size=25 if look.paper else 45, opacity=1)
    points_with_tooltips = points.encode(
        x=x, y=y, color=by_run(labels, look), shape=run_shape(labels, look), tooltip=tips
    )
    curves = [
        _all_distinct_line(min(float(k_K[-1]), top)),
        *lines(rows, "run", run_traces(labels, look), x, y),
        points_with_tooltips,
    ]
    facet = with_size(layered(*curves), look)
    return Figure("distinct", TITLE, *_caption_and_alt(subject), (facet,))


def _number_axis(top: float) -> alt.Y:
    """A logarithmic axis of counts, with round ticks at small numbers too."""
    ticks = [1, 2, 3, 5, 10, 20] if top < 30 else [10**power for power in range(8)]
    scale = alt.Scale(type="log", nice=False, domain=[1, top])
    axis = alt.Axis(values=[tick for tick in ticks if tick <= top], format=",d")
    return alt.Y("answers:Q", title="distinct answers (mean)", scale=scale, axis=axis)


def _all_distinct_line(most: float) -> alt.Chart:
    """The line on which every sample has an answer of its own."""
    ends: list[Row] = [{"k": 1, "answers": 1}, {"k": most, "answers": most}]
    line: alt.Chart = alt.Chart(data(ends)).mark_line(strokeDash=[2, 3], strokeWidth=1, color="#808080")
    return line.encode(x="k:Q", y="answers:Q")


def _reason(subject: FigureInput) -> str:
    """Why there is no figure, and what would make it possible."""
    if (subject.comparison.counted.tally.until_R > 0).any():
        return "a run stopped early, so its answers are a biased sample; draw without --until"
    return "the runs record no answers, or too few are readable; compare run folders or logs that record them"


def _caption_and_alt(subject: FigureInput) -> tuple[str, str]:
    """Caption and alternative text."""
    rarefaction, comparison, (before, after) = (
        subject.detail.distinct_answers,
        subject.comparison,
        names(subject.comparison),
    )
    assert rarefaction is not None, "checked by the caller"
    k_K, mean_KR, problems = rarefaction
    most = int(k_K[-1])
    read = (
        "Number of distinct readable answers among k samples of a problem, correct or wrong, averaged over "
        f"{counted(problems, 'problem')} with at least {most:,} readable samples in both runs (rarefied: averaged over "
        "all subsets of k)"
    )
    meaning = "On the dotted line every sample gives a new answer; where a curve flattens, few new answers are left"
    mislead = "Many distinct answers are not many correct ones; unread samples do not count as answers"
    ends = f"at k = {most:,} {before} gives {short_number(mean_KR[-1, 0])} and {after} {short_number(mean_KR[-1, 1])}"
    return f"{read}. {meaning}. {mislead}. {before} before, {after} after, {drawn(comparison)}.", (
        f"Mean number of distinct answers over k from 1 to {most:,}: {ends}."
    )
