"""What guessing explains: problems that are correct no more often than a blind guess would be, over all samples."""

import altair as alt

from offleash.comparing.captions import CELLS, basis, names
from offleash.comparing.figures.figure_input import FigureInput, run_names
from offleash.comparing.sentences import redraw_rates
from offleash.render.figure import (
    Figure,
    FigureFormat,
    MissingFigure,
    Row,
    data,
    layered,
    legend,
    translucent,
    with_size,
)
from offleash.render.numbers import counted, odds, share, whole
from offleash.stats.support_classes import AFTER, BEFORE

TITLE = "How much of the support could be guessing?"
CORRECT, GUESS_LABEL = "at least one correct sample", "of these, no better than guessing"
COLOURS = {CORRECT: "#2383c4", GUESS_LABEL: "#c44e00"}
FILLS = {CORRECT: 0.35, GUESS_LABEL: 1.0}
SIDES = {"before": BEFORE, "after": AFTER}
FLOOR_TEXTS = {
    "given": "The guess floor of a problem is the given chance that a blind guess is correct",
    "problem-blind": (
        "The guess floor of a problem is the share of the wrong answers to other problems that would be correct here: "
        "how often a model that ignores the question would be correct"
    ),
}


def guessing(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Problems with a correct sample among all that each run drew, and how many of them a guess explains."""
    comparison = subject.comparison
    if comparison.guessing.floor is None:
        return MissingFigure(
            "guessing", TITLE, comparison.guessing.reason or "no guess floor is known; set one with --guess RATE"
        )
    labels, bars = run_names(comparison, look), _bars(subject)
    rows: list[Row] = [
        {"run": labels[side], "what": what, "problems": bars[side][what], "place": index}
        for side in SIDES
        for index, what in enumerate((CORRECT, GUESS_LABEL))
    ]
    kinds, step = [CORRECT, GUESS_LABEL], 22 if look.paper else 40
    lines = alt.Scale(domain=kinds, range=[COLOURS[kind] for kind in kinds])
    fills = alt.Scale(domain=kinds, range=[translucent(COLOURS[kind], FILLS[kind]) for kind in kinds])
    # the room to the right is for the number at the end of each bar
    most = max(1.0, 1.15 * max(bars[side][CORRECT] for side in SIDES))
    several = legend(kinds, look, 1, symbol="square")
    limit = 90 if look.paper else 130
    chart = alt.Chart(data(rows)).encode(
        x=alt.X(
            "problems:Q",
            title="problems, over all samples drawn",
            stack=None,  # guess-support is part of the longer bar, not added to it
            scale=alt.Scale(domain=[0, most], nice=False),
            axis=alt.Axis(format="d", tickMinStep=1, tickCount=6),
        ),
        y=alt.Y("run:N", title=None, scale=alt.Scale(domain=list(labels.values())), axis=alt.Axis(labelLimit=limit)),
    )
    bar = chart.mark_bar(strokeWidth=1, height={"band": 0.7}).encode(
        fill=alt.Fill("what:N", scale=fills, legend=several),
        stroke=alt.Stroke("what:N", scale=lines, legend=several),
        order=alt.Order("place:Q"),
        tooltip=[alt.Tooltip("run:N"), alt.Tooltip("what:N", title="what"), alt.Tooltip("problems:Q")],
    )
    number = chart.mark_text(align="left", dx=4).encode(text=alt.Text("problems:Q", format=",d"))
    return Figure(
        "guessing", TITLE, *_caption_and_alt(subject, bars), (with_size(layered(bar, number), look, 2 * step),)
    )


def _bars(subject: FigureInput) -> dict[str, dict[str, int]]:
    """Counts over all samples drawn, as the test against the floors has them: whatever k and the rule are."""
    correct_PR, guessed = subject.comparison.tally.correct_PR, subject.comparison.guessing.problems
    return {
        side: {CORRECT: int((correct_PR[:, r] > 0).sum()), GUESS_LABEL: len(guessed.get(side, ()))}
        for side, r in SIDES.items()
    }


def _caption_and_alt(subject: FigureInput, bars: dict[str, dict[str, int]]) -> tuple[str, str]:
    """Caption and alternative text."""
    comparison, guessing, run_name = (
        subject.comparison,
        subject.comparison.guessing,
        dict(zip(SIDES, names(subject.comparison), strict=True)),
    )
    floor = FLOOR_TEXTS.get(guessing.floor or "", "")
    tested_text = "; ".join(
        f"{run_name[side]}: {counted(guessing.tested.get(side, 0), 'problem')} with a floor, median "
        f"{odds(guessing.median_floor.get(side, float('nan')))}"
        for side in SIDES
    )
    read = (
        "Light bars: problems with at least one correct sample among all n drawn, regardless of k and the rule. "
        "Solid bars: guess-support, problems solved no more often than their guess floor explains (binomial test over "
        "all n samples, 5%)"
    )
    without = ""
    if guessing.without is not None:
        left = ", ".join(f"{cell} {whole(getattr(guessing.without, cell))}" for cell in ("P", "E", "S", "O"))
        at = f"k = {guessing.without.k:,}, rule {guessing.without.rule.value}"
        # near a floor chance decides what is guess-support, so the table is never given without its redraw value
        same = redraw_rates(guessing.without).get("SRR")
        rate = f"SRR {share(guessing.without.value['SRR'])}"
        unchanged = "" if same is None else f", where an unchanged model drawn twice would show {share(same)}"
        without = f" Without guess-support, {at}: {left} ({CELLS}); {rate}{unchanged}."
    mislead = "A problem above its floor was not necessarily solved by reasoning; one without a floor cannot be tested."
    summary = "; ".join(
        f"{run_name[side]} has a correct sample on {counted(bars[side][CORRECT], 'problem')}, "
        f"{bars[side][GUESS_LABEL]:,} of them no better than guessing"
        for side in SIDES
    )
    return (
        f"{read}. {floor} ({tested_text}).{without} {mislead} {basis(comparison)}",
        f"Over all samples drawn: {summary}.",
    )
