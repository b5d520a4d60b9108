"""The input of every figure (comparisons, and the last one in detail), and names, colours and shapes of both runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import altair as alt

from offleash.comparing.checkpoints import CheckpointUnion, SeveralRuns, several_runs_of
from offleash.comparing.compare import Comparison
from offleash.comparing.flips import Flips
from offleash.comparing.per_problem import ProblemDetail
from offleash.render.figure import DASHES, RUN_SHAPES, Figure, FigureFormat, MissingFigure, Trace, legend, run_colours
from offleash.render.numbers import short_names


def run_names(comparison: Comparison, look: FigureFormat) -> dict[str, str]:
    """The names of the runs before and after as legends show them."""
    before, after = short_names([comparison.before.name, comparison.after.name], 30 if look.paper else 36)
    return {"before": before, "after": after}


def run_scale(names: Mapping[str, str], look: FigureFormat) -> alt.Scale:
    """Colours of the names of both runs."""
    return alt.Scale(domain=list(names.values()), range=[run_colours(look)[side] for side in names])


def by_run(names: Mapping[str, str], look: FigureFormat) -> alt.Color:
    """Colour of points by the field `run`, which holds the names."""
    return alt.Color("run:N", scale=run_scale(names, look), legend=legend(list(names.values()), look), title=None)


def run_traces(names: Mapping[str, str], look: FigureFormat) -> dict[str, Trace]:
    """Colours and dashes of both runs, by name."""
    return {name: (run_colours(look)[side], DASHES[side]) for side, name in names.items()}


def run_shape(names: Mapping[str, str], look: FigureFormat) -> alt.Shape:
    """Shapes of points by run."""
    scale = alt.Scale(domain=list(names.values()), range=[RUN_SHAPES[side] for side in names])
    return alt.Shape("run:N", scale=scale, legend=legend(list(names.values()), look), title=None)


@dataclass(frozen=True)
class FigureInput:
    """What figures are drawn of: comparisons of one base, what they reach together, and the last one in detail."""

    comparisons: tuple[Comparison, ...]
    union: CheckpointUnion | None  # what all checkpoints together reach; None for one comparison
    detail: ProblemDetail
    flips: Flips | None = None  # classes that depend on how samples are judged; None: not computed

    @property
    def several(self) -> SeveralRuns | None:
        """What several runs after the first are; None for one."""
        return several_runs_of(self.comparisons)

    @property
    def comparison(self) -> Comparison:
        """The comparison that most figures are about: the last, so of checkpoints the end of training."""
        return self.comparisons[-1]


Draw = Callable[[FigureInput, FigureFormat], Figure | MissingFigure]
