"""What a demo shows, in words: the leash if it is there, and plainly that it is not where it is not."""

from dataclasses import dataclass

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.lab.demo import Demonstrated
from offleash.stats.curves import Curve

CERTAIN = 0.01  # p below which chance does not explain the losses


@dataclass(frozen=True)
class Point:
    """A curve at one budget."""

    k: int
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def point(curve: Curve, place: int) -> Point:
    """A curve at its first (0) or its largest (-1) budget."""
    return Point(
        int(curve.k_K[place]), float(curve.value_K[place]), float(curve.low_K[place]), float(curve.high_K[place])
    )


def shows(one: Comparison) -> dict[str, bool]:
    """The three parts of the leash, each beyond what chance would give."""
    first, last = point(one.curves["difference"], 0), point(one.curves["difference"], -1)
    null = one.evidence.null
    return {
        "the first try got better": first.low > 0,
        f"pass@{last.k:,} fell": last.high < 0,
        "more problems were lost than chance gives": null is not None and null.p_S < CERTAIN,
    }


def headline(done: Demonstrated) -> str:
    """One sentence: whether this run shows the leash."""
    parts = shows(done.plain)
    if all(parts.values()):
        return "This run shows the leash: the first try got better while the set of problems within reach shrank."
    missing = [name for name, there in parts.items() if not there]
    elsewhere = all(shows(done.paper).values())
    at_paper = " At the paper's decoding (temperature 0.6, top-p 0.95) all of it shows." if elsewhere else ""
    return f"At temperature 1 this run does not show the leash: not beyond chance that {'; '.join(missing)}.{at_paper}"


def sentences(done: Demonstrated) -> list[str]:
    """What was measured in this run, each with its interval."""
    return [
        _passes("Temperature 1", done.plain),
        _passes("Temperature 0.6, top-p 0.95", done.paper),
        _losses(done),
        _solutions(done),
    ]


def _passes(how: str, one: Comparison) -> str:
    before, after, difference = (one.curves[name] for name in ("before", "after", "difference"))
    last = point(before, -1).k
    ratio = point(after, 0).value / point(before, 0).value if point(before, 0).value else np.nan
    return (
        f"{how}: pass@1 {point(before, 0)} -> {point(after, 0)} ({ratio:.2f} times); pass@{last:,} "
        f"{point(before, -1)} -> {point(after, -1)}, a difference of {point(difference, -1)}."
    )


def _losses(done: Demonstrated) -> str:
    change, evidence, again = done.plain.change, done.plain.evidence, done.null.change
    null = evidence.null
    chance = (
        f"had no rate changed, chance alone would lose about {null.expected_S:.1f} (p {_p(null.p_S)})" if null else ""
    )
    return (
        f"Of the {change.P + change.S:,.0f} problems that the base reaches in {change.k:,} samples, {change.S:,.0f} "
        f"are lost and {change.E:,.0f} found; {chance}. The base drawn again, with nothing changed: "
        f"{again.S:,.0f} lost, {again.E:,.0f} found."
    )


def _p(value: float) -> str:
    return f"= {value:.2g}" if value else "< 1e-300"


def _solutions(done: Demonstrated) -> str:
    change = done.solutions.change
    kept, interval = change.value["SRR"], change.interval["SRR"]
    return (
        f"Of the {change.P + change.S:,.0f} solutions of these problems that the base writes, {change.S:,.0f} are lost "
        f"and {change.E:,.0f} found: {kept:.0%} [{interval.low:.0%}, {interval.high:.0%}] are kept.{_halves(done)}"
    )


def _halves(done: Demonstrated) -> str:
    """What chance alone does to solutions: the base's samples in two halves, one held against the other."""
    again = done.solutions.evidence.retest
    if again is None or not np.isfinite(again.redraw_SRR):
        return ""
    return (
        f" Chance: of what one half of the base's own samples reach, the other half keeps {again.redraw_SRR:.0%}, "
        f"where RL keeps {again.observed_SRR:.0%} (k = {again.k:,})."
    )
