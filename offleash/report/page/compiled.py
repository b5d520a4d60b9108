"""Figures as the page draws them: compiled beforehand, so that a browser has less to do, their colours left to it."""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from offleash.report.figures.figure import Figure, Panel
from offleash.report.page.safe import script_json

# Colours that stand for those of the page, light or dark; the page puts its own in their place.
INK, QUIET, LINE = "#010101", "#020202", "#030303"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
CONFIG: dict[str, object] = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": "transparent"},
    "axis": {
        "labelColor": QUIET,
        "titleColor": INK,
        "gridColor": LINE,
        "gridOpacity": 0.6,
        "domainColor": QUIET,
        "tickColor": QUIET,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": QUIET,
        "orient": "top",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 220,
    },
    "title": {"color": INK, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    "header": {"labelColor": INK, "titleColor": QUIET},
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": QUIET},
    "tick": {"color": INK},
}
LARGE = 60_000  # letters of a panel's JSON, beyond which a browser draws it faster without an element a mark


@dataclass(frozen=True)
class Compiled:
    """A panel as JSON for its place in the page, and how a browser is to draw it."""

    json: Markup
    renderer: str


def unchecked() -> AbstractContextManager[None]:
    """Figures drawn without holding every row of their data against a schema: the tests do that."""
    from altair.utils.schemapi import debug_mode

    return debug_mode(False)


def panels(figure: Figure) -> list[Compiled]:
    """The panels of a figure as the page holds them."""
    found = [script_json(_vega(panel)) for panel in figure.panels]
    return [Compiled(Markup(text), "canvas" if len(text) > LARGE else "svg") for text in found]


def _vega(panel: Panel) -> dict[str, object]:
    import vl_convert

    spec = panel.to_dict(validate=False)
    spec["config"] = CONFIG
    return dict(vl_convert.vegalite_to_vega(spec, vl_version=_version()))


@cache
def _version() -> str:
    """The version of Vega-Lite that charts are written in, as the converter names it."""
    import altair

    found = re.search(r"v(\d+)\.(\d+)", altair.SCHEMA_VERSION)
    assert found is not None, altair.SCHEMA_VERSION
    return f"{found[1]}.{found[2]}"
