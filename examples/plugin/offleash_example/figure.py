"""The success rates of all problems in both runs, from the hardest to the easiest."""

import altair as alt
import numpy as np

from offleash.comparing.figures.figure_input import FigureInput, by_run, run_names
from offleash.render.figure import Figure, FigureFormat, MissingFigure, Row, data, rounded, with_size

TITLE = "How are success rates distributed over the problems?"


def ranks(subject: FigureInput, look: FigureFormat) -> Figure | MissingFigure:
    """Rate against rank."""
    rate_PR, names = subject.detail.rate_PR, run_names(subject.comparison, look)
    if len(rate_PR) < 2:
        return MissingFigure("ranks", TITLE, "there is only one problem; a distribution needs two or more")
    rows: list[Row] = [
        {"run": name, "rank": rank, "rate": rounded(rate)}
        for r, name in enumerate(names.values())
        for rank, rate in enumerate(np.sort(rate_PR[:, r]).tolist(), 1)
    ]
    line = alt.Chart(data(rows)).mark_line(interpolate="step-after")
    facet = line.encode(
        x=alt.X("rank:Q", title="problems, hardest first"),
        y=alt.Y("rate:Q", title="share of samples correct"),
        color=by_run(names, look),
    )
    caption = "Each run is sorted by itself: where two lines meet at a rank, the problems need not be the same."
    words = f"Sorted rates of {len(rate_PR):,} problems, one line per run."
    return Figure("ranks", TITLE, caption, words, (with_size(facet, look),))
