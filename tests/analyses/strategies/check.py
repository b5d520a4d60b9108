"""Error rates of fingerprints on planted pairs, in the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from offleash.render.escape import clean
from tests.analyses.strategies.error_rates import Checked, Rate

SHOWN = 3  # failures of each fingerprint
WIDTH = 70


def show_check(console: Console, found: Sequence[Checked]) -> None:
    """A row a fingerprint, then what it got wrong."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("fingerprint", "paraphrases split", "95% interval", "methods merged", "95% interval"):
        table.add_column(column, justify="left" if column == "fingerprint" else "right")
    for one in found:
        table.add_row(one.by.name, *_cells(one.split), *_cells(one.merged))
    console.print(table)
    for one in found:
        for pair in one.failures[:SHOWN]:
            what = "split" if pair.same else "merged"
            console.print(
                f"{one.by.name} {what}: {clean(pair.first)[:WIDTH]} | {clean(pair.second)[:WIDTH]}", style="dim"
            )
        if len(one.failures) > SHOWN:
            console.print(f"  and {len(one.failures) - SHOWN} more (--json)", style="dim")
    console.print(_words(found))


def _cells(rate: Rate) -> tuple[str, str]:
    ends = rate.interval
    return f"{rate.errors} of {rate.pairs}", f"[{max(ends.low, 0):.1%}, {ends.high:.1%}]"


def _words(found: Sequence[Checked]) -> str:
    said = [
        f"{one.by.name} splits {one.split.value:.1%} of the paraphrases and merges {one.merged.value:.1%} of the "
        "different methods"
        for one in found
    ]
    return "; ".join(said) + ". The pairs were planted by the authors: on other texts the rates may be higher."
