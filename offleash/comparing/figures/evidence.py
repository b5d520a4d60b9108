"""Losses and gains by the number of successes they rest on, beside what an unchanged model would show.

A loss on one success is what chance produces; one on twenty is not. The bins are those of both runs together, so that
a bar and its diamond count the same problems.
"""

import altair as alt
import numpy as np

from offleash.comparing.captions import basis, names
from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import GREEDY, samples_text
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import bounds_text
from offleash.data.tally import Per
from offleash.render.figure import (
    CLASSES,
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    legend,
    rounded,
    translucent,
    with_size,
)
from offleash.render.numbers import counted
from offleash.stats.binomials import Float, Integer
from offleash.stats.chance import lost_by_exchange
from offleash.stats.support_classes import AFTER, BEFORE, Rule

TITLE = "How strong is each loss and each gain?"
SIGNIFICANT, NOT_SIGNIFICANT = "significant (FDR 5%)", "may be chance"
CHANCE_LABEL = "unchanged model, resampled"
MIN_BINS = 4  # bins shown, lest a figure of one bar fill the page
MAX_SINGLE_TICKS = 4  # problems of the tallest bar, up to which each is a tick: an axis of counts has no fractions
FACET_TITLES = {"S": "S lost: solved before, never after", "E": "E gained: solved after, never before"}


