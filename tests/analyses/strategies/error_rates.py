"""Error rates of fingerprints on planted pairs: paraphrases that must merge, and different methods that must not.

python -m tests.analyses.strategies.error_rates [NAME ...] [--seed S] [--json]   prints the table of docs/strategies.md.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint
from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS, fingerprint
from offleash.analyses.strategies.read import Reader
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import number
from offleash.stats.intervals import Interval, wilson
from offleash.verifiers.sandbox.pool import Pool
from tests.analyses.strategies.planted.countdown import planted_countdown
from tests.analyses.strategies.planted.pair import Pair
from tests.analyses.strategies.planted.program import planted_program
from tests.analyses.strategies.planted.steps import planted_steps


@dataclass(frozen=True)
class Rate:
    """Errors among planted pairs of one kind, with Wilson's interval."""

    errors: int
    pairs: int

    @property
    def value(self) -> float:
        return self.errors / self.pairs if self.pairs else float("nan")

    @property
    def interval(self) -> Interval:
        return wilson(self.errors, self.pairs)


@dataclass(frozen=True)
class Checked:
    """What a fingerprint did with its planted pairs."""

    by: Fingerprint
    split: Rate  # paraphrases that it did not merge, or could not read
    merged: Rate  # different methods that it merged
    unread: int  # texts of which it could not tell the way
    failures: tuple[Pair, ...]


def check_fingerprints(
    names: Sequence[str] = (), seed: int = 0, jobs: int = 1, progress: Progress = silent
) -> list[Checked]:
    """Error rates of the fingerprints named, or of all, on the pairs planted for them."""
    chosen = [fingerprint(name) for name in names or FINGERPRINTS]
    for one in chosen:
        if one.name not in PLANTED:
            raise OffleashError(f"No pairs are planted for {one.function!r}; there are pairs for {', '.join(PLANTED)}.")
    with Pool(max(jobs, 1)) as pool:
        return [measured(one, PLANTED[one.name](seed), pool, progress) for one in chosen]


def measured(by: Fingerprint, pairs: Sequence[Pair], pool: Pool, progress: Progress = silent) -> Checked:
    """How a fingerprint does on pairs; two texts that it cannot read are not merged."""
    rows = [(pair.asked, text) for pair in pairs for text in (pair.first, pair.second)]
    told = [way for way, _ in Reader(by, pool, progress).strategies(rows)]
    merged = [one is not None and one == other for one, other in zip(told[0::2], told[1::2], strict=True)]
    wrong = [pair for pair, one in zip(pairs, merged, strict=True) if one != pair.same]
    same = sum(pair.same for pair in pairs)
    split = sum(pair.same for pair in wrong)
    return Checked(
        by=by,
        split=Rate(split, same),
        merged=Rate(len(wrong) - split, len(pairs) - same),
        unread=sum(way is None for way in told),
        failures=tuple(wrong),
    )


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


PLANTED: dict[str, Callable[[int], list[Pair]]] = {
    "countdown": planted_countdown,
    "steps": planted_steps,
    "program": planted_program,
}


def check_json(found: list[Checked]) -> dict[str, object]:
    """Error rates of fingerprints on planted pairs."""
    return {
        "schema": 1,
        "kind": "ways_check",
        "fingerprints": {
            one.by.name: {
                "identity": one.by.identity,
                "about": one.by.about,
                "paraphrases_split": _rate(one.split),
                "methods_merged": _rate(one.merged),
                "unread_texts": one.unread,
                "failures": [
                    {"same": pair.same, "how": pair.how, "first": pair.first, "second": pair.second}
                    for pair in one.failures
                ],
            }
            for one in found
        },
    }


def _rate(rate: Rate) -> dict[str, object]:
    return {
        "errors": rate.errors,
        "pairs": rate.pairs,
        "rate": number(rate.value),
        "interval": rate.interval.to_json(),
    }


def main(words: Sequence[str]) -> None:
    """The rates, as a table or as JSON."""
    parser = argparse.ArgumentParser(prog="error_rates", description="Error rates of fingerprints on planted pairs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="fingerprints; all of them where none is named")
    parser.add_argument("--seed", type=int, default=0, help="plants other pairs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    found = check_fingerprints(given.names, given.seed)
    if given.json:
        print(json.dumps(check_json(found)))
    else:
        show_check(Console(markup=False, emoji=False, highlight=False), found)


if __name__ == "__main__":
    main(sys.argv[1:])
