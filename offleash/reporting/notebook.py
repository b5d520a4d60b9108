"""Results as a notebook shows them: a small piece of HTML, without scripts and figures.

Notebooks are shared and trusted by their readers, so nothing in it may run; Jinja escapes every name.
"""

from functools import singledispatch

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.sentences import chance_rates, finding, warnings
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
    at_k, rates = result.evidence.at_k, chance_rates(result)
    chance: list[str] = []
    # the label takes the cell of P: the exchange null gives expectations for gains and losses only
    if at_k is not None and rates:
        counts = ["unchanged model, resampled", f"{at_k.changed:.1f}", f"{at_k.changed:.1f}", ""]
        chance = counts + [f"{rates[name]:.3f}" if name in rates else "" for name in METRICS]
    return _change(result.change, finding(result), chance, warnings(result))


@notebook_html.register
def _(result: SupportChange) -> str:
    """A support change alone, which knows nothing of chance."""
    return _change(result, "", [], [])


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


def _change(change: SupportChange, sentence: str, chance: list[str], cautions: list[str]) -> str:
    """The table of a support change, with a finding, a row for an unchanged model and cautions where they are known."""
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
