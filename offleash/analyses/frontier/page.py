"""The page of a frontier: headline, figure, tables and the rule; no script, and names from files are shown as text."""

from base64 import b64encode

from offleash.analyses.frontier.figures import retention_by_pass_1
from offleash.analyses.frontier.frontier import Frontier
from offleash.analyses.frontier.report import (
    DIFFERENCE_COLUMNS,
    difference_cells,
    headline,
    point_cells,
    sentences,
)
from offleash.render.export import WRITERS, specification
from offleash.render.page import style, template

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def frontier_page(frontier: Frontier, command: str = "") -> str:
    """The page of a frontier, with the command that made it."""
    figure, result = retention_by_pass_1(frontier), frontier.search
    image = b64encode(WRITERS[".svg"](specification(figure))).decode()
    points = sorted(result.points, key=lambda point: point.pass_1.value)
    return template("frontier.html.j2").render(
        style=style(),
        policy=POLICY,
        frontier=frontier,
        headline=headline(frontier),
        sentences=sentences(frontier),
        figure=figure,
        image=image,
        columns=("point", "pass@1", f"pass@{frontier.k}", "SRR", "retention", "lost over chance"),
        points=[(point, point_cells(point, " ")) for point in points],
        difference_columns=DIFFERENCE_COLUMNS,
        differences=[difference_cells(difference) for difference in result.differences],
        command=command,
    )
