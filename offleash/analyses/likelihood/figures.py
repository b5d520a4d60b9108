"""Figure of perplexity: quartiles of scored samples by class, run and scoring model."""

import altair as alt

from offleash.analyses.likelihood.perplexity_by_class import (
    ALL_SAMPLES,
    CORRECT,
    Spread,
    models_with_selected_scores,
    perplexities,
)
from offleash.comparing.captions import CELLS, basis, names
from offleash.comparing.figures.figure_input import FigureInput
from offleash.data.tally import Per
from offleash.render.figure import (
    CLASS_NAMES,
    MODEL_SHAPES,
    MODELS,
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
from offleash.render.numbers import short_names, short_number

TITLE = "How likely are the samples under each model?"
FACET_TITLES = {CORRECT: "correct samples", ALL_SAMPLES: "all samples"}
MODELS_SHOWN = len(MODELS)  # scoring models shown: as many as there are colours


def perplexity(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Quartiles of perplexity by class, run and scoring model."""
    spreads = perplexities(subject.detail)
    if not spreads:
        reason = "no samples were scored; offleash score RUN --model hf:MODEL computes their log-probabilities"
        return MissingFigure("perplexity", TITLE, reason)
    models = sorted({spread.model for spread in spreads})[:MODELS_SHOWN]
    labels = dict(zip(models, short_names(models, 26), strict=True))
    shown = [spread for spread in spreads if spread.model in labels]
    kinds = [kind for kind in (CORRECT, ALL_SAMPLES) if any(spread.traces == kind for spread in shown)]
    facets = tuple(
        _facet(subject, kind, [spread for spread in shown if spread.traces == kind], labels, look) for kind in kinds
    )
    return Figure("perplexity", TITLE, *_caption_and_alt(subject, shown, kinds[0]), facets)


def _facet(subject: FigureInput, kind: str, spreads: list[Spread], labels: dict[str, str], look: FigureFormat) -> Chart:
    """Medians and quartiles, one row per run and class, one mark per scoring model."""
    runs = dict(zip(("before", "after"), short_names(names(subject.comparison), 12), strict=True))
    rank = {name: i for i, name in enumerate(CLASS_NAMES)}
    ordered = sorted(spreads, key=lambda spread: (spread.run != "before", rank[spread.problems], spread.model))
    order = list(dict.fromkeys(f"{runs[spread.run]}: {CLASS_NAMES[spread.problems]}" for spread in ordered))
    rows: list[Row] = [
        {
            "group": f"{runs[spread.run]}: {CLASS_NAMES[spread.problems]}",
            "model": labels[spread.model],
            "median": rounded(spread.median),
            "low": rounded(spread.low),
            "high": rounded(spread.high),
            "samples": spread.samples,
        }
        for spread in ordered
        if rounded(spread.high) is not None  # a log axis cannot show an infinite perplexity
    ]
    axis = alt.Axis(labelLimit=120 if look.paper else 150, grid=False)
    model_legend, model_names = legend(list(labels.values()), look, 1), list(labels.values())
    y = alt.Y("group:N", title=None, scale=alt.Scale(domain=order), axis=axis)
    scale = alt.Scale(type="log", zero=False, nice=False, padding=10)
    x = alt.X("low:Q", title="perplexity per token (log axis)", scale=scale, axis=alt.Axis(tickCount=5, format="~g"))
    chart = alt.Chart(data(rows)).encode(
        y=y,
        yOffset=alt.YOffset("model:N", scale=alt.Scale(domain=model_names)),
        color=alt.Color(
            "model:N", scale=alt.Scale(domain=model_names, range=MODELS[: len(model_names)]), legend=model_legend
        ),
    )
    tips = [alt.Tooltip("group:N", title="written by, class"), alt.Tooltip("model:N", title="scored by")]
    tips += [alt.Tooltip("median:Q"), alt.Tooltip("low:Q", title="quartile"), alt.Tooltip("high:Q", title="quartile")]
    tips.append(alt.Tooltip("samples:Q", format=",d"))
    bars = chart.mark_rule(strokeWidth=1.2 if look.paper else 2).encode(x=x, x2="high:Q")
    shape = alt.Shape(
        "model:N", scale=alt.Scale(domain=model_names, range=MODEL_SHAPES[: len(model_names)]), legend=model_legend
    )
    points = chart.mark_point(filled=True, size=30 if look.paper else 70, opacity=1)
    medians_chart = points.encode(x="median:Q", shape=shape, tooltip=tips)
    height = (9 if look.paper else 16) * max(2, len(model_names) + 1) * max(len(order), 1)
    return with_size(layered(bars, medians_chart), look, height, FACET_TITLES[kind])


def _caption_and_alt(subject: FigureInput, spreads: list[Spread], kind: str) -> tuple[str, str]:
    """The caption, and the medians of one kind of samples as a sentence."""
    before, after = names(subject.comparison)
    runs = {"before": before, "after": after}
    reading = (
        "Perplexity of a sample: exp of minus the mean log-probability of its tokens; 1 means certain, larger less "
        "likely. Points are medians over samples, bars quartiles; rows: who wrote "
        f"the samples, and the class of their problems ({CELLS}); marks: which model scored them"
    )
    meaning = (
        "High perplexity of correct samples on S under the model after means that it finds these solutions unlikely"
    )
    if kind != CORRECT:
        meaning = "No correct sample was scored, so these are not solutions"
    caution = (
        "Problems with more samples have more weight, long samples average out surprising tokens, and every model "
        "finds its "
        "own samples likely"
    )
    total = sum(spread.samples for spread in spreads if spread.traces == ALL_SAMPLES)
    chosen = "; ".join(f"{runs[run]}, by {model}" for run, model in models_with_selected_scores(spreads))
    alone = f" Omitted from all samples, because only correct ones were scored: {chosen}." if chosen else ""
    scores = f"{total:,} scores are of first samples, not selected by verdict."
    caption = f"{reading}. {meaning}. {caution}. {scores}{alone} {basis(subject.comparison, Per.PROBLEM)}"
    medians = "; ".join(
        f"{runs[spread.run]} on {CLASS_NAMES[spread.problems]}, by {spread.model}: {short_number(spread.median)}"
        for spread in spreads
        if spread.traces == kind
    )
    return caption, f"Median perplexity of {FACET_TITLES[kind]}. {medians}."
