"""Figures of entropy: answers against tokens for each problem, before and after; and token entropy by position.

Each returns a figure with its caption and a sentence for screen readers, or `Missing` with the reason and next step.
"""

import altair as alt
import numpy as np

from offleash.analyses.entropy.entropy import answer_entropy_PR, entropies_of, token_entropy_PR
from offleash.analyses.entropy.positions import Bins
from offleash.analyses.entropy.report import directions_text, positions_text
from offleash.comparing.captions import drawn, names
from offleash.comparing.figures.figure_input import FigureInput, by_run, run_names, run_shape, run_traces
from offleash.data.scores import END, START
from offleash.render.figure import (
    Chart,
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    bands,
    data,
    layered,
    lines,
    rounded,
    with_size,
)
from offleash.render.numbers import counted, short_number
from offleash.stats.binomials import Float
from offleash.stats.support_classes import AFTER, BEFORE

ENTROPY_TITLE = "Did diversity collapse: in tokens, or in answers?"
MAX_ARROWS = 80  # problems up to which a line joins each one's two points: more lines would hide the points
SIDES = {"before": BEFORE, "after": AFTER}  # columns of arrays by run
ANSWER, TOKEN = "answer entropy (nats)", "token entropy (nats per token)"
SCORE_COMMAND = "offleash score RUN --model hf:MODEL"


