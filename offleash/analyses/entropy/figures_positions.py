"""Token entropy by position: how unsure each run is at its first tokens and at its last ones."""

import altair as alt
import numpy as np

from offleash.analyses.entropy.entropy import entropies_of
from offleash.analyses.entropy.positions import Bins
from offleash.analyses.entropy.words import places_words
from offleash.comparing.figures.subject import Subject, by_run, run_names, run_shape, run_traces
from offleash.comparing.wording import names
from offleash.data.positions import END, START
from offleash.render.figure import Figure, Look, Missing, Panel, Row, bands, data, layered, lines, rounded, sized
from offleash.render.numbers import counted, short_number
from offleash.stats.classes import AFTER, BEFORE

POSITIONS_TITLE = "Where are the models unsure: at the first tokens, or at the last?"
SIDES = {"before": BEFORE, "after": AFTER}
AXES = {START: "token, counted from the start", END: "token, counted from the end"}
UNIT = "entropy, nats a token"
SCORE_FIRST = "offleash score RUN --model hf:MODEL --first 32"


def positions(subject: Subject, look: Look) -> Figure | Missing:
    """Mean entropy of tokens against their place from the start, and from the end."""
    found = entropies_of(subject.one).positions
    if not found.bins or len(found.reasons):
        return Missing("positions", POSITIONS_TITLE, _why_no_positions(subject))
    panels = tuple(_panel(subject, kind, found.bins[kind], look) for kind in AXES)
    return Figure("positions", POSITIONS_TITLE, *_positions_caption(subject), panels)


def _why_no_positions(subject: Subject) -> str:
    if (subject.one.counted.tally.until_R > 0).any():
        return "a run stopped early, so its samples are not a fair sample of its tokens; draw without --until"
    lacking = "; ".join(f"{name}: {why}" for name, why in entropies_of(subject.one).positions.reasons.items())
    return (
        lacking
        or f"no problem was read by the models of both runs; {SCORE_FIRST}, of each run with its own model, does it"
    )


def _panel(subject: Subject, kind: str, bins: Bins, look: Look) -> Panel:
    shown = run_names(subject.one, look)
    last = int(bins.bin_Q[-1])
    rows: list[Row] = [
        {
            "at": int(at) + 1,
            "run": shown[side],
            "entropy": rounded(float(bins.mean_QR[q, r])),
            "low": rounded(float(bins.low_QR[q, r])),
            "high": rounded(float(bins.high_QR[q, r])),
            "tokens": int(bins.tokens_QR[q, r]),
        }
        for side, r in SIDES.items()
        for q, at in enumerate(bins.bin_Q)
        if not np.isnan(bins.mean_QR[q, r])
    ]
    x = _axis(kind, last + 1, look)
    top = float(np.nanmax(np.where(np.isnan(bins.high_QR), bins.mean_QR, bins.high_QR)))
    scale = alt.Scale(domain=[0, max(top * 1.05, 1e-3)], nice=True)
    y = alt.Y("entropy:Q", title=UNIT, scale=scale)
    tips = [alt.Tooltip("run:N"), alt.Tooltip("at:Q", title="token"), alt.Tooltip("entropy:Q")]
    tips.append(alt.Tooltip("tokens:Q", format=",d"))
    points = alt.Chart(data(rows)).mark_point(filled=True, size=14 if look.paper else 36, opacity=1)
    marked = points.encode(x=x, y=y, color=by_run(shown, look), shape=run_shape(shown, look), tooltip=tips)
    traces = run_traces(shown, look)
    layers: list[Panel] = [*lines(rows, "run", traces, x, y), marked]
    known = [row for row in rows if row["low"] is not None]
    if known:
        layers = [*bands(known, "run", traces, x, alt.Y("low:Q", title=UNIT, scale=scale)), *layers]
    return sized(layered(*layers), look)


def _axis(kind: str, most: int, look: Look) -> alt.X:
    """Tokens on a scale of powers of two; those counted from the end run to the left, as a text is read."""
    octaves = max(most.bit_length() - 1, 1)
    step = max(1, -(-octaves // (4 if look.paper else 6)))
    ticks = [2**power for power in range(0, octaves + 1, step)]
    scale = alt.Scale(type="log", base=2, domain=[1, max(most, 2)], nice=False, reverse=kind == END)
    axis = alt.Axis(values=ticks, format="d", labelOverlap=True, labelSeparation=5)
    return alt.X("at:Q", title=AXES[kind], scale=scale, axis=axis)


def _positions_caption(subject: Subject) -> tuple[str, str]:
    found, (before, after) = entropies_of(subject.one).positions, names(subject.one)
    read = (
        "Mean entropy of a token, by the run's own model, against where the token stands: counted from the start on "
        "the left, from the end on the right. Each of the first 16 and last 16 tokens has a point of its own, other "
        "points stand for all tokens up to the next; bands are 95% intervals over problems"
    )
    meaning = "Where a curve is high the model has several ways to go on, and what is written there decides the rest"
    mislead = "Far from the start and the end there are only long samples, so not all points are of the same samples"
    amount = f"{counted(found.problems, 'problem')}, {found.samples_R[BEFORE]:,} samples of {before} and "
    amount += f"{found.samples_R[AFTER]:,} of {after}"
    caption = f"{read}. {meaning}. {places_words(entropies_of(subject.one))} {mislead}. {amount}."
    said = "; ".join(
        f"{place.name}: {short_number(float(place.value_R[BEFORE]))} in {before} and "
        f"{short_number(float(place.value_R[AFTER]))} in {after}"
        for place in found.places
    )
    return caption, f"Entropy a token in nats. {said}."
