"""The top of the page: the four classes and the rates computed from them, beside those of an unchanged model."""

from dataclasses import dataclass

import numpy as np

from offleash.comparing.captions import FORMULAS, MEANING, SPELT_OUT
from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import ALL_SAMPLES
from offleash.comparing.sentences import bound_text, redraw_rates
from offleash.render.figure import CLASS_NAMES
from offleash.render.json import count
from offleash.render.numbers import whole
from offleash.stats.change import METRICS

MEANING_OF_CLASS = {
    "P": "reached by both runs",
    "E": "reached only by {after}",
    "S": "reached only by {before}",
    "O": "reached by neither",
}


@dataclass(frozen=True)
class Tile:
    """One class of problems, as text; `exact` is the number for scripts and tests that read the page."""

    name: str
    title: str
    value: str
    exact: float | int | None
    meaning: str
    chance: str  # what resampling an unchanged model would give; empty for P and O
    significant: str  # on how many the rate changed, at least, with joint 95% confidence; empty for P and O


@dataclass(frozen=True)
class RateTile:
    """One rate with its interval, placed on a line from 0 (NSCR: from -1) to 1; places in per cent of the line."""

    name: str
    words: str
    formula: str
    meaning: str
    value: str
    exact: float | None
    interval: str
    reason: str
    at: float
    left: float
    width: float
    chance_at: float | None
    chance: str
    zero_at: float | None  # where 0 lies, of a rate that may be negative


def tiles(comparison: Comparison) -> list[Tile]:
    """P, E, S and O."""
    change, evidence = comparison.change, comparison.evidence
    # the exchange null gives expectations for gains and losses only: at k, as the tiles are
    expected = {} if evidence.null is None else {"E": evidence.null.expected_E, "S": evidence.null.expected_S}
    if evidence.at_k is not None:
        expected = dict.fromkeys(("E", "S"), evidence.at_k.changed)
    elif evidence.basis != ALL_SAMPLES:
        expected = {}
    at_least = {"E": evidence.gains_at_least, "S": evidence.losses_at_least}
    out = []
    for name in ("P", "E", "S", "O"):
        value = float(getattr(change, name))
        chance = f"{expected[name]:.1f} expected for an unchanged model" if name in expected else ""
        least = at_least.get(name)
        significant = "" if least is None else bound_text(name, least)
        meaning = MEANING_OF_CLASS[name].format(before=change.before, after=change.after)
        out.append(Tile(name, CLASS_NAMES[name][2:], whole(value), count(value), meaning, chance, significant))
    return out


def rates(comparison: Comparison) -> list[RateTile]:
    """SRR, NDR, SDS and NSCR."""
    chance_by_metric = redraw_rates(comparison.change)
    return [_rate(comparison, name, chance_by_metric.get(name)) for name in METRICS]


def _rate(comparison: Comparison, name: str, chance: float | None) -> RateTile:
    """One rate, with the places of its point, bar and marker on a line, in per cent of the line."""
    value, interval = comparison.change.value[name], comparison.change.interval[name]
    floor = -1.0 if name == "NSCR" else 0.0  # NSCR is negative where more was lost than gained
    known = bool(np.isfinite(value))

    # an interval may extend beyond the line by rounding; a mark outside its box would look like an error
    def axis_position(where: float) -> float:
        return round(100 * (min(max(where, floor), 1.0) - floor) / (1.0 - floor), 2)

    return RateTile(
        name=name,
        words=SPELT_OUT[name],
        formula=FORMULAS[name],
        meaning=MEANING[name],
        value=f"{value:.3f}" if known else "–",
        exact=float(value) if known else None,
        interval=f"[{interval.low:.3f}, {interval.high:.3f}]" if known else "",
        reason=comparison.change.reason(name) or "",
        at=axis_position(value) if known else 0.0,
        left=axis_position(interval.low) if known else 0.0,
        width=round(axis_position(interval.high) - axis_position(interval.low), 2) if known else 0.0,
        chance_at=None if chance is None else axis_position(chance),
        chance="" if chance is None else f"{chance:.3f} expected for an unchanged model",
        zero_at=axis_position(0.0) if floor < 0 else None,
    )
