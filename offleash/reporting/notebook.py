"""Results as a notebook shows them: a small piece of HTML, without scripts and figures.

Notebooks are shared and trusted by their readers, so nothing in it may run; Jinja escapes every name.
"""

from functools import singledispatch

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.sentences import finding, redraw_rates, warnings
from offleash.render.numbers import whole
from offleash.render.page import template
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.curves import PassCurve

TITLES = {"P": "P kept", "E": "E gained", "S": "S lost", "O": "O neither"}


@singledispatch
def notebook_html(result: object) -> str:
    """A result as HTML for a notebook."""
    raise TypeError(f"{type(result).__name__} cannot be shown in a notebook")


@notebook_html.register
def _(result: Comparison) -> str:
    """A comparison: finding, table, what an unchanged model would show, and warnings."""
    return _change(result.change, finding(result), warnings(result))


@notebook_html.register
def _(result: SupportChange) -> str:
    """A support change alone."""
    return _change(result, "", [])


@notebook_html.register
def _(result: PassCurve) -> str:
    """pass@k as a table with a row per k and a column per run."""
    k_K = next(iter(result.runs.values())).k_K
    return template("curve.html.j2").render(
        runs=list(result.runs),
        rows=[
            [
                f"{int(k):,}",
                *(f"{c.value_K[i]:.4f} [{c.low_K[i]:.3f}, {c.high_K[i]:.3f}]" for c in result.runs.values()),
            ]
            for i, k in enumerate(k_K)
        ],
    )


def _change(change: SupportChange, sentence: str, cautions: list[str]) -> str:
    """The table of a support change, with a finding, a row for an unchanged model and cautions where they are known."""
    chance: list[str] = []
    # the label takes the cell of P, which has no expectation of its own: it is what E and S leave
    if change.redraw is not None and (same := redraw_rates(change)):
        counts = ["unchanged model, drawn twice", f"{change.redraw.E:.1f}", f"{change.redraw.S:.1f}", ""]
        chance = counts + [f"{same[name]:.3f}" if name in same else "" for name in METRICS]
    cells = {title: whole(float(getattr(change, name))) for name, title in TITLES.items()}
    return template("notebook.html.j2").render(
        change=change, finding=sentence, cells=cells, rates=_rates(change), chance=chance, warnings=cautions
    )


def _rates(change: SupportChange) -> dict[str, str]:
    """The rates with their intervals, by name; a dash where one is undefined."""

    def rate(name: str) -> str:
        value, ends = change.value[name], change.interval[name]
        return "–" if np.isnan(value) else f"{value:.3f} [{ends.low:.3f}, {ends.high:.3f}]"

    return {name: rate(name) for name in METRICS}