def evidence(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Problems lost and gained, by the number of successes each rests on."""
    comparison = subject.comparison
    reason = _missing_reason(comparison)
    if reason is not None:
        return MissingFigure("evidence", TITLE, reason)
    rows = {"S": _rows(comparison, "S"), "E": _rows(comparison, "E")}
    bins = max(MIN_BINS, *(1 + int(str(row["bin"])) for part in rows.values() for row in part))
    most = max(_tallest_bar(part) for part in rows.values())
    facets = tuple(_facet(cell, rows[cell], bins, most, look) for cell in ("S", "E"))
    return Figure("evidence", TITLE, *_caption_and_alt(comparison, rows), facets)


def _missing_reason(comparison: Comparison) -> str | None:
    """Why there is no figure; None where there is one."""
    if comparison.tally.per is not Per.PROBLEM:
        return f"{comparison.tally.per.value}s of one problem are not independent; use --per problem"
    if comparison.change.rule is not Rule.SEEN:
        return f"this figure is defined for the rule seen, not {comparison.change.rule.value!r}; use --rule seen"
    if (comparison.tally.until_R > 0).any():
        return "runs that stopped early have no fixed number of samples to test; draw without --until"
    if comparison.evidence.null_reason == GREEDY:
        return GREEDY
    return None


def _rows(comparison: Comparison, cell: str) -> list[Row]:
    """Bins of a class: how many are significant, how many may be chance, and how many an unchanged model would show."""
    side, other = (BEFORE, AFTER) if cell == "S" else (AFTER, BEFORE)
    correct_P2, drawn_P2 = comparison.tally.correct_PR[:, [side, other]], comparison.tally.drawn_PR[:, [side, other]]
    chance_P, total_P = lost_by_exchange(drawn_P2, correct_P2), correct_P2.sum(axis=1)
    # S and E differ only in which run is `side`: both are a success there and none in the other run
    seen_P = (correct_P2[:, 0] > 0) & (correct_P2[:, 1] == 0)
    listed = set(comparison.evidence.lost if cell == "S" else comparison.evidence.gained)
    significant_P = seen_P & np.isin(comparison.tally.problem_P, sorted(listed) or [""])
    expected_B, bin_P = _expected_by_bin(total_P, chance_P), _success_bin(total_P)
    # bins end where neither a bar nor a diamond of at least 0.05 problems is left to see
    last = max(int(bin_P[seen_P].max(initial=0)), int(np.flatnonzero(expected_B >= 0.05).max(initial=0)))
    return [
        {
            "bin": b,
            "successes": _label(b),
            SIGNIFICANT: int((significant_P & (bin_P == b)).sum()),
            NOT_SIGNIFICANT: int((seen_P & ~significant_P & (bin_P == b)).sum()),
            CHANCE_LABEL: rounded(float(expected_B[b]) if b < len(expected_B) else 0.0, 3),
        }
        for b in range(last + 1)
    ]


def _success_bin(total_P: Integer) -> Integer:
    """1, 2, 3-4, 5-8, ...: the power of two at or above a count."""
    return np.ceil(np.log2(np.maximum(total_P, 1))).astype(np.int64)


def _expected_by_bin(total_P: Integer, chance_P: Float) -> Float:
    """Expected numbers by bin of total successes."""
    reached_P = total_P > 0
    return np.bincount(_success_bin(total_P[reached_P]), weights=chance_P[reached_P], minlength=1).astype(np.float64)


def _label(b: int) -> str:
    """The counts of a bin: 1, 2, 3-4, 5-8, ..."""
    return str(2**b) if b < 2 else f"{2 ** (b - 1) + 1}–{2**b}"


def _tallest_bar(rows: list[Row]) -> float:
    """The height of the tallest bar or diamond."""
    return max(max(_value(row, SIGNIFICANT) + _value(row, NOT_SIGNIFICANT), _value(row, CHANCE_LABEL)) for row in rows)


def _value(row: Row, name: str) -> float:
    """A number of a row, whose values are typed as object because charts take any JSON."""
    return float(str(row[name]))


def _facet(cell: str, rows: list[Row], bins: int, most: float, look: FigureFormat) -> Chart:
    """Losses or gains: stacked bars, significant ones below, and a diamond for an unchanged model."""
    bars: list[Row] = [
        {"successes": row["successes"], "kind": kind, "problems": row[kind], "place": index}
        for row in rows
        for index, kind in enumerate((SIGNIFICANT, NOT_SIGNIFICANT))
        if row[kind]
    ]
    order = [_label(b) for b in range(bins)]
    axis = alt.Axis(labelAngle=-40 if bins > 5 else 0, labelOverlap=False, grid=False)
    x = alt.X("successes:O", title="successes of the run that solved it", scale=alt.Scale(domain=order), axis=axis)
    # losses and gains share one scale, so that their bars can be compared across the two facets
    top = alt.Scale(domain=[0, max(1.0, most * 1.06)], nice=True)
    whole = (
        alt.Axis(format="d", tickCount=5)
        if most > MAX_SINGLE_TICKS
        else alt.Axis(format="d", values=list(range(MAX_SINGLE_TICKS + 1)))
    )
    y = alt.Y("problems:Q", title="problems", scale=top, axis=whole)
    kinds = [SIGNIFICANT, NOT_SIGNIFICANT]
    several = legend(kinds, look, 1, symbol="square")
    fills = [CLASSES[cell], translucent(CLASSES[cell], 0.25)]
    fill = alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=fills), legend=several)
    tips = [alt.Tooltip("successes:O"), alt.Tooltip("kind:N", title="evidence"), alt.Tooltip("problems:Q")]
    bar = alt.Chart(data(bars)).mark_bar(stroke=CLASSES[cell], strokeWidth=0.8)
    bar = bar.encode(x=x, y=y, fill=fill, order=alt.Order("place:Q"), tooltip=tips)
    marks: list[Row] = [
        {"successes": row["successes"], "problems": row[CHANCE_LABEL], "what": CHANCE_LABEL} for row in rows
    ]
    shape = alt.Shape(
        "what:N", scale=alt.Scale(domain=[CHANCE_LABEL], range=["diamond"]), legend=legend([CHANCE_LABEL], look, 1)
    )
    chance = alt.Chart(data(marks)).mark_point(
        filled=True, size=30 if look.paper else 70, fill="#111111", stroke="#ffffff", strokeWidth=1, opacity=1
    )
    tips = [alt.Tooltip("successes:O"), alt.Tooltip("problems:Q", title=CHANCE_LABEL)]
    chance_points = chance.encode(x=x, y="problems:Q", shape=shape, tooltip=tips)
    return with_size(layered(bar, chance_points), look, title=FACET_TITLES[cell])


def _caption_and_alt(comparison: Comparison, rows: dict[str, list[Row]]) -> tuple[str, str]:
    """Caption and alternative text."""
    (before, after), null, evidence = names(comparison), comparison.evidence.null, comparison.evidence
    read = (
        f"Problems that only one of the runs solved, by its number of successes in all of its samples "
        f"({samples_text(comparison.tally, BEFORE)} per problem from {before}, "
        f"{samples_text(comparison.tally, AFTER)} from {after}): "
        f"lost problems were solved by {before} and never by {after}, gained ones the other way round"
    )
    significant = "Solid bars: significant losses or gains, of which at most 5% are expected to be false discoveries"
    chance = (
        "Diamonds: the number expected when an unchanged model is resampled, which is the sum over all problems with "
        "that many successes in total of the chance that they all fall in this run"
    )
    bound = f" {text}" if (text := bounds_text(evidence)) else ""
    mislead = "A bar above its diamond does not say which of its problems changed."
    caption = f"{read}. {significant}. {chance}.{bound} {mislead} {basis(comparison)}"
    parts = []
    for cell, word in (("S", "lost"), ("E", "gained")):
        significant_n, other_n = (
            int(sum(_value(row, kind) for row in rows[cell])) for kind in (SIGNIFICANT, NOT_SIGNIFICANT)
        )
        expected = "" if null is None else f"; expected for an unchanged model: {getattr(null, f'expected_{cell}'):.1f}"
        parts.append(
            f"{counted(significant_n + other_n, 'problem')} {word}, {significant_n} of them significant{expected}"
        )
    return caption, f"Bars by number of successes. {'. '.join(parts)}.{bound}"
