"""Strategies of two runs compared: as JSON (schema 1), and in words."""

import numpy as np

from offleash.analyses.strategies.strategies import Example, StrategyComparison
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.json import Json, number
from offleash.stats.intervals import Estimate
from offleash.stats.strategies import LEAST, Basis, Richness, StrategyNovelty

SCHEMA = 1


def ways_json(found: StrategyComparison) -> Json:
    """What became of the ways of two runs."""
    one = found.comparison
    again = one.evidence.retest
    return {
        "schema": SCHEMA,
        "kind": "ways",
        "by": {"name": found.by.function or found.by.name, "identity": found.by.identity, "about": found.by.about},
        "k": one.change.k,
        "problems": len(found.counts.drawn_P2),
        "finding": finding(found),
        "support": support_section(one.change),
        "redraw": None
        if again is None
        else {
            "k": again.k,
            "observed_SRR": number(again.observed_SRR),
            "redraw_SRR": number(again.redraw_SRR),
            "redraw_E": number(again.redraw),
            "retest_SRR": number(again.SRR),
            "retest_SRR_interval": again.SRR_interval.to_json(),
            "gain": number(again.gain),
            "gain_interval": again.gain_interval.to_json(),
        },
        "certain": {
            "lost_at_least": found.lost_at_least,
            "new_at_least": found.new_at_least,
            "reason": found.misread or None,  # why there are none
        },
        "richness": {basis.value: _richness_json(rich) for basis, rich in found.richness.items()},
        "novelty": {basis.value: _novelty_json(new) for basis, new in found.novelty.items()},
        "coverage": {
            side: {
                "correct": how.correct,
                "read": how.read,
                "failed": how.failed,
                "new": how.new,
                "trouble": how.trouble,
            }
            for side, how in zip(("before", "after"), found.coverage, strict=True)
        },
        "lost": [_example(way) for way in found.lost],
        "new": [_example(way) for way in found.new],
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes],
    }


def _estimate(one: Estimate) -> Json:
    return {"value": number(one.value), "interval": one.interval.to_json()}


def _richness_json(one: Richness | None) -> Json | None:
    if one is None:
        return None
    sides: Json = {name: _estimate(getattr(one, name)) for name in ("before", "after", "difference")}
    return {**_size(one), **sides}


def _novelty_json(one: StrategyNovelty | None) -> Json | None:
    if one is None:
        return None
    names = ("ways", "ways_redraw", "ways_excess", "mass", "mass_redraw", "mass_excess")
    return {**_size(one), **{name: _estimate(getattr(one, name)) for name in names}}


def _size(one: Richness | StrategyNovelty) -> Json:
    return {"n": number(one.n), "problems": one.problems, "enough": one.enough}


def _example(one: Example) -> Json:
    return {
        "problem": one.problem,
        "way": one.way,
        "seen": {"before": one.seen[0], "after": one.seen[1]},
        "drawn": {"before": one.drawn[0], "after": one.drawn[1]},
        "p": number(one.p),
        "sample": one.index,
        "text": one.text,
    }


# In words: what was lost, what is new, and whether a second draw would show as much.


def finding(found: StrategyComparison) -> str:
    """One paragraph with its uncertainty."""
    parts = (_misread(found), _support(found), _certain(found), _richness_text(found), _novelty_text(found))
    return " ".join(part for part in parts if part)


def _misread(found: StrategyComparison) -> str:
    return f"Take care: {clean(found.misread)}." if found.misread else ""


def whole(value: float) -> str:
    """A count, whole where it is whole."""
    return "-" if np.isnan(value) else f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _support(found: StrategyComparison) -> str:
    change, again = found.comparison.change, found.comparison.evidence.retest
    base, rl = clean(change.before), clean(change.after)
    reached = change.P + change.S
    if reached < 1e-9:
        return f"{base} shows no way of solving at all; {rl} shows {whole(change.E)} (k = {change.k:,})."
    ends = change.interval["SRR"]
    kept = (
        f"{rl} shows {whole(change.P)} of the {whole(reached)} ways in which {base} solves, {change.value['SRR']:.1%} "
    )
    kept += f"[{ends.low:.1%}, {ends.high:.1%}], and {whole(change.E)} that {base} does not (k = {change.k:,})."
    if again is None or np.isnan(again.SRR):
        why = found.comparison.evidence.retest_reason or "no way was seen twice"
        return f"{kept} How many of these a second draw of {base} would miss cannot be told: {clean(why)}."
    twice = f" {base} drawn a second time would show {again.redraw_SRR:.1%} of its own ways, where {rl} shows "
    twice += f"{again.observed_SRR:.1%} (k = {again.k:,}): corrected for that it keeps {again.SRR:.1%} "
    return kept + twice + f"[{again.SRR_interval.low:.1%}, {again.SRR_interval.high:.1%}]."


def _certain(found: StrategyComparison) -> str:
    if found.lost_at_least is None or found.new_at_least is None:
        return "Which ways are surely lost or new is therefore not said."
    if not found.lost_at_least and not found.new_at_least:
        return "No single way is surely lost or new (95%, corrected for all ways)."
    lost, new = found.lost_at_least, found.new_at_least
    return f"Surely lost are at least {lost:,} ways, surely new at least {new:,} (95%, corrected for all ways)."


def _richness_text(found: StrategyComparison) -> str:
    one = found.richness[Basis.CORRECT]
    if one is None:
        return "No problem has correct samples in both runs, so how many ways each uses cannot be compared fairly."
    if one.n <= 1:
        return "No problem has two correct samples in both runs, so nothing says how many ways each uses."
    base, rl = clean(found.comparison.change.before), clean(found.comparison.change.after)
    ends = one.difference.interval
    told = f"In equal numbers of correct samples {rl} uses {one.after.value:.2f} ways a problem and {base} "
    told += f"{one.before.value:.2f} ({one.difference.value:+.2f} [{ends.low:+.2f}, {ends.high:+.2f}]): "
    if withheld := _withheld(found, one):
        return told + withheld
    if ends.high < 0:
        return told + "fewer, and not because of its accuracy."
    if ends.low > 0:
        return told + "more, and not because of its accuracy."
    return told + "no difference that could be told."


def _withheld(found: StrategyComparison, one: Richness | StrategyNovelty) -> str:
    """Why numbers are shown and nothing is made of them."""
    if found.misread:
        return "what was not read could turn this."
    return "" if one.enough else f"too few problems to say ({one.problems:,}; from {LEAST} on it is said)."


def _novelty_text(found: StrategyComparison) -> str:
    one = found.novelty[Basis.CORRECT]
    if one is None or np.isnan(one.ways.value) or np.isnan(one.ways_redraw.value):
        return ""
    base, rl, excess = found.comparison.change.before, found.comparison.change.after, one.ways_excess
    told = f"Of the ways of {clean(rl)}, {one.ways.value:.1%} are new to as many correct samples of {clean(base)}; "
    told += f"a second draw of {clean(base)} would show {one.ways_redraw.value:.1%}: "
    if withheld := _withheld(found, one):
        return told + withheld
    if excess.interval.low > 0:
        return told + f"more than chance, so it has ways that {clean(base)} takes rarely or never."
    if excess.interval.high < 0:
        return told + "fewer than chance, so its ways are those that were frequent before."
    return told + "not surely more than chance."
