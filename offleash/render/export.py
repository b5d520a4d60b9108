"""Figures as PNG, SVG and PDF files in a light theme, at the width given; nothing is fetched from the network."""

import re
from collections.abc import Callable
from pathlib import Path

import altair as alt
import vl_convert

from offleash.errors import OffleashError
from offleash.render.figure import Figure, FigureFormat
from offleash.render.output import write_bytes

Spec = dict[str, object]

VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
SCALE = 3  # of PNG
WIDTH = 620  # pixels, for a figure without a width of its own: it fills a page
STACK_BELOW, MIN_FACET_WIDTH = 150, 90  # facets: below the first they are stacked, none is below the second
FACET_GAP = {True: 10, False: 24}  # between facets, on paper and elsewhere
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
INK_COLOUR, PALE_COLOUR = "#222222", "#d9d9d9"
_WIDTH = re.compile(r'<svg[^>]*?\swidth="([0-9.]+)"')


def write_figure(figure: Figure, path: Path, option: str = "-o") -> None:
    """Write a figure to a file, which `option` names; the end of its name says whether as PNG, SVG or PDF."""
    write_bytes(path, WRITERS[kind_of(path)](_fit_to_width(figure)), option)


def kind_of(path: Path) -> str:
    """The kind of file that a name asks for: .png, .svg or .pdf."""
    kind = path.suffix.lower()
    if kind not in WRITERS:
        raise OffleashError(
            f"{path.name!r} does not end in .png, .svg or .pdf. "
            f"Choose another name, for example {path.stem + '.pdf'!r}."
        )
    return kind


def specification(figure: Figure, width: int | None = None, stacked: bool | None = None) -> Spec:
    """A figure as one Vega-Lite document: facets below each other on paper, side by side elsewhere."""
    look = figure.look
    plot = width if width is not None else _figure_width(look)
    facets = [facet.properties(width=plot) for facet in figure.facets]
    if len(facets) == 1:
        chart: alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart = facets[0]
    else:
        is_stacked = look.paper if stacked is None else stacked
        concatenated = (alt.vconcat if is_stacked else alt.hconcat)(*facets, spacing=FACET_GAP[look.paper])
        chart = concatenated.resolve_scale(
            color="independent",
            fill="independent",
            stroke="independent",
            shape="independent",
            strokeDash="independent",
            size="independent",
        )
    document: Spec = chart.to_dict()
    document["config"] = _theme(look)
    return document


def _figure_width(look: FigureFormat) -> int:
    return WIDTH if look.width is None else look.width


def _fit_to_width(figure: Figure) -> Spec:
    """The document whose axes and labels too fit into the width asked for; facets that get narrow are stacked."""
    stacked = figure.look.paper
    width = _plot_width(figure, stacked)
    if width < STACK_BELOW and not stacked and len(figure.facets) > 1:
        stacked, width = True, _plot_width(figure, True)
    return specification(figure, max(MIN_FACET_WIDTH, width), stacked)


def _plot_width(figure: Figure, stacked: bool) -> int:
    """The width of a facet without its axis, found by drawing the figure once."""
    width_wanted, columns = _figure_width(figure.look), 1 if stacked else len(figure.facets)
    first = max(MIN_FACET_WIDTH, width_wanted // columns - 50)
    match = _WIDTH.search(_svg(specification(figure, first, stacked)).decode())
    margin_width = float(match.group(1)) - columns * first if match else 0.0
    return int((width_wanted - margin_width) // columns)


def _theme(look: FigureFormat) -> Spec:
    font = 8 if look.paper else 11
    text: Spec = {"labelFontSize": font, "titleFontSize": font, "labelColor": INK_COLOUR, "titleColor": INK_COLOUR}
    axis = text | {
        "gridColor": "#e8e8e8",
        "domainColor": "#888888",
        "tickColor": "#888888",
        "tickSize": 3 if look.paper else 5,
        "titleFontWeight": "normal",
        "titlePadding": 4,
    }
    return {
        "background": "#ffffff",
        "font": FONT,
        "padding": 2 if look.paper else 6,
        "axis": axis,
        "legend": text | {"symbolSize": 40 if look.paper else 70, "columnPadding": 8, "rowPadding": 1, "offset": 4},
        "title": {"fontSize": font, "color": INK_COLOUR, "fontWeight": "bold", "offset": 4},
        "text": {"color": INK_COLOUR, "fontSize": font},
        "rule": {"color": "#555555"},
        "line": {"strokeWidth": 1.3 if look.paper else 2},
        "view": {"stroke": PALE_COLOUR},
    }


def _svg(document: Spec) -> bytes:
    text: str = vl_convert.vegalite_to_svg(document, vl_version=VERSION, allowed_base_urls=[])
    return text.encode()


def _png(document: Spec) -> bytes:
    content: bytes = vl_convert.vegalite_to_png(document, vl_version=VERSION, scale=SCALE, allowed_base_urls=[])
    return content


def _pdf(document: Spec) -> bytes:
    content: bytes = vl_convert.vegalite_to_pdf(document, vl_version=VERSION, allowed_base_urls=[])
    return content


WRITERS: dict[str, Callable[[Spec], bytes]] = {".png": _png, ".svg": _svg, ".pdf": _pdf}
