"""Colours, dashes and shapes that all figures share; what is neutral (text, axes, rules) is coloured by the page."""

from offleash.render.figure import Look

RUNS = {"before": "#7c8a96", "after": "#9b5de5"}
RUNS_ON_PAPER = {"before": "#98a4b0", "after": "#5a189a"}  # told apart by lightness too
DASHES = {"before": [5, 3], "after": [1, 0]}
RUN_SHAPES = {"before": "circle", "after": "square"}
CLASSES = {"P": "#2383c4", "E": "#009e73", "S": "#d55e00", "O": "#8f8f8f", "?": "#b8a200"}
CLASS_NAMES = {"P": "P kept", "E": "E found", "S": "S lost", "O": "O neither", "?": "undetermined"}
SHAPES = {"P": "circle", "E": "triangle-up", "S": "triangle-down", "O": "square", "?": "diamond"}
FILLS = {"P": 0.85, "E": 0.85, "S": 0.85, "O": 0.35}  # opacity of areas
FILLS_ON_PAPER = {"P": 0.55, "E": 0.22, "S": 1.0, "O": 0.08}
METRICS = {"SRR": "#2383c4", "NDR": "#009e73", "NSCR": "#cc5f9d"}
METRIC_NAMES = {"SRR": "SRR, kept", "NDR": "NDR, new", "NSCR": "NSCR, net"}
METRIC_DASHES = {"SRR": [1, 0], "NDR": [5, 3], "NSCR": [2, 2]}
METRIC_SHAPES = {"SRR": "circle", "NDR": "triangle-up", "NSCR": "diamond"}
MODELS = ["#2383c4", "#d55e00", "#009e73", "#cc5f9d", "#b8a200", "#56b4e9"]
MODEL_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]


def pale(colour: str, opacity: float) -> str:
    """A colour that lets through what is behind it, on a light page and on a dark one."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def run_colours(look: Look) -> dict[str, str]:
    """Colours of the runs before and after."""
    return RUNS_ON_PAPER if look.paper else RUNS


def class_fills(look: Look) -> dict[str, float]:
    """Opacities of areas by class."""
    return FILLS_ON_PAPER if look.paper else FILLS
