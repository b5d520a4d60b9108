"""Where a log's own verdicts differ from those given now, as JSON and in words."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from offleash.render.escape import clean
from offleash.render.numbers import Json
from offleash.verifying.logs import Disagreement
from offleash.verifying.report import notes

SHOWN = 5


def disagreements_json(found: Sequence[Disagreement]) -> list[Json]:
    """The key `verified` of `compare --verify --json`."""
    return [
        {
            "run": one.run,
            "verifier": one.verified.verifier,
            "verdicts": dict(one.verified.verdicts),
            "steps": dict(one.verified.steps),
            "tool": one.tool,
            "compared": one.compared,
            "tool_only_correct": one.tool_only,
            "only_now_correct": one.ours_only,
            "differences": [vars(difference) for difference in one.differences],
            "notes": notes(one.verified),
        }
        for one in found
    ]


def show_disagreements(console: Console, found: Sequence[Disagreement]) -> None:
    """Print what was judged, and where the log's tool says otherwise."""
    for one in found:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in one.verified.verdicts.items() if count)
        console.print(Text(f"{clean(one.run)}: judged by {one.verified.verifier}: {counts}"))
        if one.tool is None:
            console.print(Text("  the log had no verdicts of its own", style="dim"))
        elif not one.tool_only + one.ours_only:
            console.print(Text(f"  {clean(one.tool)} agrees on all {one.compared:,} samples", style="dim"))
        else:
            said = f"{one.tool_only:,} correct for it alone, {one.ours_only:,} correct now alone"
            apart = f"{one.tool_only + one.ours_only:,} of {one.compared:,} samples"
            console.print(Text(f"  {clean(one.tool)} disagrees on {apart}: {said}"))
        for each in one.differences[:SHOWN]:
            why = f" ({clean(each.reason)})" if each.reason else ""
            console.print(
                Text(
                    f"    {clean(each.problem)} sample {each.index}: gold {clean(str(each.gold))}, answer "
                    f"{clean(str(each.answer))}: {each.tool} there, {each.ours} now{why}"
                )
            )
        for note in notes(one.verified):
            console.print(Text(f"  ! {clean(note)}", style="yellow"))
    if found:
        console.print()
