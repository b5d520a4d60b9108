"""What a figure is made of, and how it looks: on the page it fills its place, on paper it has the width of a column."""

from collections.abc import Callable
from dataclasses import dataclass

import altair as alt

from offleash.study.checkpoints import Union
from offleash.study.compare import Comparison
from offleash.study.detail import Detail
from offleash.study.flips import Flips

Panel = alt.Chart | alt.LayerChart


@dataclass(frozen=True)
class Subject:
    """What figures are drawn of: comparisons of one base, what they reach together, and the last one in detail."""

    comparisons: tuple[Comparison, ...]
    together: Union | None
    detail: Detail
    turned: Flips | None = None  # classes that depend on how samples are judged, where that was asked

    @property
    def one(self) -> Comparison:
        return self.comparisons[-1]


@dataclass(frozen=True)
class Look:
    """Where a figure is to be seen. A width of None fills the place it is put in."""

    width: int | None = None
    height: int = 300
    paper: bool = False  # must be readable in grey, at the size of a column


PAGE = Look()
PAPER = Look(width=236, height=170, paper=True)


@dataclass(frozen=True)
class Figure:
    """A figure: its panels, a title that names the question, how to read it, and what it shows in words."""

    name: str
    title: str
    caption: str
    alt: str
    panels: tuple[Panel, ...]
    look: Look = PAGE  # the one it was drawn for


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be drawn of this subject, and why; the reason says what would make it possible."""

    name: str
    title: str
    reason: str


Draw = Callable[[Subject, Look], Figure | Missing]
