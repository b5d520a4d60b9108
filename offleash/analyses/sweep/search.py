"""Search: the temperature at which a model's token entropy equals a target, by bisection on pilot draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from offleash.errors import OffleashError
from offleash.stats.binomials import Float, Integer
from offleash.stats.few import NONE, mean_of
from offleash.stats.intervals import Interval

WITHIN = (0.05, 5.0)  # temperatures that are tried
STEP = 1.5  # by which the first temperatures go up or down until the target lies between two of them
TOLERANCE = 0.002  # nats
NARROW = 1.0005  # two temperatures of this ratio are the same
MOST = 30  # pilots
APART = 1.05  # ratio of temperatures from which the slope between two pilots is that of the curve, not of its noise
NOISE = 2.0  # standard errors by which entropy may fall between two temperatures and still be taken as rising


class NoMatchError(OffleashError):
    """No temperature gives the entropy that is wanted."""


@dataclass(frozen=True)
class Pilot:
    """Token entropy at a temperature: of every problem, in nats."""

    temperature: float
    entropy_P: Float

    @property
    def mean(self) -> float:
        return float(self.entropy_P.mean())


@dataclass(frozen=True)
class Search:
    """The temperature that was found, and how sure it is."""

    temperature: float
    interval: Interval  # 95%: other problems and other samples
    target: float
    entropy: float  # of the pilot at that temperature
    error: float  # standard error of their difference, over problems, paired
    tolerance: float  # nats within which the search stops
    pilots: tuple[Pilot, ...]  # in the order of their temperatures
    rising: bool  # whether entropy rose with every temperature that was tried, within its noise


def match_temperature(
    entropy_of: Callable[[float], Float],
    target_P: Float,
    start: float,
    stratum_P: Integer,
    within: tuple[float, float] = WITHIN,
    tolerance: float = TOLERANCE,
) -> Search:
    """Bracket the target from `start` by steps, then halve the bracket in the logarithm of the temperature.

    `entropy_of` gives the entropy of every problem at a temperature; with common random numbers it is one curve, so
    that what is left of noise moves all of it together.
    """
    tried: dict[float, Pilot] = {}
    target = float(target_P.mean())

    def gap(temperature: float) -> float:
        if temperature not in tried:
            tried[temperature] = Pilot(temperature, entropy_of(temperature))
        return tried[temperature].mean - target

    low, high = _bracket(gap, tried, target, start, within)
    best = min((low, high), key=lambda one: abs(gap(one)))
    while abs(gap(best)) > tolerance and high / low > NARROW and len(tried) < MOST:
        best = _tidy(math.sqrt(low * high))
        low, high = (best, high) if gap(best) < 0 else (low, best)
    best = min(tried, key=lambda one: abs(gap(one)))
    pilots = tuple(tried[one] for one in sorted(tried))
    apart_P = tried[best].entropy_P - target_P
    error = float(apart_P.std(ddof=1) / math.sqrt(len(apart_P))) if len(apart_P) > 1 else float("nan")
    interval = _interval(best, apart_P, _slope(pilots, best), stratum_P)
    return Search(best, interval, target, tried[best].mean, error, tolerance, pilots, _rising(pilots))


def _bracket(
    gap: Callable[[float], float],
    tried: dict[float, Pilot],
    target: float,
    start: float,
    within: tuple[float, float],
) -> tuple[float, float]:
    """Two temperatures between which the target lies."""
    least, most = within
    low = high = min(max(_tidy(start), least), most)
    while gap(high) < 0 and high < most:
        low, high = high, min(_tidy(high * STEP), most)
    while gap(low) > 0 and low > least:
        low, high = max(_tidy(low / STEP), least), low
    if gap(low) > 0 or gap(high) < 0:
        edge = low if gap(low) > 0 else high
        lies = "is still above" if gap(low) > 0 else "stays below"
        told = ", ".join(f"{one:g}: {tried[one].mean:.4f}" for one in sorted(tried))
        raise NoMatchError(
            f"No temperature from {least:g} to {most:g} gives the second model the token entropy of the first, "
            f"{target:.4f} nats: at {edge:g} it {lies} that (by temperature: {told}). Compare at another --temperature "
            "or --top-p; a top-p below 1 may hold entropy down at any temperature."
        )
    return low, high


def _slope(pilots: tuple[Pilot, ...], at: float) -> float:
    """Nats a unit of temperature around the match; NaN where no two pilots are apart."""
    below = [one for one in pilots if one.temperature <= at / APART] or [pilots[0]]
    above = [one for one in pilots if one.temperature >= at * APART] or [pilots[-1]]
    low, high = below[-1], above[0]
    if high.temperature <= low.temperature:
        return float("nan")
    return (high.mean - low.mean) / (high.temperature - low.temperature)


def _interval(at: float, apart_P: Float, slope: float, stratum_P: Integer) -> Interval:
    """Where the match would be with other problems: what is left of the gap with them, over the slope."""
    if not slope > 0:
        return NONE
    gap = mean_of(apart_P, stratum_P, -math.inf).interval
    return NONE if math.isnan(gap.low) else Interval(min(at, at - gap.high / slope), max(at, at - gap.low / slope))


def _rising(pilots: tuple[Pilot, ...]) -> bool:
    for low, high in pairwise(pilots):
        step_P = high.entropy_P - low.entropy_P
        if step_P.mean() < -NOISE * step_P.std() / math.sqrt(len(step_P)) - 1e-9:
            return False
    return True


def _tidy(temperature: float) -> float:
    """A temperature in so many digits that its name and its value are the same."""
    return float(f"{temperature:.5g}")
