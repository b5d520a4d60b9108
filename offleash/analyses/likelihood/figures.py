"""Figure of perplexity: quartiles of scored samples by class, run and scoring model."""

import altair as alt

from offleash.analyses.likelihood.perplexity_by_class import ALL_SAMPLES, CORRECT, Spread, only_chosen, perplexities
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.sentences import CELLS, basis, names
from offleash.data.tally import Per
from offleash.render.figure import (
    CLASS_NAMES,
    MODEL_SHAPES,
    MODELS,
    Chart,
    Figure,
    FigureFormat,
    Missing,
    Row,
    data,
    layered,
    legend,
    rounded,
    sized,
)
from offleash.render.numbers import short_names, short_number

TITLE = "How likely does a model find the samples?"
HEADS = {CORRECT: "right samples", ALL_SAMPLES: "all samples"}
MOST = len(MODELS)  # scoring models shown


def perplexity(subject: FigureInput, look: FigureFormat) -> Figure | Missing:
    """Quartiles of perplexity by class, run and scoring model."""
    found = perplexities(subject.detail)
    if not found:
        reason = "no samples were scored; offleash score RUN --model hf:MODEL gives them log-probabilities"
        return Missing("perplexity", TITLE, reason)
    models = sorted({one.model for one in found})[:MOST]
    labels = dict(zip(models, short_names(models, 26), strict=True))
    shown = [one for one in found if one.model in labels]
    kinds = [kind for kind in (CORRECT, ALL_SAMPLES) if any(one.traces == kind for one in shown)]
    facets = tuple(_facet(subject, kind, [one for one in shown if one.traces == kind], labels, look) for kind in kinds)
    return Figure("perplexity", TITLE, *_words(subject, shown, kinds[0]), facets)


def _facet(subject: FigureInput, kind: str, spreads: list[Spread], labels: dict[str, str], look: FigureFormat) -> Chart:
    runs = dict(zip(("before", "after"), short_names(names(subject.comparison), 12), strict=True))
    place = {name: i for i, name in enumerate(CLASS_NAMES)}
    ordered = sorted(spreads, key=lambda one: (one.run != "before", place[one.problems], one.model))
    order = list(dict.fromkeys(f"{runs[one.run]}: {CLASS_NAMES[one.problems]}" for one in ordered))
    rows: list[Row] = [
        {
            "group": f"{runs[one.run]}: {CLASS_NAMES[one.problems]}",
            "model": labels[one.model],
            "median": rounded(one.median),
            "low": rounded(one.low),
            "high": rounded(one.high),
            "samples": one.samples,
        }
        for one in ordered
        if rounded(one.high) is not None
    ]
    axis = alt.Axis(labelLimit=120 if look.paper else 150, grid=False)
    several, many = legend(list(labels.values()), look, 1), list(labels.values())
    y = alt.Y("group:N", title=None, scale=alt.Scale(domain=order), axis=axis)
    scale = alt.Scale(type="log", zero=False, nice=False, padding=10)
    x = alt.X("low:Q", title="perplexity a token (log axis)", scale=scale, axis=alt.Axis(tickCount=5, format="~g"))
    chart = alt.Chart(data(rows)).encode(
        y=y,
        yOffset=alt.YOffset("model:N", scale=alt.Scale(domain=many)),
        color=alt.Color("model:N", scale=alt.Scale(domain=many, range=MODELS[: len(many)]), legend=several),
    )
    tips = [alt.Tooltip("group:N", title="written by, class"), alt.Tooltip("model:N", title="scored by")]
    tips += [alt.Tooltip("median:Q"), alt.Tooltip("low:Q", title="quartile"), alt.Tooltip("high:Q", title="quartile")]
    tips.append(alt.Tooltip("samples:Q", format=",d"))
    bars = chart.mark_rule(strokeWidth=1.2 if look.paper else 2).encode(x=x, x2="high:Q")
    shape = alt.Shape("model:N", scale=alt.Scale(domain=many, range=MODEL_SHAPES[: len(many)]), legend=several)
    points = chart.mark_point(filled=True, size=30 if look.paper else 70, opacity=1)
    marked = points.encode(x="median:Q", shape=shape, tooltip=tips)
    height = (9 if look.paper else 16) * max(2, len(many) + 1) * max(len(order), 1)
    return sized(layered(bars, marked), look, height, HEADS[kind])


def _words(subject: FigureInput, found: list[Spread], kind: str) -> tuple[str, str]:
    """The caption, and in words the medians of one kind of samples."""
    before, after = names(subject.comparison)
    runs = {"before": before, "after": after}
    read = (
        "Perplexity of a sample: exp of minus the mean log-probability of its tokens, so 1 is certain and larger is "
        "less expected. Points are medians over samples, bars reach from quartile to quartile; rows: who wrote "
        f"the samples, and the class of their problems ({CELLS}); marks: which model scored them"
    )
    meaning = "High perplexity of right samples on S, under the model after, says that it has left these paths"
    if kind != CORRECT:
        meaning = "No right sample was scored, so these are no paths to a solution"
    mislead = (
        "Problems with more samples weigh more, long samples average out their surprises, and a model always finds its "
        "own samples likely"
    )
    total = sum(one.samples for one in found if one.traces == ALL_SAMPLES)
    chosen = "; ".join(f"{runs[run]}, by {model}" for run, model in only_chosen(found))
    alone = f" Only right samples were scored, so none stand among all: {chosen}." if chosen else ""
    scores = f"{total:,} scores of first samples, which no verdict has chosen."
    caption = f"{read}. {meaning}. {mislead}. {scores}{alone} {basis(subject.comparison, Per.PROBLEM)}"
    said = "; ".join(
        f"{runs[one.run]} on {CLASS_NAMES[one.problems]}, by {one.model}: {short_number(one.median)}"
        for one in found
        if one.traces == kind
    )
    return caption, f"Median perplexity of {HEADS[kind]}. {said}."
