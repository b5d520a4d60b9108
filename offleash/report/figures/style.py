"""Colours, dashes and words that all figures share; what is neutral (text, axes, rules) is coloured by the page."""

RUNS = {"before": "#7c8a96", "after": "#9b5de5"}
DASHES = {"before": [5, 3], "after": [1, 0]}
CLASSES = {"P": "#0072b2", "E": "#009e73", "S": "#d55e00", "O": "#8f8f8f", "?": "#b8a200"}
CLASS_NAMES = {"P": "P kept", "E": "E found", "S": "S lost", "O": "O neither", "?": "undetermined"}
SHAPES = {"P": "circle", "E": "triangle-up", "S": "triangle-down", "O": "square", "?": "diamond"}
