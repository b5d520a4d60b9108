"""What a notebook shows of a result.

Results live in layers that know no renderer, so they call `html` here, and the package root, which knows them all, says
who renders. In a process without the root (a bare worker) there is nobody to show anything to, and nothing is shown.
"""

from collections.abc import Callable


def printable(text: str) -> str:
    """A text that is safe to print: control characters of model output cannot move the cursor or set the title."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


Renderer = Callable[[object], str]
_renderers: list[Renderer] = []


def render_with(renderer: Renderer) -> None:
    """Show results with `renderer` from now on."""
    _renderers[:] = [renderer]


def html(result: object) -> str | None:
    """The HTML of a result for a notebook; None, for which a notebook prints the `repr`, where nobody renders."""
    return _renderers[0](result) if _renderers else None
