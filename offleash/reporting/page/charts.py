"""Figures as the page draws them: compiled in advance so that the browser has less to do, the colours left to it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from offleash.render.escape import script_json
from offleash.render.figure import Chart, Figure

# Colours that stand for those of the page, light or dark; the page puts its own in their place.
# (render/assets/charts.js: STAND_INS)
INK_COLOUR, QUIET_COLOUR, LINE_COLOUR = "#010101", "#020202", "#030303"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
CONFIG: dict[str, object] = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": "transparent"},
    "axis": {
        "labelColor": QUIET_COLOUR,
        "titleColor": INK_COLOUR,
        "gridColor": LINE_COLOUR,
        "gridOpacity": 0.6,
        "domainColor": QUIET_COLOUR,
        "tickColor": QUIET_COLOUR,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
    },
    "legend": {
        "labelColor": INK_COLOUR,
        "titleColor": QUIET_COLOUR,
        "orient": "top",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 220,
    },
    "title": {"color": INK_COLOUR, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    "header": {"labelColor": INK_COLOUR, "titleColor": QUIET_COLOUR},
    "text": {"color": INK_COLOUR, "fontSize": 12},
    "rule": {"color": QUIET_COLOUR},
    "tick": {"color": INK_COLOUR},
}
CANVAS_ABOVE = 60_000  # characters of JSON beyond which a canvas is faster than an SVG element per mark


@dataclass(frozen=True)
class CompiledChart:
    """One facet of a figure as JSON for its place in the page, and how a browser is to draw it."""

    json: Markup
    renderer: str


def without_validation() -> AbstractContextManager[None]:
    """Draw figures without validating every row of their data against a schema: the tests do that."""
    from altair.utils.schemapi import debug_mode

    return debug_mode(False)


def compiled_charts(figure: Figure) -> list[CompiledChart]:
    """The facets of a figure, compiled for the page."""
    texts = [script_json(_vega(facet)) for facet in figure.facets]
    return [CompiledChart(Markup(text), "canvas" if len(text) > CANVAS_ABOVE else "svg") for text in texts]


def _vega(facet: Chart) -> dict[str, object]:
    """A chart compiled from Vega-Lite to Vega, so that the page needs no compiler; tooltips are kept as data."""
    import vl_convert

    # not validated: the specification is ours, and checking thousands of rows takes longer than compiling them
    spec = facet.to_dict(validate=False)
    spec["config"] = CONFIG
    tooltip_list = list(_tooltips(spec))
    vega = dict(vl_convert.vegalite_to_vega(spec, vl_version=_version()))
    for mark in _mark_specs(vega):
        _drop_unused_encodings(mark)
    return vega | {"usermeta": {"tips": tooltip_list}}


def _tooltips(spec: Mapping[str, Any]) -> Iterator[list[list[str]]]:
    """What each layer shows of a mark under the pointer: fields and their titles."""
    for layer in spec.get("layer", [spec]):
        tooltips = layer.get("encoding", {}).get("tooltip")
        if isinstance(tooltips, list):
            yield [[tooltip["field"], tooltip.get("title", tooltip["field"])] for tooltip in tooltips]
        if "layer" in layer and layer is not spec:
            yield from _tooltips(layer)


def _mark_specs(vega: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All marks of a specification, those of groups too."""
    for mark in vega.get("marks", []):
        yield mark
        yield from _mark_specs(mark)


def _drop_unused_encodings(mark: dict[str, Any]) -> None:
    """Remove from a mark what Vega would compute for each of thousands of points and nobody reads.

    The page builds the tooltip of a point when the pointer is on it, and each figure has one alternative text, so a
    description per point is not needed.
    """
    update = mark.get("encode", {}).get("update", {})
    for name in ("description", "ariaRoleDescription"):
        update.pop(name, None)
    mark["aria"] = False
    if "tooltip" in update:
        update["tooltip"] = {"signal": "datum"}
    # a wide transparent stroke makes small dots of the plane easy to hit with the pointer
    if mark.get("name") == "dots_marks":
        update |= {"stroke": {"value": "transparent"}, "strokeWidth": {"value": 4}}
        mark["encode"]["hover"] = {"stroke": {"value": "#e6b800"}}


@cache
def _version() -> str:
    """The version of Vega-Lite that charts are written in, as the converter names it."""
    import altair

    match = re.search(r"v(\d+)\.(\d+)", altair.SCHEMA_VERSION)
    assert match is not None, altair.SCHEMA_VERSION
    return f"{match[1]}.{match[2]}"
