"""What a notebook shows of a result.

Results live in layers that may not import a renderer, so they call `html` here, and the package root registers the
renderer. In a process that has not imported the root (a worker) none is registered, and nothing is shown.
"""

from collections.abc import Callable


def printable(text: str) -> str:
    """A text that is safe to print: control characters in model output cannot move the cursor or set the title."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


Renderer = Callable[[object], str]
_renderers: list[Renderer] = []


def render_with(renderer: Renderer) -> None:
    """Register the renderer of results."""
    _renderers[:] = [renderer]


def html(result: object) -> str | None:
    """The HTML of a result for a notebook; None without a renderer, and the notebook prints the `repr`."""
    return _renderers[0](result) if _renderers else None