def entropy(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Entropy of answers against entropy of tokens; where only one is known, its values before against after."""
    detail = subject.detail
    answer_PR, token_PR = _finite_or_none(answer_entropy_PR(detail)), _finite_or_none(token_entropy_PR(detail))
    if answer_PR is not None and token_PR is not None:
        # Only problems that know both entropies in both runs: a point needs two coordinates, and a line two points.
        finite_P = ~np.isnan(np.concatenate([answer_PR, token_PR], axis=1)).any(axis=1)
        if finite_P.any():
            facet = _scatter(subject, token_PR[finite_P], answer_PR[finite_P], look)
            return Figure(
                "entropy", ENTROPY_TITLE, *_entropy_caption(subject, token_PR[finite_P], answer_PR[finite_P]), (facet,)
            )
    known = (ANSWER, answer_PR) if answer_PR is not None else (TOKEN, token_PR)
    if known[1] is None:
        return MissingFigure("entropy", ENTROPY_TITLE, _why_no_entropy(subject))
    facet = _before_after(known[1], known[0], look)
    return Figure("entropy", ENTROPY_TITLE, *_before_after_caption(subject, known[1], known[0]), (facet,))


def _finite_or_none(value_PR: Float | None) -> Float | None:
    """The values where some problem has one in both runs, else None: there is nothing to draw."""
    return None if value_PR is None or np.isnan(value_PR).any(axis=1).all() else value_PR


def _why_no_entropy(subject: FigureInput) -> str:
    """The reason and the next step where neither entropy is known for both runs."""
    if (subject.comparison.counted.tally.until_R > 0).any():
        return "a run was drawn with --until, which selects samples by their outcome; draw without it"
    return (
        "neither answers nor token entropies are known for both runs; compare logs that record answers, or draw with "
        f"offleash draw; {SCORE_COMMAND} adds token entropies"
    )


def _scatter(subject: FigureInput, token_PR: Float, answer_PR: Float, look: FigureFormat) -> Chart:
    """Points of both runs, a line between the two points of each problem, and the means."""
    labels, arrows = run_names(subject.comparison, look), len(token_PR) <= MAX_ARROWS
    rows: list[Row] = [
        {"run": labels[side], "token": rounded(float(token)), "answer": rounded(float(answer))}
        for side, r in SIDES.items()
        for token, answer in zip(token_PR[:, r], answer_PR[:, r], strict=True)
    ]
    x = alt.X("token:Q", title=TOKEN, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=6))
    y = alt.Y("answer:Q", title=ANSWER, scale=alt.Scale(zero=True, nice=True))
    size = (12 if arrows else 7) if look.paper else (35 if arrows else 18)
    encoding = {"x": x, "y": y, "color": by_run(labels, look), "shape": run_shape(labels, look)}
    dots = alt.Chart(data(rows)).mark_point(filled=True, size=size, opacity=0.6).encode(**encoding)
    means: list[Row] = [
        {"run": labels[side], "token": rounded(float(token_PR[:, r].mean())), "answer": rounded(answer_PR[:, r].mean())}
        for side, r in SIDES.items()
    ]
    # The means last, so that they lie above the points; `k` orders the line from before to after.
    ends = alt.Chart(data([{"k": i} | row for i, row in enumerate(means)]))
    path = ends.mark_line(strokeWidth=1.5 if look.paper else 2.5, color="#808080").encode(x=x, y=y, order="k:O")
    mean_mark = ends.mark_point(
        filled=True, size=90 if look.paper else 240, opacity=1, stroke="#ffffff", strokeWidth=1.5
    ).encode(**encoding, tooltip=[alt.Tooltip("run:N"), alt.Tooltip("token:Q"), alt.Tooltip("answer:Q")])
    layers: list[Chart] = [dots, path, mean_mark]
    if arrows:
        layers.insert(0, _segments(token_PR, answer_PR, x, y))
    return with_size(layered(*layers), look)


def _segments(token_PR: Float, answer_PR: Float, x: alt.X, y: alt.Y) -> Chart:
    """A faint line from each problem's point before to its point after."""
    rows: list[Row] = [
        {
            "token": rounded(token_PR[i, BEFORE]),
            "answer": rounded(answer_PR[i, BEFORE]),
            "token2": rounded(token_PR[i, AFTER]),
            "answer2": rounded(answer_PR[i, AFTER]),
        }
        for i in range(len(token_PR))
    ]
    chart = alt.Chart(data(rows)).mark_rule(opacity=0.15, strokeWidth=0.8)
    segments: alt.Chart = chart.encode(x=x, y=y, x2="token2:Q", y2="answer2:Q")
    return segments


def _before_after(value_PR: Float, name: str, look: FigureFormat) -> Chart:
    """One entropy after against before, with the diagonal of no change and the mean as a diamond."""
    known = value_PR[~np.isnan(value_PR).any(axis=1)]
    rows: list[Row] = [{"x": rounded(a), "y": rounded(b)} for a, b in known.tolist()]
    # Both axes have the same scale, so that the diagonal means no change.
    top = max(float(known.max()) * 1.04, 1e-9)
    scale = alt.Scale(domain=[0, top], nice=False)
    x = alt.X("x:Q", title=f"before: {name}", scale=scale)
    y = alt.Y("y:Q", title=f"after: {name}", scale=scale)
    diagonal = alt.Chart(data([{"x": 0, "y": 0}, {"x": top, "y": top}])).mark_line(
        strokeDash=[4, 3], strokeWidth=1, color="#808080"
    )
    dots = alt.Chart(data(rows)).mark_point(filled=True, size=14 if look.paper else 35, opacity=0.5, color="#7a5195")
    middle = data([{"x": rounded(known[:, 0].mean()), "y": rounded(known[:, 1].mean())}])
    mean_mark = alt.Chart(middle).mark_point(
        filled=True, shape="diamond", size=90 if look.paper else 240, color="#111111", stroke="#ffffff", opacity=1
    )
    return with_size(layered(*(part.encode(x=x, y=y) for part in (diagonal, dots, mean_mark))), look)


def _entropy_caption(subject: FigureInput, token_PR: Float, answer_PR: Float) -> tuple[str, str]:
    """How to read the figure, its trap, its basis and its result; and the means as a sentence for screen readers."""
    before, after = names(subject.comparison)
    joined = "thin lines join the two runs, " if len(token_PR) <= MAX_ARROWS else ""
    reading = (
        f"Each small mark is a problem in one run, {joined}large marks are means. x axis: mean entropy per token of "
        "the model's own distribution along its samples; y axis: entropy of the readable final answers"
    )
    rarefied_text = ", rarefied to the number that both runs have for a problem"
    meaning = (
        "Token entropy may rise while the answers become less diverse, and it is the answers that decide what a run "
        "reaches"
    )
    caution = "Answer entropy leaves out unread samples and includes wrong answers"
    problems, excluded_count = counted(len(token_PR), "problem"), len(subject.detail.tally) - len(token_PR)
    left_out = (
        f" {excluded_count:,} more are left out: they have too few readable answers or no token entropies."
        if excluded_count
        else ""
    )
    axes_text = f"{reading}{rarefied_text}; both in nats. {meaning}. {caution}."
    caption = f"{axes_text} {problems}, {drawn(subject.comparison)}.{left_out}"
    result = directions_text(entropies_of(subject.comparison), AFTER)
    values = "; ".join(
        f"{name}: token entropy {short_number(float(token_PR[:, r].mean()))} nats per token, answer entropy "
        f"{short_number(float(answer_PR[:, r].mean()))} nats"
        for name, r in ((before, BEFORE), (after, AFTER))
    )
    return f"{caption} {result}".strip(), f"Means over {problems}. {values}."


def _before_after_caption(subject: FigureInput, value_PR: Float, name: str) -> tuple[str, str]:
    """The caption where only one of the two entropies is known."""
    before, after = names(subject.comparison)
    known = value_PR[~np.isnan(value_PR).any(axis=1)]
    problems = counted(len(known), "problem")
    missing = f"token entropies are missing; {SCORE_COMMAND} adds them" if name == ANSWER else "answers are missing"
    reading = f"Each dot is a problem: {name} of {before} (x) and of {after} (y); the diamond is the mean"
    caption = f"{reading}. Below the diagonal it fell. Here {missing}. {problems}, {drawn(subject.comparison)}."
    mean = [short_number(float(known[:, r].mean())) for r in (BEFORE, AFTER)]
    return caption, f"{name} of {problems}: mean {mean[0]} in {before} and {mean[1]} in {after}."


# Token entropy by position: how uncertain each run is at its first tokens and at its last ones.


POSITIONS_TITLE = "Where are the models uncertain: at the first tokens, or at the last?"
AXIS_TITLES = {START: "token, counted from the start", END: "token, counted from the end"}
UNIT = "entropy, nats per token"
SCORE_FIRST_COMMAND = "offleash score RUN --model hf:MODEL --first 32"


def positions(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Mean entropy per token against its position, counted from the start and from the end."""
    entropy = entropies_of(subject.comparison).positions
    if not entropy.bins or len(entropy.reasons):
        return MissingFigure("positions", POSITIONS_TITLE, _why_no_positions(subject))
    facets = tuple(_facet(subject, kind, entropy.bins[kind], look) for kind in AXIS_TITLES)
    return Figure("positions", POSITIONS_TITLE, *_positions_caption(subject), facets)


def _why_no_positions(subject: FigureInput) -> str:
    """The reason and the next step for each run that has no positions."""
    if (subject.comparison.counted.tally.until_R > 0).any():
        return "a run was drawn with --until, which selects samples by their outcome; draw without it"
    missing_text = "; ".join(
        f"{name}: {why}" for name, why in entropies_of(subject.comparison).positions.reasons.items()
    )
    return (
        missing_text or f"no problem was scored in both runs, each by its own model; score both: {SCORE_FIRST_COMMAND}"
    )


def _facet(subject: FigureInput, kind: str, bins: Bins, look: FigureFormat) -> Chart:
    """Mean entropy against position, counted from one end, with a band per run where there are intervals."""
    labels = run_names(subject.comparison, look)
    last = int(bins.bin_Q[-1])
    rows: list[Row] = [
        {
            "at": int(bin_start) + 1,
            "run": labels[side],
            "entropy": rounded(float(bins.mean_QR[q, r])),
            "low": rounded(float(bins.low_QR[q, r])),
            "high": rounded(float(bins.high_QR[q, r])),
            "tokens": int(bins.tokens_QR[q, r]),
        }
        for side, r in SIDES.items()
        for q, bin_start in enumerate(bins.bin_Q)
        if not np.isnan(bins.mean_QR[q, r])
    ]
    x = _axis(kind, last + 1, look)
    # The axis starts at 0, where a token is certain, and ends above the highest interval.
    top = float(np.nanmax(np.where(np.isnan(bins.high_QR), bins.mean_QR, bins.high_QR)))
    scale = alt.Scale(domain=[0, max(top * 1.05, 1e-3)], nice=True)
    y = alt.Y("entropy:Q", title=UNIT, scale=scale)
    tips = [alt.Tooltip("run:N"), alt.Tooltip("at:Q", title="token"), alt.Tooltip("entropy:Q")]
    tips.append(alt.Tooltip("tokens:Q", format=",d"))
    points = alt.Chart(data(rows)).mark_point(filled=True, size=14 if look.paper else 36, opacity=1)
    points_with_tooltips = points.encode(
        x=x, y=y, color=by_run(labels, look), shape=run_shape(labels, look), tooltip=tips
    )
    traces = run_traces(labels, look)
    layers: list[Chart] = [*lines(rows, "run", traces, x, y), points_with_tooltips]
    known = [row for row in rows if row["low"] is not None]
    if known:
        layers = [*bands(known, "run", traces, x, alt.Y("low:Q", title=UNIT, scale=scale)), *layers]
    return with_size(layered(*layers), look)


def _axis(kind: str, last_bin: int, look: FigureFormat) -> alt.X:
    """Tokens on a log scale, ticks at powers of two; counted from the end it runs to the left, as a text is read."""
    octaves = max(last_bin.bit_length() - 1, 1)
    step = max(1, -(-octaves // (4 if look.paper else 6)))
    ticks = [2**power for power in range(0, octaves + 1, step)]
    scale = alt.Scale(type="log", base=2, domain=[1, max(last_bin, 2)], nice=False, reverse=kind == END)
    axis = alt.Axis(values=ticks, format="d", labelOverlap=True, labelSeparation=5)
    return alt.X("at:Q", title=AXIS_TITLES[kind], scale=scale, axis=axis)


def _positions_caption(subject: FigureInput) -> tuple[str, str]:
    """How to read the figure, its trap, its basis and its result; and the places as a sentence for screen readers."""
    positions, (before, after) = entropies_of(subject.comparison).positions, names(subject.comparison)
    reading = (
        "Mean entropy of a token under the run's own model, by its position: counted from the start on the left, "
        "from the end on the right. Each of the first 16 and last 16 tokens has a point of its own, later "
        "points are means of all tokens up to the next point; bands are 95% intervals over problems"
    )
    meaning = "Where a curve is high, the model is choosing between several continuations"
    caution = "Only long samples have tokens far from both ends, so points are not all means over the same samples"
    size = f"{counted(positions.problems, 'problem')}, {positions.samples_R[BEFORE]:,} samples of {before} and "
    size += f"{positions.samples_R[AFTER]:,} of {after}"
    caption = f"{reading}. {meaning}. {positions_text(entropies_of(subject.comparison))} {caution}. {size}."
    values = "; ".join(
        f"{position.name}: {short_number(float(position.value_R[BEFORE]))} in {before} and "
        f"{short_number(float(position.value_R[AFTER]))} in {after}"
        for position in positions.parts
    )
    return caption, f"Entropy per token in nats. {values}."
